//! Tests of `ATTACH:` lines: the rows of the rules, the given cases, and a Markdown parser as the judge of fences.

use proptest::prelude::*;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::*;

fn check(what: &str, answer: &str, text: &str, paths: &[&str]) {
    let split = split(answer);
    assert_eq!(split.text, text, "{what}: text");
    assert_eq!(split.paths, paths, "{what}: paths");
}

#[test]
fn split_attach_lines() {
    let rows: &[(&str, &str, &str, &[&str])] = &[
        ("one line", "Done.\nATTACH: report.md\n", "Done.", &["report.md"]),
        ("no line at all", "Done.\n\n", "Done.\n\n", &[]),
        ("only a line", "ATTACH: a", "", &["a"]),
        ("a tab", "ATTACH:\ta", "", &["a"]),
        ("spaces around the path", "ATTACH:  \t a b \t \n", "", &["a b"]),
        ("indented", " ATTACH: a\n", " ATTACH: a\n", &[]),
        ("other case", "attach: a\nAttach: a\n", "attach: a\nAttach: a\n", &[]),
        ("no space", "ATTACH:report.md", "ATTACH:report.md", &[]),
        ("nothing behind the colon", "ATTACH:\n", "ATTACH:\n", &[]),
        ("no path", "x\nATTACH: \n", "x", &[""]),
        ("the order of the lines", "ATTACH: b\nt\nATTACH: a\n", "t", &["b", "a"]),
        ("blank lines at the end", "t\n\n \t\n\nATTACH: a\n\n\n", "t", &["a"]),
        ("blank lines before text stay", "\n\nATTACH: a\n\nt\n", "\n\n\nt\n", &["a"]),
        ("spaces of the last line stay", "t  \nATTACH: a", "t  ", &["a"]),
        ("backticks", "```\nATTACH: a\n```\nATTACH: b", "```\nATTACH: a\n```", &["b"]),
        ("four close four", "````\n```\nATTACH: a\n````\nATTACH: b", "````\n```\nATTACH: a\n````", &["b"]),
        ("five close four", "````\nATTACH: a\n`````\nATTACH: b", "````\nATTACH: a\n`````", &["b"]),
        ("tildes", "~~~ a`b ~\nATTACH: a\n~~~\nATTACH: b", "~~~ a`b ~\nATTACH: a\n~~~", &["b"]),
        ("not closed", "t\n```\nATTACH: a\n", "t\n```\nATTACH: a\n", &[]),
        (
            "three spaces of indent",
            "   ```\nATTACH: a\n  ```  \nATTACH: b",
            "   ```\nATTACH: a\n  ```  ",
            &["b"],
        ),
        ("four spaces of indent", "x\n    ```\nATTACH: b", "x\n    ```", &["b"]),
        ("a tab of indent", "\t```\nATTACH: b", "\t```", &["b"]),
        ("a tab behind the closing fence", "```\n```\t\nATTACH: b", "```\n```\t", &["b"]),
        ("two backticks", "``\nATTACH: b", "``", &["b"]),
        ("a backtick in the info string", "``` a`b\nATTACH: b", "``` a`b", &["b"]),
        ("inline code", "```x```\nATTACH: b", "```x```", &["b"]),
        ("text behind a closing fence", "```\n``` x\nATTACH: a\n", "```\n``` x\nATTACH: a\n", &[]),
        ("a deep closing fence", "```\n    ```\nATTACH: a\n", "```\n    ```\nATTACH: a\n", &[]),
        ("after the title is gone", "\nText.\nATTACH: a\n", "\nText.", &["a"]),
        ("the line breaks of windows", "a\r\nATTACH: b\r\nc\r\n", "a\r\nc\r\n", &["b"]),
        (
            "a fence with windows line breaks",
            "```\r\nATTACH: a\r\n```\r\nATTACH: b\r\n",
            "```\r\nATTACH: a\r\n```",
            &["b"],
        ),
    ];
    for (what, answer, text, paths) in rows {
        check(what, answer, text, paths);
    }
}

#[test]
fn c1_03_only_a_line_feed_ends_a_line() {
    let answer = "first\u{2028}second\u{2029}third\u{85}fourth\u{b}fifth\nATTACH: ROOT/out/a.txt\u{2028}ATTACH: ROOT/out/b.txt";
    let text = "first\u{2028}second\u{2029}third\u{85}fourth\u{b}fifth";
    check("C1-03", answer, text, &["ROOT/out/a.txt\u{2028}ATTACH: ROOT/out/b.txt"]);
}

#[test]
fn c10_01_a_fence_is_closed_by_its_own_character() {
    let answer = "~~~markdown\n```\nATTACH: ROOT/out/A.txt\n```\nATTACH: ROOT/out/A.txt\n~~~\nATTACH: ROOT/out/B.txt\n";
    let text = "~~~markdown\n```\nATTACH: ROOT/out/A.txt\n```\nATTACH: ROOT/out/A.txt\n~~~";
    check("C10-01", answer, text, &["ROOT/out/B.txt"]);
}

#[test]
fn c10_03_a_fence_with_a_word_closes_nothing() {
    let answer = "```text\nsome\n```yaml\nATTACH: ROOT/out/A.txt\n```\nATTACH: ROOT/out/B.txt\n";
    check("C10-03", answer, "```text\nsome\n```yaml\nATTACH: ROOT/out/A.txt\n```", &["ROOT/out/B.txt"]);
}

/// The block is text and so visible in the thread as it was written (D-M3-12-1).
#[test]
fn c10_05_an_open_block_runs_to_the_end() {
    let answer = "Here it is:\n\n```\nATTACH: ROOT/out/A.txt\n";
    check("C10-05", answer, answer, &[]);
}

