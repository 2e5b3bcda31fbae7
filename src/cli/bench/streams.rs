//! Reading a turn's stream from a file: ordinary lines, a giant tool result, a giant answer, and for comparison a bare
//! typed pass over the file of ordinary lines.
//!
//! The bare pass is the least that any typed reader does: it reads the file line by line through a buffer and
//! deserializes each line with `serde_json` into types that hold what the runner uses of ordinary lines (ids, texts,
//! tool inputs, usage) and skip the rest. It does nothing with them: no noise is tolerated, no line length bounded, no
//! step made. Times are processor time of this thread.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, Write};

use nix::sys::resource::{UsageWho, getrusage};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Row, Rows, broken};
use crate::cli::exit::Failure;
use crate::run::live_box::{Document, Sink, replay};
use crate::sdk::wire::Time;
use crate::sys::private::TempDir;

/// Bytes of ordinary lines.
const ORDINARY: usize = 200 * 1024 * 1024;

/// Bytes of the giant tool result and the giant answer.
const GIANT: usize = 60 * 1024 * 1024;

/// Longest line, the configuration's default and more.
const LINE_LIMIT: u64 = 128 * 1024 * 1024;

/// Bytes that the bare pass reads at once, as the runner's reader does.
const BUFFER: usize = 128 * 1024;

/// Passes of each kind, one after the other; the middle one counts.
const PASSES: usize = 5;

/// What the runner uses of an ordinary line.
#[derive(Deserialize)]
struct Bare<'a> {
    #[serde(rename = "type", borrow)]
    _kind: Cow<'a, str>,
    #[serde(default, rename = "session_id")]
    _session: Option<String>,
    #[serde(default, rename = "parent_tool_use_id")]
    _parent: Option<String>,
    #[serde(borrow, rename = "message")]
    _message: Option<BareMessage<'a>>,
}

#[derive(Deserialize)]
struct BareMessage<'a> {
    #[serde(default, rename = "id")]
    _id: Option<String>,
    #[serde(default, rename = "model")]
    _model: Option<String>,
    #[serde(default, rename = "usage")]
    _usage: Option<BareUsage>,
    #[serde(borrow, rename = "content")]
    _content: Vec<BareItem<'a>>,
}

#[derive(Deserialize)]
struct BareUsage {
    #[serde(rename = "input_tokens")]
    _input: u64,
    #[serde(rename = "output_tokens")]
    _output: u64,
    #[serde(default, rename = "cache_read_input_tokens")]
    _cache_read: u64,
}

#[derive(Deserialize)]
struct BareItem<'a> {
    #[serde(rename = "type", borrow)]
    _kind: Cow<'a, str>,
    #[serde(default, rename = "text")]
    _text: Option<String>,
    #[serde(default, rename = "id")]
    _id: Option<String>,
    #[serde(default, rename = "name")]
    _name: Option<String>,
    #[serde(default, rename = "input")]
    _input: Option<Value>,
    #[serde(default, rename = "tool_use_id")]
    _tool_use_id: Option<String>,
}

/// Throughput of each, and what the ordinary lines cost.
pub fn measure() -> Rows {
    let place = TempDir::new().map_err(broken("no temporary directory"))?;
    let file = |name: &str, text: String| -> Result<File, Failure> {
        let path = place.join(name);
        fs::write(&path, text).and_then(|()| File::open(&path)).map_err(broken("no recording"))
    };
    let (mut ordinary, mut tool, mut answer) = (
        file("ordinary", ordinary_lines())?,
        file("tool", giant_tool_result())?,
        file("answer", giant_answer())?,
    );
    let [of_ordinary, of_tool, of_answer] =
        [growth(&mut ordinary)?, growth(&mut tool)?, growth(&mut answer)?];
    // One line is read in one go, so this long the live document stands still.
    let stall = seconds(&mut tool, read)?;
    let (mut own, mut bare) = (Vec::new(), Vec::new());
    // Alternating, so that a busy moment of the machine does not favour one of them.
    for _ in 0..PASSES {
        own.push(seconds(&mut ordinary, read)?);
        bare.push(seconds(&mut ordinary, read_bare)?);
    }
    let (own, bare) = (middle(own), middle(bare));
    Ok(vec![
        Row::new("stream, 200 MB of ordinary lines", rate(ORDINARY, own), ""),
        Row::new("  processor time", format!("{own:.2} s"), "0.4 s"),
        Row::new("  the same, a bare typed pass", rate(ORDINARY, bare), ""),
        Row::new("  times the bare pass", format!("{:.2}", own / bare), "2"),
        Row::new("  memory it took", of_ordinary, "2 MiB"),
        Row::new("stream, one tool result of 60 MB", rate(GIANT, stall), ""),
        Row::new("  time it took", format!("{:.0} ms", stall * 1000.0), "100 ms"),
        Row::new("  memory it took", of_tool, "16 MiB"),
        Row::new("stream, one answer of 60 MB", rate(GIANT, seconds(&mut answer, read)?), ""),
        Row::new("  memory it took", of_answer, "120 MiB"),
    ])
}

