//! Where `local` and `ask` keep everything.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::exit::Failure;
use super::project::ProjectDir;
use super::show::one_line;
use crate::sys::place;

/// Name below the platform's data directory; short, so that the CLI's socket has room below it.
const NAME: &str = "ccr";

/// The runner's state directory in a data directory; one letter for the same reason.
const STATE: &str = "s";

/// The data directory: what was given, else [`NAME`] below `$XDG_DATA_HOME` or `~/.local/share` (XDG Base
/// Directory Specification). `variable`: a look at the environment.
/// Without links: the CLI compares its rules with real paths, and SQLite refuses links.
///
/// # Errors
/// What has to be given when there is no home.
pub fn choose(given: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Failure> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let found = match given {
        Some(path) => std::path::absolute(path).ok().map(|path| place::real(&path)),
        None => absolute("XDG_DATA_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
            .map(|base| place::real(&base.join(NAME))),
    };
    let missing = || Failure::usage("HOME is not set; say with --data-dir where everything is kept");
    usable(found.ok_or_else(missing)?)
}

/// What can be known of a data directory before anything is made.
fn usable(path: PathBuf) -> Result<PathBuf, Failure> {
    let refuse = |why: &str| {
        Err(Failure::usage(format!(
            "{}: {why}; choose another --data-dir",
            one_line(&path.to_string_lossy())
        )))
    };
    if path.to_str().is_none() {
        return refuse("the path of the data directory is not UTF-8");
    }
    if path.to_string_lossy().chars().any(char::is_control) {
        return refuse("the path of the data directory holds a control character");
    }
    match path.ancestors().find(|above| above.symlink_metadata().is_ok()) {
        Some(existing) if !existing.is_dir() => refuse("this is no directory"),
        _ => Ok(path),
    }
}

/// Refuses a data directory inside a project: turns could read tokens in it, and Git would take it in.
///
/// # Errors
/// When it is inside one.
pub fn outside(data_dir: &Path, projects: &[ProjectDir]) -> Result<(), Failure> {
    match projects.iter().find(|project| data_dir.starts_with(&project.path)) {
        None => Ok(()),
        Some(_) => Err(Failure::usage("the data directory lies inside a project; choose another --data-dir")),
    }
}

/// The runner's state directory in a data directory.
pub fn state(data_dir: &Path) -> PathBuf {
    data_dir.join(STATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_inside_a_project_is_refused() {
        let project = ProjectDir { reference: "p".into(), path: PathBuf::from("/srv/p") };
        for (place, refused) in
            [("/srv/p", true), ("/srv/p/.data", true), ("/srv/pq", false), ("/srv", false)]
        {
            let found = outside(Path::new(place), std::slice::from_ref(&project));
            assert_eq!(found.is_err(), refused, "{place}");
        }
    }

    #[test]
    fn the_platform_names_the_place() {
        type Row = (
            &'static str,
            Option<&'static str>,
            &'static [(&'static str, &'static str)],
            Option<&'static str>,
        );
        let rows: &[Row] = &[
            ("given", Some("/d"), &[("HOME", "/h")], Some("/d")),
            ("platform", None, &[("XDG_DATA_HOME", "/x"), ("HOME", "/h")], Some("/x/ccr")),
            (
                "relative platform",
                None,
                &[("XDG_DATA_HOME", "x"), ("HOME", "/h")],
                Some("/h/.local/share/ccr"),
            ),
            ("home", None, &[("HOME", "/h")], Some("/h/.local/share/ccr")),
            ("relative home", None, &[("HOME", "h")], None),
            ("nothing", None, &[], None),
            ("empty", Some(""), &[("HOME", "/h")], None),
        ];
        for (name, given, variables, expected) in rows {
            let look = |wanted: &str| {
                variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| OsString::from(value))
            };
            let found = choose(given.map(Path::new), look).ok();
            assert_eq!(found.as_deref(), expected.map(Path::new), "{name}");
        }
    }
}
