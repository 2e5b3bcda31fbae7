//! Addresses of the server: origin, base path, and how a path and a query are put together.
//!
//! Knows nothing of requests. A path is built from literals and UUIDs only.

use ureq::http::Uri;

use crate::config::address::is_loopback;

/// Path below the server's base where discovery lives (contract, "Discovery and identity").
pub const DISCOVERY_PATH: &str = "/.well-known/agent-server";

/// Path of the operations below the server's base (contract, "Common rules").
pub const API_PATH: &str = "/api/v1";

/// An absolute http or https address without user, query and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    https: bool,
    host: String,
    port: u16,
    path: String,
}

impl Address {
    /// Reads an address; `http` only for a loopback host (configuration, `runner.server_url`).
    ///
    /// Gives `None` for anything else, user information, a query or a fragment included.
    pub fn parse(text: &str) -> Option<Address> {
        if text.contains(['#', '?', '@', '\\']) || text.chars().any(|c| c.is_control() || c == ' ') {
            return None;
        }
        let uri: Uri = text.parse().ok()?;
        let https = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = uri.host()?.to_ascii_lowercase();
        if host.is_empty() || (!https && !is_loopback(host.trim_matches(['[', ']']))) {
            return None;
        }
        let port = uri.port_u16().unwrap_or(implied_port(https));
        let path = uri.path().trim_end_matches('/').to_owned();
        Some(Address { https, host, port, path })
    }

    /// Whether requests to it need TLS.
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// Whether scheme, host and port are the same (RFC 6454).
    pub fn same_origin(&self, other: &Address) -> bool {
        (self.https, &self.host, self.port) == (other.https, &other.host, other.port)
    }

    /// The address `path` (with its slash) below this one, in normal form (RFC 3986 section 6.2.3): a proof names it,
    /// and a server may compare it letter by letter.
    pub fn join(&self, path: &str) -> String {
        let scheme = if self.https { "https" } else { "http" };
        let implied = self.port == implied_port(self.https);
        let port = if implied { String::new() } else { format!(":{}", self.port) };
        format!("{scheme}://{}{port}{}{path}", self.host, self.path)
    }

    /// The same address, made to end in [`API_PATH`] exactly once.
    ///
    /// A server may state `api_base` with or without the fixed base path; both mean the same operations.
    pub fn with_api_path(mut self) -> Address {
        if !self.path.ends_with(API_PATH) {
            self.path.push_str(API_PATH);
        }
        self
    }
}

/// The port of an address that names none.
fn implied_port(https: bool) -> u16 {
    if https { 443 } else { 80 }
}

/// `?name=value&...` with every value percent-encoded; empty for no pairs.
pub fn query(pairs: &[(&str, String)]) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        out.push(if out.is_empty() { '?' } else { '&' });
        out.push_str(name);
        out.push('=');
        percent_encode(value, &mut out);
    }
    out
}

/// Everything but the unreserved characters of RFC 3986 section 2.3 is encoded.
fn percent_encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_https_or_loopback() {
        let rows = [
            ("https", "https://chat.example.com", true),
            ("https_base", "https://chat.example.com/base/", true),
            ("http_loopback", "http://127.0.0.1:8080", true),
            ("http_loopback_v6", "http://[::1]:8080", true),
            ("http_localhost", "http://localhost:1", true),
            ("http_elsewhere", "http://chat.example.com", false),
            ("http_looks_like_loopback", "http://127.0.0.1.example.com", false),
            ("user", "https://alex@chat.example.com", false),
            ("query", "https://chat.example.com/?a=b", false),
            ("fragment", "https://chat.example.com/#a", false),
            ("scheme", "ftp://chat.example.com", false),
            ("relative", "/api/v1", false),
            ("space", "https://chat.example.com/ x", false),
            ("empty", "", false),
        ];
        for (name, text, good) in rows {
            assert_eq!(Address::parse(text).is_some(), good, "{name}");
        }
    }

    #[test]
    fn origins_compare_scheme_host_and_port() {
        let own = Address::parse("https://chat.example.com/base").unwrap();
        let rows = [
            ("default_port", "https://chat.example.com:443/api/v1", true),
            ("case", "https://CHAT.example.com", true),
            ("other_host", "https://keys.example.com", false),
            ("other_port", "https://chat.example.com:444", false),
            ("suffix", "https://chat.example.com.example.net", false),
        ];
        for (name, text, same) in rows {
            assert_eq!(Address::parse(text).unwrap().same_origin(&own), same, "{name}");
        }
    }

    #[test]
    fn paths_join_below_the_base() {
        let base = Address::parse("http://127.0.0.1:8080/base/").unwrap();
        assert_eq!(base.join(DISCOVERY_PATH), "http://127.0.0.1:8080/base/.well-known/agent-server");
        assert_eq!(base.clone().with_api_path().join("/me"), "http://127.0.0.1:8080/base/api/v1/me");
        assert_eq!(base.with_api_path().with_api_path().join("/me"), "http://127.0.0.1:8080/base/api/v1/me");
    }

    #[test]
    fn a_port_that_the_scheme_implies_is_not_written() {
        for (text, joined) in [
            ("https://chat.example.com", "https://chat.example.com/me"),
            ("https://chat.example.com:443/base", "https://chat.example.com/base/me"),
            ("https://chat.example.com:80", "https://chat.example.com:80/me"),
            ("http://[::1]:80", "http://[::1]/me"),
            ("http://[::1]:443", "http://[::1]:443/me"),
        ] {
            assert_eq!(Address::parse(text).unwrap().join("/me"), joined, "{text}");
        }
    }

    #[test]
    fn query_values_are_percent_encoded() {
        assert_eq!(query(&[]), "");
        let pairs = [("consumer", "a b&c=/\u{e9}".to_owned()), ("after", "-1".to_owned())];
        assert_eq!(query(&pairs), "?consumer=a%20b%26c%3D%2F%C3%A9&after=-1");
    }
}
