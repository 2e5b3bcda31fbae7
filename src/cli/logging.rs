//! The log: one line per event on standard error, JSON or text, with codes and ids and nothing else.
//!
//! The program logs through the `log` crate with messages of the form `code=... run=... error=...`. This file
//! turns them into lines. Records of other crates are cut down to their crate's name: their texts may hold
//! addresses.

use std::io::Write;

use env_logger::fmt::Formatter;
use log::{LevelFilter, Record};
use serde_json::{Map, Value};

use crate::config::{LogConfig, LogFormat};
use crate::run::mask;
use crate::sdk::wire::Time;

/// Root of the module paths whose messages are pairs.
const OWN: &str = "claude_code_runner";

/// Installs the log for the whole process. A second call changes nothing.
pub fn install(config: &LogConfig) {
    install_with(config.format, config.level);
}

/// Installs the log with a format and a level.
pub fn install_with(format: LogFormat, level: LevelFilter) {
    let mut builder = env_logger::Builder::new();
    builder.filter_level(level).format(move |out, record| line(out, record, format));
    // Refused when a log is installed already, as in tests; that one stays.
    let _ = builder.try_init();
}

fn line(out: &mut Formatter, record: &Record<'_>, format: LogFormat) -> std::io::Result<()> {
    let text = mask::apply_kept(&record.args().to_string()).into_owned();
    let level = record.level().as_str().to_ascii_lowercase();
    let now = Time::now();
    match (format, pairs(record.target(), &text)) {
        (LogFormat::Json, pairs) => writeln!(out, "{}", json_line(now, &level, &pairs)),
        (LogFormat::Text, pairs) => {
            let joined: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
            writeln!(out, "{now} {level} {}", joined.join(" "))
        }
    }
}

fn json_line(now: Time, level: &str, pairs: &[(&str, &str)]) -> Value {
    let mut object = Map::new();
    object.insert("ts".into(), now.to_string().into());
    object.insert("level".into(), level.into());
    for (key, value) in pairs {
        let number = value.parse::<i64>().ok().map(Value::from);
        object.insert((*key).into(), number.unwrap_or_else(|| (*value).into()));
    }
    Value::Object(object)
}

/// The pairs of a message of this program; for any other crate only its name.
fn pairs<'a>(target: &'a str, text: &'a str) -> Vec<(&'a str, &'a str)> {
    let source = target.split("::").next().unwrap_or(target);
    if source != OWN {
        return vec![("code", "library"), ("library", source)];
    }
    text.split(' ').filter_map(|pair| pair.split_once('=')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_messages_become_members_and_numbers_stay_numbers() {
        let pairs =
            pairs("claude_code_runner::run", "code=turn_started run=r1 wait_ms=20 words without a pair");
        let line = json_line(Time::from_millis(0), "info", &pairs);
        assert_eq!(
            line.to_string(),
            r#"{"code":"turn_started","level":"info","run":"r1","ts":"1970-01-01T00:00:00.000Z","wait_ms":20}"#
        );
    }

    #[test]
    fn messages_of_libraries_keep_only_the_name() {
        assert_eq!(
            pairs("ureq::pool", "GET https://user:secret@example.com/"),
            [("code", "library"), ("library", "ureq")]
        );
    }
}
