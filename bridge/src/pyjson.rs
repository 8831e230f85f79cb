//! json.dumps as Python writes it: ", " and ": " by default, newlines with `indent`, no HTML escapes. Source: the Python
//! library reference (json). Templates were written against this and models trained on its output.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};

use crate::tokenizer::GUARD;

pub struct Style {
    pub ensure_ascii: bool,
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

const MAX_DEPTH: usize = 100;

pub fn dump(value: &Value, style: &Style, out: &mut String) -> Result<(), Error> {
    write(value, style, 0, out)
}

fn write(value: &Value, style: &Style, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson: nested too deeply"));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
        ValueKind::Number => out.push_str(&float(f64::try_from(value.clone())?)),
        ValueKind::String => string(value.as_str().unwrap_or_default(), style.ensure_ascii, out),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            let mut list = List::new('[', ']', items.is_empty(), style, depth, out);
            for item in &items {
                list.next(out);
                write(item, style, depth + 1, out)?;
            }
            list.end(out);
        }
        ValueKind::Map => {
            let mut keys: Vec<Value> = value.try_iter()?.collect();
            if style.sort_keys {
                keys.sort();
            }
            let mut list = List::new('{', '}', keys.is_empty(), style, depth, out);
            for key in &keys {
                list.next(out);
                match key.kind() {
                    ValueKind::String => string(key.as_str().unwrap_or_default(), style.ensure_ascii, out),
                    _ => {
                        out.push('"');
                        write(key, style, depth + 1, out)?;
                        out.push('"');
                    }
                }
                out.push_str(&style.key_separator);
                write(&value.get_item(key)?, style, depth + 1, out)?;
            }
            list.end(out);
        }
        kind => {
            let what = format!("tojson: a value of kind {kind} is not JSON serializable");
            return Err(Error::new(ErrorKind::InvalidOperation, what));
        }
    }
    Ok(())
}

struct List<'a> {
    close: char,
    empty: bool,
    first: bool,
    style: &'a Style,
    depth: usize,
}

impl<'a> List<'a> {
    fn new(open: char, close: char, empty: bool, style: &'a Style, depth: usize, out: &mut String) -> Self {
        out.push(open);
        List { close, empty, first: true, style, depth }
    }
    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.style.indent {
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
    }
    fn next(&mut self, out: &mut String) {
        if !self.first {
            out.push_str(&self.style.item_separator);
        }
        self.first = false;
        self.line(self.depth + 1, out);
    }
    fn end(self, out: &mut String) {
        if !self.empty {
            self.line(self.depth, out);
        }
        out.push(self.close);
    }
}

fn string(text: &str, ascii: bool, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            // A guard is taken out again before the text is encoded: it must stay one character.
            c if c == GUARD => out.push(c),
            c if ascii && !c.is_ascii() || c == '\u{7f}' && ascii => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Python's repr of a float: the shortest digits that read back, in scientific form outside [1e-4, 1e16).
fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_string();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_string();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}
