//! The page and its parts, for everybody: they hold no data and no secret.

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::http::{Answer, Content, Headers};
use crate::local::request::Request;
use crate::local::{page, problems};

/// What the page may do: its own scripts, styles and pictures, its own server, nothing inline, nothing elsewhere; HTML
/// becomes markup through the one policy of `message.js` only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types message";

/// A part of the page by its path.
pub fn get_page(_: &Core, request: &Request) -> Result<Answer, Fail> {
    let part = page::part(&request.path).ok_or_else(problems::not_found)?;
    let packed = accepts_gzip(&request.headers).then(|| part.packed()).flatten();
    let plain = packed.is_none();
    let content = Content::Bytes(packed.unwrap_or_else(|| part.text.as_bytes().to_vec()));
    let answer = Answer { status: 200, headers: Vec::new(), content }
        .with("Content-Type", part.media_type)
        .with("Content-Security-Policy", POLICY)
        .with("Vary", "Accept-Encoding");
    Ok(if plain { answer } else { answer.with("Content-Encoding", "gzip") })
}

/// Whether the reader unpacks gzip (RFC 9110 section 12.5.3); one that only mentions it in passing gets plain text.
fn accepts_gzip(headers: &Headers) -> bool {
    headers.all("accept-encoding").flat_map(|line| line.split(',')).any(|one| one.trim() == "gzip")
}
