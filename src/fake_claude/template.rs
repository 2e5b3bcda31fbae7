//! Placeholders in the scenario's texts.
//!
//! `{{session}}`, `{{model}}`, `{{cwd}}`, `{{tmpdir}}`, `{{add_dir}}` (the first one), `{{here}}` (the scenario's
//! directory), `{{text}}` (the person's words of the line at hand), `{{uuid}}` (its id) and `{{out.NAME}}` (an
//! output of a step). Unknown ones stay as they are.

use std::collections::BTreeMap;

use serde_json::Value;

/// The values of the placeholders by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Values(BTreeMap<String, String>);

impl Values {
    /// Sets one value.
    pub(super) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// `text` with every known placeholder replaced, once and from left to right.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            match after.split_once("}}").and_then(|(name, tail)| self.0.get(name).map(|value| (value, tail)))
            {
                Some((value, tail)) => {
                    filled.push_str(value);
                    rest = tail;
                }
                None => {
                    filled.push_str("{{");
                    rest = after;
                }
            }
        }
        filled + rest
    }

    /// `value` with every string filled.
    pub(super) fn fill_json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_json(item)).collect(),
            Value::Object(members) => Value::Object(
                members.iter().map(|(name, member)| (name.clone(), self.fill_json(member))).collect(),
            ),
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_table() {
        let mut values = Values::default();
        values.set("text", "{{model}}");
        values.set("model", "m");
        let rows = [
            ("plain", "plain"),
            ("{{model}}!", "m!"),
            ("{{text}}", "{{model}}"),
            ("{{unknown}} {{model}}", "{{unknown}} m"),
            ("{{ {{model}}", "{{ m"),
            ("open {{", "open {{"),
        ];
        for (text, expected) in rows {
            assert_eq!(values.fill(text), expected);
        }
        assert_eq!(
            values.fill_json(&serde_json::json!({"a": ["{{model}}", 1]})),
            serde_json::json!({"a": ["m", 1]})
        );
    }
}
