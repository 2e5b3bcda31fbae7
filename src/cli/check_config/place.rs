//! The directories and what the machine has left for them. Owner and permissions are checked by the load already.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{AccessFlags, access};

use super::report::Check;
use crate::claude::environment;
use crate::config::Config;
use crate::run::parallel_limit;
use crate::run::state_dir::StateDir;
use crate::sys::place::{free_space, real};

/// Write permission of group and others.
const OTHERS_WRITE: u32 = 0o022;

/// The CLI's directory below HOME.
const LOGIN_DIR: &str = ".claude";

/// Longest state directory that leaves room for the CLI's socket in a run's temporary directory, bytes.
const STATE_DIR_BYTES: usize = 40;

/// Bytes of a mebibyte.
const MIB: u64 = 1024 * 1024;

/// Free space below which a turn's files soon do not fit any more: recordings and downloads of some runs.
const DISK_LOW: u64 = 1024 * MIB;

/// Free space below which not even the inbox can be relied on.
const DISK_FULL: u64 = 64 * MIB;

/// Least memory of one turn: what the CLI takes for a short answer.
const TURN_MEMORY_LEAST: u64 = 200 * MIB;

/// Memory of one turn at work with long conversations; what its tools start comes on top.
const TURN_MEMORY: u64 = 700 * MIB;

/// Bytes of the unit in `/proc/meminfo` (proc(5)).
const MEMINFO_UNIT: u64 = 1024;

/// State directory, projects root, the CLI's directories, disk, memory.
pub fn checks(config: &Config, environment: &[(OsString, OsString)]) -> Vec<Check> {
    let runner = &config.runner;
    let mut checks = vec![state_dir(&runner.state_dir)];
    checks.push(length(&runner.state_dir));
    checks.push(projects_root(&runner.projects_root));
    checks.extend(cli_dirs(config, environment));
    checks.push(disk(free_space(&runner.state_dir)));
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    checks.push(memory(available(&meminfo), parallel_limit(config)));
    checks
}

/// The configuration says which program runs and what turns may do.
pub fn config_file(path: &Path) -> Check {
    match std::fs::metadata(path) {
        Ok(found) if found.mode() & OTHERS_WRITE == 0 => {
            Check::ok("config_file_kept", "nobody but its owner can write the configuration file")
        }
        Ok(_) => Check::warn(
            "config_file_writable_by_others",
            "group or others can write the configuration file, which says which program runs and what turns may do; take \
             their write permission away (chmod go-w)",
        ),
        Err(_) => {
            Check::warn("config_file_unknown", "the permissions of the configuration file cannot be read")
        }
    }
}

/// What of the CLI's directories is there already: the one of mode organization is made with the first run.
fn cli_dirs(config: &Config, environment: &[(OsString, OsString)]) -> Vec<Check> {
    let runner = &config.runner;
    let own = Some(StateDir::new(&runner.state_dir).organization_config());
    let own = own.filter(|own| runner.anthropic_api_key_ref.is_some() && own.exists());
    // That no home can be found is said by another check.
    let home = environment::home(environment, environment::passwd_home().as_deref()).ok();
    let login = home.filter(|_| runner.allow_personal).map(|home| home.join(LOGIN_DIR));
    let all = [("organization", own), ("personal", login)];
    all.into_iter().filter_map(|(mode, path)| Some(cli_dir(mode, &path?))).collect()
}

