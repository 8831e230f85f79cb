//! Chat templates: minijinja set up like the Jinja environment that Transformers renders with (trim_blocks, lstrip_blocks,
//! loop controls, Python's string methods, its tojson, raise_exception, strftime_now, `{% generation %}`), with fuel and
//! recursion limits because a template is part of a file from elsewhere.

use std::fmt;

use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind};

use crate::namespaces::find_bare_namespace;
use crate::pyjson::{self, Style};
use crate::{Code, Failure, Outcome};

const NAME: &str = "chat_template";
/// Instructions per rendering. Real templates need some hundred a message; this is a second or two.
const FUEL: u64 = 20_000_000;
const RECURSION: usize = 200;
/// A template this long is no chat template; it bounds what one rendering can put together from literals.
const MAX_SOURCE: usize = 4 << 20;
const MAX_OUTPUT: usize = 256 << 20;

pub struct Template {
    environment: Environment<'static>,
}

/// The message of raise_exception, found again in the chain of sources of the error that comes out.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Raised {}

impl Template {
    pub fn compile(source: &str) -> Outcome<Self> {
        if source.len() > MAX_SOURCE {
            return Err(Failure::invalid(format!("a chat template of {} bytes", source.len())));
        }
        if let Some(offence) = find_bare_namespace(source) {
            return Err(Failure::invalid(offence));
        }
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(RECURSION);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        minijinja_contrib::add_to_environment(&mut environment);
        environment.add_filter("tojson", tojson);
        environment.add_filter("fromjson", fromjson);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_template_owned(NAME, rewrite_generation(source)).map_err(|e| describe(&e))?;
        Ok(Template { environment })
    }

    pub fn render(&self, context: &str) -> Outcome<String> {
        let context: serde_json::Value = serde_json::from_str(context).map_err(Failure::invalid)?;
        let template = self.environment.get_template(NAME).map_err(|e| describe(&e))?;
        let mut out = Limited(Vec::new());
        template.render_captured_to(Value::from_serialize(&context), &mut out).map_err(|e| describe(&e))?;
        String::from_utf8(out.0).map_err(Failure::invalid)
    }
}

struct Limited(Vec<u8>);

impl std::io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(std::io::Error::other("the rendered text is too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn describe(error: &Error) -> Failure {
    let mut text = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
    let mut line = error.line();
    let mut source: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(raised) = inner.downcast_ref::<Raised>() {
            return Failure { code: Code::Raised, message: raised.0.clone() };
        }
        if let Some(e) = inner.downcast_ref::<Error>() {
            line = e.line().or(line);
            if let Some(detail) = e.detail() {
                text = detail.to_string();
            }
        } else {
            text = format!("{text}: {inner}");
        }
        source = inner.source();
    }
    let place = line.map_or_else(String::new, |l| format!("line {l}: "));
    Failure::invalid(format!("{place}{text} ({})", error.kind()))
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}

fn tojson(value: &Value, ensure_ascii: Option<bool>, kwargs: Kwargs) -> Result<Value, Error> {
    let ascii: Option<bool> = kwargs.get("ensure_ascii")?;
    let indent = match kwargs.get::<Option<Value>>("indent")? {
        None => None,
        Some(v) if v.is_none() => None,
        Some(v) => match v.as_str() {
            Some(text) if text.len() <= 64 => Some(text.to_string()),
            _ => Some(" ".repeat(usize::try_from(v)?.min(64))),
        },
    };
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let sort_keys = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let item = if indent.is_some() { "," } else { ", " };
    let (item_separator, key_separator) = match separators.as_deref() {
        None => (item.to_string(), ": ".to_string()),
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "tojson: separators must be two strings")),
    };
    let ensure_ascii = ascii.or(ensure_ascii).unwrap_or(false);
    let mut out = String::new();
    pyjson::dump(value, &Style { ensure_ascii, indent, item_separator, key_separator, sort_keys }, &mut out)?;
    Ok(Value::from(out))
}

fn fromjson(text: &str) -> Result<Value, Error> {
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|e| Error::new(ErrorKind::InvalidOperation, format!("fromjson: {e}")))?;
    Ok(Value::from_serialize(value))
}

fn strftime_now(format: String) -> Result<String, Error> {
    let bad = || Error::new(ErrorKind::InvalidOperation, "strftime_now: bad format");
    let format = std::ffi::CString::new(format).map_err(|_| bad())?;
    let mut buffer = [0u8; 512];
    // SAFETY: the C functions get a valid time, a NUL-terminated format and the buffer's true size.
    let length = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut parts: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&now, &mut parts).is_null() {
            return Err(bad());
        }
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &parts)
    };
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// Turns `{% generation %}` and `{% endgeneration %}` into a condition that is always true: the body is printed, in the
/// same scope and with the same whitespace rules. Comments, expressions and raw blocks are stepped over.
fn rewrite_generation(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let mut raw = false;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let close = match rest.as_bytes().get(1) {
            Some(b'%') => "%}",
            Some(b'#') if !raw => "#}",
            Some(b'{') if !raw => "}}",
            _ => {
                out.push('{');
                rest = &rest[1..];
                continue;
            }
        };
        let Some(end) = tag_end(&rest[2..], close).map(|e| e + 2) else { break };
        let tag = &rest[..end];
        let inner = &tag[2..end - 2];
        let word = inner.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        match word {
            "endraw" => raw = false,
            "raw" if close == "%}" => raw = true,
            _ => {}
        }
        let replacement = match word {
            "generation" if !raw && close == "%}" => Some("if true"),
            "endgeneration" if !raw && close == "%}" => Some("endif"),
            _ => None,
        };
        match replacement {
            Some(with) => out.push_str(&tag.replacen(word, with, 1)),
            None => out.push_str(tag),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// The offset after `close`; inside a tag, quoted strings are stepped over.
fn tag_end(text: &str, close: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut i = 0;
    let mut quote = 0u8;
    while i < bytes.len() {
        let c = bytes[i];
        if quote != 0 {
            if c == b'\\' {
                i += 1;
            } else if c == quote {
                quote = 0;
            }
        } else if text.as_bytes()[i..].starts_with(close.as_bytes()) {
            return Some(i + close.len());
        } else if close != "#}" && (c == b'\'' || c == b'"') {
            quote = c;
        }
        i += 1;
    }
    None
}
