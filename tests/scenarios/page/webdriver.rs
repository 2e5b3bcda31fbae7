//! A browser driven over WebDriver (W3C), plain HTTP with JSON: Debian's Chromium and its driver.
//!
//! Without them on this machine no browser opens and the tests that want one say so in one line.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use claude_code_runner::sys::place::free_space;
use claude_code_runner::sys::private::TempDir;
use serde_json::{Value, json};

use crate::support::wait::eventually;

/// What every browser is started with: no window, no network of its own, nothing kept.
const ARGUMENTS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--lang=en-US",
];

/// Where the browser's processes share memory, unless [`SHARES_ELSEWHERE`].
const SHARED_MEMORY: &str = "/dev/shm";
/// Shared memory goes into ordinary files, which is slower.
const SHARES_ELSEWHERE: &str = "--disable-dev-shm-usage";
/// Room that a browser with a few tabs never fills; without room it ends in the middle of a page.
const SHARED_MEMORY_WANTED: u64 = 1 << 30;

/// What the driver prints when it listens, before its port.
const STARTED: &str = "started successfully on port ";
/// Longest answer of the driver; a loaded machine starts a browser slowly.
const DRIVER_LIMIT: Duration = Duration::from_secs(120);
/// How often a browser is started: one that ends before it says a word says nothing of the page.
const STARTS: usize = 3;
/// What the driver and its browser complain about, in their directory.
const COMPLAINTS: &str = "complaints";
/// The member that names an element (WebDriver, "Elements").
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// One browser at a time: several at once make each other slow.
static ONE: Mutex<()> = Mutex::new(());

/// How a window looks.
#[derive(Clone, Copy)]
pub struct Look {
    /// Width and height, pixels.
    pub size: (u32, u32),
    /// A touch screen with the width of a phone.
    pub phone: bool,
    /// The dark of the two colour schemes.
    pub dark: bool,
}

/// A window of a desktop.
pub const DESKTOP: Look = Look { size: (1280, 860), phone: false, dark: false };
/// A phone.
pub const PHONE: Look = Look { size: (390, 844), phone: true, dark: false };

/// A running browser with one window; ends with its value.
pub struct Browser {
    driver: Driver,
    session: String,
    _one: MutexGuard<'static, ()>,
}

/// A running driver with a directory of its own; ends with its value.
struct Driver {
    process: Child,
    agent: ureq::Agent,
    base: String,
    dir: TempDir,
}

impl Browser {
    /// Opens a browser; `None` when this machine has none.
    pub fn open(look: Look) -> Option<Browser> {
        Browser::with(look, &[])
    }

    /// As [`Browser::open`] with more arguments.
    pub fn with(look: Look, arguments: &[String]) -> Option<Browser> {
        if !present() {
            return None;
        }
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fault = String::new();
        for _ in 0..STARTS {
            match Driver::start().session(look, arguments) {
                Ok((driver, session)) => {
                    let browser = Browser { driver, session, _one: one };
                    let scheme = if look.dark { "dark" } else { "light" };
                    let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
                    browser.tool("Emulation.setEmulatedMedia", media);
                    return Some(browser);
                }
                Err(said) => fault = said,
            }
        }
        panic!("no browser starts here: {fault}");
    }

    /// Goes to an address.
    pub fn go(&self, address: &str) {
        self.on("POST", "/url", json!({"url": address}));
    }

    /// Loads the page again.
    pub fn reload(&self) {
        self.on("POST", "/refresh", json!({}));
    }

    /// Runs a function's body in the page; `arguments` are its `arguments`.
    pub fn run(&self, script: &str, arguments: Value) -> Value {
        self.on("POST", "/execute/sync", json!({"script": script, "args": arguments}))
    }

    /// The value of an expression.
    pub fn value(&self, expression: &str) -> Value {
        self.run(&format!("return {expression}"), json!([]))
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn until(&self, expression: &str) {
        eventually(expression, || (self.value(&format!("Boolean({expression})")) == true).then_some(()));
    }

    /// Clicks the element of a selector, as a person does: it must be there and be seen.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        self.until(&format!("document.querySelector({})", json!(selector)));
        let element = self.find(selector);
        self.on("POST", &format!("/element/{element}/click"), json!({}));
    }

    /// Types into the element of a selector.
    #[track_caller]
    pub fn types(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.on("POST", &format!("/element/{element}/value"), json!({"text": text}));
    }

    /// Presses a key together with Alt, wherever the focus is.
    pub fn alt(&self, key: &str) {
        let alt = "\u{E00A}";
        let press = |kind: &str, value: &str| json!({"type": kind, "value": value});
        let keys = [press("keyDown", alt), press("keyDown", key), press("keyUp", key), press("keyUp", alt)];
        self.on("POST", "/actions", json!({"actions": [{"type": "key", "id": "keys", "actions": keys}]}));
    }