/// The CLI's own directory in a mode; with a read-only one it hangs or fails without a word (C4-09).
fn cli_dir(mode: &str, path: &Path) -> Check {
    let there = path.ancestors().find(|above| above.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
    let needed = AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK;
    if there.is_dir() && access(there, needed).is_ok() {
        return Check::ok("cli_dir_writable", format!("the CLI can write its directory in mode {mode}"));
    }
    Check::fail(
        "cli_dir_unwritable",
        format!(
            "this user cannot write {:?}, the CLI's directory in mode {mode}; check owner and mode, and that its file system \
             is not read-only",
            there.display().to_string()
        ),
    )
}

/// Owner and permissions of one that exists are checked by the load.
fn state_dir(path: &Path) -> Check {
    if path.is_dir() {
        return match access(path, AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK) {
            Ok(()) => Check::ok("state_dir_private", "runner.state_dir is a directory of this user alone"),
            Err(_) => Check::fail(
                "state_dir_unwritable",
                "this user cannot write runner.state_dir; check its mode (0700) and that its file system is not read-only",
            ),
        };
    }
    let above = path.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    if !above.is_dir() || access(above, AccessFlags::W_OK | AccessFlags::X_OK).is_err() {
        return Check::fail(
            "state_dir_missing",
            "runner.state_dir does not exist and this user cannot make it; create it with mode 0700 for this user, or let \
             the unit's StateDirectory do that",
        );
    }
    Check::warn(
        "state_dir_new",
        "runner.state_dir does not exist yet; the first start makes it for its own user",
    )
}

fn length(state_dir: &Path) -> Check {
    // Turns get the path without links.
    let bytes = real(state_dir).as_os_str().as_bytes().len();
    if bytes <= STATE_DIR_BYTES {
        return Check::ok("state_dir_short", "runner.state_dir leaves room for the CLI's socket");
    }
    Check::warn(
        "state_dir_long",
        format!(
            "runner.state_dir has {bytes} bytes; above {STATE_DIR_BYTES} the CLI falls back to a directory that turns share; \
             choose a shorter one"
        ),
    )
}

fn projects_root(root: &Path) -> Check {
    match access(root, AccessFlags::R_OK | AccessFlags::X_OK) {
        Ok(()) => Check::ok("projects_root_readable", "runner.projects_root can be read"),
        Err(_) => Check::fail(
            "projects_root_unreadable",
            "this user cannot read runner.projects_root; give it read and search permission",
        ),
    }
}

fn disk(free: Option<u64>) -> Check {
    let Some(free) = free else {
        return Check::warn("disk_unknown", "the free space of runner.state_dir cannot be found out");
    };
    let mib = free / MIB;
    if free < DISK_FULL {
        Check::fail(
            "disk_full",
            format!(
                "{mib} MiB are free for runner.state_dir; make room on its disk, or shorten runner.stream_log_retention"
            ),
        )
    } else if free < DISK_LOW {
        Check::warn("disk_low", format!("only {mib} MiB are free for runner.state_dir; make room soon"))
    } else {
        Check::ok("disk_free", format!("{mib} MiB are free for runner.state_dir"))
    }
}

/// `MemAvailable` of `/proc/meminfo`, bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let units: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(units.saturating_mul(MEMINFO_UNIT))
}

