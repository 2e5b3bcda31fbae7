//! The account, and what it and the service manager give a turn: HOME and PATH (C2-09).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::report::Check;
use crate::claude::environment::{clean_path, passwd_home};
use crate::sys::process::effective_uid;

/// Account, HOME and PATH.
pub fn checks(environment: &[(OsString, OsString)]) -> Vec<Check> {
    let value = |wanted: &str| {
        environment.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_os_str())
    };
    vec![user(effective_uid() == 0), home(value("HOME"), passwd_home().as_deref()), path(value("PATH"))]
}

fn user(root: bool) -> Check {
    if root {
        return Check::warn(
            "runs_as_root",
            "this user is root, and turns would run as root; call this as the user of the service, and give the service a \
             user of its own",
        );
    }
    Check::ok("ordinary_user", "turns run as an ordinary user")
}

fn home(variable: Option<&OsStr>, passwd: Option<&Path>) -> Check {
    let usable = |path: &Path| path.is_absolute() && path.is_dir();
    if variable.is_some_and(|home| usable(Path::new(home))) {
        return Check::ok("home_set", "HOME names a directory");
    }
    if passwd.is_some_and(usable) {
        return Check::warn(
            "home_from_passwd",
            "HOME is missing or names no directory; turns get the home of the account's passwd entry; set HOME",
        );
    }
    Check::fail(
        "home_missing",
        "HOME is missing or names no directory, and the account has no home; set HOME",
    )
}

fn path(variable: Option<&OsStr>) -> Check {
    let Some(variable) = variable.filter(|path| !path.is_empty()) else {
        return Check::fail(
            "path_missing",
            "PATH is not set; set it, for example PATH=/usr/local/bin:/usr/bin:/bin",
        );
    };
    let kept = clean_path(Some(variable));
    let mut dropped: Vec<PathBuf> = std::env::split_paths(variable).filter(|it| !kept.contains(it)).collect();
    dropped.dedup();
    if kept.is_empty() {
        return Check::fail(
            "path_empty",
            "no directory of PATH can be trusted: each is missing, relative or writable for others; correct PATH",
        );
    }
    if dropped.is_empty() {
        return Check::ok("path_clean", "every directory of PATH can be trusted");
    }
    let names: Vec<_> = dropped.iter().map(|path| format!("{:?}", path.display().to_string())).collect();
    Check::warn(
        "path_entries_dropped",
        format!(
            "turns do not get these directories of PATH, which are missing, relative or writable for others: {}",
            names.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::private::TempDir;

    #[test]
    fn c2_09_home_and_path_have_their_steps() {
        let top = TempDir::new().unwrap();
        let dir = top.path();
        let missing = top.join("missing");
        let both = std::env::join_paths([dir, &missing]).unwrap();
        let rows = [
            (user(true), "runs_as_root"),
            (user(false), "ordinary_user"),
            (home(Some(dir.as_os_str()), None), "home_set"),
            (home(None, Some(dir)), "home_from_passwd"),
            (home(Some(missing.as_os_str()), Some(dir)), "home_from_passwd"),
            (home(Some(OsStr::new(".")), None), "home_missing"),
            (home(None, Some(&missing)), "home_missing"),
            (path(None), "path_missing"),
            (path(Some(OsStr::new(""))), "path_missing"),
            (path(Some(OsStr::new("bin:."))), "path_empty"),
            (path(Some(dir.as_os_str())), "path_clean"),
            (path(Some(&both)), "path_entries_dropped"),
        ];
        for (check, code) in rows {
            assert_eq!(check.code, code, "{}", check.sentence);
        }
    }
}
