//! Bytes as text: lowercase hex, the form of every hash in the contract.

use std::fmt::Write as _;

/// `bytes` in lowercase hex, two letters each.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing into a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_letters() {
        assert_eq!(hex(&[0, 9, 10, 0x7f, 0xff]), "00090a7fff");
        assert_eq!(hex(&[]), "");
    }
}
