//! The built program when something around it is wrong: a full disk behind standard output, a reader that leaves, a
//! server that hangs or dies, limits of the server, odd places.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use nix::sys::signal::Signal;

use crate::cli::{HANG, HELLO, Place, program, read_until, said, signal};
use crate::support::wait::eventually;

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure_and_a_reader_that_left_is_none() {
    let place = Place::new(HELLO);
    let words = place.words("ask", &["--json", "Hi"]);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let output = program(&words).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("standard output"), "{}", said(&output));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = program(&words).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(!said(&output).contains("standard output"), "{}", said(&output));
}

#[test]
fn a_demo_that_cannot_be_read_fails() {
    let output = program(&["demo"]).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("standard output"), "{}", said(&output));
}

#[test]
fn a_server_that_hangs_is_named() {
    let place = Place::new(HELLO);
    let mut local = place.start("local", &[]);
    let mut lines = BufReader::new(local.stdout.take().unwrap());
    read_until(&mut lines, "Ctrl-C");
    signal(&local, Signal::SIGSTOP);
    let output = place.run("ask", &["Hi"]);
    signal(&local, Signal::SIGCONT);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("runs but does not answer"), "{}", said(&output));
    signal(&local, Signal::SIGTERM);
    assert_eq!(local.wait().unwrap().code(), Some(0));
}

/// The thread is named before the run begins; when the server dies, the words say that and how it goes on.
#[test]
fn a_dead_server_leaves_the_person_with_the_thread_and_the_way_on() {
    let place = Place::new(HANG);
    let mut local = place.start("local", &[]);
    let mut introduction = BufReader::new(local.stdout.take().unwrap());
    read_until(&mut introduction, "Ctrl-C");
    let mut ask = place.start("ask", &["Hi"]);
    let mut lines = BufReader::new(ask.stderr.take().unwrap());
    let begin = read_until(&mut lines, "\nmodel ");
    let thread = begin.split("thread ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    local.kill().unwrap();
    local.wait().unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(ask.wait().unwrap().code(), Some(1), "{rest}");
    for words in ["does not answer", "goes on", &format!("--thread {thread}")] {
        assert!(rest.contains(words), "{words}: {rest}");
    }
    // The turn that was left alone is ended by the runner that takes it up.
    let mut again = place.start("local", &[]);
    let mut introduction = BufReader::new(again.stdout.take().unwrap());
    read_until(&mut introduction, "Ctrl-C");
    end_turns(&place);
    signal(&again, Signal::SIGTERM);
    again.wait().unwrap();
}

/// The second one uses the server of the first; when that ends, the words name the way out.
#[test]
fn two_asks_at_once_are_told_that_local_stays() {
    let place = Place::new(HANG);
    let mut first = place.start("ask", &["one"]);
    let mut lines = BufReader::new(first.stderr.take().unwrap());
    read_until(&mut lines, "\nmodel ");
    let mut second = place.start("ask", &["two"]);
    let mut others = BufReader::new(second.stderr.take().unwrap());
    let mut text = read_until(&mut others, "\nmodel ");
    signal(&first, Signal::SIGINT);
    assert_eq!(first.wait().unwrap().code(), Some(130));
    others.read_to_string(&mut text).unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(1), "{text}");
    assert!(text.contains("does not answer") && text.contains("`local` stays"), "{text}");
    end_turns(&place);
}

#[test]
fn the_second_ctrl_c_says_that_the_turn_goes_on() {
    // It ignores the first signals, so that the run is still at work when Ctrl-C is pressed again.
    let place = Place::new(
        r#"{"ignore_sigint": true, "ignore_sigterm": true, "turns": [{"steps": [{"text": "I think."}, {"hang": true}]}]}"#,
    );
    let mut child = place.start("ask", &["Hi"]);
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    read_until(&mut lines, "model ");
    signal(&child, Signal::SIGINT);
    let mut text = read_until(&mut lines, "Ctrl-C again");
    signal(&child, Signal::SIGINT);
    lines.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert!(text.contains("--thread ") || text.contains("The run was stopped"), "{text}");
    end_turns(&place);
}

/// Ends what the stand-in of this place still plays: its program lies in this place and nowhere else.
fn end_turns(place: &Place) {
    let program = fs::canonicalize(place.path("bin/claude")).unwrap();
    let own = || {
        fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
            (fs::read_link(entry.path().join("exe")).ok()? == program).then_some(pid)
        })
    };
    eventually("no turn is left", || {
        let left: Vec<_> = own().collect();
        for pid in &left {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), Signal::SIGKILL);
        }
        left.is_empty().then_some(())
    });
}

fn refused(output: &Output, words: &str) {
    assert_eq!(output.status.code(), Some(2), "{words}: {}", said(output));
    assert!(said(output).contains(words), "{words}: {}", said(output));
    assert!(output.stdout.is_empty(), "{words}");
}

