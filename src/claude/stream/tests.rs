use std::io::{self, Read};

use proptest::prelude::*;

use super::*;

const LIMIT: u64 = 64 * 1024 * 1024;

/// What a line gave, owned.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Record(String, Option<String>, u64),
    TooLong,
}

fn seen(line: Line<'_>) -> Seen {
    match line {
        Line::Record(record) => {
            Seen::Record(String::from_utf8_lossy(record.json).into_owned(), record.text, record.offset)
        }
        Line::TooLong => Seen::TooLong,
    }
}

/// A file that gives at most the named numbers of bytes at a time.
struct Pieces<'a> {
    rest: &'a [u8],
    sizes: std::iter::Cycle<std::vec::IntoIter<usize>>,
}

impl<'a> Pieces<'a> {
    fn new(rest: &'a [u8], sizes: Vec<usize>) -> Self {
        Pieces { rest, sizes: sizes.into_iter().cycle() }
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes.next().unwrap_or(1).clamp(1, buffer.len());
        let size = size.min(self.rest.len());
        buffer[..size].copy_from_slice(&self.rest[..size]);
        self.rest = &self.rest[size..];
        Ok(size)
    }
}

fn read_all(bytes: &[u8], sizes: Vec<usize>, limit: u64, squeeze_from: usize) -> Vec<Seen> {
    let mut file = Pieces::new(bytes, sizes);
    let mut reader = LineReader::new(limit);
    reader.squeeze_from = squeeze_from;
    let mut out = Vec::new();
    loop {
        let more = reader.fill(&mut file).unwrap();
        while let Some(line) = reader.next_line() {
            out.push(seen(line));
        }
        if more == 0 {
            break;
        }
    }
    reader.finish(|line| out.push(seen(line)));
    out
}

#[test]
fn only_lf_ends_a_record_and_the_rest_waits() {
    let text = "{\"a\":1}\r\n\n\"x\u{2028}y\u{2029}z\u{85}\u{b}\"\n{\"half\":";
    for sizes in [vec![1], vec![3], vec![4096]] {
        let mut reader = LineReader::new(LIMIT);
        let mut file = Pieces::new(text.as_bytes(), sizes);
        let mut got = Vec::new();
        while reader.fill(&mut file).unwrap() > 0 {
            while let Some(line) = reader.next_line() {
                got.push(seen(line));
            }
        }
        let rows = ["{\"a\":1}\r", "", "\"x\u{2028}y\u{2029}z\u{85}\u{b}\""];
        let got: Vec<_> =
            got.iter().map(|one| if let Seen::Record(text, ..) = one { text } else { "" }).collect();
        assert_eq!(got, rows);
        assert_eq!(reader.offset(), text.find("{\"half").unwrap() as u64);
    }
}

#[test]
fn a_growing_file_is_followed() {
    let mut reader = LineReader::at(LIMIT, 100);
    let steps: [(&[u8], &[&str]); 4] = [
        (b"{\"a", &[]),
        (b"", &[]),
        (b"\":1}\n{\"b\":2}\n{", &["{\"a\":1}", "{\"b\":2}"]),
        (b"}\n", &["{}"]),
    ];
    for (mut bytes, expected) in steps {
        reader.fill(&mut bytes).unwrap();
        let mut got = Vec::new();
        while let Some(Line::Record(record)) = reader.next_line() {
            got.push(String::from_utf8(record.json.to_vec()).unwrap());
        }
        assert_eq!(got, expected);
    }
    assert_eq!(reader.offset(), 100 + 8 + 8 + 3);
}

#[test]
fn a_line_beyond_the_limit_is_reported_once_and_left_behind() {
    let long = "y".repeat(100);
    let text = format!("ab\n{long}\ncd\n{long}");
    for sizes in [vec![1], vec![7], vec![4096]] {
        let got = read_all(text.as_bytes(), sizes, 10, 1000);
        let expected = [
            Seen::Record("ab".into(), None, 0),
            Seen::TooLong,
            Seen::Record("cd".into(), None, 104),
            Seen::TooLong,
        ];
        assert_eq!(got, expected);
    }
}

