//! The C entries of grammars; as `ffi`.

use crate::ffi::{array, guarded, text, Bytes, Slice};
use crate::grammar::{Grammar, Kind, Sequence, Vocabulary};
use crate::Failure;

#[no_mangle]
pub unsafe extern "C" fn di_grammar_vocabulary_new(
    tokens: *const Slice,
    special: *const u8,
    token_count: usize,
    end_ids: *const u32,
    end_count: usize,
    out: *mut *mut Vocabulary,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let tokens: Vec<&[u8]> = array(tokens, token_count).iter().map(|slice| slice.bytes()).collect();
        let vocabulary = Vocabulary::new(&tokens, array(special, token_count), array(end_ids, end_count))?;
        out.write(Box::into_raw(Box::new(vocabulary)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn di_grammar_vocabulary_free(vocabulary: *mut Vocabulary) {
    if !vocabulary.is_null() {
        drop(Box::from_raw(vocabulary));
    }
}

#[no_mangle]
pub unsafe extern "C" fn di_grammar_compile(
    vocabulary: *const Vocabulary,
    kind: i32,
    source: Slice,
    out: *mut *mut Grammar,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let kind = match kind {
            0 => Kind::JsonObject,
            1 => Kind::JsonSchema,
            2 => Kind::Regex,
            3 => Kind::Choice,
            4 => Kind::Lark,
            other => return Err(Failure::invalid(format!("grammar kind {other}"))),
        };
        let grammar = (*vocabulary).compile(kind, text(source, "the grammar")?)?;
        out.write(Box::into_raw(Box::new(grammar)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn di_grammar_free(grammar: *mut Grammar) {
    if !grammar.is_null() {
        drop(Box::from_raw(grammar));
    }
}

#[no_mangle]
pub unsafe extern "C" fn di_grammar_begin(grammar: *const Grammar, out: *mut *mut Sequence, error: *mut Bytes) -> i32 {
    guarded(error, || {
        out.write(Box::into_raw(Box::new((*grammar).begin()?)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn di_sequence_clone(sequence: *const Sequence, out: *mut *mut Sequence, error: *mut Bytes) -> i32 {
    guarded(error, || {
        out.write(Box::into_raw(Box::new((*sequence).duplicate())));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn di_sequence_free(sequence: *mut Sequence) {
    if !sequence.is_null() {
        drop(Box::from_raw(sequence));
    }
}

#[no_mangle]
pub unsafe extern "C" fn di_sequence_mask(
    sequence: *mut Sequence,
    words: *mut u32,
    word_count: usize,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || (*sequence).mask(std::slice::from_raw_parts_mut(words, word_count)))
}

#[no_mangle]
pub unsafe extern "C" fn di_sequence_accept(sequence: *mut Sequence, token: u32, error: *mut Bytes) -> i32 {
    guarded(error, || (*sequence).accept(token))
}

#[no_mangle]
pub unsafe extern "C" fn di_sequence_state(
    sequence: *mut Sequence,
    accepting: *mut i32,
    finished: *mut i32,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        accepting.write((*sequence).is_accepting()? as i32);
        finished.write((*sequence).is_finished() as i32);
        Ok(())
    })
}
