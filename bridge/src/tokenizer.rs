//! One loaded tokenizer: the `tokenizers` crate's pipeline over a shared model, once per way of treating special tokens.
//!
//! Three pipelines share model, normalizer and pre-tokenizer and differ only in their added tokens: with the special ones,
//! without them, and with them plus the removal of guard characters. So no call needs a lock or a mutable flag.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::{json, value::RawValue, Value};
use tokenizers::models::bpe::{BpeTrainer, BPE};
use tokenizers::models::TrainerWrapper;
use tokenizers::models::{unigram::Unigram, wordlevel::WordLevel};
use tokenizers::{
    AddedToken, DecoderWrapper, Encoding, Model, ModelWrapper, NormalizedString, Normalizer, NormalizerWrapper,
    PostProcessor, PostProcessorWrapper, PreTokenizedString, PreTokenizer, PreTokenizerWrapper, Token, TokenizerImpl,
};

use crate::spm::Spm;
use crate::vocab::{Vocab, ADDED, SPECIAL};
use crate::{Failure, Outcome};

pub const GUARD: char = '\u{10FFFD}';

#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    Special,
    Plain,
    Guarded,
}

pub enum AnyModel {
    Crate(ModelWrapper),
    Spm(Spm),
}

/// How token texts turn back into bytes, and what surrounds a text.
#[derive(Default)]
pub struct TextForm {
    pub kind: &'static str,
    pub replacement: Option<char>,
    pub byte_fallback: bool,
    pub strip_left: usize,
    pub prefix: Vec<u32>,
    pub suffix: Vec<u32>,
}

pub struct Parts {
    pub model: AnyModel,
    pub normalizer: Option<NormalizerWrapper>,
    pub pre_tokenizer: Option<PreTokenizerWrapper>,
    /// The id the file gives the token, where it gives one.
    pub added: Vec<(Option<u32>, AddedToken)>,
    pub form: TextForm,
}

struct Shared<T>(Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl Model for Shared<AnyModel> {
    type Trainer = TrainerWrapper;

    fn tokenize(&self, text: &str) -> tokenizers::Result<Vec<Token>> {
        match &*self.0 {
            AnyModel::Crate(m) => m.tokenize(text),
            AnyModel::Spm(m) => {
                // Only ids are ever read: offsets and texts stay empty.
                Ok(m.encode(text).into_iter().map(|id| Token::new(id, String::new(), (0, 0))).collect())
            }
        }
    }
    fn token_to_id(&self, token: &str) -> Option<u32> {
        match &*self.0 {
            AnyModel::Crate(m) => m.token_to_id(token),
            AnyModel::Spm(m) => m.id(token),
        }
    }
    fn id_to_token(&self, id: u32) -> Option<String> {
        match &*self.0 {
            AnyModel::Crate(m) => m.id_to_token(id),
            AnyModel::Spm(m) => m.text(id).map(str::to_string),
        }
    }
    fn get_vocab(&self) -> std::collections::HashMap<String, u32> {
        match &*self.0 {
            AnyModel::Crate(m) => m.get_vocab(),
            AnyModel::Spm(m) => (0..m.len() as u32).filter_map(|id| Some((m.text(id)?.to_string(), id))).collect(),
        }
    }
    fn get_vocab_size(&self) -> usize {
        match &*self.0 {
            AnyModel::Crate(m) => m.get_vocab_size(),
            AnyModel::Spm(m) => m.len(),
        }
    }
    fn save(&self, _: &Path, _: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        Err("a tokenizer is never saved".into())
    }
    fn get_trainer(&self) -> TrainerWrapper {
        BpeTrainer::default().into()
    }
}

impl PreTokenizer for Shared<PreTokenizerWrapper> {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        self.0.pre_tokenize(text)
    }
}

/// The file's normalizer, after taking out guard characters where asked to. It runs on the pieces between special
/// tokens, so a guarded text can no longer become one.
#[derive(Clone)]
struct Normalize {
    inner: Option<Arc<NormalizerWrapper>>,
    unguard: bool,
}

impl Normalizer for Normalize {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        if self.unguard && text.get().contains(GUARD) {
            unguard(text);
        }
        match &self.inner {
            Some(inner) => inner.normalize(text),
            None => Ok(()),
        }
    }
}

/// A single guard vanishes, a pair becomes one.
fn unguard(text: &mut NormalizedString) {
    let mut second = false;
    let keep: Vec<bool> = text
        .get()
        .chars()
        .map(|c| {
            let drop = c == GUARD && !second;
            second = drop;
            !drop
        })
        .collect();
    let index = std::cell::Cell::new(0);
    text.filter(|_| {
        let i = index.get();
        index.set(i + 1);
        keep[i]
    });
}

type Pipeline =
    TokenizerImpl<Shared<AnyModel>, Normalize, Shared<PreTokenizerWrapper>, PostProcessorWrapper, DecoderWrapper>;

