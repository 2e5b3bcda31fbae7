//! Faults of the operating system as words of the log.

use std::io;

/// The kind of a fault as one word: the log's messages are pairs, and of a value with spaces only the first word would
/// be told (D-9).
pub fn one_word(fault: &io::Error) -> String {
    fault.kind().to_string().replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_one_word() {
        let rows = [
            (io::ErrorKind::StorageFull, "no_storage_space"),
            (io::ErrorKind::PermissionDenied, "permission_denied"),
            (io::ErrorKind::Interrupted, "operation_interrupted"),
        ];
        for (kind, expected) in rows {
            assert_eq!(one_word(&kind.into()), expected);
        }
    }
}
