//! SentencePiece's BPE over a scored vocabulary: the adjacent pair whose joined text has the best score is merged first,
//! the leftmost of equals; what is left outside the vocabulary is spelled in byte tokens. Unlike a list of merges this is
//! exact for equal scores, and loading needs nothing but one hash table. Pieces are symbols in a linked list, candidates a
//! heap: O(n log n). Source: Kudo and Richardson 2018 (SentencePiece) and the model files' own scores.

use std::collections::BinaryHeap;

use ahash::AHashMap;

const NONE: u32 = u32::MAX;

pub struct Spm {
    ids: AHashMap<Box<str>, u32>,
    texts: Vec<Box<str>>,
    scores: Vec<f32>,
    hidden: Vec<bool>,
    bytes: [u32; 256],
    unknown: Option<u32>,
}

struct Symbol {
    start: u32,
    len: u32, // 0: merged into its left neighbour
    prev: u32,
    next: u32,
}

struct Candidate {
    score: f32,
    left: u32,
    right: u32,
    len: u32,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.left.cmp(&self.left))
    }
}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Candidate {}

impl Spm {
    /// `hidden[id]`: never produced from text (control, byte and unused tokens).
    pub fn new(tokens: &[&str], scores: &[f32], hidden: Vec<bool>, unknown: Option<u32>) -> Self {
        let mut ids = AHashMap::with_capacity(tokens.len());
        let mut bytes = [NONE; 256];
        for (id, token) in tokens.iter().enumerate() {
            ids.insert(Box::from(*token), id as u32);
            if let Some(byte) = byte_of(token) {
                bytes[byte as usize] = id as u32;
            }
        }
        let texts = tokens.iter().map(|t| Box::from(*t)).collect();
        Spm { ids, texts, scores: scores.to_vec(), hidden, bytes, unknown }
    }

    pub fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    pub fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize).map(|t| &**t)
    }

    pub fn len(&self) -> usize {
        self.texts.len()
    }

    fn piece(&self, text: &str) -> Option<u32> {
        self.id(text).filter(|id| !self.hidden[*id as usize])
    }

    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut symbols = Vec::with_capacity(text.len());
        for (start, c) in text.char_indices() {
            let i = symbols.len() as u32;
            let prev = if i == 0 { NONE } else { i - 1 };
            symbols.push(Symbol { start: start as u32, len: c.len_utf8() as u32, prev, next: i + 1 });
        }
        if let Some(last) = symbols.last_mut() {
            last.next = NONE;
        }
        let mut heap = BinaryHeap::new();
        for right in 1..symbols.len() as u32 {
            self.consider(text, &symbols, right - 1, right, &mut heap);
        }
        while let Some(best) = heap.pop() {
            let (left, right) = (best.left as usize, best.right as usize);
            // Stale: one of the two has been merged since.
            if symbols[left].len == 0 || symbols[right].len == 0 || symbols[left].len + symbols[right].len != best.len {
                continue;
            }
            symbols[left].len = best.len;
            symbols[right].len = 0;
            let next = symbols[right].next;
            symbols[left].next = next;
            if next != NONE {
                symbols[next as usize].prev = best.left;
                self.consider(text, &symbols, best.left, next, &mut heap);
            }
            let prev = symbols[left].prev;
            if prev != NONE {
                self.consider(text, &symbols, prev, best.left, &mut heap);
            }
        }
        let mut out = Vec::new();
        for s in symbols.iter().filter(|s| s.len > 0) {
            self.spell(&text[s.start as usize..(s.start + s.len) as usize], &mut out);
        }
        out
    }

    fn consider(&self, text: &str, symbols: &[Symbol], left: u32, right: u32, heap: &mut BinaryHeap<Candidate>) {
        let (l, r) = (&symbols[left as usize], &symbols[right as usize]);
        let joined = &text[l.start as usize..(r.start + r.len) as usize];
        if let Some(id) = self.piece(joined) {
            heap.push(Candidate { score: self.scores[id as usize], left, right, len: l.len + r.len });
        }
    }

    fn spell(&self, piece: &str, out: &mut Vec<u32>) {
        if let Some(id) = self.piece(piece) {
            out.push(id);
            return;
        }
        let spelled = piece.bytes().map(|b| self.bytes[b as usize]);
        if spelled.clone().all(|id| id != NONE) {
            out.extend(spelled);
        } else if let Some(unknown) = self.unknown {
            out.push(unknown);
        }
    }
}

/// The byte of a token written `<0xNN>`.
fn byte_of(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() == 2 {
        u8::from_str_radix(hex, 16).ok()
    } else {
        None
    }
}
