//! The page and its parts, for everybody: they hold no data and no secret.

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::http::{Answer, Content};
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
    let content = Content::Bytes(part.text.as_bytes().to_vec());
    Ok(Answer { status: 200, headers: Vec::new(), content }
        .with("Content-Type", part.media_type)
        .with("Content-Security-Policy", POLICY))
}
