//! Single values: from the text of one value to its type, or to what is wrong with it.
//!
//! Must not know in which key a value stands, and never looks at the file system.

use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;
use uuid::Uuid;

use super::fault::Problem;

/// Longest text value in bytes; the system's longest path is as long.
pub const TEXT_LIMIT: usize = 4096;
/// Longest name in bytes (consumer, program, model, variable).
pub const NAME_LIMIT: usize = 200;
/// Longest duration; sums of such values stay far from the ends of the clock's types.
pub const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Direction marks that make a text look like another one.
const BIDI: [char; 12] = [
    '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// Whether `text` has neither a control nor a direction character.
pub fn plain(text: &str) -> bool {
    !text.chars().any(|letter| letter.is_control() || BIDI.contains(&letter))
}

/// Whether `name` can name an environment variable.
pub fn is_variable_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let begins = name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    begins && name.len() <= NAME_LIMIT && name.bytes().all(legal)
}

/// A text of bounded length without control and direction characters; may be empty.
pub fn text<'v>(value: &'v DeValue<'_>) -> Result<&'v str, Problem> {
    let text = value.as_str().ok_or(Problem::WrongType("a string"))?;
    match text {
        _ if text.len() > TEXT_LIMIT => Err(Problem::TooLong),
        _ if !plain(text) => Err(Problem::ControlCharacter),
        _ => Ok(text),
    }
}

/// A text that is not empty.
pub fn filled<'v>(value: &'v DeValue<'_>) -> Result<&'v str, Problem> {
    Some(text(value)?).filter(|text| !text.is_empty()).ok_or(Problem::Empty)
}

/// An empty text as `None`, any other through `read`.
pub fn optional<T>(
    read: fn(&DeValue<'_>) -> Result<T, Problem>,
) -> impl Fn(&DeValue<'_>) -> Result<Option<T>, Problem> {
    move |value| if value.as_str() == Some("") { Ok(None) } else { read(value).map(Some) }
}

/// A value that becomes an argument of a program (M2-34 note 2): filled, no leading hyphen.
pub fn argument(value: &DeValue<'_>) -> Result<String, Problem> {
    let text = filled(value)?;
    match text {
        _ if text.trim().is_empty() => Err(Problem::Empty),
        _ if text.starts_with('-') => Err(Problem::LeadingDash),
        _ if text.len() > NAME_LIMIT => Err(Problem::TooLong),
        _ => Ok(text.to_owned()),
    }
}

/// A name of letters, digits, `.`, `-` and `_` that begins with a letter or digit.
pub fn name(value: &DeValue<'_>) -> Result<String, Problem> {
    let name = argument(value)?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if name.bytes().all(legal) { Ok(name) } else { Err(Problem::Name) }
}

/// A switch.
pub fn boolean(value: &DeValue<'_>) -> Result<bool, Problem> {
    value.as_bool().ok_or(Problem::WrongType("true or false"))
}

/// A UUID in its form with hyphens.
pub fn uuid(value: &DeValue<'_>) -> Result<Uuid, Problem> {
    let text = filled(value)?;
    let hyphenated = text.len() == uuid::fmt::Hyphenated::LENGTH;
    Uuid::try_parse(text).ok().filter(|_| hyphenated).ok_or(Problem::Uuid)
}

/// An absolute path.
pub fn absolute_path(value: &DeValue<'_>) -> Result<PathBuf, Problem> {
    let path = PathBuf::from(filled(value)?);
    if path.is_absolute() { Ok(path) } else { Err(Problem::NotAbsolute) }
}

/// A program's name that is looked up, or its absolute path.
pub fn program(value: &DeValue<'_>) -> Result<String, Problem> {
    let text = filled(value)?;
    match text {
        _ if text.starts_with('-') => Err(Problem::LeadingDash),
        _ if text.contains('/') && !text.starts_with('/') => Err(Problem::Program),
        _ if matches!(text, "." | "..") || text.ends_with('/') => Err(Problem::Program),
        _ => Ok(text.to_owned()),
    }
}

/// A whole number from `min` to `max`; `range` says that in words.
pub fn count(min: u32, max: u32, range: &'static str) -> impl Fn(&DeValue<'_>) -> Result<u32, Problem> {
    move |value| {
        let number = value.as_integer().ok_or(Problem::WrongType("a whole number"))?;
        let parsed = u32::from_str_radix(number.as_str(), number.radix()).ok();
        parsed.filter(|number| (min..=max).contains(number)).ok_or(Problem::OutOfRange(range))
    }
}

/// An amount of money as its decimal text, from a text or a number.
pub fn amount(value: &DeValue<'_>) -> Result<String, Problem> {
    let text = match value {
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        DeValue::Float(number) => number.as_str(),
        _ => filled(value).map_err(|problem| match problem {
            Problem::WrongType(_) => Problem::WrongType("a decimal number"),
            other => other,
        })?,
    };
    let (whole, cents) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let above_zero = text.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    let good = digits(whole) && digits(cents) && above_zero && text.len() <= AMOUNT_LENGTH;
    if good { Ok(text.to_owned()) } else { Err(Problem::Amount) }
}

/// Longest text of an amount; it is passed on as it stands.
const AMOUNT_LENGTH: usize = 20;

/// A duration of at most `max`; zero only when `zero` says so.
#[derive(Clone, Copy, Debug)]
pub struct DurationRange {
    /// Longest value.
    pub max: Duration,
    /// Whether zero has a meaning.
    pub zero: bool,
    /// The range in words.
    pub words: &'static str,
}

/// Any duration up to a year, zero too.
pub const ANY_DURATION: DurationRange = DurationRange { max: DURATION_MAX, zero: true, words: "0 to 365d" };
/// Any duration up to a year but zero.
pub const SOME_DURATION: DurationRange =
    DurationRange { max: DURATION_MAX, zero: false, words: "more than 0, at most 365d" };

/// A duration within `range`.
pub fn duration(range: DurationRange) -> impl Fn(&DeValue<'_>) -> Result<Duration, Problem> {
    move |value| {
        let duration = parse_duration(filled(value)?)?;
        let fits = duration <= range.max && (range.zero || !duration.is_zero());
        if fits { Ok(duration) } else { Err(Problem::OutOfRange(range.words)) }
    }
}

/// A whole number and its unit, without anything between them.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(end)?;
    // A number too large for the type is only too large; the ranges say so.
    let number = if number.is_empty() { None } else { Some(number.parse().unwrap_or(u64::MAX)) };
    Some((number?, unit))
}

