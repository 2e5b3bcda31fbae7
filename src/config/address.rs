//! Addresses: the server's base URL and the proxy.
//!
//! Must not know how they are used. Only plain forms pass: what a URL library would have to normalise,
//! encode or guess is refused, so that the text compared is the text sent.

use std::net::{Ipv4Addr, Ipv6Addr};

use toml::de::DeValue;

use super::fault::Problem;
use super::values::filled;

const HTTPS: &str = "https://";
const HTTP: &str = "http://";
/// Longest host name (RFC 1035, 2.3.4).
const HOST_LIMIT: usize = 253;

/// The server's base URL without a trailing slash: https, or http for a loopback host.
pub fn server_url(value: &DeValue<'_>) -> Result<String, Problem> {
    let url = filled(value)?;
    let (rest, encrypted) = match (url.strip_prefix(HTTPS), url.strip_prefix(HTTP)) {
        (Some(rest), _) => (rest, true),
        (_, Some(rest)) => (rest, false),
        _ => return Err(Problem::Address),
    };
    if rest.contains(['@', '?', '#']) {
        return Err(Problem::AddressParts);
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host_of(authority).ok_or(Problem::Address)?;
    if !is_plain_path(path) {
        return Err(Problem::Address);
    }
    if !encrypted && !is_loopback(host) {
        return Err(Problem::Plain);
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// A proxy: `http://host:port`, without credentials, because they would stand in this file.
pub fn proxy(value: &DeValue<'_>) -> Result<String, Problem> {
    let url = filled(value)?;
    let authority = url.strip_prefix(HTTP).map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    let good = authority.is_some_and(|authority| host_of(authority).is_some());
    if good { Ok(url.trim_end_matches('/').to_owned()) } else { Err(Problem::Proxy) }
}

/// Whether a host, without brackets, names this machine and nothing else.
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || host.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`, or `None` for anything else.
fn host_of(authority: &str) -> Option<&str> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        let good = host.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || is_port(port.strip_prefix(':')?));
        return Some(host).filter(|_| good);
    }
    let (host, port) = authority.split_once(':').unwrap_or((authority, "443"));
    Some(host).filter(|host| is_host(host) && is_port(port))
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_host(host: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let labels = host.strip_suffix('.').unwrap_or(host).split('.').all(|label| !label.is_empty());
    let numeric = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    // Digits and dots that are no address (`127.1`) are read differently by different programs.
    let address = !numeric || host.parse::<Ipv4Addr>().is_ok();
    host.len() <= HOST_LIMIT && labels && address && host.bytes().all(legal)
}

fn is_plain_path(path: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'.' | b'_' | b'~');
    let dots = path.split('/').any(|part| matches!(part, "." | ".."));
    path.bytes().all(legal) && !dots && !path.contains("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, read: fn(&DeValue<'_>) -> Result<String, Problem>) -> Result<String, Problem> {
        read(&DeValue::String(text.into()))
    }

    #[test]
    fn server_urls_table() {
        for good in [
            "https://chat.example.com",
            "https://chat.example.com:8443",
            "https://chat.example.com/base/v1",
            "https://[2001:db8::1]:8443",
            "https://192.0.2.1",
            "http://127.0.0.1:8080",
            "http://127.8.9.10",
            "http://[::1]:8080",
            "http://localhost:8080",
        ] {
            assert_eq!(of(good, server_url), Ok(good.to_owned()));
            assert_eq!(of(&format!("{good}/"), server_url), Ok(good.to_owned()));
        }
        let rows = [
            ("http://chat.example.com", Problem::Plain),
            ("http://192.0.2.1", Problem::Plain),
            ("http://[2001:db8::1]", Problem::Plain),
            ("http://localhost.example.com", Problem::Plain),
            ("http://0.0.0.0", Problem::Plain),
            ("http://127.1", Problem::Address),
            ("http://2130706433", Problem::Address),
            ("https://alex@chat.example.com", Problem::AddressParts),
            ("http://localhost@chat.example.com", Problem::AddressParts),
            ("https://chat.example.com?x=1", Problem::AddressParts),
            ("https://chat.example.com/#a", Problem::AddressParts),
            ("https://", Problem::Address),
            ("https:///path", Problem::Address),
            ("https://chat..example.com", Problem::Address),
            ("https://chat.example.com:0", Problem::Address),
            ("https://chat.example.com:", Problem::Address),
            ("https://chat.example.com:65536", Problem::Address),
            ("https://chat.example.com:+80", Problem::Address),
            ("https://[::1", Problem::Address),
            ("https://[::1]x", Problem::Address),
            ("https://chat.example.com/../x", Problem::Address),
            ("https://chat.example.com//", Problem::Address),
            ("https://chat.example.com/a b", Problem::Address),
            ("https://ch\u{e4}t.example.com", Problem::Address),
            ("HTTPS://chat.example.com", Problem::Address),
            ("ftp://chat.example.com", Problem::Address),
            ("chat.example.com", Problem::Address),
            ("", Problem::Empty),
        ];
        for (text, expected) in rows {
            assert_eq!(of(text, server_url), Err(expected), "{text}");
        }
    }

    #[test]
    fn proxies_table() {
        for good in ["http://proxy.example.com:3128", "http://127.0.0.1:3128", "http://[::1]:3128"] {
            assert_eq!(of(good, proxy), Ok(good.to_owned()));
        }
        for bad in
            ["proxy:3128", "https://proxy:3128", "http://a:b@proxy:3128", "http://proxy:3128/x", "http://"]
        {
            assert_eq!(of(bad, proxy), Err(Problem::Proxy), "{bad}");
        }
    }
}
