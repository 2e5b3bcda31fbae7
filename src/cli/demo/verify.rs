//! Whether everything of the demo came out as it must: the answer's numbers, its files, the original.

use std::io::Cursor;
use std::path::Path;

use zip::ZipArchive;

use super::tracer::{ARCHIVE, QUANTITY, ROWS, TOTAL};
use crate::cli::ask::report::Reply;
use crate::run::state_dir::StateDir;

const SUMMARY: &str = "summary.csv";
const REPORT: &str = "report.txt";
const RESULT: &str = "result.zip";

/// Longest text read out of a result, bytes; the right ones have some dozens.
const TEXT_LIMIT: u64 = 64 * 1024;

/// What there is to look at.
pub struct Outcome<'a> {
    /// The reply.
    pub reply: &'a Reply,
    /// The archive that was sent.
    pub archive: &'a Path,
    /// The runner's state directory.
    pub state_dir: &'a Path,
    /// The project.
    pub project: &'a Path,
}

/// Everything that is not as it must be, one sentence each.
pub fn differences(outcome: &Outcome<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    wrong.extend(outcome.reply.why());
    wrong.extend(answer(&outcome.reply.text()));
    wrong.extend(original(outcome));
    wrong.extend(files(outcome));
    wrong
}

/// The three numbers stand in the answer.
fn answer(text: &str) -> Vec<String> {
    let missing = missing_numbers(text);
    missing.into_iter().map(|number| format!("the answer does not name {number}")).collect()
}

fn missing_numbers(text: &str) -> Vec<u64> {
    let numbers = numbers(text);
    [ROWS, QUANTITY, TOTAL].into_iter().filter(|number| !numbers.contains(number)).collect()
}

/// The whole numbers of a text.
fn numbers(text: &str) -> Vec<u64> {
    let words = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    words.filter_map(|word| word.trim_matches('.').parse::<f64>().ok()).map(|number| number as u64).collect()
}

/// The copy that the turn worked on is byte for byte what was sent.
fn original(outcome: &Outcome<'_>) -> Option<String> {
    let inbox = StateDir::new(outcome.state_dir).thread_inbox(outcome.reply.run.thread_id);
    let directories = std::fs::read_dir(inbox).into_iter().flatten().flatten();
    let copies: Vec<_> =
        directories.map(|entry| entry.path().join(ARCHIVE)).filter(|path| path.is_file()).collect();
    let sent = std::fs::read(outcome.archive).ok()?;
    match copies.as_slice() {
        [copy] if std::fs::read(copy).is_ok_and(|bytes| bytes == sent) => None,
        [_] => Some(format!("the bytes of {ARCHIVE} were changed")),
        _ => Some(format!("{ARCHIVE} lies {} times in the thread's files instead of once", copies.len())),
    }
}

/// The three files came back, each its own, and say the same numbers; the project has them too.
fn files(outcome: &Outcome<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in [SUMMARY, REPORT, RESULT] {
        let found = outcome.reply.saved.iter().filter(|file| file.name == name).count();
        if found != 1 {
            wrong.push(format!("{name} came back {found} times instead of once"));
        }
        if !outcome.project.join(name).is_file() {
            wrong.push(format!("{name} is not in the project, which may be written to"));
        }
    }
    let others = outcome.reply.saved.len();
    if wrong.is_empty() && others != 3 {
        wrong.push(format!("{others} files came back instead of 3"));
    }
    let read = |name: &str| {
        let file = outcome.reply.saved.iter().find(|file| file.name == name)?;
        std::fs::read(&file.path).ok()
    };
    if let (Some(summary), Some(report), Some(result)) = (read(SUMMARY), read(REPORT), read(RESULT)) {
        wrong.extend(contents(&summary, &report, result));
    }
    wrong
}

fn contents(summary: &[u8], report: &[u8], result: Vec<u8>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, bytes) in [(SUMMARY, summary), (REPORT, report)] {
        let missing = missing_numbers(&String::from_utf8_lossy(bytes));
        wrong.extend(missing.into_iter().map(|number| format!("{name} does not name {number}")));
    }
    for (name, expected) in [(SUMMARY, summary), (REPORT, report)] {
        if packed(&result, name).is_none_or(|bytes| bytes != expected) {
            wrong.push(format!("{RESULT} does not hold the same {name}"));
        }
    }
    wrong
}

fn packed(archive: &[u8], name: &str) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut archive = ZipArchive::new(Cursor::new(archive)).ok()?;
    let mut bytes = Vec::new();
    archive.by_name(name).ok()?.take(TEXT_LIMIT).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_words() {
        let rows: &[(&str, &[u64])] = &[
            ("3 orders: 7 pieces for 60 in all.", &[]),
            ("3 orders, 7 pieces, 60.00.", &[]),
            ("rows,quantity,total\n3,7,60\n", &[]),
            ("37 orders for 600", &[3, 7, 60]),
            ("3 orders", &[7, 60]),
            ("", &[3, 7, 60]),
        ];
        for (text, missing) in rows {
            assert_eq!(missing_numbers(text), *missing, "{text}");
        }
    }

    #[test]
    fn contents_are_compared_with_the_archive() {
        let archive = super::super::tracer::archive().unwrap();
        let good = b"3,7,60";
        let wrong = contents(good, b"3 and 7", archive);
        assert_eq!(
            wrong,
            [
                "report.txt does not name 60",
                "result.zip does not hold the same summary.csv",
                "result.zip does not hold the same report.txt",
            ]
        );
    }
}