/// A long turn: a text, a call of a tool and its result of some kilobytes, over and over.
fn ordinary_lines() -> String {
    let mut lines = String::with_capacity(ORDINARY);
    let (text, output) =
        ("Reading the orders and adding them up. ".repeat(8), "a line of output\n".repeat(300));
    let session = Uuid::nil();
    for number in 0_u64.. {
        let (message, tool) = (format!("msg_{number}"), format!("toolu_{number}"));
        let usage = json!({"input_tokens": 12, "output_tokens": 3, "cache_read_input_tokens": 0});
        let said = |item: Value| {
            json!({"type": "assistant", "session_id": session, "message": {
            "id": message, "role": "assistant", "model": "stand-in", "content": [item], "usage": usage}})
        };
        let result = json!({"type": "user", "session_id": session, "tool_use_result": {"stdout": output},
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": tool, "content": output}]}});
        let call =
            json!({"type": "tool_use", "id": tool, "name": "Bash", "input": {"command": "cat orders.csv"}});
        for line in [said(json!({"type": "text", "text": text})), said(call), result] {
            lines.push_str(&line.to_string());
            lines.push('\n');
        }
        if lines.len() >= ORDINARY {
            break;
        }
    }
    lines
}

fn giant_tool_result() -> String {
    let content = json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x".repeat(GIANT)}]);
    let line =
        json!({"type": "user", "message": {"role": "user", "content": content}, "session_id": Uuid::nil()});
    format!("{line}\n")
}

fn giant_answer() -> String {
    let line =
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "x".repeat(GIANT)});
    format!("{line}\n")
}

/// A document that goes at once to where it is wanted.
struct Gone;

impl Document for Gone {
    fn set(&mut self, _: &str, value: Value) {
        drop(value);
    }

    fn remove(&mut self, _: &str) {}
}

fn read(file: &mut File) -> io::Result<()> {
    let mut sink = Sink { document: &mut Gone, mask: &unmasked, now: Time::now() };
    replay(file, LINE_LIMIT, Uuid::nil(), &mut sink).map(|_| ())
}

fn unmasked(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

fn read_bare(file: &mut File) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(BUFFER, file);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        serde_json::from_slice::<Bare<'_>>(&line)?;
        line.clear();
    }
    Ok(())
}

/// Processor time of one pass from the start of the file.
fn seconds(file: &mut File, pass: fn(&mut File) -> io::Result<()>) -> Result<f64, Failure> {
    file.rewind().map_err(broken("no recording"))?;
    let began = processor_time()?;
    pass(file).map_err(broken("no stream"))?;
    Ok(processor_time()? - began)
}

fn processor_time() -> Result<f64, Failure> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).map_err(|errno| broken("no times")(errno.into()))?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// How far above its size before it the process was at most during a pass.
fn growth(file: &mut File) -> Result<String, Failure> {
    // The kernel's word for "forget the highest size so far" (proc(5), clear_refs).
    let forget =
        File::options().write(true).open("/proc/self/clear_refs").and_then(|mut it| it.write_all(b"5"));
    forget.map_err(broken("no memory figures"))?;
    let before = kibibytes("VmRSS:")?;
    seconds(file, read)?;
    Ok(format!("{:.1} MiB", kibibytes("VmHWM:")?.saturating_sub(before) as f64 / 1024.0))
}

fn kibibytes(name: &str) -> Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status").map_err(broken("no memory figures"))?;
    let value =
        status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    value.ok_or_else(|| broken("no memory figures")(io::ErrorKind::InvalidData.into()))
}

fn middle(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn rate(bytes: usize, seconds: f64) -> String {
    format!("{:.0} MiB/s", bytes as f64 / 1024.0 / 1024.0 / seconds)
}