/// A quoted line does not start at column 0, and a fence in a quote is none (D-M3-12-1).
#[test]
fn c10_07_quotes_announce_nothing_and_open_nothing() {
    let answer = "> You wrote:\n> ATTACH: ROOT/out/A.txt\n> ```\n> old code\nATTACH: ROOT/out/B.txt\n\n> more quoted text\nATTACH: ROOT/out/C.txt\n";
    let text = "> You wrote:\n> ATTACH: ROOT/out/A.txt\n> ```\n> old code\n\n> more quoted text";
    check("C10-07", answer, text, &["ROOT/out/B.txt", "ROOT/out/C.txt"]);
}

/// The carriage return inside the third path stays in it; `candidate` refuses such a path.
#[test]
fn c10_09_carriage_returns() {
    let answer = "Done.\r\nATTACH: ROOT/out/A.txt\r\nATTACH: ROOT/out/B.txt\r\nATTACH: ROOT/out/c\rd.txt\r\n";
    check("C10-09", answer, "Done.", &["ROOT/out/A.txt", "ROOT/out/B.txt", "ROOT/out/c\rd.txt"]);
}

#[test]
fn c10_11_the_rest_of_the_line_is_the_path() {
    let answer = "ATTACH: ROOT/out/my report 2026.pdf\nATTACH: \"ROOT/out/my report 2.pdf\"\nATTACH: `ROOT/out/c.pdf`\nATTACH: ROOT/out/d.pdf.\nATTACH:   ROOT/out/e.pdf   \nATTACH: [f](ROOT/out/f.pdf)\nATTACH: ROOT/out/h%20i.pdf\n";
    let paths = [
        "ROOT/out/my report 2026.pdf",
        "\"ROOT/out/my report 2.pdf\"",
        "`ROOT/out/c.pdf`",
        "ROOT/out/d.pdf.",
        "ROOT/out/e.pdf",
        "[f](ROOT/out/f.pdf)",
        "ROOT/out/h%20i.pdf",
    ];
    check("C10-11", answer, "", &paths);
}

#[test]
fn c10_13_every_other_byte_stays() {
    let answer = "Line one.  \nATTACH: ROOT/out/A.txt\nLine two.\n\n```go\n\tif x {\n\n\t\ty()\n\t}\n```\nATTACH: ROOT/out/B.txt\n\n\nEnd.\n";
    let text = "Line one.  \nLine two.\n\n```go\n\tif x {\n\n\t\ty()\n\t}\n```\n\n\nEnd.\n";
    check("C10-13", answer, text, &["ROOT/out/A.txt", "ROOT/out/B.txt"]);
    let windows = answer.replace('\n', "\r\n");
    check("C10-13 CRLF", &windows, &text.replace('\n', "\r\n"), &["ROOT/out/A.txt", "ROOT/out/B.txt"]);
}

#[test]
fn c10_15_an_excerpt_never_shows_a_half_line() {
    let rows = [
        ("Done.\nAT", "Done."),
        ("Done.\nATTACH:", "Done."),
        ("Done.\nATTACH: RO", "Done."),
        ("Done.\nATTACH: ROOT/out/a.pdf", "Done."),
        ("Done.\nATTACH: ROOT/out/a.pdf\nMore", "Done.\nMore"),
        ("Done.\nATTIC", "Done.\nATTIC"),
        ("```\nATTACH: x", "```\nATTACH: x"),
        ("```\nATT", "```\nATT"),
        ("A\nB", "A\nB"),
        ("", ""),
    ];
    for (text, expected) in rows {
        assert_eq!(excerpt(text), expected, "{text:?}");
    }
    let whole = "Done.\nATTACH: ROOT/out/a.pdf";
    for end in 0..=whole.len() {
        let shown = excerpt(&whole[..end]);
        assert!("Done.".starts_with(&shown), "{shown:?}");
    }
}

/// Which of the numbered marker lines of `text` a CommonMark parser sees inside a fenced block.
fn fenced_by_the_parser(text: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => inside = true,
            Event::End(TagEnd::CodeBlock) => inside = false,
            Event::Text(block) if inside => {
                found.extend(block.lines().filter(|line| line.starts_with("ATTACH: ")).map(str::to_owned));
            }
            _ => {}
        }
    }
    found
}

/// Lines that open, close or only look like fences; no list and no HTML, whose blocks the rule does not know,
/// and no tab behind a closing fence, which CommonMark takes and this parser does not.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("ATTACH: ".to_owned()),
        1 => Just(String::new()),
        1 => Just("text".to_owned()),
        4 => (0usize..5, "[`~]", 1usize..6, prop::sample::select(vec!["", "  ", "x", " a`b", "~", " y"]))
            .prop_map(|(indent, mark, length, rest)| " ".repeat(indent) + &mark.repeat(length) + rest),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn fences_are_those_of_a_markdown_parser(lines in prop::collection::vec(line(), 0..14), windows: bool) {
        let numbered = lines.iter().enumerate().map(|(number, line)| match line.as_str() {
            "ATTACH: " => format!("ATTACH: {number}"),
            other => other.to_owned(),
        });
        let end = if windows { "\r\n" } else { "\n" };
        let text = numbered.collect::<Vec<_>>().join(end) + end;
        let left: Vec<String> =
            split(&text).text.lines().filter(|line| line.starts_with("ATTACH: ")).map(str::to_owned).collect();
        prop_assert_eq!(left, fenced_by_the_parser(&text));
    }

    #[test]
    fn splitting_twice_changes_nothing(text in "(ATTACH: |```|~~~|[a-c \r\n]){0,30}") {
        let once = split(&text);
        let again = split(&once.text);
        prop_assert_eq!(&again.text, &once.text);
        prop_assert!(again.paths.is_empty());
    }
}
