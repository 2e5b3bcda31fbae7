//! Points in time on the wire: RFC 3339 in UTC with milliseconds.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Milliseconds of a second.
const MILLIS: i64 = 1000;

/// A point in time, printed as RFC 3339 in UTC with exactly three decimals (contract, "Common rules").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(jiff::Timestamp);

impl Time {
    /// The wall clock's present moment, cut to milliseconds.
    pub fn now() -> Time {
        Time::from_millis(jiff::Timestamp::now().as_millisecond())
    }

    /// The moment `millis` milliseconds after 1970-01-01T00:00:00Z, clamped to the representable range.
    pub fn from_millis(millis: i64) -> Time {
        // Whole seconds: the last fractions of a second at both ends are refused as milliseconds.
        let (first, last) = (jiff::Timestamp::MIN.as_second() + 1, jiff::Timestamp::MAX.as_second());
        let clamped = millis.clamp(first * MILLIS, last * MILLIS);
        Time(jiff::Timestamp::from_millisecond(clamped).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub fn as_millis(self) -> i64 {
        self.0.as_millisecond()
    }

    /// Seconds since 1970-01-01T00:00:00Z, as JSON Web Tokens count (RFC 7519 section 2).
    pub fn as_seconds(self) -> i64 {
        self.0.as_second()
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse::<jiff::Timestamp>().map(Time).map_err(|_| de::Error::custom("not an RFC 3339 time"))
    }
}

/// A wish in milliseconds, for a caller that bounds it: any number counts, cut to whole ones from zero on, and
/// anything else is no wish, so that it takes nothing beside it along.
pub(super) fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    // The cast keeps to the range.
    Ok(value.as_u64().or_else(|| value.as_f64().map(|number| number as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_prints_three_decimals_and_reads_any() {
        let rows = [
            ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678Z"),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
            ("2026-01-02T04:04:05.678901+01:00", "2026-01-02T03:04:05.678Z"),
        ];
        for (input, printed) in rows {
            let time: Time = serde_json::from_value(input.into()).unwrap();
            assert_eq!(serde_json::to_value(time).unwrap(), printed, "{input}");
        }
        assert!(serde_json::from_value::<Time>("yesterday".into()).is_err());
    }

    #[test]
    fn time_from_any_number_does_not_panic() {
        for millis in [i64::MIN, -1, 0, i64::MAX] {
            assert!(!Time::from_millis(millis).to_string().is_empty());
        }
        assert!(Time::from_millis(i64::MAX) > Time::now());
        assert!(Time::from_millis(i64::MIN) < Time::from_millis(0));
    }
}
