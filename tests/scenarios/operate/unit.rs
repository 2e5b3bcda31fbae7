//! The units for systemd: what must stand in them, and what systemd itself says of them.

use std::process::Command;

use claude_code_runner::cli::exit;
use claude_code_runner::sys::private::TempDir;

use crate::support::source;

/// The service and the template of several services on one host.
const UNITS: &[&str] = &["claude-code-runner.service", "claude-code-runner@.service"];

fn unit(name: &str) -> String {
    source::read(&format!("scripts/{name}"))
}

fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

#[test]
fn units_keep_turns_alive_and_are_watched() {
    for name in UNITS {
        let text = unit(name);
        for (key, value) in [
            ("Type", "notify"),
            ("KillMode", "process"),
            ("Restart", "on-failure"),
            ("TimeoutStartSec", "infinity"),
            ("StateDirectoryMode", "0700"),
            ("UMask", "0077"),
            // A private /tmp would vanish with a restart, under the turns that live through it.
            ("PrivateTmp", "no"),
        ] {
            assert_eq!(values(&text, key), [value], "{name}: {key}");
        }
        let checked = values(&text, "ExecStartPre")[0];
        let run = values(&text, "ExecStart")[0];
        assert_eq!(checked.trim_start_matches('-'), run.replace(" run ", " check-config "), "{name}");
        assert!(checked.starts_with('-'), "{name}: a fault keeps nobody from following live turns");
        assert_eq!(values(&text, "WatchdogSec").len(), 1, "{name}");
        assert!(values(&text, "LoadCredential").len() >= 2, "{name}");
        let refused = format!("{} {}", exit::TOKEN_REFUSED, exit::CONFIGURATION);
        assert_eq!(values(&text, "RestartPreventExitStatus"), [refused.as_str()], "{name}");
        let place = if name.contains('@') { "claude-code-runner/%i" } else { "claude-code-runner" };
        assert_eq!(values(&text, "StateDirectory"), [place], "{name}");
    }
}

#[test]
fn systemd_understands_the_units() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("not run: there is no systemd-analyze");
        return;
    }
    let home = TempDir::new().unwrap();
    for name in UNITS {
        // The program and the account need not exist on the machine of a test.
        let text = unit(name)
            .replace("/usr/local/bin/claude-code-runner", "/bin/true")
            .replace("User=claude-runner", "User=root");
        let file = home.join(name.replace('@', "@one"));
        std::fs::write(&file, text).unwrap();
        let output =
            Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let own: Vec<_> = said.lines().filter(|line| line.contains("claude-code-runner")).collect();
        assert!(own.is_empty(), "{name}: {own:?}");
    }
}
