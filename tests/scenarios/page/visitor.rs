//! Somebody at the page: what they see, and what they do with keyboard, mouse and files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::webdriver::{Browser, Look};
use crate::support::world::World;

/// The key that ends a line.
pub const ENTER: &str = "\u{E007}";

/// The page in a browser.
pub struct Visitor {
    /// The browser.
    pub browser: Browser,
}

impl Visitor {
    /// Opens the page of `world` with its secret; `None` when this machine has no browser.
    pub fn at(world: &World, look: Look) -> Option<Visitor> {
        let visitor = Visitor { browser: Browser::open(look)? };
        visitor.browser.go(&world.server.page_address());
        visitor.is_live();
        Some(visitor)
    }

    /// Waits until the page is up to date.
    #[track_caller]
    pub fn is_live(&self) {
        self.browser.until("document.body?.dataset.link === 'live'");
    }

    /// Writes a message and sends it with the Enter key.
    #[track_caller]
    pub fn says(&self, text: &str) {
        self.browser.until("!document.querySelector('#text').disabled");
        self.browser.types("#text", text);
        self.sends();
    }

    /// Sends what is written: with the Enter key, which only begins a line on a phone.
    #[track_caller]
    pub fn sends(&self) {
        self.browser.until("!document.querySelector('#send').disabled");
        if self.browser.value("matchMedia('(pointer: coarse)').matches") == true {
            return self.browser.click("#send");
        }
        self.browser.types("#text", ENTER);
    }

    /// Pastes a text of so many words into the message field.
    pub fn pastes_words(&self, count: usize) {
        let script = "const carried = new DataTransfer();
            carried.setData('text/plain', 'word '.repeat(arguments[0]));
            document.querySelector('#text').dispatchEvent(
              new ClipboardEvent('paste', { clipboardData: carried, bubbles: true, cancelable: true }));";
        self.browser.run(script, json!([count]));
    }

    /// Drops files onto the page.
    #[track_caller]
    pub fn drops(&self, files: &[(&str, &[u8])]) {
        let files: Vec<Value> =
            files.iter().map(|(name, bytes)| json!([name, STANDARD.encode(bytes)])).collect();
        let script = "const carried = new DataTransfer();
            for (const [name, text] of arguments[0]) {
              const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
              carried.items.add(new File([bytes], name));
            }
            const place = document.querySelector('#main');
            for (const kind of ['dragenter', 'dragover', 'drop']) {
              place.dispatchEvent(new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true }));
            }";
        self.browser.run(script, json!([files]));
    }

    /// Waits until so many files of the message being written are on the server.
    #[track_caller]
    pub fn files_are_ready(&self, count: usize) {
        self.browser
            .until(&format!("document.querySelectorAll('.chip[data-state=ready]').length === {count}"));
    }

    /// Waits until something of a selector shows this text.
    #[track_caller]
    pub fn sees(&self, selector: &str, text: &str) {
        let every = format!("[...document.querySelectorAll({})]", json!(selector));
        self.browser.until(&format!("{every}.some((one) => one.textContent.includes({}))", json!(text)));
    }

    /// How many elements a selector has.
    pub fn count(&self, selector: &str) -> u64 {
        self.browser
            .value(&format!("document.querySelectorAll({}).length", json!(selector)))
            .as_u64()
            .unwrap()
    }

    /// The texts of the elements of a selector.
    pub fn texts(&self, selector: &str) -> Vec<String> {
        let list =
            format!("[...document.querySelectorAll({})].map((one) => one.textContent)", json!(selector));
        serde_json::from_value(self.browser.value(&list)).unwrap()
    }

    /// The id of the thread that is shown.
    #[track_caller]
    pub fn thread(&self) -> uuid::Uuid {
        self.browser.until("location.hash.startsWith('#/t/')");
        let hash = self.browser.value("location.hash");
        hash.as_str().unwrap().trim_start_matches("#/t/").parse().unwrap()
    }

    /// Nothing of the page's own broke and nothing was refused to it.
    #[track_caller]
    pub fn has_no_complaint(&self) {
        assert_eq!(self.browser.complaints(), Vec::<String>::new());
    }
}
