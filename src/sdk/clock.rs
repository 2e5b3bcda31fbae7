//! What time the server has, for whoever wants to compare the clocks. Must not know what a difference means.

use ureq::http::header::DATE;

use super::client::{ApiResult, Client};

use super::http::single;
use super::wire::Time;

impl Client {
    /// The server's clock, to a second (`Date` of the discovery's answer, RFC 9110 section 6.6.1); `None` when it
    /// does not tell.
    ///
    /// # Errors
    /// There was no answer.
    pub fn server_clock(&self) -> ApiResult<Option<Time>> {
        let answer = self.send_once(&self.discovery(), None, None)?;
        Ok(single(&answer.headers, &DATE).and_then(moment))
    }
}

fn moment(text: &str) -> Option<Time> {
    let found = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text.trim()).ok()?;
    Some(Time::from_millis(found.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        let rows = [
            ("Thu, 01 Jan 1970 00:00:07 GMT", Some(7_000)),
            ("soon", None),
            ("", None),
            ("Thu, 99 Jan 1970 00:00:07 GMT", None),
        ];
        for (text, millis) in rows {
            assert_eq!(moment(text).map(Time::as_millis), millis, "{text}");
        }
    }
}