struct Source {
    model: Shared<AnyModel>,
    normalizer: Option<Arc<NormalizerWrapper>>,
    pre_tokenizer: Option<Shared<PreTokenizerWrapper>>,
    added: Vec<AddedToken>,
}

impl Source {
    fn pipeline(&self, mode: Mode) -> Outcome<Pipeline> {
        let mut p = Pipeline::new(self.model.clone());
        let normalize = Normalize { inner: self.normalizer.clone(), unguard: mode == Mode::Guarded };
        if normalize.inner.is_some() || normalize.unguard {
            p.with_normalizer(Some(normalize)).map_err(Failure::invalid)?;
        }
        p.with_pre_tokenizer(self.pre_tokenizer.clone());
        let added = self.added.iter().filter(|t| mode != Mode::Plain || !t.special).map(|t| {
            // Guards are gone once the normalizer has run: special tokens must be found before it.
            let raw = mode == Mode::Guarded && t.special;
            t.clone().normalized(t.normalized && !raw)
        });
        p.add_tokens(added).map_err(Failure::invalid)?;
        Ok(p)
    }
}

pub struct Tokenizer {
    source: Source,
    form: TextForm,
    special: Pipeline,
    plain: OnceLock<Pipeline>,
    guarded: OnceLock<Pipeline>,
}

pub struct TokenTable {
    pub texts: String,
    pub offsets: Vec<u32>,
    pub flags: Vec<u8>,
}

#[derive(Deserialize)]
struct FileToken {
    id: u32,
    #[serde(flatten)]
    token: AddedToken,
}

/// tokenizer.json. The model is kept as text until its type is known: it is by far the largest part.
#[derive(Deserialize)]
struct File<'a> {
    #[serde(default)]
    added_tokens: Vec<FileToken>,
    #[serde(default)]
    normalizer: Option<NormalizerWrapper>,
    #[serde(default)]
    pre_tokenizer: Option<PreTokenizerWrapper>,
    #[serde(default)]
    post_processor: Option<PostProcessorWrapper>,
    #[serde(default)]
    decoder: Option<Value>,
    #[serde(borrow)]
    model: &'a RawValue,
}

#[derive(Deserialize)]
struct ModelType {
    #[serde(rename = "type")]
    name: Option<String>,
}

impl Tokenizer {
    pub fn from_vocab(vocab: Vocab) -> Outcome<Self> {
        Self::from_parts(vocab.into_parts()?)
    }

    pub fn from_json(text: &str) -> Outcome<Self> {
        let file: File = serde_json::from_str(text).map_err(Failure::invalid)?;
        let model = parse_model(file.model.get())?;
        let mut form = text_form(file.decoder.as_ref())?;
        if let Some(post) = &file.post_processor {
            (form.prefix, form.suffix) = surroundings(post)?;
        }
        let added = file.added_tokens.into_iter().map(|t| (Some(t.id), t.token)).collect();
        let (normalizer, pre_tokenizer) = (file.normalizer, file.pre_tokenizer);
        Self::from_parts(Parts { model: AnyModel::Crate(model), normalizer, pre_tokenizer, added, form })
    }

    fn from_parts(parts: Parts) -> Outcome<Self> {
        let source = Source {
            model: Shared(Arc::new(parts.model)),
            normalizer: parts.normalizer.map(Arc::new),
            pre_tokenizer: parts.pre_tokenizer.map(|p| Shared(Arc::new(p))),
            added: parts.added.iter().map(|(_, t)| t.clone()).collect(),
        };
        let special = source.pipeline(Mode::Special)?;
        for (id, token) in &parts.added {
            let given = special.token_to_id(&token.content);
            if id.is_some() && given.is_some() && given != *id && !matches!(&*source.model.0, AnyModel::Spm(_)) {
                return Err(Failure::invalid(format!(
                    "added token {:?} has id {} in the file, but {} by its place in the vocabulary",
                    token.content,
                    id.unwrap_or_default(),
                    given.unwrap_or_default()
                )));
            }
        }
        Ok(Tokenizer { source, form: parts.form, special, plain: OnceLock::new(), guarded: OnceLock::new() })
    }

    pub fn info(&self) -> Outcome<String> {
        Ok(json!({
            "kind": self.form.kind,
            "replacement": self.form.replacement.map(String::from).unwrap_or_default(),
            "byte_fallback": self.form.byte_fallback,
            "strip_left": self.form.strip_left,
            "prefix": self.form.prefix,
            "suffix": self.form.suffix,
        })
        .to_string())
    }

