//! The page's parts, embedded in the program: one HTML file, plain CSS, plain JavaScript modules, no build step.
//!
//! Read in this order: `index.html`, `main.js` (puts everything together), `api.js` (the server), `store.js` (what is
//! known), `changes.js` (keeps it fresh), then what shows it: `nav.js`, `thread.js`, `message.js`, `live.js`,
//! `composer.js`, `outbox.js`, `files.js`, `panels.js`, `chart.js`.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

/// One part.
#[derive(Debug)]
pub struct Part {
    path: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// The part itself.
    pub text: &'static str,
}

impl Part {
    /// The part as gzip, a third of its size; `None` when it cannot be packed.
    pub fn packed(&self) -> Option<Vec<u8>> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(self.text.as_bytes()).ok()?;
        packer.finish().ok()
    }
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// Every part by its path.
#[rustfmt::skip] // one line per part reads as the table it is
const PARTS: &[Part] = &[
    Part { path: "/", media_type: HTML, text: include_str!("index.html") },
    Part { path: "/page/page.css", media_type: CSS, text: include_str!("page.css") },
    Part { path: "/page/thread.css", media_type: CSS, text: include_str!("thread.css") },
    Part { path: "/page/icon.svg", media_type: PICTURE, text: include_str!("icon.svg") },
    Part { path: "/page/api.js", media_type: SCRIPT, text: include_str!("api.js") },
    Part { path: "/page/changes.js", media_type: SCRIPT, text: include_str!("changes.js") },
    Part { path: "/page/chart.js", media_type: SCRIPT, text: include_str!("chart.js") },
    Part { path: "/page/composer.js", media_type: SCRIPT, text: include_str!("composer.js") },
    Part { path: "/page/dom.js", media_type: SCRIPT, text: include_str!("dom.js") },
    Part { path: "/page/files.js", media_type: SCRIPT, text: include_str!("files.js") },
    Part { path: "/page/format.js", media_type: SCRIPT, text: include_str!("format.js") },
    Part { path: "/page/live.js", media_type: SCRIPT, text: include_str!("live.js") },
    Part { path: "/page/main.js", media_type: SCRIPT, text: include_str!("main.js") },
    Part { path: "/page/message.js", media_type: SCRIPT, text: include_str!("message.js") },
    Part { path: "/page/nav.js", media_type: SCRIPT, text: include_str!("nav.js") },
    Part { path: "/page/outbox.js", media_type: SCRIPT, text: include_str!("outbox.js") },
    Part { path: "/page/panels.js", media_type: SCRIPT, text: include_str!("panels.js") },
    Part { path: "/page/preview.js", media_type: SCRIPT, text: include_str!("preview.js") },
    Part { path: "/page/sha256.js", media_type: SCRIPT, text: include_str!("sha256.js") },
    Part { path: "/page/store.js", media_type: SCRIPT, text: include_str!("store.js") },
    Part { path: "/page/thread.js", media_type: SCRIPT, text: include_str!("thread.js") },
    Part { path: "/page/upload.js", media_type: SCRIPT, text: include_str!("upload.js") },
];

/// The part with this path.
pub fn part(path: &str) -> Option<&'static Part> {
    PARTS.iter().find(|part| part.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most bytes of the whole page as it travels, and as it is read: what loads at once also on a slow machine.
    const MAX_PACKED: usize = 50_000;
    const MAX_BYTES: usize = 100_000;
    /// Longest part, lines: what a person reads in one sitting.
    const MAX_LINES: usize = 500;

    #[test]
    fn the_page_is_small_and_readable() {
        let bytes: usize = PARTS.iter().map(|part| part.text.len()).sum();
        let packed: usize = PARTS.iter().map(|part| part.packed().unwrap().len()).sum();
        assert!(bytes <= MAX_BYTES && packed <= MAX_PACKED, "{bytes} {packed}");
        for part in PARTS {
            assert!(part.text.lines().count() <= MAX_LINES, "{}", part.path);
        }
    }

    #[test]
    fn the_page_names_only_its_own_parts() {
        for part in PARTS {
            let quoted = part.text.split(['"', '\'']);
            for named in quoted.filter(|text| text.starts_with("/page/") || text.starts_with("./")) {
                let path = named.replacen("./", "/page/", 1);
                assert!(super::part(&path).is_some(), "{} names {named}", part.path);
            }
        }
    }

    #[test]
    fn nothing_comes_from_elsewhere_and_nothing_is_inline() {
        for part in PARTS {
            for address in ["http://", "https://"] {
                let mut found = part.text.match_indices(address).map(|(at, _)| &part.text[at..]);
                assert!(found.all(|text| text.starts_with("http://www.w3.org/")), "{}", part.path);
            }
        }
        let html = part("/").unwrap().text;
        let handlers = html.split_whitespace().filter(|word| word.starts_with("on") && word.contains('='));
        assert_eq!(handlers.count(), 0, "{html}");
        assert!(!html.contains("<style") && !html.contains(" style="), "{html}");
        assert_eq!(html.matches("<script").count(), html.matches("<script type=\"module\" src=").count());
    }
}
