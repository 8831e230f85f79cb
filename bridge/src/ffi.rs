//! The C entries. Each one catches unwinds, checks its slices and turns a `Failure` into a status and a message.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use crate::template::Template;
use crate::tokenizer::{Mode, Tokenizer};
use crate::vocab::{Kind, Vocab};
use crate::{Code, Failure, Outcome};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    data: *const u8,
    size: usize,
}

#[repr(C)]
pub struct Bytes {
    data: *mut u8,
    size: usize,
    capacity: usize,
}

#[repr(C)]
pub struct Ids {
    data: *mut u32,
    size: usize,
    capacity: usize,
}

#[repr(C)]
pub struct CVocab {
    kind: i32,
    tokens: *const Slice,
    flags: *const u8,
    token_count: usize,
    scores: *const f32,
    merges: *const Slice,
    merge_count: usize,
    splits: *const Slice,
    split_count: usize,
    ignore_merges: i32,
    add_space_prefix: i32,
    unknown_id: i32,
}

impl Slice {
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        array(self.data, self.size)
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(v: Vec<u8>) -> Self {
        let mut v = std::mem::ManuallyDrop::new(v);
        Bytes { data: v.as_mut_ptr(), size: v.len(), capacity: v.capacity() }
    }
}

impl From<Vec<u32>> for Ids {
    fn from(v: Vec<u32>) -> Self {
        let mut v = std::mem::ManuallyDrop::new(v);
        Ids { data: v.as_mut_ptr(), size: v.len(), capacity: v.capacity() }
    }
}

pub unsafe fn array<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 || data.is_null() {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

pub unsafe fn text<'a>(slice: Slice, what: &str) -> Outcome<&'a str> {
    std::str::from_utf8(array(slice.data, slice.size))
        .map_err(|e| Failure::invalid(format!("{what} is not valid UTF-8 at byte {}", e.valid_up_to())))
}

unsafe fn texts<'a>(data: *const Slice, size: usize, what: &str) -> Outcome<Vec<&'a str>> {
    let slices = array(data, size);
    let mut out = Vec::with_capacity(slices.len());
    for (i, s) in slices.iter().enumerate() {
        let bytes = array(s.data, s.size);
        out.push(std::str::from_utf8(bytes).map_err(|_| Failure::invalid(format!("{what} {i} is not valid UTF-8")))?);
    }
    Ok(out)
}

/// Runs `body`; on failure or unwind writes the message to `error` and returns the status.
pub fn guarded(error: *mut Bytes, body: impl FnOnce() -> Outcome<()>) -> i32 {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        std::panic::set_hook(Box::new(|_| {}));
        tokenizers::utils::parallelism::set_parallelism(false);
    });
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(payload) => {
            let what = payload
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| payload.downcast_ref::<&str>().map(|s| s.to_string()))
                .unwrap_or_else(|| "unknown panic".to_string());
            Failure { code: Code::Panic, message: what }
        }
    };
    if !error.is_null() {
        unsafe { error.write(failure.message.into_bytes().into()) };
    }
    failure.code as i32
}

#[no_mangle]
pub unsafe extern "C" fn di_tokenizer_from_json(json: Slice, out: *mut *mut Tokenizer, error: *mut Bytes) -> i32 {
    guarded(error, || {
        let tokenizer = Tokenizer::from_json(text(json, "tokenizer.json")?)?;
        out.write(Box::into_raw(Box::new(tokenizer)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn di_tokenizer_from_vocab(v: *const CVocab, out: *mut *mut Tokenizer, error: *mut Bytes) -> i32 {
    guarded(error, || {
        let v = &*v;
        let kind = match v.kind {
            0 => Kind::ByteLevel,
            1 => Kind::SentencePiece,
            other => return Err(Failure::invalid(format!("vocabulary kind {other}"))),
        };
        let scores = if v.scores.is_null() { &[] } else { array(v.scores, v.token_count) };
        let vocab = Vocab {
            kind,
            tokens: texts(v.tokens, v.token_count, "token")?,
            flags: array(v.flags, v.token_count),
            scores,
            merges: texts(v.merges, v.merge_count, "merge")?,
            splits: texts(v.splits, v.split_count, "pre-tokenizer regex")?,
            ignore_merges: v.ignore_merges != 0,
            add_space_prefix: v.add_space_prefix != 0,
            unknown_id: u32::try_from(v.unknown_id).ok(),
        };
        out.write(Box::into_raw(Box::new(Tokenizer::from_vocab(vocab)?)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn di_tokenizer_free(tokenizer: *mut Tokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

#[no_mangle]
pub unsafe extern "C" fn di_tokenizer_info(tokenizer: *const Tokenizer, json: *mut Bytes, error: *mut Bytes) -> i32 {
    guarded(error, || {
        json.write((*tokenizer).info()?.into_bytes().into());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn di_tokenizer_tokens(
    tokenizer: *const Tokenizer,
    texts: *mut Bytes,
    offsets: *mut Ids,
    flags: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let table = (*tokenizer).tokens()?;
        texts.write(table.texts.into_bytes().into());
        offsets.write(table.offsets.into());
        flags.write(table.flags.into());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn di_tokenizer_encode(
    tokenizer: *const Tokenizer,
    input: Slice,
    mode: i32,
    ids: *mut Ids,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let mode = match mode {
            0 => Mode::Special,
            1 => Mode::Plain,
            2 => Mode::Guarded,
            other => return Err(Failure::invalid(format!("encode mode {other}"))),
        };
        ids.write((*tokenizer).encode(text(input, "text")?, mode)?.into());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn di_template_new(source: Slice, out: *mut *mut Template, error: *mut Bytes) -> i32 {
    guarded(error, || {
        let template = Template::compile(text(source, "chat template")?)?;
        out.write(Box::into_raw(Box::new(template)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn di_template_free(template: *mut Template) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

#[no_mangle]
pub unsafe extern "C" fn di_template_render(
    template: *const Template,
    context: Slice,
    out: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        out.write((*template).render(text(context, "template context")?)?.into_bytes().into());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn di_bytes_free(bytes: Bytes) {
    if !bytes.data.is_null() {
        drop(Vec::from_raw_parts(bytes.data, bytes.size, bytes.capacity));
    }
}

#[no_mangle]
pub unsafe extern "C" fn di_ids_free(ids: Ids) {
    if !ids.data.is_null() {
        drop(Vec::from_raw_parts(ids.data, ids.size, ids.capacity));
    }
}
