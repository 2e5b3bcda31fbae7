//! An answer and how it is written: head and small bodies in one write, files streamed.

use std::io::{self, Read, Write};

use serde::Serialize;

use crate::local::blobs::Whole;
use crate::sdk::wire::PROBLEM_MEDIA_TYPE;
use crate::sdk::wire::problem::Problem;

/// Bytes copied from a file at once.
const CHUNK: usize = 64 * 1024;

/// One answer.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Fields beside the ones every answer has.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub content: Content,
}

/// The body of an answer.
#[derive(Debug)]
pub enum Content {
    /// None.
    Empty,
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// `length` bytes of a file from its present position on.
    File(Whole, u64),
}

impl Content {
    /// Its length, bytes.
    pub fn length(&self) -> u64 {
        match self {
            Content::Empty => 0,
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File(_, length) => *length,
        }
    }
}

impl Answer {
    /// An answer without a body.
    pub fn empty(status: u16) -> Answer {
        Answer { status, headers: Vec::new(), content: Content::Empty }
    }

    /// An answer with JSON text that is already made.
    pub fn json_text(status: u16, text: String) -> Answer {
        let headers = vec![("Content-Type", "application/json".to_owned())];
        Answer { status, headers, content: Content::Bytes(text.into_bytes()) }
    }

    /// An answer with `body` as JSON.
    pub fn json<T: Serialize>(status: u16, body: &T) -> Answer {
        match serde_json::to_string(body) {
            Ok(text) => Answer::json_text(status, text),
            Err(_) => Answer::problem(&Problem::new(500, "internal_error")),
        }
    }

    /// A problem as RFC 9457 prints it.
    pub fn problem(problem: &Problem) -> Answer {
        let text = serde_json::to_vec(problem).unwrap_or_default();
        let headers = vec![("Content-Type", PROBLEM_MEDIA_TYPE.to_owned())];
        Answer { status: problem.status, headers, content: Content::Bytes(text) }
    }

    /// The same answer with one more field.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    /// The same answer with `version` as its ETag (contract, "Small print").
    pub fn etag(self, version: i64) -> Answer {
        self.with("ETag", format!("\"{version}\""))
    }

    /// The text of a JSON answer, for answers that are stored.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Content::Empty => Some(""),
            Content::File(..) => None,
        }
    }

    /// Writes the answer. `head_only` leaves the body out (HEAD), `bound` cuts it after so many bytes.
    pub fn write(
        self,
        out: &mut dyn Write,
        keep_alive: bool,
        head_only: bool,
        bound: Option<u64>,
    ) -> io::Result<()> {
        let mut bytes = self.head_bytes(keep_alive);
        let bound = if head_only { 0 } else { bound.unwrap_or(u64::MAX) };
        match self.content {
            Content::File(file, length) => {
                out.write_all(&bytes)?;
                copy(file, length.min(bound), out)?;
            }
            Content::Bytes(body) => {
                let end = body.len().min(usize::try_from(bound).unwrap_or(usize::MAX));
                bytes.extend_from_slice(&body[..end]);
                out.write_all(&bytes)?;
            }
            Content::Empty => out.write_all(&bytes)?,
        }
        out.flush()
    }

    fn head_bytes(&self, keep_alive: bool) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, phrase(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {}\r\n", one_line(value)));
        }
        for (name, value) in ALWAYS {
            if !self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)) {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        head.push_str(&format!("Date: {}\r\n", date()));
        if self.status != 204 && self.status != 304 {
            head.push_str(&format!("Content-Length: {}\r\n", self.content.length()));
        }
        head.push_str(if keep_alive { "\r\n" } else { "Connection: close\r\n\r\n" });
        head.into_bytes()
    }
}

/// Fields of every answer unless it brings its own: nothing may be framed, guessed, kept or read elsewhere.
const ALWAYS: [(&str, &str); 6] = [
    (
        "Content-Security-Policy",
        "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
];

fn copy(file: impl Read, length: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut source = file.take(length);
    let mut left = length;
    let mut piece = vec![0; CHUNK];
    while left > 0 {
        let read = source.read(&mut piece)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.write_all(&piece[..read])?;
        left -= read as u64;
    }
    Ok(())
}

/// The present as IMF-fixdate (RFC 9110 section 5.6.7).
fn date() -> String {
    jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// A field value can never start another field.
fn one_line(value: &str) -> String {
    value.chars().filter(|c| !c.is_control()).collect()
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(answer: Answer, keep: bool, head_only: bool, bound: Option<u64>) -> String {
        let mut out = Vec::new();
        answer.write(&mut out, keep, head_only, bound).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn answers_carry_length_and_guards() {
        let text = written(Answer::json(200, &serde_json::json!({"a": 1})), true, false, None);
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("Content-Length: 7\r\n") && text.ends_with("\r\n\r\n{\"a\":1}"), "{text}");
        assert!(
            text.contains("X-Content-Type-Options: nosniff\r\n") && !text.contains("Connection"),
            "{text}"
        );
    }

    #[test]
    fn head_and_bound_cut_the_body_only() {
        let answer = || Answer::json_text(200, "12345".to_owned());
        assert!(written(answer(), true, true, None).ends_with("Content-Length: 5\r\n\r\n"));
        assert!(written(answer(), false, false, Some(2)).ends_with("Connection: close\r\n\r\n12"));
    }

    #[test]
    fn no_value_starts_a_field() {
        let text = written(Answer::empty(204).with("X-A", "b\r\nX-C: d"), true, false, None);
        assert!(text.contains("X-A: bX-C: d\r\n") && !text.contains("Content-Length"), "{text}");
    }
}
