//! Grammars over a tokenizer's vocabulary with llguidance: JSON, JSON schemas, regular expressions, lists of choices and
//! its Lark dialect. Everything a client sends is bounded: the size of the source, the work of compiling, the states of
//! the lexer, and the work of each mask.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{json, Value};

use crate::{schema, Failure, Outcome};

const MAX_SOURCE: usize = 1 << 20;
/// Regular expressions and Lark: parsed by recursion, so their length bounds the depth.
const MAX_TEXT: usize = 64 << 10;
/// Of the thread that compiles: nesting is bounded by what the source may be, not by the caller's stack.
const STACK: usize = 256 << 20;
/// Lexer states take one to two kilobytes each.
const MAX_LEXER_STATES: usize = 50_000;
/// Looking for the part of a schema that cannot be compiled goes on for so long.
const BLAME_TIME: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    JsonObject,
    JsonSchema,
    Regex,
    Choice,
    Lark,
}

/// A vocabulary, ready for grammars.
pub struct Vocabulary {
    factory: ParserFactory,
}

pub struct Grammar {
    /// Copied for each sequence.
    start: Mutex<Matcher>,
}

pub struct Sequence {
    matcher: Matcher,
}

fn describe(error: impl ToString) -> String {
    let text = error.to_string();
    let end = text.find("\n<backtrace>").unwrap_or(text.len());
    text[..end].trim_end().to_string()
}

impl Vocabulary {
    /// `tokens`: the bytes of each id; empty ones are never allowed. `special`: never produced by text.
    pub fn new(tokens: &[&[u8]], special: &[u8], end_ids: &[u32]) -> Outcome<Self> {
        let count = tokens.len() as u32;
        if end_ids.is_empty() || end_ids.iter().any(|id| *id >= count) {
            return Err(Failure::invalid(format!("end tokens {end_ids:?} of a vocabulary of {count}")));
        }
        let words: Vec<Vec<u8>> = tokens.iter().zip(special).map(|(bytes, special)| word(bytes, *special != 0)).collect();
        let info = TokRxInfo::new(count, end_ids[0]);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(end_ids);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::json_slices();
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices).map_err(Failure::invalid)?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.max_lexer_states = MAX_LEXER_STATES;
        limits.verbose_errors = false;
        Ok(Vocabulary { factory })
    }

    pub fn compile(&self, kind: Kind, source: &str) -> Outcome<Grammar> {
        let limit = if matches!(kind, Kind::Regex | Kind::Lark) { MAX_TEXT } else { MAX_SOURCE };
        if source.len() > limit {
            return Err(Failure::invalid(format!("{} bytes, at most {limit} are allowed", source.len())));
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            let worker = thread.spawn_scoped(scope, || self.compile_here(kind, source)).map_err(Failure::invalid)?;
            worker.join().unwrap_or_else(|_| Err(Failure::invalid("the grammar compiler gave up")))
        })
    }

    fn compile_here(&self, kind: Kind, source: &str) -> Outcome<Grammar> {
        match kind {
            Kind::JsonObject => self.compile_schema(&json!({"type": "object"})),
            Kind::JsonSchema => {
                let schema = serde_json::from_str(source).map_err(|e| Failure::invalid(format!("not JSON: {e}")))?;
                self.compile_schema(&schema)
            }
            Kind::Regex => self.start(TopLevelGrammar::from_regex(source)).map_err(Failure::invalid),
            Kind::Choice => self.start(choices(source)?).map_err(Failure::invalid),
            Kind::Lark => self.start(TopLevelGrammar::from_lark(source.to_string())).map_err(Failure::invalid),
        }
    }

    fn compile_schema(&self, source: &Value) -> Outcome<Grammar> {
        let checked = schema::check(source)?.schema;
        self.start(compact(&checked)).map_err(|error| {
            let blamed = self.blame(&checked);
            Failure::unsupported(format!("at {}: {error}", schema::place(&blamed)))
        })
    }

    fn start(&self, grammar: TopLevelGrammar) -> Result<Grammar, String> {
        let parser = self.factory.create_parser(grammar).map_err(describe)?;
        let mut matcher = Matcher::new(Ok(parser));
        // The first mask finds what only shows when the lexer starts.
        matcher.compute_mask_or_eos().map_err(describe)?;
        Ok(Grammar { start: Mutex::new(matcher) })
    }

    /// The pointer of the smallest part that cannot be compiled by itself.
    fn blame(&self, root: &Value) -> String {
        let begin = Instant::now();
        let mut at = (String::new(), root.clone());
        'deeper: loop {
            for (pointer, child) in schema::children(&at.1, &at.0) {
                if begin.elapsed() > BLAME_TIME {
                    return at.0;
                }
                if self.start(compact(&with_definitions(&child, root))).is_err() {
                    at = (pointer, child);
                    continue 'deeper;
                }
            }
            return at.0;
        }
    }
}

