//! Builds tokenizer parts from bare arrays (a GGUF vocabulary), with no detour over JSON.

use ahash::AHashMap;
use tokenizers::models::bpe::{BpeBuilder, Vocab as BpeVocab};
use tokenizers::normalizers::{Prepend, Replace, Sequence as NormalizerSequence};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence as SplitSequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior};

use crate::spm::Spm;
use crate::tokenizer::{AnyModel, Parts, TextForm};
use crate::{Failure, Outcome};

pub const ADDED: u8 = 1;
pub const SPECIAL: u8 = 2;
pub const HIDDEN: u8 = 4;

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    ByteLevel,
    SentencePiece,
}

pub struct Vocab<'a> {
    pub kind: Kind,
    pub tokens: Vec<&'a str>,
    pub flags: &'a [u8],
    pub scores: &'a [f32],
    pub merges: Vec<&'a str>,
    pub splits: Vec<&'a str>,
    pub ignore_merges: bool,
    pub add_space_prefix: bool,
    pub unknown_id: Option<u32>,
}

impl Vocab<'_> {
    pub fn into_parts(self) -> Outcome<Parts> {
        if self.tokens.is_empty() || self.tokens.len() > i32::MAX as usize {
            return Err(Failure::invalid(format!("a vocabulary of {} tokens", self.tokens.len())));
        }
        let added = self.added();
        match self.kind {
            Kind::ByteLevel => self.byte_level(added),
            Kind::SentencePiece => self.sentencepiece(added),
        }
    }

    fn added(&self) -> Vec<(Option<u32>, AddedToken)> {
        self.tokens
            .iter()
            .enumerate()
            .filter(|(id, text)| self.flags[*id] & ADDED != 0 && !text.is_empty())
            .map(|(id, text)| {
                let special = self.flags[id] & SPECIAL != 0;
                (Some(id as u32), AddedToken::from(*text, special).normalized(false))
            })
            .collect()
    }

    fn byte_level(self, added: Vec<(Option<u32>, AddedToken)>) -> Outcome<Parts> {
        let mut vocab: BpeVocab = AHashMap::with_capacity(self.tokens.len());
        for (id, token) in self.tokens.iter().enumerate() {
            vocab.insert(token.to_string(), id as u32);
        }
        let mut merges = Vec::with_capacity(self.merges.len());
        // The crate joins parts in a buffer as long as the longest token; it names every other fault itself.
        let longest = self.tokens.iter().map(|t| t.len()).max().unwrap_or(0);
        for (rank, merge) in self.merges.iter().enumerate() {
            // The left part is never empty, but may itself start with a space in odd vocabularies.
            let cut = merge.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(i, _)| i);
            let (left, right) = match cut {
                Some(i) if i + 1 < merge.len() && merge.len() - 1 <= longest => (&merge[..i], &merge[i + 1..]),
                _ => return Err(Failure::invalid(format!("merge {rank} ({merge:?}) is not two parts of a token"))),
            };
            merges.push((left.to_string(), right.to_string()));
        }
        let model = BpeBuilder::new()
            .vocab_and_merges(vocab, merges)
            .ignore_merges(self.ignore_merges)
            .build()
            .map_err(Failure::invalid)?;
        let mut stages = Vec::new();
        for regex in &self.splits {
            let pattern = SplitPattern::Regex(regex.to_string());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
                .map_err(|e| Failure::invalid(format!("pre-tokenizer regex {regex:?}: {e}")))?;
            stages.push(PreTokenizerWrapper::Split(split));
        }
        stages.push(PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, true, false)));
        Ok(Parts {
            model: AnyModel::Crate(model.into()),
            normalizer: None,
            pre_tokenizer: Some(PreTokenizerWrapper::Sequence(SplitSequence::new(stages))),
            added,
            form: TextForm { kind: "byte_level", ..TextForm::default() },
        })
    }

    fn sentencepiece(self, added: Vec<(Option<u32>, AddedToken)>) -> Outcome<Parts> {
        if self.scores.len() != self.tokens.len() {
            return Err(Failure::invalid("a SentencePiece vocabulary needs one score per token"));
        }
        if self.unknown_id.is_some_and(|id| id as usize >= self.tokens.len()) {
            return Err(Failure::invalid("the unknown token's id lies outside the vocabulary"));
        }
        let hidden = self.flags.iter().map(|f| f & (HIDDEN | SPECIAL) != 0).collect();
        let model = Spm::new(&self.tokens, self.scores, hidden, self.unknown_id);
        let mut steps: Vec<NormalizerWrapper> = Vec::new();
        if self.add_space_prefix {
            steps.push(Prepend::new("▁".to_string()).into());
        }
        steps.push(Replace::new(" ", "▁").map_err(Failure::invalid)?.into());
        Ok(Parts {
            model: AnyModel::Spm(model),
            normalizer: Some(NormalizerSequence::new(steps).into()),
            pre_tokenizer: None,
            added,
            form: TextForm {
                kind: "metaspace",
                replacement: Some('▁'),
                byte_fallback: true,
                strip_left: self.add_space_prefix as usize,
                ..TextForm::default()
            },
        })
    }
}
