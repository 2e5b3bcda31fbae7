//! When a request is repeated and after which wait. Pure: time and chance are given, nothing sleeps here.
//!
//! Knows nothing of operations: that all of them are safe to repeat is the client's business, which
//! sends stored keys and bodies unchanged.

use std::time::Duration;

use super::error::TransportError;
use super::wire::Time;
use super::wire::problem::{Problem, code, reason};

/// First step of the exponential backoff; it doubles with each attempt.
const BACKOFF_BASE: Duration = Duration::from_millis(500);

/// Longest wait that a `Retry-After` can ask for.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(5 * 60);

/// Exponential backoff with full jitter: a random part of a doubling step, capped.
#[derive(Clone, Debug)]
pub struct Backoff {
    cap: Duration,
    step: Duration,
}

impl Backoff {
    /// A backoff whose waits are never longer than `cap` (`sdk.retry_max_delay`).
    pub fn new(cap: Duration) -> Backoff {
        Backoff { cap, step: BACKOFF_BASE }
    }

    /// The next wait: anything from zero to the present step. `chance` is uniformly random.
    pub fn next(&mut self, chance: u32) -> Duration {
        let step = self.step.min(self.cap);
        self.step = step.saturating_mul(2).max(BACKOFF_BASE);
        step.mul_f64(f64::from(chance) / f64::from(u32::MAX))
    }

    /// The next wait with a share of real chance.
    pub fn next_random(&mut self) -> Duration {
        self.next(chance())
    }

    /// Back to the first step, after a success.
    pub fn reset(&mut self) {
        self.step = BACKOFF_BASE;
    }
}

/// Uniformly random bits. The last four bytes of a random UUID are random in full (RFC 9562 section 5.4).
pub fn chance() -> u32 {
    let [.., a, b, c, d] = *uuid::Uuid::new_v4().as_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// What a `Retry-After` value asks for, clamped to zero and [`RETRY_AFTER_MAX`].
///
/// Seconds or an HTTP date (RFC 9110 section 10.2.3). `None` for anything else, so that the caller's own
/// backoff counts.
pub fn retry_after(value: &str, now: Time) -> Option<Duration> {
    let value = value.trim();
    if value.is_empty() {
        return None;
    }
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        // digits that do not fit are a very long time
        let seconds = value.parse::<u64>().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    let ahead = date.as_millisecond().saturating_sub(now.as_millis());
    Some(Duration::from_millis(u64::try_from(ahead).unwrap_or(0)).min(RETRY_AFTER_MAX))
}

/// Whether an answer asks to be repeated, and as which error it counts when it never changes.
///
/// 429, 502, 503, 504 and `request_in_progress` (contract, "Common rules"). A full storage does not go away
/// by asking again (D-M3-12-6).
pub fn repeatable(problem: &Problem) -> Option<TransportError> {
    let full = problem.is_because(code::UNAVAILABLE, reason::STORAGE_FULL);
    let again = matches!(problem.status, 429 | 502 | 503 | 504) && !full;
    let busy = problem.is(code::REQUEST_IN_PROGRESS);
    (again || busy).then_some(TransportError::Status(problem.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c6_07_retry_after_is_clamped_and_bad_values_fall_back() {
        let now: Time = serde_json::from_value("2026-01-02T03:04:05.000Z".into()).unwrap();
        let seconds = |n| Some(Duration::from_secs(n));
        let rows = [
            ("seconds", "7", seconds(7)),
            ("zero", "0", seconds(0)),
            ("spaces", " 7 ", seconds(7)),
            ("huge", "9999999999", Some(RETRY_AFTER_MAX)),
            ("beyond_64_bits", "18446744073709551616", Some(RETRY_AFTER_MAX)),
            ("negative", "-5", None),
            ("fraction", "1.5", None),
            ("empty", "", None),
            ("words", "soon", None),
            ("date_ahead", "Fri, 02 Jan 2026 03:04:15 GMT", seconds(10)),
            ("date_past", "Fri, 31 Dec 1999 23:59:59 GMT", seconds(0)),
            ("date_far", "Thu, 01 Jan 2099 00:00:00 GMT", Some(RETRY_AFTER_MAX)),
        ];
        for (name, value, expected) in rows {
            assert_eq!(retry_after(value, now), expected, "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_retry_after_is_above_its_limit(value in "[0-9A-Za-z,:. +-]{0,40}", now in proptest::num::i64::ANY) {
            let wait = retry_after(&value, Time::from_millis(now));
            assert!(wait.is_none_or(|wait| wait <= RETRY_AFTER_MAX));
        }
    }

    #[test]
    fn backoff_doubles_up_to_its_cap_with_full_jitter() {
        let mut backoff = Backoff::new(Duration::from_secs(3));
        let steps: Vec<u128> = (0..5).map(|_| backoff.next(u32::MAX).as_millis()).collect();
        assert_eq!(steps, [500, 1000, 2000, 3000, 3000]);
        assert_eq!(backoff.next(0), Duration::ZERO);
        backoff.reset();
        assert_eq!(backoff.next(u32::MAX).as_millis(), 500);
    }

    #[test]
    fn backoff_keeps_a_tiny_cap() {
        let mut backoff = Backoff::new(Duration::from_millis(5));
        for _ in 0..3 {
            assert!(backoff.next(u32::MAX) <= Duration::from_millis(5));
        }
    }

    #[test]
    fn only_the_listed_answers_are_repeated() {
        let rows = [
            ("rate", Problem::new(429, code::RATE_LIMITED), true),
            ("gateway", Problem::new(502, ""), true),
            ("unavailable", Problem::new(503, code::UNAVAILABLE), true),
            ("gateway_time", Problem::new(504, ""), true),
            ("in_progress", Problem::new(409, code::REQUEST_IN_PROGRESS), true),
            ("storage", Problem::new(503, code::UNAVAILABLE).because(reason::STORAGE_FULL), false),
            ("internal", Problem::new(500, ""), false),
            ("not_enabled", Problem::new(501, code::NOT_ENABLED), false),
            ("conflict", Problem::new(409, code::CONFLICT), false),
            ("forbidden", Problem::new(403, code::FORBIDDEN), false),
        ];
        for (name, problem, expected) in rows {
            assert_eq!(repeatable(&problem).is_some(), expected, "{name}");
        }
    }
}