/// The bytes as the trie wants them. No text has the byte 0xff, which marks special tokens there.
fn word(bytes: &[u8], special: bool) -> Vec<u8> {
    if bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER) {
        return Vec::new();
    }
    let mut word = Vec::with_capacity(bytes.len() + 1);
    if special && !bytes.is_empty() {
        word.push(TokTrie::SPECIAL_TOKEN_MARKER);
    }
    word.extend_from_slice(bytes);
    word
}

/// JSON without any whitespace between its parts.
fn compact(schema: &Value) -> TopLevelGrammar {
    let options = json!({"item_separator": ",", "key_separator": ":", "whitespace_flexible": false});
    let schema = match schema {
        Value::Object(object) => {
            let mut object = object.clone();
            object.insert("x-guidance".to_string(), options);
            Value::Object(object)
        }
        Value::Bool(false) => schema.clone(),
        _ => json!({"x-guidance": options}),
    };
    TopLevelGrammar::from_grammar(GrammarWithLexer::from_json_schema(schema))
}

fn with_definitions(schema: &Value, root: &Value) -> Value {
    let Value::Object(object) = schema else { return schema.clone() };
    let mut object = object.clone();
    for name in ["$defs", "definitions"] {
        if let Some(definitions) = root.get(name) {
            object.entry(name).or_insert_with(|| definitions.clone());
        }
    }
    Value::Object(object)
}

/// One terminal with an alternative for each string of a JSON list.
fn choices(source: &str) -> Outcome<TopLevelGrammar> {
    let list: Vec<String> = serde_json::from_str(source).map_err(|e| Failure::invalid(format!("choices: {e}")))?;
    if list.is_empty() || list.iter().any(String::is_empty) {
        return Err(Failure::invalid("choices must be a list of strings that are not empty"));
    }
    let quoted: Vec<String> = list.iter().map(|choice| Value::from(choice.as_str()).to_string()).collect();
    Ok(TopLevelGrammar::from_lark(format!("start: CHOICE\nCHOICE: {}\n", quoted.join(" | "))))
}

/// Deep copies: plain clones share the lexer, with its states, their limit, its errors and its lock, so that what one
/// sequence runs into would end the others, and requests long after it.
impl Grammar {
    pub fn begin(&self) -> Outcome<Sequence> {
        let start = self.start.lock().map_err(|_| Failure::invalid("the grammar broke in another sequence"))?;
        Ok(Sequence { matcher: start.deep_clone() })
    }
}

impl Sequence {
    /// Writes one bit per token; words past the vocabulary become 0.
    pub fn mask(&mut self, words: &mut [u32]) -> Outcome<()> {
        let mask = self.matcher.compute_mask_or_eos().map_err(|e| Failure::invalid(describe(e)))?;
        let known = mask.as_slice();
        let count = known.len().min(words.len());
        words[..count].copy_from_slice(&known[..count]);
        words[count..].fill(0);
        Ok(())
    }

    pub fn accept(&mut self, token: u32) -> Outcome<()> {
        self.matcher.consume_token(token).map_err(|e| Failure::invalid(describe(e)))
    }

    pub fn is_accepting(&mut self) -> Outcome<bool> {
        if self.matcher.is_stopped() {
            return Ok(!self.matcher.is_error());
        }
        self.matcher.is_accepting().map_err(|e| Failure::invalid(describe(e)))
    }

    pub fn is_finished(&self) -> bool {
        self.matcher.is_stopped() && !self.matcher.is_error()
    }

    pub fn duplicate(&self) -> Sequence {
        Sequence { matcher: self.matcher.deep_clone() }
    }
}
