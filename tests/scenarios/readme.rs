//! The README's tables are those of the program. `UPDATE_GOLDEN=1` writes them anew.

use std::collections::BTreeSet;

use claude_code_runner::cli::log_codes;
use claude_code_runner::config::keys::KEYS;
use claude_code_runner::run::end::ROWS;
use claude_code_runner::sdk::wire::run::RunState;

use crate::support::source;

fn keys() -> String {
    let mut table = String::from("| key | default | meaning |\n|---|---|---|\n");
    for key in KEYS {
        let default = if key.required { "required".to_owned() } else { format!("`{}`", key.shown_default()) };
        table += &format!("| {} | {default} | {} |\n", key.name, key.meaning);
    }
    table
}

fn codes() -> String {
    let mut table = String::from("| code | the run ends | what it means |\n|---|---|---|\n");
    for row in ROWS {
        let ends = match row.finish {
            None => "no end is reported".to_owned(),
            Some((state, reason)) => {
                [Some(name(state)), reason].into_iter().flatten().collect::<Vec<_>>().join(" ")
            }
        };
        table += &format!("| `{}` | {ends} | {} |\n", row.code, row.help);
    }
    table
}

fn log() -> String {
    let rows = log_codes::ROWS.iter().map(|(code, meaning)| format!("| `{code}` | {meaning} |\n"));
    String::from("| code | what it means |\n|---|---|\n") + &rows.collect::<String>()
}

/// The codes of the lines that a source file logs.
fn logged(text: &str) -> BTreeSet<String> {
    let code = |rest: &str| {
        rest.chars().take_while(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || *it == '_').collect()
    };
    text.match_indices("\"code=")
        .map(|(place, mark)| code(&text[place + mark.len()..]))
        .filter(|it: &String| !it.is_empty())
        .collect()
}

/// The program's own files, without the stand-in and without tests.
fn program() -> Vec<(String, String)> {
    let files = source::rust_files(&["src"]).into_iter();
    let own = files.filter(|file| {
        !file.contains("tests") && !file.contains("fake_claude") && !file.ends_with("log_codes.rs")
    });
    let cut = |text: String| text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
    own.map(|file| (file.clone(), cut(source::read(&file)))).collect()
}

#[test]
fn every_log_code_is_explained_and_every_explained_one_is_logged() {
    let program = program();
    let ends: BTreeSet<&str> = ROWS.iter().map(|row| row.code).collect();
    let known: BTreeSet<&str> = log_codes::ROWS.iter().map(|row| row.0).collect();
    assert_eq!(known.len(), log_codes::ROWS.len(), "a code stands twice");
    let mut unknown = Vec::new();
    for (file, text) in &program {
        let codes = logged(text)
            .into_iter()
            .filter(|code| !known.contains(code.as_str()) && !ends.contains(code.as_str()));
        unknown.extend(codes.map(|code| format!("{file}: {code}")));
    }
    assert!(unknown.is_empty(), "explain them in src/cli/log_codes.rs: {unknown:?}");
    let unused: Vec<_> = known
        .iter()
        .filter(|code| {
            let (line, literal) = (format!("\"code={code}"), format!("\"{code}\""));
            !program.iter().any(|(_, text)| text.contains(&line) || text.contains(&literal))
        })
        .collect();
    assert!(unused.is_empty(), "nothing logs them: {unused:?}");
}

fn name(state: RunState) -> &'static str {
    match state {
        RunState::Completed => "completed",
        RunState::Cancelled => "cancelled",
        RunState::Interrupted => "interrupted",
        _ => "failed",
    }
}

#[test]
fn readme_tables_are_those_of_the_program() {
    let path = source::root().join("README.md");
    let old = std::fs::read_to_string(&path).unwrap();
    let mut new = old.clone();
    for (section, table) in [("keys", keys()), ("codes", codes()), ("log", log())] {
        let (begin, end) = (format!("<!-- {section} -->\n"), format!("<!-- end of {section} -->"));
        let from = new.find(&begin).unwrap() + begin.len();
        let to = new.find(&end).unwrap();
        new.replace_range(from..to, &table);
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &new).unwrap();
    } else {
        assert!(old == new, "README.md is behind the program; write it anew with UPDATE_GOLDEN=1");
    }
}
