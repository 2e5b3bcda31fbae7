//! The upload operations of a run: session, parts with their digest, completion, abort.
//!
//! Knows nothing of sets of files and of records; keys are the caller's, stored before the request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use ureq::http::header::CONTENT_TYPE;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method};
use uuid::Uuid;

use super::bound::{Bound, RunError};
use super::exchange::Operation;
use super::http::Timing;
use super::wire::file::{
    File, HeaderPair, PartResult, UploadComplete, UploadCreate, UploadPart, UploadSession, UploadState,
};

/// Longest part, bytes: one is in memory while it is sent, and the next one beside it.
pub const PART_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Most headers of a part that are taken from the server.
const PART_HEADERS_MAX: usize = 32;

/// Longest value of such a header, bytes.
const PART_HEADER_VALUE_MAX: usize = 4096;

const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");

/// Headers that a part may not set: framing, hop-by-hop (RFC 9110 section 7.6.1) and the runner's own.
const REFUSED_PART_HEADERS: &[&str] = &[
    "authorization",
    "connection",
    "dpop",
    "expect",
    "host",
    "invocation-token",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Families of such headers.
const REFUSED_PART_PREFIXES: &[&str] = &["content-", "proxy-"];

impl Bound {
    /// `createUpload` in `channel`, with the stored key.
    pub fn create_upload(
        &self,
        channel: Uuid,
        key: Uuid,
        body: &UploadCreate,
    ) -> Result<UploadSession, RunError> {
        let path = format!("/channels/{channel}/uploads");
        let operation = Operation::json(Method::POST, path, body)?.key(key);
        self.request(|token| self.client().call(&operation, Some(token)))
    }

    /// `uploadPart`: the bytes with `Content-Digest` (RFC 9530) and the headers of the part that are allowed.
    pub fn upload_part(
        &self,
        file_id: Uuid,
        part: &UploadPart,
        bytes: &PartBytes,
    ) -> Result<PartResult, RunError> {
        let number = part.part_number;
        let mut operation = Operation::new(Method::PUT, format!("/uploads/{file_id}/parts/{number}"));
        operation.headers = part_headers(&part.headers);
        operation.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        if let Ok(digest) = HeaderValue::try_from(bytes.content_digest()) {
            operation.headers.insert(CONTENT_DIGEST, digest);
        }
        operation.body = Some(bytes.bytes().into());
        operation.timing = Timing::Transfer;
        let fits = |result: &PartResult| result.part_number == number;
        self.request(|token| self.client().call_checked(&operation, Some(token), fits))
    }

    /// `getUpload`: which parts the server has.
    pub fn get_upload(&self, file_id: Uuid) -> Result<UploadState, RunError> {
        let operation = Operation::get(format!("/uploads/{file_id}"));
        let fits = |state: &UploadState| state.file_id == file_id;
        self.request(|token| self.client().call_checked(&operation, Some(token), fits))
    }

    /// `completeUpload`, with the stored key. An answer about another file is no answer and repeated.
    pub fn complete_upload(&self, file_id: Uuid, key: Uuid, body: &UploadComplete) -> Result<File, RunError> {
        let path = format!("/uploads/{file_id}/complete");
        let operation = Operation::json(Method::POST, path, body)?.key(key);
        let fits = |file: &File| file.file_id == file_id;
        self.request(|token| self.client().call_checked(&operation, Some(token), fits))
    }

    /// `abortUpload`.
    pub fn abort_upload(&self, file_id: Uuid) -> Result<(), RunError> {
        let operation = Operation::new(Method::DELETE, format!("/uploads/{file_id}"));
        self.request(|token| self.client().call_empty(&operation, Some(token)))
    }
}

/// The bytes of one part and their hash, which is made where they are read, so that no request waits for it.
pub struct PartBytes {
    bytes: Vec<u8>,
    sha256: [u8; 32],
}

impl PartBytes {
    /// Hashes the bytes of a part.
    pub fn new(bytes: Vec<u8>) -> PartBytes {
        let sha256 = Sha256::digest(&bytes).into();
        PartBytes { bytes, sha256 }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes, whose memory serves the next part.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The value of `Content-Digest` (RFC 9530).
    fn content_digest(&self) -> String {
        format!("sha-256=:{}:", STANDARD.encode(self.sha256))
    }
}

/// The headers of a part without those that it may not set; a faulty one is left out too.
fn part_headers(pairs: &[HeaderPair]) -> HeaderMap {
    let usable = pairs.iter().filter_map(|pair| {
        let name = HeaderName::try_from(&pair.name).ok()?;
        let refused = REFUSED_PART_HEADERS.contains(&name.as_str())
            || REFUSED_PART_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix));
        let short = pair.value.len() <= PART_HEADER_VALUE_MAX;
        if refused || !short { None } else { Some((name, HeaderValue::try_from(&pair.value).ok()?)) }
    });
    usable.take(PART_HEADERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_headers_keep_only_what_is_allowed() {
        let rows = [
            ("x-part-ticket", "abc", true),
            ("If-Match", "\"1\"", true),
            ("Host", "other.example.com", false),
            ("AUTHORIZATION", "Bearer x", false),
            ("Content-Length", "0", false),
            ("content-digest", "sha-256=:x:", false),
            ("Content-Type", "text/html", false),
            ("Connection", "close", false),
            ("Keep-Alive", "1", false),
            ("Transfer-Encoding", "chunked", false),
            ("TE", "trailers", false),
            ("Trailer", "x", false),
            ("Upgrade", "h2c", false),
            ("Proxy-Authorization", "x", false),
            ("Invocation-Token", "x", false),
            ("DPoP", "x", false),
            ("Expect", "100-continue", false),
            ("bad name", "x", false),
            ("x-break", "a\r\nHost: b", false),
        ];
        for (name, value, kept) in rows {
            let pair = HeaderPair { name: name.to_owned(), value: value.to_owned() };
            assert_eq!(!part_headers(&[pair]).is_empty(), kept, "{name}");
        }
    }

    #[test]
    fn part_headers_are_bounded() {
        let pair = |n: usize| HeaderPair { name: format!("x-{n}"), value: "v".to_owned() };
        let many: Vec<_> = (0..PART_HEADERS_MAX * 2).map(pair).collect();
        assert_eq!(part_headers(&many).len(), PART_HEADERS_MAX);
        let long = HeaderPair { name: "x-long".to_owned(), value: "v".repeat(PART_HEADER_VALUE_MAX + 1) };
        assert!(part_headers(&[long]).is_empty());
    }

    #[test]
    fn content_digest_has_the_form_of_rfc_9530() {
        // the example of RFC 9530 section 2, with its line end
        let digest = PartBytes::new(b"{\"hello\": \"world\"}\n".to_vec()).content_digest();
        assert_eq!(digest, "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:");
    }
}