    pub fn tokens(&self) -> Outcome<TokenTable> {
        let added = self.special.get_added_vocabulary().get_added_tokens_decoder();
        let model = &self.source.model;
        let (total, last_added) = (model.get_vocab_size(), added.keys().max().copied());
        let mut table = TokenTable { texts: String::new(), offsets: vec![0], flags: Vec::new() };
        let mut found = 0;
        let mut id = 0u32;
        // Ids may have gaps; a file whose ids are mostly gaps is refused.
        let limit = total as u64 * 4 + added.len() as u64 + 65536;
        while found < total || last_added.is_some_and(|last| id <= last) {
            if id as u64 > limit {
                return Err(Failure::invalid("token ids are too sparse"));
            }
            let in_model = model.id_to_token(id);
            found += in_model.is_some() as usize;
            let mut flags = 0;
            if let Some(token) = added.get(&id) {
                flags = ADDED | if token.special { SPECIAL } else { 0 };
                table.texts.push_str(&token.content);
            } else if let Some(text) = in_model {
                table.texts.push_str(&text);
            }
            table.offsets.push(u32::try_from(table.texts.len()).map_err(Failure::invalid)?);
            table.flags.push(flags);
            id += 1;
        }
        Ok(table)
    }

    pub fn encode(&self, text: &str, mode: Mode) -> Outcome<Vec<u32>> {
        let pipeline = match mode {
            Mode::Special => &self.special,
            Mode::Plain => self.lazy(&self.plain, mode)?,
            Mode::Guarded => self.lazy(&self.guarded, mode)?,
        };
        let encoding = pipeline.encode_fast(text, false).map_err(Failure::invalid)?;
        Ok(encoding.get_ids().to_vec())
    }

    fn lazy<'a>(&'a self, cell: &'a OnceLock<Pipeline>, mode: Mode) -> Outcome<&'a Pipeline> {
        if let Some(p) = cell.get() {
            return Ok(p);
        }
        let built = self.source.pipeline(mode)?;
        Ok(cell.get_or_init(|| built))
    }
}

fn parse_model(text: &str) -> Outcome<ModelWrapper> {
    let kind: ModelType = serde_json::from_str(text).map_err(Failure::invalid)?;
    let model = match kind.name.as_deref() {
        Some("BPE") => serde_json::from_str::<BPE>(text).map(ModelWrapper::from),
        Some("Unigram") => serde_json::from_str::<Unigram>(text).map(ModelWrapper::from),
        Some("WordLevel") => serde_json::from_str::<WordLevel>(text).map(ModelWrapper::from),
        None => serde_json::from_str::<ModelWrapper>(text),
        Some(other) => {
            return Err(Failure::unsupported(format!("tokenizer model {other:?}; supported: BPE, Unigram, WordLevel")))
        }
    }
    .map_err(|e| Failure::invalid(format!("model: {e}")))?;
    match &model {
        ModelWrapper::WordPiece(_) => Err(Failure::unsupported("tokenizer model \"WordPiece\"")),
        ModelWrapper::BPE(bpe) if bpe.dropout.is_some_and(|p| p > 0.0) => {
            Err(Failure::unsupported("BPE with dropout: its ids are random"))
        }
        _ => Ok(model),
    }
}

/// What the post-processor puts before and after a text.
fn surroundings(post: &PostProcessorWrapper) -> Outcome<(Vec<u32>, Vec<u32>)> {
    const MARK: u32 = u32::MAX;
    let text = Encoding::from_tokens(vec![Token::new(MARK, String::new(), (0, 0))], 0);
    let done = post.process(text, None, true).map_err(Failure::invalid)?;
    let ids = done.get_ids();
    match ids.iter().position(|id| *id == MARK) {
        Some(at) => Ok((ids[..at].to_vec(), ids[at + 1..].to_vec())),
        None => Err(Failure::invalid("the post-processor drops the text")),
    }
}

fn text_form(decoder: Option<&Value>) -> Outcome<TextForm> {
    let mut form = TextForm { kind: "plain", ..TextForm::default() };
    match decoder {
        None | Some(Value::Null) => {}
        Some(value) => apply_decoder(value, &mut form, 0)?,
    }
    Ok(form)
}

fn apply_decoder(value: &Value, form: &mut TextForm, depth: usize) -> Outcome<()> {
    let char_of = |v: &Value| v.as_str().and_then(|s| s.chars().next());
    match value["type"].as_str().unwrap_or_default() {
        "ByteLevel" => form.kind = "byte_level",
        "Metaspace" => {
            form.kind = "metaspace";
            form.replacement = char_of(&value["replacement"]);
            let never = value["prepend_scheme"] == "never" || value["add_prefix_space"] == false;
            form.strip_left = !never as usize;
        }
        "Replace" if value["content"] == " " && value["pattern"]["String"].is_string() => {
            form.kind = "metaspace";
            form.replacement = char_of(&value["pattern"]["String"]);
        }
        "ByteFallback" => form.byte_fallback = true,
        "Fuse" => {}
        "Strip" if value["content"] == " " && value["stop"].as_u64().unwrap_or(0) == 0 => {
            form.strip_left = value["start"].as_u64().unwrap_or(0).min(16) as usize
        }
        "Sequence" if depth < 4 => {
            for part in value["decoders"].as_array().into_iter().flatten() {
                apply_decoder(part, form, depth + 1)?;
            }
        }
        other => return Err(Failure::unsupported(format!("tokenizer decoder {other:?} with these settings"))),
    }
    Ok(())
}
