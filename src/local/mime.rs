//! A file's type by its first bytes, from a short list that no browser runs. Names are never believed.

/// Bytes that [`detect`] wants to see.
pub const SNIFF_BYTES: usize = 512;

/// What is said of bytes that nothing is known of.
const UNKNOWN: &str = "application/octet-stream";

/// Beginnings and the types they prove.
const SIGNATURES: [(&[u8], &str); 7] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
];

/// The type of a file that begins with `start` (at most [`SNIFF_BYTES`] of it); `whole` when that is all of it.
pub fn detect(start: &[u8], whole: bool) -> &'static str {
    if let Some((_, mime)) = SIGNATURES.iter().find(|(signature, _)| start.starts_with(signature)) {
        return mime;
    }
    if start.len() >= 12 && start.starts_with(b"RIFF") && &start[8..12] == b"WEBP" {
        return "image/webp";
    }
    if is_text(start, whole) { "text/plain" } else { UNKNOWN }
}

fn is_text(start: &[u8], whole: bool) -> bool {
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // A cut character at the end of a part is no fault of the text.
        Err(fault) if !whole && fault.error_len().is_none() => {
            std::str::from_utf8(&start[..fault.valid_up_to()]).unwrap_or("\0")
        }
        Err(_) => return false,
    };
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\x0c'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mime_types_come_from_content() {
        let cut = "a\u{e9}".as_bytes();
        let rows: [(&str, &[u8], bool, &str); 9] = [
            ("png", b"\x89PNG\r\n\x1a\n....", true, "image/png"),
            ("webp", b"RIFF\0\0\0\0WEBPVP8 ", true, "image/webp"),
            ("wave", b"RIFF\0\0\0\0WAVEfmt ", true, UNKNOWN),
            ("zip", b"PK\x03\x04\0\0", true, "application/zip"),
            ("html is text", b"<script>alert(1)</script>", true, "text/plain"),
            ("svg is text", b"<svg onload='x'/>", true, "text/plain"),
            ("binary", b"abc\0def", true, UNKNOWN),
            ("cut character", &cut[..2], false, "text/plain"),
            ("broken character", &cut[..2], true, UNKNOWN),
        ];
        for (name, bytes, whole, mime) in rows {
            assert_eq!(detect(bytes, whole), mime, "{name}");
        }
    }
}
