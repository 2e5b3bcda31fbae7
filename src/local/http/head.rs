//! The head of a request, parsed and checked. Pure: bytes in, a head or a refusal out.

use super::{MAX_FIELDS, MAX_HEAD_BYTES};

/// A request line and its fields, already checked against RFC 9112.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The method as sent.
    pub method: String,
    /// The path, still percent-encoded, without the query.
    pub path: String,
    /// The query behind the question mark, still encoded; empty when there is none.
    pub query: String,
    /// The fields in their order.
    pub headers: Headers,
    /// Length of the body, bytes; zero without one.
    pub content_length: u64,
    /// Whether the connection may carry another request.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue`.
    pub expects_continue: bool,
}

/// Fields of a request; names compare without case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// The first value of the field `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Every value of the field `name`, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.0.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The fields as they came.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }
}

/// Why a head is not taken: the status to answer and a stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// Code of the problem.
    pub code: &'static str,
}

const MALFORMED: Refusal = Refusal { status: 400, code: "malformed_request" };
const TOO_LARGE: Refusal = Refusal { status: 431, code: "head_too_large" };
const NO_LENGTH: Refusal = Refusal { status: 411, code: "length_required" };

/// Parses `bytes`; `Ok(None)` means that the head is not whole yet.
///
/// On success also the number of bytes that the head took. A chunked body is refused with 411
/// (RFC 9110 section 15.5.12): every client of this server knows the length of what it sends.
pub fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(taken)) if taken <= MAX_HEAD_BYTES => {
            Ok(Some((checked(&request)?, taken)))
        }
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD_BYTES => Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Err(TOO_LARGE),
        Err(_) => Err(MALFORMED),
    }
}

fn checked(request: &httparse::Request<'_, '_>) -> Result<Head, Refusal> {
    let target = request.path.unwrap_or_default();
    let http_1_1 = request.version == Some(1);
    let headers = Headers(
        request
            .headers
            .iter()
            .map(|field| (field.name.to_owned(), String::from_utf8_lossy(field.value).into_owned()))
            .collect(),
    );
    let hosts = headers.all("host").count();
    if !target.starts_with('/') || hosts > 1 || (http_1_1 && hosts == 0) {
        return Err(MALFORMED);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        content_length: content_length(&headers)?,
        keep_alive: keep_alive(&headers, http_1_1),
        expects_continue: headers.get("expect").is_some_and(|v| v.eq_ignore_ascii_case("100-continue")),
        headers,
    })
}

/// One length or none; two, or a length beside a transfer coding, is how requests are smuggled (RFC 9112 6.3).
fn content_length(headers: &Headers) -> Result<u64, Refusal> {
    let mut lengths = headers.all("content-length");
    let first = lengths.next();
    let coded = headers.get("transfer-encoding").is_some();
    match (first, lengths.next(), coded) {
        (None, None, false) => Ok(0),
        (None, None, true) => Err(NO_LENGTH),
        (Some(text), None, false) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().map_err(|_| MALFORMED)
        }
        _ => Err(MALFORMED),
    }
}

fn keep_alive(headers: &Headers, http_1_1: bool) -> bool {
    let says = |word: &str| {
        headers.all("connection").flat_map(|v| v.split(',')).any(|v| v.trim().eq_ignore_ascii_case(word))
    };
    if http_1_1 { !says("close") } else { says("keep-alive") && !says("close") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Option<(Head, usize)>, Refusal> {
        parse(text.replace('\n', "\r\n").as_bytes())
    }

    #[test]
    fn bad_requests_get_their_status() {
        let many = format!("GET / HTTP/1.1\nHost: x\n{}\n", "A: b\n".repeat(MAX_FIELDS));
        let long = format!("GET /{} HTTP/1.1\nHost: x\n\n", "a".repeat(MAX_HEAD_BYTES));
        let endless = format!("GET / HTTP/1.1\nA: {}", "a".repeat(MAX_HEAD_BYTES));
        let rows = [
            ("not http", "hello\n\n", 400),
            ("no host", "GET / HTTP/1.1\n\n", 400),
            ("two hosts", "GET / HTTP/1.1\nHost: a\nHost: a\n\n", 400),
            ("absolute form", "GET http://x/ HTTP/1.1\nHost: x\n\n", 400),
            ("asterisk form", "OPTIONS * HTTP/1.1\nHost: x\n\n", 400),
            ("negative length", "POST / HTTP/1.1\nHost: x\nContent-Length: -1\n\n", 400),
            ("plus length", "POST / HTTP/1.1\nHost: x\nContent-Length: +1\n\n", 400),
            ("empty length", "POST / HTTP/1.1\nHost: x\nContent-Length:\n\n", 400),
            ("huge length", "POST / HTTP/1.1\nHost: x\nContent-Length: 99999999999999999999\n\n", 400),
            ("list of lengths", "POST / HTTP/1.1\nHost: x\nContent-Length: 1, 1\n\n", 400),
            ("two lengths", "POST / HTTP/1.1\nHost: x\nContent-Length: 1\nContent-Length: 1\n\n", 400),
            ("both", "POST / HTTP/1.1\nHost: x\nContent-Length: 1\nTransfer-Encoding: chunked\n\n", 400),
            ("chunked", "POST / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n", 411),
            ("folded field", "GET / HTTP/1.1\nHost: x\nA: b\n c\n\n", 400),
            ("space before colon", "GET / HTTP/1.1\nHost : x\n\n", 400),
            ("other version", "GET / HTTP/2.0\nHost: x\n\n", 400),
            ("many fields", &many, 431),
            ("long target", &long, 431),
            ("endless field", &endless, 431),
        ];
        for (name, text, status) in rows {
            assert_eq!(head(text).map_err(|refusal| refusal.status), Err(status), "{name}");
        }
    }

    #[test]
    fn every_beginning_of_a_head_is_partial() {
        let text = "POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..end]), Ok(None), "{end}");
        }
        let (head, taken) = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!((head.path.as_str(), head.query.as_str()), ("/a", "b=c"));
        assert_eq!((taken, head.content_length, head.keep_alive), (text.len(), 3, true));
    }

    #[test]
    fn a_connection_is_kept_as_rfc_9112_says() {
        let rows = [
            ("GET / HTTP/1.1\nHost: x\n\n", true),
            ("GET / HTTP/1.1\nHost: x\nConnection: Close\n\n", false),
            ("GET / HTTP/1.1\nHost: x\nConnection: upgrade, close\n\n", false),
            ("GET / HTTP/1.0\n\n", false),
            ("GET / HTTP/1.0\nConnection: keep-alive\n\n", true),
        ];
        for (text, kept) in rows {
            assert_eq!(head(text).unwrap().unwrap().0.keep_alive, kept, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_do_not_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = parse(&bytes);
        }
    }
}
