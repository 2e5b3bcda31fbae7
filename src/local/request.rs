//! A request as an operation reads it: ids of the path, query, typed body, versions and keys.

use std::sync::Mutex;

use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::blobs::Incoming;
use super::core::Core;
use super::fail::Fail;
use super::http::{Answer, Client, Headers};
use super::problems;
use super::secrets;
use super::store::Tx;
use super::store::idempotency::{self, KeptAnswer};
use super::strict::Strict;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Without a credential.
    Nobody,
    /// The agent with this id.
    Agent(Uuid),
    /// The person.
    Person,
}

/// The body of a request.
pub enum Body {
    /// In memory.
    Bytes(Vec<u8>),
    /// In a file without a final name.
    File(Box<Mutex<Incoming>>),
}

/// One request, credential checked, body whole.
pub struct Request {
    /// The method.
    pub method: &'static str,
    /// The path.
    pub path: String,
    /// The ids in the path, in order.
    pub ids: Vec<Uuid>,
    /// The number in the path, when its route has one.
    pub number: u32,
    /// The query.
    pub query: String,
    /// The fields.
    pub headers: Headers,
    /// The body.
    pub body: Body,
    /// Who asks.
    pub caller: Caller,
    /// The other end of the connection.
    pub client: Client,
}

impl Request {
    /// The `index`-th id of the path.
    pub fn id(&self, index: usize) -> Result<Uuid, Fail> {
        self.ids.get(index).copied().ok_or_else(problems::not_found)
    }

    /// The id of the caller.
    pub fn principal(&self, core: &Core) -> Uuid {
        match self.caller {
            Caller::Agent(id) => id,
            Caller::Person | Caller::Nobody => core.instance.person_id,
        }
    }

    /// The JSON body as `T`: an object, no member of it null, twice or unknown.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Fail> {
        let Body::Bytes(bytes) = &self.body else { return Err(problems::invalid("", "not_json")) };
        let Strict(value) = serde_json::from_slice(bytes).map_err(|_| problems::invalid("", "not_json"))?;
        if let Some(pointer) = null_at(&value) {
            return Err(problems::invalid(&pointer, "null"));
        }
        if !value.is_object() {
            // A list of the members' values would be taken for the object otherwise.
            return Err(problems::invalid("", "not_an_object"));
        }
        serde_json::from_value(value).map_err(|fault| problems::invalid(&unknown_member(&fault), "invalid"))
    }

    /// The member `name` of the query, decoded.
    pub fn query(&self, name: &str) -> Option<String> {
        let pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs
            .filter_map(|(key, value)| Some((decode(key)?, decode(value)?)))
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    /// The whole number `name` of the query, not below zero.
    pub fn query_number(&self, name: &str) -> Result<Option<i64>, Fail> {
        let Some(text) = self.query(name) else { return Ok(None) };
        let number = text.parse::<i64>().ok().filter(|number| *number >= 0);
        number.map(Some).ok_or_else(|| problems::invalid(&format!("/{name}"), "not_a_number"))
    }

    /// The version of `If-Match`; without one 428 (RFC 6585 section 3).
    pub fn if_match(&self) -> Result<i64, Fail> {
        let Some(text) = self.headers.get("if-match") else {
            return Err(problems::http(428, "precondition_required").into());
        };
        let inner = text.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        inner
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| problems::invalid("/If-Match", "not_a_version"))
    }

    /// The `Idempotency-Key`, a UUID of version 7.
    pub fn key(&self) -> Result<Uuid, Fail> {
        let text = self.headers.get("idempotency-key").unwrap_or_default();
        let key = Uuid::parse_str(text).ok().filter(|key| key.get_version_num() == 7);
        key.ok_or_else(|| problems::invalid("/Idempotency-Key", "uuid_v7_required"))
    }

    /// Digest of what was asked: the same text means the same request.
    pub fn fingerprint(&self) -> String {
        let body: &[u8] = match &self.body {
            Body::Bytes(bytes) => bytes,
            Body::File(_) => &[],
        };
        let body = serde_json::from_slice::<Value>(body).map(|value| value.to_string()).unwrap_or_default();
        secrets::hash(&format!("{} {}\n{body}", self.method, self.path))
    }

    /// Runs `work` unless an answer is kept under the request's key; a 2xx is kept with what it changed.
    pub fn keyed(
        &self,
        core: &Core,
        tx: &Tx<'_>,
        work: impl FnOnce() -> Result<Answer, Fail>,
    ) -> Result<Answer, Fail> {
        let key = self.key()?;
        if let Some(answer) = self.kept(core, tx)? {
            return Ok(answer);
        }
        let answer = work()?;
        let etag = answer.headers.iter().find(|(name, _)| *name == "ETag").map(|(_, value)| value.clone());
        let body = answer.text().unwrap_or_default().to_owned();
        let kept = KeptAnswer { fingerprint: self.fingerprint(), status: answer.status, etag, body };
        if (200..300).contains(&answer.status) {
            idempotency::add(tx, self.principal(core), key, &kept)?;
        }
        Ok(answer)
    }

    /// The answer kept under the request's key; 422 when it belongs to another request.
    pub fn kept(&self, core: &Core, tx: &Tx<'_>) -> Result<Option<Answer>, Fail> {
        let Some(kept) = idempotency::get(tx, self.principal(core), self.key()?)? else { return Ok(None) };
        if kept.fingerprint != self.fingerprint() {
            return Err(problems::key_reuse());
        }
        let answer = Answer::json_text(kept.status, kept.body);
        Ok(Some(match kept.etag {
            Some(etag) => answer.with("ETag", etag),
            None => answer,
        }))
    }
}

