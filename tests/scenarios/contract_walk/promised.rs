//! What the contract's file promises for each operation: its good answer and every problem it names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::openapi::contract;

/// Status, code and reason of an answer; a good answer has neither code nor reason.
pub type Outcome = (u16, String, Option<String>);

/// A problem.
pub fn problem(status: u16, code: &str, reason: Option<&str>) -> Outcome {
    (status, code.to_owned(), reason.map(str::to_owned))
}

/// An answer without a problem.
pub fn good(status: u16) -> Outcome {
    (status, String::new(), None)
}

/// Reasons that a schema leaves open and `contract.md` names for an operation.
const NAMED_REASONS: &[(&str, u16, &str, &str)] = &[
    ("createMessage", 403, "forbidden", "capability_missing"),
    ("createUpload", 403, "forbidden", "capability_missing"),
    ("createUpload", 403, "forbidden", "acting_for_insufficient"),
    ("createUpload", 415, "unsupported_media_type", "file_type_denied"),
    ("createUpload", 503, "unavailable", "storage_full"),
];

/// Codes of the layer below the operations: a request that is no HTTP has no operation.
const BELOW: &[&str] = &["malformed_request"];

/// Every operation by its name, with everything the file promises for it. The two sides of one path are two.
pub fn promised() -> BTreeMap<String, BTreeSet<Outcome>> {
    let document = contract().document();
    let mut all = BTreeMap::new();
    for operation in contract().operations() {
        let item = &document["paths"][&operation.path][operation.method.to_lowercase()];
        for id in [Some(operation.id), operation.person_id].into_iter().flatten() {
            let outcomes = outcomes(document, item, &id);
            all.insert(id, outcomes);
        }
    }
    all
}

fn outcomes(document: &Value, operation: &Value, id: &str) -> BTreeSet<Outcome> {
    let mut found = BTreeSet::new();
    for (status, response) in operation["responses"].as_object().unwrap() {
        let Ok(status) = status.parse::<u16>() else { continue };
        if status < 400 {
            found.insert(good(status));
            continue;
        }
        let response = resolved(document, response);
        let schema = &response["content"]["application/problem+json"]["schema"];
        let alternatives = match schema["anyOf"].as_array() {
            Some(list) => list.iter().collect(),
            None => vec![schema],
        };
        for alternative in alternatives {
            found.extend(of_schema(status, resolved(document, alternative)));
        }
    }
    let named = NAMED_REASONS.iter().filter(|(of, ..)| *of == id);
    found.extend(named.map(|(_, status, code, reason)| problem(*status, code, Some(reason))));
    found
}

/// The problems of one schema: each reason it requires, or the code alone.
fn of_schema(status: u16, schema: &Value) -> Vec<Outcome> {
    let code = schema["properties"]["code"]["const"].as_str().unwrap();
    if BELOW.contains(&code) {
        return Vec::new();
    }
    let required = schema["required"].as_array().is_some_and(|names| names.iter().any(|it| it == "reason"));
    let reason = &schema["properties"]["reason"];
    let words = match (&reason["const"], reason["enum"].as_array()) {
        (Value::String(one), _) => vec![one.as_str()],
        (_, Some(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    match required {
        true => words.into_iter().map(|word| problem(status, code, Some(word))).collect(),
        false => vec![problem(status, code, None)],
    }
}

fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"].as_str();
    // A schema that extends another one by `$ref` beside its own members is a schema of its own.
    match target.filter(|_| value.as_object().unwrap().len() == 1) {
        Some(target) => document.pointer(target.strip_prefix('#').unwrap()).unwrap(),
        None => value,
    }
}
