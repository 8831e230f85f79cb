//! What of a JSON schema is supported, checked before it becomes a grammar: a keyword that would be ignored is an error
//! that names it and its place, so that output is never less constrained than the schema says. Annotations that the
//! grammar compiler does not know are taken out.

use serde_json::{Map, Value};

use crate::{Failure, Outcome};

/// Subschemas of one schema. Reference chains are followed by recursion, so this bounds their depth as well.
const MAX_SUBSCHEMAS: usize = 10_000;
const MAX_DEPTH: usize = 100;

/// Keywords without subschemas that the compiler honours or that say nothing about a value.
const PLAIN: &[&str] = &[
    "const", "enum", "type", "minItems", "maxItems", "required", "minProperties", "maxProperties", "minLength",
    "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "$anchor", "$schema", "$id", "id", "$comment", "title", "description", "default", "readOnly", "writeOnly",
    "examples", "contentMediaType", "contentEncoding",
];
const ONE: &[&str] = &["additionalItems", "additionalProperties"];
const LIST: &[&str] = &["anyOf", "oneOf", "allOf", "prefixItems"];
const NAMED: &[&str] = &["properties", "patternProperties", "$defs", "definitions"];
/// Say nothing about a value, and are unknown to the compiler.
const DROPPED: &[&str] = &["deprecated", "discriminator", "example", "externalDocs", "xml"];

pub struct Checked {
    pub schema: Value,
}

/// A copy that the compiler takes as it is meant.
pub fn check(schema: &Value) -> Outcome<Checked> {
    let mut walk = Walk { left: MAX_SUBSCHEMAS };
    Ok(Checked { schema: walk.schema(schema, "", 0)? })
}

/// The immediate subschemas with their JSON pointers.
pub fn children(schema: &Value, pointer: &str) -> Vec<(String, Value)> {
    let mut out = Vec::new();
    let Some(object) = schema.as_object() else { return out };
    for (key, value) in object {
        let at = join(pointer, key);
        let key = key.as_str();
        if ONE.contains(&key) || (key == "items" && !value.is_array()) {
            out.push((at, value.clone()));
        } else if LIST.contains(&key) || key == "items" {
            let list = value.as_array().into_iter().flatten().enumerate();
            out.extend(list.map(|(i, each)| (join(&at, &i.to_string()), each.clone())));
        } else if NAMED.contains(&key) {
            let named = value.as_object().into_iter().flatten();
            out.extend(named.map(|(name, each)| (join(&at, name), each.clone())));
        }
    }
    out
}

/// "/" for the whole schema.
pub fn place(pointer: &str) -> &str {
    if pointer.is_empty() {
        "/"
    } else {
        pointer
    }
}

fn join(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn fail(pointer: &str, what: String) -> Failure {
    Failure::unsupported(format!("at {}: {what}", place(pointer)))
}

struct Walk {
    left: usize,
}

impl Walk {
    fn schema(&mut self, schema: &Value, pointer: &str, depth: usize) -> Outcome<Value> {
        if depth > MAX_DEPTH {
            return Err(fail(pointer, format!("the schema nests deeper than {MAX_DEPTH}")));
        }
        if self.left == 0 {
            return Err(fail(pointer, format!("the schema has more than {MAX_SUBSCHEMAS} parts")));
        }
        self.left -= 1;
        let object = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(object) => object,
            _ => return Err(Failure::invalid(format!("at {}: a schema must be an object or a boolean", place(pointer)))),
        };
        let mut out = Map::new();
        for (key, value) in object {
            if let Some(kept) = self.keyword(key, value, pointer, depth)? {
                out.insert(key.clone(), kept);
            }
        }
        Ok(Value::Object(out))
    }

    fn keyword(&mut self, key: &str, value: &Value, pointer: &str, depth: usize) -> Outcome<Option<Value>> {
        let at = join(pointer, key);
        if ONE.contains(&key) || (key == "items" && !value.is_array()) {
            return self.schema(value, &at, depth + 1).map(Some);
        }
        if LIST.contains(&key) || key == "items" {
            let list = value.as_array().ok_or_else(|| Failure::invalid(format!("at {at}: must be an array")))?;
            let parts = list.iter().enumerate();
            let checked = parts.map(|(i, each)| self.schema(each, &join(&at, &i.to_string()), depth + 1));
            return checked.collect::<Outcome<Vec<_>>>().map(|list| Some(Value::Array(list)));
        }
        if NAMED.contains(&key) {
            let named = value.as_object().ok_or_else(|| Failure::invalid(format!("at {at}: must be an object")))?;
            let mut out = Map::new();
            for (name, each) in named {
                out.insert(name.clone(), self.schema(each, &join(&at, name), depth + 1)?);
            }
            return Ok(Some(Value::Object(out)));
        }
        match key {
            "$ref" if !value.as_str().is_some_and(|r| r.starts_with('#')) => {
                Err(fail(&at, format!("$ref must point into this schema, got {value}")))
            }
            "$ref" => Ok(Some(value.clone())),
            "uniqueItems" if *value == Value::Bool(false) => Ok(None),
            "x-guidance" => Err(fail(&at, "keyword \"x-guidance\" is not supported".to_string())),
            _ if PLAIN.contains(&key) => Ok(Some(value.clone())),
            _ if DROPPED.contains(&key) || key.starts_with("x-") => Ok(None),
            _ => Err(fail(&at, format!("keyword {key:?} is not supported"))),
        }
    }
}
