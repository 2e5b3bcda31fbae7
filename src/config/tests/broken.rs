//! Files that are no TOML in places, or in which something stands twice.

use super::*;

#[test]
fn broken_text_is_reported_by_line_beside_the_other_faults() {
    let text = example().replace("\nstop_grace = \"10s\"", "\nstop_grace = \"10s");
    let line = text.lines().position(|line| line.starts_with("stop_grace")).unwrap() + 1;
    let found = parse(&text, FILE).unwrap_err().0;
    assert!(
        found.iter().any(|fault| fault.line == Some(line) && fault.problem == Problem::Syntax),
        "{found:?}"
    );
    let doubled = format!("{}level = \"info\"\n", example());
    assert_eq!(faults(&doubled), [(String::new(), "duplicate_key")]);
    let both = format!("broken\n{}", with("runner.stop_grace", "\"soon\""));
    let codes: Vec<&str> = faults(&both).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, ["config_syntax", "bad_duration"]);
}

/// A table that stands twice is one fault; its keys are read as if they stood under the first one.
#[test]
fn a_table_that_stands_twice_hides_no_other_fault() {
    let text = with("runner.stop_grace", "\"soon\"").replace("\nmax_parallel_runs = 2\n", "\n");
    let text = text.replace("\nstate_dir = \"/var/lib/claude-code-runner\"\n", "\n");
    let doubled = format!("{text}[runner]\nmax_parallel_runs = 0\nflag = 1\n");
    let expected = [
        ("runner.stop_grace", "bad_duration"),
        ("", "duplicate_key"),
        ("runner.state_dir", "missing_key"),
        ("runner.max_parallel_runs", "out_of_range"),
        ("runner.flag", "unknown_key"),
    ];
    assert_eq!(faults(&doubled), expected.map(|(key, code)| (key.to_owned(), code)));
}

#[test]
fn a_broken_line_hides_only_the_key_that_stands_on_it() {
    let state_dir = "\nstate_dir = \"/var/lib/claude-code-runner\"\n";
    let rows = [
        ("stop_grace = \"10s", vec!["config_syntax", "missing_key"]),
        ("state_dir = \"/x", vec!["config_syntax"]),
        ("[runner", vec!["config_syntax"]),
    ];
    for (broken, expected) in rows {
        let text = example().replace(state_dir, &format!("\n{broken}\n"));
        let text = text.replace("\nstop_grace = \"10s\"\n", "\n");
        let mut codes: Vec<&str> = faults(&text).into_iter().map(|(_, code)| code).collect();
        codes.sort_unstable();
        assert_eq!(codes, expected, "{broken}");
    }
}
