//! Tokenizers, chat templates and grammars for DeepInfer behind a small C ABI (deepinfer_bridge.h).
//! `ffi` and `ffi_grammar` are the only modules with unsafe code; everything else is ordinary Rust that returns `Result`.

mod ffi;
mod ffi_grammar;
mod grammar;
mod namespaces;
mod pyjson;
mod schema;
mod spm;
mod template;
mod tokenizer;
mod vocab;

/// What a call failed with; the numbers are those of the C header.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Code {
    Invalid = 1,
    Unsupported = 2,
    Raised = 3,
    Panic = 4,
}

#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub message: String,
}

impl Failure {
    pub fn invalid(message: impl ToString) -> Self {
        Failure { code: Code::Invalid, message: message.to_string() }
    }
    pub fn unsupported(message: impl ToString) -> Self {
        Failure { code: Code::Unsupported, message: message.to_string() }
    }
}

pub type Outcome<T> = Result<T, Failure>;
