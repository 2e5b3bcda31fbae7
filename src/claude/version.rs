//! Which version of the CLI is installed, and whether turns may run with it.
//!
//! It must not know what the heartbeat says; it gives a verdict and its stable code (M2-34 note 15, R-26).

use std::ffi::OsString;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::sys::process::{Exit, run_probe};

/// The version the recordings and the table of fields were made with.
pub const PINNED_CLAUDE_CODE_VERSION: &str = "2.1.332";

/// The first version with `--permission-prompts`; turns do not run with an older one.
pub const MIN_CLAUDE_CODE_VERSION: &str = "2.1.259";

/// A version of three numbers, compared number by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// What the installed version means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pinned version.
    Pinned,
    /// Another one that is new enough; turns run, the owner is warned.
    Untested,
    /// Too old, or the answer cannot be read; no turn runs.
    Unsupported,
    /// The program is missing, failed or gave no answer in time; no turn runs.
    Unreachable,
}

impl Verdict {
    /// The reason in the heartbeat's `degraded_reasons`, none when all is well.
    pub fn degraded_reason(self) -> Option<&'static str> {
        match self {
            Verdict::Pinned => None,
            Verdict::Untested => Some("runtime_version_untested"),
            Verdict::Unsupported => Some("runtime_version_unsupported"),
            Verdict::Unreachable => Some("runtime_unreachable"),
        }
    }

    /// Whether turns may run.
    pub fn allows_turns(self) -> bool {
        matches!(self, Verdict::Pinned | Verdict::Untested)
    }
}

/// The outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// What it means.
    pub verdict: Verdict,
    /// The version, when the answer could be read.
    pub version: Option<Version>,
}

/// Reads `2.1.332 (Claude Code)`, the answer of `--version`.
pub fn parse(stdout: &[u8]) -> Option<Version> {
    let text = std::str::from_utf8(stdout).ok()?;
    let (number, product) = text.trim().split_once(' ')?;
    if product != "(Claude Code)" {
        return None;
    }
    parse_number(number)
}

fn parse_number(text: &str) -> Option<Version> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    let version = Version(parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() { None } else { Some(version) }
}

/// The verdict on the answer of `--version`; no answer is `Unreachable`.
pub fn verdict(stdout: Option<&[u8]>) -> Probed {
    let Some(stdout) = stdout else { return Probed { verdict: Verdict::Unreachable, version: None } };
    let version = parse(stdout);
    let verdict = match version {
        None => Verdict::Unsupported,
        Some(found) if Some(found) == parse_number(PINNED_CLAUDE_CODE_VERSION) => Verdict::Pinned,
        Some(found) if Some(found) < parse_number(MIN_CLAUDE_CODE_VERSION) => Verdict::Unsupported,
        Some(_) => Verdict::Untested,
    };
    Probed { verdict, version }
}

/// The arguments of the probe.
pub fn args() -> Vec<OsString> {
    vec!["--version".into()]
}

/// Device, inode and change time of the program file.
type FileMark = (u64, u64, i64, i64);

/// Asks for the version only when the program file changed since the last answer.
#[derive(Debug, Default)]
pub struct VersionProbe {
    known: Option<(FileMark, Probed)>,
}

impl VersionProbe {
    /// Whether the last answer is still that of `program`'s file.
    pub fn knows(&self, program: &Path) -> bool {
        mark(program).is_some_and(|now| self.known.is_some_and(|(known, _)| known == now))
    }

    /// The verdict on `program`. `run` gets the arguments and gives stdout, or nothing when the program did not
    /// start, exited non-zero or passed `runner.cli_probe_timeout`; it is not called while inode and change time
    /// are the known ones. An unreachable program is asked again the next time.
    pub fn check(&mut self, program: &Path, run: impl FnOnce(Vec<OsString>) -> Option<Vec<u8>>) -> Probed {
        let Some(mark) = mark(program) else {
            self.known = None;
            return verdict(None);
        };
        if let Some((known, probed)) = self.known
            && known == mark
        {
            return probed;
        }
        let probed = verdict(run(args()).as_deref());
        self.known = (probed.verdict != Verdict::Unreachable).then_some((mark, probed));
        probed
    }
}

/// Runs `program --version` for [`VersionProbe::check`]: its stdout when it ended with 0 within `limit`.
pub fn ask_program(
    program: &Path,
    args: &[OsString],
    env: &[(OsString, OsString)],
    cwd: &Path,
    limit: Duration,
) -> Option<Vec<u8>> {
    let output = run_probe(program, args, env, cwd, limit).ok()?;
    (output.exit == Some(Exit::Code(0))).then_some(output.stdout)
}

