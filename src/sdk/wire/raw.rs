//! JSON that is kept as its text until somebody knows its type.
//!
//! Reading over it needs no memory of its nesting, so a value that is nested deeper than a parser follows, or holds
//! what no string can hold, is a fault of that value alone and never of the answer around it.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One JSON value as its text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// The text of `value`.
    ///
    /// # Errors
    /// When `value` cannot be JSON, such as a map whose keys are no strings.
    pub fn of(value: &impl Serialize) -> serde_json::Result<RawJson> {
        serde_json::value::to_raw_value(value).map(RawJson)
    }

    /// The value as a `T`.
    ///
    /// # Errors
    /// When it is none.
    pub fn read<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.0.get())
    }

    /// The member `name` as a `T`, whatever the other members are; of a member that stands twice the last counts.
    pub fn member<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.read::<BTreeMap<String, RawJson>>().ok()?.get(name)?.read().ok()
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &RawJson) -> bool {
        self.0.get() == other.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_beside_what_no_parser_takes() {
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        let rows = [
            ("deep", format!(r#"{{"payload": {deep}, "seq": 7}}"#)),
            ("lone surrogate", r#"{"payload": "\ud800", "seq": 7}"#.to_owned()),
            ("number", r#"{"payload": 1e999, "seq": 7}"#.to_owned()),
            ("twice", r#"{"seq": 6, "seq": 7}"#.to_owned()),
        ];
        for (name, text) in rows {
            let raw: RawJson = serde_json::from_str(&text).unwrap_or_else(|fault| panic!("{name}: {fault}"));
            assert_eq!(raw.member::<i64>("seq"), Some(7), "{name}");
        }
        assert_eq!(RawJson::of(&[1]).unwrap().member::<i64>("seq"), None);
    }
}
