//! The README's tables are those of the program. `UPDATE_GOLDEN=1` writes them anew.

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
    for (section, table) in [("keys", keys()), ("codes", codes())] {
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