const UNITS_OF_TIME: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60 * 1000), ("h", 60 * 60 * 1000), ("d", 24 * 60 * 60 * 1000)];
const UNITS_OF_SIZE: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

fn in_units(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    Some(number.saturating_mul(*factor))
}

/// Reads a whole number and `ms`, `s`, `m`, `h` or `d`.
pub fn parse_duration(text: &str) -> Result<Duration, Problem> {
    in_units(text, &UNITS_OF_TIME).map(Duration::from_millis).ok_or(Problem::Duration)
}

/// Reads a whole number and `B`, `KiB`, `MiB` or `GiB`: bytes.
pub fn parse_size(text: &str) -> Result<u64, Problem> {
    in_units(text, &UNITS_OF_SIZE).ok_or(Problem::Size)
}

/// A size in bytes from `min` to `max`; `range` says that in words.
pub fn size(min: u64, max: u64, range: &'static str) -> impl Fn(&DeValue<'_>) -> Result<u64, Problem> {
    move |value| {
        let bytes = parse_size(filled(value)?)?;
        if (min..=max).contains(&bytes) { Ok(bytes) } else { Err(Problem::OutOfRange(range)) }
    }
}

/// One of `choices`; `words` names them.
pub fn choice<T: Copy>(
    choices: &'static [(&'static str, T)],
    words: &'static str,
) -> impl Fn(&DeValue<'_>) -> Result<T, Problem> {
    move |value| {
        let text = filled(value)?;
        let found = choices.iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| *choice).ok_or(Problem::NotOneOf(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T>(text: &str, read: impl Fn(&DeValue<'_>) -> Result<T, Problem>) -> Result<T, Problem> {
        read(DeValue::parse(text).unwrap().get_ref())
    }

    #[test]
    fn durations_table() {
        let rows = [
            ("200ms", Ok(200)),
            ("2s", Ok(2000)),
            ("10m", Ok(600_000)),
            ("6h", Ok(21_600_000)),
            ("14d", Ok(1_209_600_000)),
            ("0s", Ok(0)),
            ("007s", Ok(7000)),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_duration(text), expected.map(Duration::from_millis), "{text}");
        }
        for bad in ["", "5", "s", "5 s", "1.5h", "-5s", "+5s", "5S", "5sec", "5m5s", "5\u{661}s", "1e3s"] {
            assert_eq!(parse_duration(bad), Err(Problem::Duration), "{bad}");
        }
        let huge = format!("\"{}d\"", u64::MAX);
        let longer = format!("\"9{}ms\"", u64::MAX);
        for text in ["\"366d\"", &huge, &longer] {
            assert!(matches!(of(text, duration(ANY_DURATION)), Err(Problem::OutOfRange(_))), "{text}");
        }
        assert_eq!(of("\"0ms\"", duration(ANY_DURATION)), Ok(Duration::ZERO));
        assert!(matches!(of("\"0ms\"", duration(SOME_DURATION)), Err(Problem::OutOfRange(_))));
        assert!(matches!(of("5", duration(ANY_DURATION)), Err(Problem::WrongType(_))));
    }

    #[test]
    fn sizes_table() {
        for (text, expected) in [("1B", 1), ("2KiB", 2048), ("64MiB", 64 << 20), ("1GiB", 1 << 30), ("0B", 0)]
        {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
        for bad in ["", "64", "64MB", "64 MiB", "1.5GiB", "64mib", "-1B"] {
            assert_eq!(parse_size(bad), Err(Problem::Size), "{bad}");
        }
        let huge = format!("\"{}GiB\"", u64::MAX);
        assert!(matches!(of(&huge, size(1, 10, "few")), Err(Problem::OutOfRange("few"))));
    }

    #[test]
    fn arguments_table() {
        let long = format!("\"{}\"", "x".repeat(NAME_LIMIT + 1));
        let rows = [
            ("\"opus\"", Ok("opus".to_owned())),
            ("\"claude-opus-4[1m]\"", Ok("claude-opus-4[1m]".to_owned())),
            ("\"\"", Err(Problem::Empty)),
            ("\" \"", Err(Problem::Empty)),
            ("\"-x\"", Err(Problem::LeadingDash)),
            ("\"--model\"", Err(Problem::LeadingDash)),
            ("\"a\\u0007\"", Err(Problem::ControlCharacter)),
            ("\"a\\n\"", Err(Problem::ControlCharacter)),
            ("\"a\\u202e\"", Err(Problem::ControlCharacter)),
            ("\"a\\u2066\"", Err(Problem::ControlCharacter)),
            (&long, Err(Problem::TooLong)),
            ("5", Err(Problem::WrongType("a string"))),
        ];
        for (text, expected) in rows {
            assert_eq!(of(text, argument), expected, "{text}");
        }
    }

    #[test]
    fn programs_names_numbers_and_amounts_table() {
        for good in ["claude", "/usr/bin/claude"] {
            assert_eq!(of(&format!("\"{good}\""), program), Ok(good.to_owned()));
        }
        for bad in ["./claude", "bin/claude", "..", "/usr/bin/", "-claude", ""] {
            assert!(of(&format!("\"{bad}\""), program).is_err(), "{bad}");
        }
        assert!(of("\"runner-1_a.b\"", name).is_ok());
        assert_eq!(of("\"a b\"", name), Err(Problem::Name));
        for (text, good) in
            [("1", true), ("0x2", true), ("9", true), ("0", false), ("10", false), ("-1", false)]
        {
            assert_eq!(of(text, count(1, 9, "1 to 9")).is_ok(), good, "{text}");
        }
        assert!(of("99999999999999999999", count(1, 9, "1 to 9")).is_err());
        for good in ["5", "5.25", "\"0.01\"", "\"5\""] {
            assert!(of(good, amount).is_ok(), "{good}");
        }
        for bad in
            ["0", "0.0", "-5", "\"\"", "\"5,0\"", "1e3", "inf", "nan", "\".5\"", "\"5.\"", "true", "+5"]
        {
            assert!(of(bad, amount).is_err(), "{bad}");
        }
    }

    #[test]
    fn uuids_and_paths_table() {
        let id = "0190a0b0-0000-7000-8000-000000000001";
        assert_eq!(of(&format!("\"{id}\""), uuid).unwrap().to_string(), id);
        for bad in ["0190a0b0000070008000000000000001", "{0190a0b0-0000-7000-8000-000000000001}", "x", ""] {
            assert!(of(&format!("\"{bad}\""), uuid).is_err(), "{bad}");
        }
        assert!(of("\"/srv/projects\"", absolute_path).is_ok());
        for bad in ["srv", "./srv", "~/srv", ""] {
            assert!(of(&format!("\"{bad}\""), absolute_path).is_err(), "{bad}");
        }
    }
}
