//! A check on templates before they run: a namespace may only be used by its attributes.
//!
//! minijinja's namespaces are the one mutable object. Stored in itself (`{% set ns.x = ns %}`, or by way of another name),
//! a namespace has no end when it is printed, and the stack overflows: no limit of the engine catches that. Templates have
//! no use for a bare namespace, so it is refused where it stands: then no cycle can be made.

use std::collections::HashSet;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Word,
    Mark,
}

struct Lexeme<'a> {
    text: &'a str,
    kind: Kind,
    line: usize,
}

/// The first offence in words, if there is one.
pub fn find_bare_namespace(source: &str) -> Option<String> {
    if !source.contains("namespace") {
        return None;
    }
    let lexemes = lex(source);
    let mut names = HashSet::new();
    for i in 0..lexemes.len() {
        if !is_free_word(&lexemes, i) || lexemes[i].text != "namespace" {
            continue;
        }
        let defined = i >= 3 && lexemes[i - 3].text == "set" && lexemes[i - 1].text == "=";
        if !defined || text(&lexemes, i + 1) != "(" {
            return Some(format!("line {}: namespace() is only for {{% set name = namespace(...) %}}", lexemes[i].line));
        }
        names.insert(lexemes[i - 2].text);
    }
    for i in 0..lexemes.len() {
        if !is_free_word(&lexemes, i) || !names.contains(lexemes[i].text) {
            continue;
        }
        if !matches!(text(&lexemes, i + 1), "." | "[" | "=" | "is") {
            return Some(format!("line {}: the namespace {:?} is used without an attribute", lexemes[i].line, lexemes[i].text));
        }
    }
    None
}

fn text<'a>(lexemes: &[Lexeme<'a>], i: usize) -> &'a str {
    lexemes.get(i).map_or("", |l| l.text)
}

/// A name of its own, not an attribute.
fn is_free_word(lexemes: &[Lexeme], i: usize) -> bool {
    lexemes[i].kind == Kind::Word && (i == 0 || lexemes[i - 1].text != ".")
}

/// Words, `==` and single marks of everything inside tags; a string is one mark. Text, comments and raw blocks are skipped
/// exactly as the engine does, or a quote in one of them could hide code from the check.
fn lex(source: &str) -> Vec<Lexeme<'_>> {
    let mut out: Vec<Lexeme> = Vec::new();
    let bytes = source.as_bytes();
    let line_of = |at: usize| 1 + bytes[..at].iter().filter(|b| **b == b'\n').count();
    let mut i = 0;
    while let Some(open) = source[i..].find('{').map(|at| i + at) {
        match bytes.get(open + 1) {
            Some(b'#') => match source[open + 2..].find("#}") {
                Some(end) => i = open + 2 + end + 2,
                None => break,
            },
            Some(b'%' | b'{') => {
                let first = out.len();
                let line = line_of(open);
                i = lex_tag(source, open + 2, line, &mut out);
                let mut words = out[first..].iter().filter(|l| l.kind == Kind::Word);
                let raw = bytes[open + 1] == b'%' && words.next().is_some_and(|w| w.text == "raw") && words.next().is_none();
                if raw {
                    i = end_of_raw(source, i);
                }
            }
            _ => i = open + 1,
        }
    }
    out
}

/// Reads one tag from `start`, just inside of it; returns the offset after its end.
fn lex_tag<'a>(source: &'a str, start: usize, mut line: usize, out: &mut Vec<Lexeme<'a>>) -> usize {
    let bytes = source.as_bytes();
    let (mut i, mut open) = (start, 0usize);
    while i < bytes.len() {
        let c = bytes[i];
        let pair = &bytes[i..bytes.len().min(i + 2)];
        let begin = i;
        i += 1;
        if c == b'\'' || c == b'"' {
            while i < bytes.len() && bytes[i] != c {
                line += (bytes[i] == b'\n') as usize;
                i += 1 + (bytes[i] == b'\\') as usize;
            }
            i = (i + 1).min(bytes.len());
            out.push(Lexeme { text: "'", kind: Kind::Mark, line });
        } else if c.is_ascii_alphabetic() || c == b'_' || c >= 0x80 {
            while i < bytes.len() && (bytes[i].is_ascii_alphanumeric() || bytes[i] == b'_' || bytes[i] >= 0x80) {
                i += 1;
            }
            out.push(Lexeme { text: &source[begin..i], kind: Kind::Word, line });
        } else if open == 0 && (pair == b"%}" || pair == b"}}") {
            out.push(Lexeme { text: "", kind: Kind::Mark, line });
            return i + 1;
        } else if pair == b"==" {
            i += 1;
            out.push(Lexeme { text: "==", kind: Kind::Mark, line });
        } else if c == b'\n' {
            line += 1;
        } else if !c.is_ascii_whitespace() {
            match c {
                b'(' | b'[' | b'{' => open += 1,
                b')' | b']' | b'}' => open = open.saturating_sub(1),
                _ => {}
            }
            out.push(Lexeme { text: &source[begin..i], kind: Kind::Mark, line });
        }
    }
    i
}

/// The offset of the `{% endraw %}` tag at or after `from`.
fn end_of_raw(source: &str, from: usize) -> usize {
    let mut i = from;
    while let Some(open) = source[i..].find("{%").map(|at| i + at) {
        let inner = source[open + 2..].trim_start_matches(['-', '+']).trim_start();
        if inner.starts_with("endraw") {
            return open;
        }
        i = open + 2;
    }
    source.len()
}