#[test]
fn a_long_line_keeps_its_ids_and_its_text() {
    let bulk = "QUJD\\n".repeat(20_000);
    let rows = [
        (
            "tool result, printed twice",
            format!(
                r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{{"type":"text","text":"{bulk}"}}]}}]}},"tool_use_result":{{"stdout":"{bulk}","lines":["{bulk}"]}},"parent_tool_use_id":"p"}}"#
            ),
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":null}]},"tool_use_result":null,"parent_tool_use_id":"p"}"#.to_owned(),
            None,
        ),
        (
            "echo of the prompt",
            format!(r#"{{"type":"user","message":{{"content":[{{"text":"{}"}}]}},"uuid":"u"}}"#, "z".repeat(90_000)),
            format!(r#"{{"type":"user","message":{{"content":[{{"text":"{}"}}]}},"uuid":"u"}}"#, "z".repeat(16_384)),
            None,
        ),
        (
            "answer",
            format!(r#"{{"subtype":"success","result":"{bulk}","is_error":false,"type":"result"}}"#),
            r#"{"subtype":"success","result":"","is_error":false,"type":"result"}"#.to_owned(),
            Some("QUJD\n".repeat(20_000)),
        ),
        (
            "assistant",
            format!(
                r#"{{"type":"assistant","message":{{"id":"m","content":[{{"type":"text","text":"{bulk}"}},{{"type":"text","text":" end\ud83d\u00e9"}}]}}}}"#
            ),
            r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":""},{"type":"text","text":""}]}}"#
                .to_owned(),
            Some("QUJD\n".repeat(20_000) + " end\u{fffd}\u{e9}"),
        ),
    ];
    for (name, line, short, text) in rows {
        for sizes in [vec![1], vec![5, 1, 3], vec![100_000]] {
            let got = read_all((line.clone() + "\n").as_bytes(), sizes, LIMIT, 10_000);
            assert_eq!(got, [Seen::Record(short.clone(), text.clone(), 0)], "{name}");
        }
    }
}

#[test]
fn a_cut_string_stays_json() {
    for unit in ["\\u00e9", "\\\\", "\\\"", "\u{e9}", "\u{1f600}", "\\ud83d\\ude00", "a\\n"] {
        for shift in 0..13 {
            let line = format!(r#"{{"x":"{}{}"}}"#, "k".repeat(shift), unit.repeat(9000));
            let got = read_all((line + "\n").as_bytes(), vec![100_000], LIMIT, 100);
            let Seen::Record(json, ..) = &got[0] else { panic!("{unit}") };
            let value: serde_json::Value = serde_json::from_str(&clean(json.as_bytes())).unwrap();
            assert!(json.len() < 16_500, "{unit} {}", json.len());
            let broken = value["x"].as_str().unwrap().matches('\u{fffd}').count();
            assert!(
                broken <= usize::from(unit.contains("ud83d")),
                "{unit}: only a pair of escapes can be cut"
            );
        }
    }
}

#[test]
fn clean_replaces_what_cannot_be_a_character() {
    let rows: [(&[u8], &str); 8] = [
        (br#""a\ud83d b""#, r#""a\ufffd b""#),
        (br#""\ude00""#, r#""\ufffd""#),
        (br#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
        (br#""\\ud83d""#, r#""\\ud83d""#),
        (br#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
        (b"\"\xff\xfe\"", "\"\u{fffd}\u{fffd}\""),
        (b"\\u12", "\\u12"),
        (b"\\", "\\"),
    ];
    for (input, expected) in rows {
        assert_eq!(clean(input), expected);
    }
}

#[test]
fn c1_01_a_long_tool_result_in_small_pieces_is_read_whole() {
    let picture = "iVBORw0KGgo".repeat(150_000);
    let long = format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t1","content":[{{"type":"image","source":{{"data":"{picture}"}}}}]}}]}},"tool_use_result":{{"file":{{"base64":"{picture}"}}}}}}"#
    );
    assert!(long.len() > 3 * 1024 * 1024);
    let text = format!("{long}\n{{\"type\":\"assistant\"}}\n{{\"type\":\"result\"}}\n");
    let mut reader = LineReader::new(LIMIT);
    let mut file = Pieces::new(text.as_bytes(), vec![4096]);
    let mut got = Vec::new();
    while reader.fill(&mut file).unwrap() > 0 {
        while let Some(line) = reader.next_line() {
            got.push(seen(line));
        }
        assert!(reader.partial.capacity() <= 2 * SQUEEZE_FROM, "the long line is not held");
    }
    assert_eq!(got.len(), 3);
    assert!(reader.partial.capacity() <= KEEP, "the buffer is given back");
}

fn stream_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\"".to_vec()),
        Just(b"\\".to_vec()),
        Just(br#"{"type":"assistant","message":{"content":[{"type":"text","text":"#.to_vec()),
        Just(br#""result":"a\ud83d\n","type":"result","#.to_vec()),
        Just(br#""tool_use_result":{"a":[{"b":"c"}]}"#.to_vec()),
        Just(b"]}{[,:".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_records(
        bytes in stream_bytes(),
        sizes in proptest::collection::vec(1usize..40, 1..6),
        limit in 1u64..200,
        squeeze_from in 0usize..60,
    ) {
        let whole = read_all(&bytes, vec![1 << 20], limit, squeeze_from);
        let split = read_all(&bytes, sizes, limit, squeeze_from);
        prop_assert_eq!(whole, split);
    }

    #[test]
    fn without_limits_the_lines_come_back_unchanged(bytes in stream_bytes(), size in 1usize..40) {
        let got = read_all(&bytes, vec![size], LIMIT, usize::MAX);
        let got: Vec<String> =
            got.into_iter().map(|one| if let Seen::Record(text, ..) = one { text } else { String::new() }).collect();
        let mut lines: Vec<String> =
            bytes.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        if bytes.is_empty() || bytes.ends_with(b"\n") {
            lines.pop();
        }
        prop_assert_eq!(got, lines);
    }

    #[test]
    fn a_squeezed_text_is_the_text(text in any::<String>(), size in 1usize..40) {
        let line = serde_json::json!({"type": "result", "result": text, "is_error": false}).to_string() + "\n";
        let got = read_all(line.as_bytes(), vec![size], LIMIT, 0);
        let Seen::Record(_, Some(back), _) = &got[0] else { panic!("a record with text") };
        prop_assert_eq!(back, &text);
    }
}