/// Whether every member of `query` can be read, is one of `allowed` and stands there once.
pub fn check_query(query: &str, allowed: &[&str]) -> Result<(), Fail> {
    let mut seen = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(_)) = (decode(name), decode(value)) else {
            return Err(problems::invalid("", "not_decodable"));
        };
        let fault = match () {
            () if !allowed.contains(&name.as_str()) => "unknown",
            () if seen.contains(&name) => "repeated",
            () => {
                seen.push(name);
                continue;
            }
        };
        return Err(problems::invalid(&format!("/{name}"), fault));
    }
    Ok(())
}

/// Where `value` holds its first null, as a JSON pointer.
fn null_at(value: &Value) -> Option<String> {
    let below = |name: &str, inner: &Value| {
        null_at(inner).map(|rest| format!("/{}{rest}", name.replace('~', "~0").replace('/', "~1")))
    };
    match value {
        Value::Null => Some(String::new()),
        Value::Array(items) => items.iter().enumerate().find_map(|(n, item)| below(&n.to_string(), item)),
        Value::Object(members) => members.iter().find_map(|(name, inner)| below(name, inner)),
        _ => None,
    }
}

/// The pointer of the member that serde names in its complaint; empty when it names none.
fn unknown_member(fault: &serde_json::Error) -> String {
    let text = fault.to_string();
    let name = text.split_once("field `").and_then(|(_, rest)| rest.split_once('`')).map(|(name, _)| name);
    name.map(|name| format!("/{name}")).unwrap_or_default()
}

/// Percent-decoding of a query member; `None` when it is not UTF-8 or cut.
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex_digit(rest.next()?)? * 16 + hex_digit(rest.next()?)?,
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nulls_are_found_wherever_they_are() {
        let rows = [
            (json!({"a": 1}), None),
            (json!(null), Some("")),
            (json!({"a": null}), Some("/a")),
            (json!({"a": [{"b/c": null}]}), Some("/a/0/b~1c")),
        ];
        for (value, pointer) in rows {
            assert_eq!(null_at(&value).as_deref(), pointer, "{value}");
        }
    }

    #[test]
    fn a_query_has_known_members_each_once() {
        for (query, fine) in [
            ("", true),
            ("after=1&wait_ms=2", true),
            ("after=1&after=1", false),
            ("since=1", false),
            ("aft%65r=1", true),
            ("after=%", false),
        ] {
            assert_eq!(check_query(query, &["after", "wait_ms"]).is_ok(), fine, "{query}");
        }
    }

    #[test]
    fn query_members_are_decoded() {
        for (text, decoded) in [
            ("a", Some("a")),
            ("a%20b+c", Some("a b c")),
            ("%C3%A9", Some("\u{e9}")),
            ("%", None),
            ("%ff", None),
            ("%+1", None),
        ] {
            assert_eq!(decode(text).as_deref(), decoded, "{text}");
        }
    }
}