fn memory(available: Option<u64>, turns: usize) -> Check {
    let Some(available) = available else {
        return Check::warn("memory_unknown", "the available memory cannot be found out");
    };
    let (mib, turns) = (available / MIB, turns as u64);
    if available >= turns.saturating_mul(TURN_MEMORY) {
        return Check::ok(
            "memory_available",
            format!("{mib} MiB of memory are available for {turns} turns at once"),
        );
    }
    let fit = (available / TURN_MEMORY).max(1);
    Check::warn(
        "memory_low",
        format!(
            "{mib} MiB of memory are available for {turns} turns at once, and a turn takes {} to {} MiB and what its tools \
             take; set runner.max_parallel_runs to {fit}, or give the machine more",
            TURN_MEMORY_LEAST / MIB,
            TURN_MEMORY / MIB
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::cli::check_config::tests::example;
    use crate::sys::private::TempDir;
    use crate::sys::process::effective_uid;

    #[test]
    fn space_memory_and_length_have_their_steps() {
        let long = format!("/{}", "x".repeat(STATE_DIR_BYTES));
        let rows = [
            (disk(None), "disk_unknown"),
            (disk(Some(DISK_FULL - 1)), "disk_full"),
            (disk(Some(DISK_LOW - 1)), "disk_low"),
            (disk(Some(DISK_LOW)), "disk_free"),
            (memory(None, 2), "memory_unknown"),
            (memory(Some(2 * TURN_MEMORY - 1), 2), "memory_low"),
            (memory(Some(2 * TURN_MEMORY), 2), "memory_available"),
            (state_dir(Path::new("/proc/self/stat/state")), "state_dir_missing"),
            (state_dir(&std::env::temp_dir().join("no-such-state")), "state_dir_new"),
            (length(Path::new("/var/lib/claude-code-runner")), "state_dir_short"),
            (length(Path::new(&long)), "state_dir_long"),
            (length(Path::new(&long[..STATE_DIR_BYTES])), "state_dir_short"),
        ];
        for (check, code) in rows {
            assert_eq!(check.code, code, "{}", check.sentence);
        }
    }

    #[test]
    fn a_file_that_others_can_write_is_warned_of() {
        let top = TempDir::new().unwrap();
        let file = top.join("config.toml");
        std::fs::write(&file, "").unwrap();
        for (mode, code) in [
            (0o600, "config_file_kept"),
            (0o644, "config_file_kept"),
            (0o664, "config_file_writable_by_others"),
            (0o602, "config_file_writable_by_others"),
        ] {
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert_eq!(config_file(&file).code, code, "{mode:o}");
        }
    }

    #[test]
    fn c4_09_a_directory_that_the_cli_cannot_write_is_named() {
        let top = TempDir::new().unwrap();
        std::fs::write(top.join("file"), "").unwrap();
        std::fs::create_dir(top.join("closed")).unwrap();
        std::fs::set_permissions(top.join("closed"), Permissions::from_mode(0o500)).unwrap();
        // Root writes wherever the file system is not read-only.
        let closed = if effective_uid() == 0 { "cli_dir_writable" } else { "cli_dir_unwritable" };
        let rows = [
            (".", "cli_dir_writable"),
            ("not/yet", "cli_dir_writable"),
            ("closed", closed),
            ("closed/.claude", closed),
            ("file", "cli_dir_unwritable"),
            ("file/.claude", "cli_dir_unwritable"),
        ];
        for (name, code) in rows {
            let check = cli_dir("personal", &top.join(name));
            assert_eq!(check.code, code, "{name}");
            assert!(check.sentence.contains("personal"), "{}", check.sentence);
        }
    }

    #[test]
    fn c4_09_each_mode_has_the_directory_of_the_cli_looked_at() {
        let top = TempDir::new().unwrap();
        std::fs::write(top.join(".claude"), "").unwrap();
        let home = vec![(OsString::from("HOME"), top.path().as_os_str().to_owned())];
        let codes = |lines: &str| {
            let mut config = example(lines);
            config.runner.state_dir = top.join("s");
            cli_dirs(&config, &home).iter().map(|check| check.code).collect::<Vec<_>>()
        };
        assert_eq!(codes("allow_personal = true\n"), ["cli_dir_unwritable"]);
        let key = "anthropic_api_key_ref = \"env:K\"\n";
        assert_eq!(codes(key), [""; 0], "the runner makes it");
        std::fs::create_dir_all(top.join("s/claude-config")).unwrap();
        std::fs::write(top.join("s/claude-config/organization"), "").unwrap();
        assert_eq!(codes(key), ["cli_dir_unwritable"]);
    }

    /// The runner works with the path without links.
    #[test]
    fn a_short_link_to_a_long_state_directory_is_long() {
        let top = TempDir::new().unwrap();
        let long = top.join("x".repeat(STATE_DIR_BYTES));
        std::fs::create_dir(&long).unwrap();
        let link = std::env::temp_dir().join(format!("l{}", std::process::id()));
        std::os::unix::fs::symlink(&long, &link).unwrap();
        let found = length(&link).code;
        std::fs::remove_file(&link).unwrap();
        assert_eq!(found, "state_dir_long");
    }

    #[test]
    fn meminfo_is_read_as_proc_writes_it() {
        let text = "MemTotal:       16000000 kB\nMemFree:          100 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(available(text), Some(2 * MIB));
        assert_eq!(available("MemTotal: 5 kB"), None);
        assert_eq!(available("MemAvailable: many kB"), None);
    }
}