    fn find(&self, selector: &str) -> String {
        let found = self.on("POST", "/element", json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    /// A picture of the window, PNG.
    pub fn picture(&self) -> Vec<u8> {
        STANDARD.decode(self.on("GET", "/screenshot", Value::Null).as_str().unwrap()).unwrap()
    }

    /// Opens another tab and goes there; its handle.
    pub fn new_tab(&self) -> String {
        let made = self.on("POST", "/window/new", json!({"type": "tab"}));
        let handle = made["handle"].as_str().unwrap().to_owned();
        self.switch(&handle);
        handle
    }

    /// The handle of the present tab.
    pub fn tab(&self) -> String {
        self.on("GET", "/window", Value::Null).as_str().unwrap().to_owned()
    }

    /// Goes to a tab.
    pub fn switch(&self, handle: &str) {
        self.on("POST", "/window", json!({"handle": handle}));
    }

    /// Saves every download into a directory of its own, which is given back.
    pub fn downloads(&self) -> std::path::PathBuf {
        let place = self.driver.dir.join("downloads");
        std::fs::create_dir_all(&place).unwrap();
        self.tool("Browser.setDownloadBehavior", json!({"behavior": "allow", "downloadPath": place}));
        place
    }

    /// A command of the browser's own tools.
    pub fn tool(&self, command: &str, parameters: Value) -> Value {
        self.on("POST", "/goog/cdp/execute", json!({"cmd": command, "params": parameters}))
    }

    /// What the page complained about: refused scripts, broken code. Refused requests are no complaint.
    pub fn complaints(&self) -> Vec<String> {
        let entries = self.on("POST", "/se/log", json!({"type": "browser"}));
        let severe = entries.as_array().unwrap().iter().filter(|entry| entry["level"] == "SEVERE");
        let texts = severe.map(|entry| entry["message"].as_str().unwrap().to_owned());
        texts.filter(|text| !text.contains("Failed to load resource")).collect()
    }

    #[track_caller]
    fn on(&self, method: &str, path: &str, body: Value) -> Value {
        let done = self.driver.ask(method, &format!("{}{path}", self.session), &body);
        done.unwrap_or_else(|fault| panic!("{path}: {body}: {fault}"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.driver.ask("DELETE", &self.session, &Value::Null);
    }
}

impl Driver {
    /// On a port that it chose.
    fn start() -> Driver {
        let dir = TempDir::new().unwrap();
        let complaints = File::create(dir.join(COMPLAINTS)).unwrap();
        let mut process = Command::new("chromedriver")
            .args(["--port=0", "--allowed-ips=127.0.0.1", "--enable-chrome-logs"])
            .env("HOME", dir.path())
            .env("TMPDIR", dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(complaints)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.by_ref().map_while(Result::ok).find(|line| line.contains(STARTED)).unwrap();
        let port: u16 = line.split(STARTED).nth(1).unwrap().trim_end_matches('.').parse().unwrap();
        // What the driver prints later must not stop it.
        std::thread::spawn(move || lines.for_each(drop));
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(DRIVER_LIMIT))
            .build();
        Driver { process, agent: config.into(), base: format!("http://127.0.0.1:{port}"), dir }
    }

    /// A browser with one window and the path of its session, or what driver and browser said instead.
    fn session(self, look: Look, arguments: &[String]) -> Result<(Driver, String), String> {
        let options = self.options(look, arguments);
        let wanted = json!({"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        match self.ask("POST", "/session", &json!({"capabilities": {"alwaysMatch": wanted}})) {
            Ok(made) => Ok((self, format!("/session/{}", made["sessionId"].as_str().unwrap()))),
            Err(fault) => {
                let complaints = std::fs::read(self.dir.join(COMPLAINTS)).unwrap_or_default();
                Err(format!("{fault}\n{}", String::from_utf8_lossy(&complaints)))
            }
        }
    }

    fn options(&self, look: Look, arguments: &[String]) -> Value {
        let (width, height) = look.size;
        let mut all: Vec<String> = ARGUMENTS.iter().map(|argument| (*argument).to_owned()).collect();
        all.push(format!("--window-size={width},{height}"));
        if free_space(Path::new(SHARED_MEMORY)).is_none_or(|free| free < SHARED_MEMORY_WANTED) {
            all.push(SHARES_ELSEWHERE.to_owned());
        }
        all.push(format!("--user-data-dir={}", self.dir.join("profile").display()));
        all.extend_from_slice(arguments);
        let mut options = json!({"args": all});
        if look.phone {
            let metrics = json!({"width": width, "height": height, "pixelRatio": 1, "touch": true});
            options["mobileEmulation"] = json!({"deviceMetrics": metrics});
        }
        options
    }

    /// The value of an answer, or what it complains about.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let address = format!("{}{path}", self.base);
        let sent = match method {
            "GET" => self.agent.get(&address).call(),
            "DELETE" => self.agent.delete(&address).call(),
            _ => self.agent.post(&address).header("Content-Type", "application/json").send(body.to_string()),
        };
        let mut answer = sent.map_err(|fault| fault.to_string())?;
        let text = answer.body_mut().with_config().limit(u64::MAX).read_to_string().unwrap();
        let answer: Value = serde_json::from_str(&text).unwrap();
        let value = answer["value"].clone();
        if value.get("error").is_some() { Err(value["message"].to_string()) } else { Ok(value) }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether both programs are here; says so once when they are not.
fn present() -> bool {
    static SAID: Once = Once::new();
    let has =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success());
    let both = has("chromedriver") && has("chromium");
    if !both {
        SAID.call_once(|| {
            let line = b"-- cannot run: the page's tests in a browser: no chromium and chromedriver here\n";
            let _ = std::io::stderr().write_all(line);
        });
    }
    both
}
