//! The parts of one operation, compiled, and how each judges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

use super::{Operation, find_header};

/// Most faults that one message lists; the rest follows from them as a rule.
const MAX_FAULTS: usize = 4;

/// One operation with everything that travels for it.
pub struct Exchange {
    pub operation: Operation,
    pub params: Vec<Param>,
    pub security: Security,
    pub request: Body,
    /// By status, or `default`.
    pub responses: BTreeMap<String, Response>,
}

/// One promised answer.
pub struct Response {
    pub headers: Vec<Param>,
    pub body: Body,
}

/// Where a parameter travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Path,
    Query,
    Header,
}

/// A parameter of a request or a header of an answer.
pub struct Param {
    pub name: String,
    pub place: Place,
    pub required: bool,
    pub schema: Arc<Validator>,
}

/// A body: by media type, the schema where it is JSON.
#[derive(Default)]
pub struct Body {
    pub required: bool,
    pub media: Vec<(String, Option<Arc<Validator>>)>,
}

/// The sets of credentials, one of which a request carries.
pub struct Security {
    pub alternatives: Vec<BTreeSet<String>>,
    /// Cookie of a session.
    pub cookie: String,
}

impl Exchange {
    /// Whether the path, without its query, is this operation's.
    pub fn matches(&self, path: &str) -> bool {
        let (path, _) = split_query(path);
        let mut left = self.operation.path.split('/');
        let mut right = path.split('/');
        loop {
            match (left.next(), right.next()) {
                (None, None) => return true,
                (Some(name), Some(value)) if name.starts_with('{') && !value.is_empty() => {}
                (Some(name), Some(value)) if name == value => {}
                _ => return false,
            }
        }
    }

    /// The answer that the file promises for a status.
    pub fn response(&self, status: u16) -> Result<&Response, String> {
        let id = &self.operation.id;
        let named = self.responses.get(&status.to_string());
        let usual = || self.responses.get("default").filter(|_| status >= 400);
        named.or_else(usual).ok_or_else(|| format!("{id} never answers {status}"))
    }

    /// Checks the variables of the path and the parameters of the query.
    pub fn check_path_and_query(&self, path: &str) -> Result<(), String> {
        let (path, query) = split_query(path);
        let mut given: Vec<(Place, String, String)> = Vec::new();
        for (name, value) in self.operation.path.split('/').zip(path.split('/')) {
            if let Some(name) = name.strip_prefix('{') {
                given.push((Place::Path, name.trim_end_matches('}').to_owned(), percent_decoded(value)?));
            }
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            given.push((Place::Query, percent_decoded(name)?, percent_decoded(value)?));
        }
        self.check_given(&given)
    }

    fn check_given(&self, given: &[(Place, String, String)]) -> Result<(), String> {
        for (place, name, _) in given {
            if !self.params.iter().any(|param| param.place == *place && param.name == *name) {
                return Err(format!("unknown parameter {name}"));
            }
        }
        for param in self.params.iter().filter(|param| param.place != Place::Header) {
            let mut values =
                given.iter().filter(|(place, name, _)| *place == param.place && *name == param.name);
            param.check(values.next().map(|(_, _, value)| value.as_str()))?;
            if values.next().is_some() {
                return Err(format!("{} is given twice", param.name));
            }
        }
        Ok(())
    }
}

impl Param {
    /// Checks a value as text or, where it is one, as a number.
    pub fn check(&self, value: Option<&str>) -> Result<(), String> {
        let name = &self.name;
        match value {
            None if self.required => Err(format!("{name} is missing")),
            None => Ok(()),
            Some(text) => {
                let number = text.parse::<i64>().ok().map(Value::from);
                let fits = |value: &Value| self.schema.is_valid(value);
                let fine = fits(&Value::from(text)) || number.as_ref().is_some_and(fits);
                fine.then_some(()).ok_or_else(|| format!("{name} has a value that does not fit"))
            }
        }
    }
}

impl Body {
    /// Checks a media type and the JSON value that came with it.
    pub fn check(&self, content_type: Option<&str>, body: Option<&Value>) -> Result<(), String> {
        if self.media.is_empty() {
            return match (content_type, body) {
                (_, None) => Ok(()),
                _ => Err("no body is promised".to_owned()),
            };
        }
        let essence =
            content_type.map(|text| text.split(';').next().unwrap_or("").trim().to_ascii_lowercase());
        let Some(essence) = essence.or_else(|| body.map(|_| "application/json".to_owned())) else {
            return if self.required { Err("the body is missing".to_owned()) } else { Ok(()) };
        };
        let fits = |(media, _): &&(String, Option<Arc<Validator>>)| *media == essence || media == "*/*";
        let (_, schema) = self.media.iter().find(fits).ok_or_else(|| format!("unexpected type {essence}"))?;
        match (schema, body) {
            (Some(schema), Some(body)) => no_null(body, "").and_then(|()| fault(schema, body)),
            (Some(_), None) => Err("the body is missing".to_owned()),
            (None, _) => Ok(()),
        }
    }
}

impl Security {
    /// Checks that the credentials of a request are exactly one of the sets; a cookie beside them does not count.
    pub fn check(&self, headers: &[(String, String)]) -> Result<(), String> {
        let presented = self.presented(headers);
        let mut bare = presented.clone();
        bare.remove("cookie");
        let fine = match self.alternatives.as_slice() {
            [] => bare.is_empty(),
            sets => sets.iter().any(|set| *set == presented || (!bare.is_empty() && *set == bare)),
        };
        fine.then_some(()).ok_or_else(|| format!("these credentials do not fit: {presented:?}"))
    }

    fn presented(&self, headers: &[(String, String)]) -> BTreeSet<String> {
        let mut kinds = BTreeSet::new();
        let scheme = find_header(headers, "authorization").and_then(|text| text.split(' ').next());
        kinds.extend(scheme.map(str::to_ascii_lowercase));
        for name in ["DPoP", "Invocation-Token"] {
            kinds.extend(find_header(headers, name).map(|_| format!("header {name}")));
        }
        let cookies = find_header(headers, "cookie").unwrap_or("");
        // The local server adds its port to the name, as the file says.
        let ours = |cookie: &str| {
            let rest = cookie.trim().split('=').next().and_then(|name| name.strip_prefix(&self.cookie));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        };
        if cookies.split(';').any(ours) {
            kinds.insert("cookie".to_owned());
        }
        kinds
    }
}

/// What is wrong with a value, if anything.
pub fn fault(schema: &Validator, value: &Value) -> Result<(), String> {
    let faults: Vec<String> = schema
        .iter_errors(value)
        .take(MAX_FAULTS)
        .map(|error| format!("at '{}': {error}", error.instance_path()))
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// Refuses a null at any depth: no member is ever null, an unknown one neither.
fn no_null(value: &Value, place: &str) -> Result<(), String> {
    match value {
        Value::Null => Err(format!("at '{place}': null")),
        Value::Array(items) => {
            items.iter().enumerate().try_for_each(|(index, item)| no_null(item, &format!("{place}/{index}")))
        }
        Value::Object(members) => {
            members.iter().try_for_each(|(name, member)| no_null(member, &format!("{place}/{name}")))
        }
        _ => Ok(()),
    }
}

fn split_query(path: &str) -> (&str, &str) {
    path.split_once('?').unwrap_or((path, ""))
}

fn percent_decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, after @ ..]) => {
                let pair = [*high, *low];
                let hex = std::str::from_utf8(&pair).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
                bytes.push(hex.ok_or("a percent sign without two hex digits")?);
                rest = after;
            }
            (b'%', _) => return Err("a percent sign without two hex digits".to_owned()),
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
}