fn mark(program: &Path) -> Option<FileMark> {
    let meta = std::fs::metadata(program).ok()?;
    Some((meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_table() {
        let rows: &[(&str, Option<&str>, Verdict, Option<Version>)] = &[
            ("pinned", Some("2.1.332 (Claude Code)\n"), Verdict::Pinned, Some(Version(2, 1, 332))),
            ("minimum", Some("2.1.259 (Claude Code)\n"), Verdict::Untested, Some(Version(2, 1, 259))),
            ("newer", Some("2.10.0 (Claude Code)"), Verdict::Untested, Some(Version(2, 10, 0))),
            ("older", Some("2.1.258 (Claude Code)\n"), Verdict::Unsupported, Some(Version(2, 1, 258))),
            (
                "much older, bigger last number",
                Some("1.9.999 (Claude Code)"),
                Verdict::Unsupported,
                Some(Version(1, 9, 999)),
            ),
            ("two numbers", Some("2.1 (Claude Code)"), Verdict::Unsupported, None),
            ("four numbers", Some("2.1.332.1 (Claude Code)"), Verdict::Unsupported, None),
            ("other program", Some("2.1.332 (Other)"), Verdict::Unsupported, None),
            ("number only", Some("2.1.332"), Verdict::Unsupported, None),
            ("too big", Some("2.1.99999999999 (Claude Code)"), Verdict::Unsupported, None),
            ("empty", Some(""), Verdict::Unsupported, None),
            ("no answer", None, Verdict::Unreachable, None),
        ];
        for (name, stdout, expected, version) in rows {
            let probed = verdict(stdout.map(str::as_bytes));
            assert_eq!(probed, Probed { verdict: *expected, version: *version }, "{name}");
        }
    }

    #[test]
    fn constants_are_versions_in_order() {
        let (pin, min) = (
            parse_number(PINNED_CLAUDE_CODE_VERSION).unwrap(),
            parse_number(MIN_CLAUDE_CODE_VERSION).unwrap(),
        );
        assert!(min <= pin);
        assert_eq!(pin.to_string(), PINNED_CLAUDE_CODE_VERSION);
    }

    #[test]
    fn codes_and_turns() {
        let rows = [
            (Verdict::Pinned, None, true),
            (Verdict::Untested, Some("runtime_version_untested"), true),
            (Verdict::Unsupported, Some("runtime_version_unsupported"), false),
            (Verdict::Unreachable, Some("runtime_unreachable"), false),
        ];
        for (verdict, reason, turns) in rows {
            assert_eq!((verdict.degraded_reason(), verdict.allows_turns()), (reason, turns));
        }
    }

    #[test]
    fn ask_program_needs_a_clean_end() {
        let shell = |script: &str| {
            let args = ["-c".into(), script.into()];
            ask_program(Path::new("/bin/sh"), &args, &[], Path::new("/"), Duration::from_secs(30))
        };
        assert_eq!(
            shell("echo '2.1.332 (Claude Code)'").as_deref().and_then(parse),
            Some(Version(2, 1, 332))
        );
        assert_eq!(shell("echo '2.1.332 (Claude Code)'; exit 1"), None);
        let missing = ask_program(
            Path::new("/nonexistent/claude"),
            &args(),
            &[],
            Path::new("/"),
            Duration::from_secs(30),
        );
        assert_eq!(missing, None);
    }

    #[test]
    fn probed_again_only_when_the_file_changed() {
        let program = std::env::temp_dir().join(format!("version-{}", uuid::Uuid::new_v4()));
        let mut probe = VersionProbe::default();
        let answer = |text: &str| Some(format!("{text} (Claude Code)\n").into_bytes());
        let silent = |_| unreachable!("the program file did not change");

        assert_eq!(probe.check(&program, silent).verdict, Verdict::Unreachable, "missing");
        std::fs::write(&program, "one").unwrap();
        assert_eq!(
            probe.check(&program, |_| None).verdict,
            Verdict::Unreachable,
            "no answer is not remembered"
        );
        assert_eq!(
            probe
                .check(&program, |args| (args == ["--version"]).then(|| answer("2.1.332")).flatten())
                .verdict,
            Verdict::Pinned
        );
        assert_eq!(probe.check(&program, silent).verdict, Verdict::Pinned, "remembered");

        let other = program.with_extension("new");
        std::fs::write(&other, "two").unwrap();
        std::fs::rename(&other, &program).unwrap();
        assert_eq!(probe.check(&program, |_| answer("2.1.258")).verdict, Verdict::Unsupported, "replaced");
        std::fs::remove_file(&program).unwrap();
        assert_eq!(probe.check(&program, silent).verdict, Verdict::Unreachable, "removed");
    }

    #[test]
    fn every_fixture_names_the_pinned_version() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/claude/scenarios");
        let wanted = format!("\"cli_version\": \"{PINNED_CLAUDE_CODE_VERSION}\"");
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.lines().nth(1).unwrap().contains(&wanted), "{path:?}");
        }
    }
}