#[test]
fn files_are_counted_and_measured_before_anything_is_sent() {
    let place = Place::new(HELLO);
    let mut words: Vec<String> = Vec::new();
    for number in 0..21 {
        fs::write(place.top.join(format!("file-{number}")), "x").unwrap();
        words.extend(["--attach".to_owned(), place.path(&format!("file-{number}"))]);
    }
    words.push("Hi".to_owned());
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    refused(&place.run("ask", &words), "at most 20 files");
    // Sparse: nothing is written, and hashing it would take minutes.
    let large = File::create(place.top.join("large")).unwrap();
    large.set_len(5 * 1024 * 1024 * 1024 * 1024).unwrap();
    refused(&place.run("ask", &["--attach", &place.path("large"), "Hi"]), "larger than");
    let long = "a".repeat(200) + "\u{e9}".repeat(27).as_str();
    fs::write(place.top.join(&long), "x").unwrap();
    let output = place.run("ask", &["--attach", &place.path(&long), "Hi"]);
    assert_eq!(output.status.code(), Some(0), "254 bytes fit: {}", said(&output));
}

#[test]
fn names_that_steer_a_terminal_are_refused_and_shown_harmless() {
    let place = Place::new(HELLO);
    let name = "a\u{1b}[31m\nred.txt";
    fs::write(place.top.join(name), "x").unwrap();
    let output = place.run("ask", &["--attach", &place.path(name), "Hi"]);
    refused(&output, "rename it");
    assert!(!said(&output).contains('\u{1b}'), "{}", said(&output));
}

#[test]
fn places_that_cannot_be_used_are_refused_with_the_cure() {
    let place = Place::new(HELLO);
    let project = place.path("p");
    let start = |more: &[&str]| {
        let words = [&["local", "--project", &project, "--billing", "personal"], more].concat();
        program(&words).output().unwrap()
    };
    let data = place.path("d");
    for address in ["192.0.2.1:0", "0.0.0.0:0", "[::]:80", "example.com:1", "localhost"] {
        refused(&start(&["--data-dir", &data, "--listen", address]), "--listen");
    }
    refused(&start(&["--data-dir", &place.path("key")]), "no directory");
    let odd = std::ffi::OsStr::from_bytes(b"odd-\xff");
    fs::create_dir_all(place.top.join(odd).join(".git")).unwrap();
    let mut command = program(&["local", "--billing", "personal", "--data-dir", &data, "--project"]);
    refused(&command.arg(place.top.join(odd)).output().unwrap(), "not UTF-8");
    let mut command = program(&["local", "--billing", "personal", "--project", &project, "--data-dir"]);
    refused(&command.arg(place.top.join(odd)).output().unwrap(), "not UTF-8");
    assert!(!place.top.join("d").exists(), "nothing was made");
    fs::create_dir(place.top.join("d")).unwrap();
    fs::set_permissions(place.top.join("d"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(place.top.join("d/server.db"), "no database at all, and long enough to be looked at").unwrap();
    let output = place.run("local", &[]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        said(&output).contains("not a database") && said(&output).contains("--data-dir"),
        "{}",
        said(&output)
    );
}

#[test]
fn local_listens_where_localhost_says() {
    let place = Place::new(HELLO);
    let mut local = place.start("local", &["--listen", "localhost:0"]);
    let mut lines = BufReader::new(local.stdout.take().unwrap());
    assert!(read_until(&mut lines, "Ctrl-C").contains("http://127.0.0.1:"));
    signal(&local, Signal::SIGTERM);
    assert_eq!(local.wait().unwrap().code(), Some(0));
}

#[test]
fn class_host_wants_the_write_permission_at_the_start() {
    let place = Place::new(HELLO);
    let output = place.run("ask", &["--tool-class", "host", "Hi"]);
    let expected = if nix::unistd::geteuid().is_root() { "refused for root" } else { "--write" };
    refused(&output, expected);
}

/// Whether the process catches this signal, as its status says.
fn catches(pid: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal as u32 - 1)) != 0
}

/// The lock of the data directory is the first thing that `local` makes; from then on a signal ends it in order.
#[test]
fn local_hears_signals_before_it_starts_anything() {
    let place = Place::new(HELLO);
    let mut local = place.start("local", &[]);
    eventually("the data directory is there", || place.top.join("d").exists().then_some(()));
    assert!(catches(local.id(), Signal::SIGTERM));
    signal(&local, Signal::SIGTERM);
    let mut text = String::new();
    BufReader::new(local.stdout.take().unwrap()).read_to_string(&mut text).unwrap();
    assert_eq!(local.wait().unwrap().code(), Some(0), "{text}");
    assert!(text.contains("Stopped."), "{text}");
}

#[test]
fn a_demo_takes_away_what_killed_ones_left_and_nothing_else() {
    let place = Place::new(HELLO);
    let temporary = place.top.join("t");
    fs::create_dir(&temporary).unwrap();
    fs::create_dir_all(temporary.join("ccr-somebody-elses/orders")).unwrap();
    let mut killed = program(&["demo"]).env("TMPDIR", &temporary).spawn().unwrap();
    let mut lines = BufReader::new(killed.stderr.take().unwrap());
    read_until(&mut lines, "started");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let left = || fs::read_dir(&temporary).unwrap().count();
    assert!(left() >= 2);
    let mut alive = program(&["demo"]).env("TMPDIR", &temporary).spawn().unwrap();
    let mut lines = BufReader::new(alive.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let output = program(&["demo"]).env("TMPDIR", &temporary).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(alive.wait().unwrap().code(), Some(0), "a living demo keeps what it works on");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 1, "only what nobody here made is left");
    assert!(temporary.join("ccr-somebody-elses/orders").exists());
}
