//! The real work of a scenario that needs no waiting: files, archives, sums.

use std::fs::File;
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use super::SETSID_COMMAND;

/// How deep a search for a file goes.
const FIND_DEPTH: usize = 6;

/// Writes `content`, with the directories above.
pub(super) fn write(path: &Path, content: &str) -> io::Result<()> {
    make_parent(path)?;
    std::fs::write(path, content)
}

/// Copies a file, with the directories above.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    make_parent(to)?;
    std::fs::copy(from, to).map(drop)
}

/// The first file of this name (a star and an ending match any) below `directory`, in the order of the names.
pub(super) fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    find_within(directory, name, FIND_DEPTH)
}

fn find_within(directory: &Path, name: &str, depth: usize) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(directory).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    let found = entries.iter().find(|path| path.is_file() && matches(path, name)).cloned();
    let deeper =
        || entries.iter().filter(|path| path.is_dir()).find_map(|path| find_within(path, name, depth - 1));
    if depth == 0 { found } else { found.or_else(deeper) }
}

fn matches(path: &Path, name: &str) -> bool {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix('*').map_or(file == name, |ending| file.ends_with(ending))
}

/// Unpacks an archive below `to`; entries that would leave it are refused.
pub(super) fn unzip(from: &Path, to: &Path) -> io::Result<()> {
    let mut archive = ZipArchive::new(File::open(from)?).map_err(Error::other)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(Error::other)?;
        let name = entry.enclosed_name().ok_or_else(|| Error::other("an entry leaves the directory"))?;
        let target = to.join(name);
        if entry.is_dir() {
            std::fs::create_dir_all(&target)?;
        } else {
            make_parent(&target)?;
            io::copy(&mut entry, &mut File::create(&target)?)?;
        }
    }
    Ok(())
}

/// Packs `files` under their names.
pub(super) fn zip(to: &Path, files: &[PathBuf]) -> io::Result<()> {
    make_parent(to)?;
    let mut archive = ZipWriter::new(File::create(to)?);
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        archive.start_file(name, SimpleFileOptions::default()).map_err(Error::other)?;
        io::copy(&mut File::open(file)?, &mut archive)?;
    }
    archive.finish().map(drop).map_err(Error::other)
}

/// The number of rows, then the sum of the first column whose heading holds each word.
pub(super) fn sum_csv(text: &str, words: &[String]) -> io::Result<(usize, Vec<f64>)> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let heading: Vec<String> = lines.next().unwrap_or_default().split(',').map(str::to_lowercase).collect();
    let position = |word: &String| heading.iter().position(|name| name.contains(&word.to_lowercase()));
    let columns: Option<Vec<usize>> = words.iter().map(position).collect();
    let columns = columns.ok_or_else(|| Error::other("a column is missing"))?;
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').map(str::trim).collect()).collect();
    let number = |row: &Vec<&str>, column: usize| {
        row.get(column).and_then(|cell| cell.parse::<f64>().ok()).unwrap_or(0.0)
    };
    let sums = columns.iter().map(|column| rows.iter().map(|row| number(row, *column)).sum()).collect();
    Ok((rows.len(), sums))
}

/// A shell in a session of its own. `helper` is this program, which makes the session; without it (inside a test)
/// the shell only gets a group of its own.
pub(super) fn shell(helper: Option<&Path>, script: &str, cwd: &Path) -> Command {
    let mut command = match helper {
        Some(program) => {
            let mut command = Command::new(program);
            command.args([SETSID_COMMAND, "/bin/sh"]);
            command
        }
        None => {
            let mut command = Command::new("/bin/sh");
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            command
        }
    };
    command.arg("-c").arg(script).current_dir(cwd).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// The script of a process that nothing but SIGKILL ends: it touches `file` every second.
pub(super) fn stubborn_script(file: &Path) -> String {
    let quoted = file.to_string_lossy().replace('\'', "'\\''");
    format!("trap '' INT TERM HUP; while :; do touch '{quoted}'; sleep 1; done")
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_round_trip_and_sums() {
        let dir = std::env::temp_dir().join(format!("steps-{}", uuid::Uuid::new_v4()));
        let csv = dir.join("in/orders.csv");
        write(&csv, "item,Quantity,Total EUR\npen, 2,10\nbook,4,38.5\nlamp,1,11.5\n").unwrap();
        zip(&dir.join("deep/er/orders.zip"), std::slice::from_ref(&csv)).unwrap();
        let archive = find(&dir, "orders.zip").unwrap();
        unzip(&archive, &dir.join("out")).unwrap();
        let text = std::fs::read_to_string(find(&dir.join("out"), "*.csv").unwrap()).unwrap();
        assert_eq!(sum_csv(&text, &["quantity".into(), "total".into()]).unwrap(), (3, vec![7.0, 60.0]));
        assert!(sum_csv(&text, &["price".into()]).is_err());
        assert_eq!(find(&dir, "missing"), None);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
