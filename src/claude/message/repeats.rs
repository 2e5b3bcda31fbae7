//! One result is one result, however often its line comes.

use std::collections::HashSet;

use super::Message;

/// The results of a recording that were read, by the uuids of their own lines.
#[derive(Debug, Default)]
pub struct Repeats(HashSet<String>);

impl Repeats {
    /// Whether `message` is a result that was read before: it would be posted and paid twice. A result without a uuid
    /// of its own repeats nothing.
    pub fn is_repeat(&mut self, message: &Message) -> bool {
        let Message::Result(result) = message else { return false };
        result.uuid.as_ref().is_some_and(|uuid| !self.0.insert(uuid.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::TurnResult;
    use super::*;

    #[test]
    fn a_result_repeats_by_its_own_uuid_alone() {
        let result = |uuid: Option<&str>, text: &str| {
            let (uuid, text) = (uuid.map(str::to_owned), Some(text.to_owned()));
            Message::Result(Box::new(TurnResult { uuid, text, ..TurnResult::default() }))
        };
        let rows = [
            (result(Some("r1"), "a"), false),
            (result(Some("r2"), "a"), false),
            (result(Some("r1"), "b"), true),
            (result(None, "a"), false),
            (result(None, "a"), false),
            (Message::Replay, false),
            (Message::Replay, false),
        ];
        let mut repeats = Repeats::default();
        for (message, expected) in rows {
            assert_eq!(repeats.is_repeat(&message), expected, "{message:?}");
        }
    }
}
