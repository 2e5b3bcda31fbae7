//! Who may ask: credentials, the browser's guards, and the binding of a request to a run.

use std::net::SocketAddr;
use std::time::Instant;

use super::core::Core;
use super::dpop;
use super::fail::Fail;
use super::http::{Head, Headers};
use super::problems;
use super::request::{Caller, Request};
use super::secrets;
use super::store::runs::{self, RunRow};
use super::store::{Tx, identity, tokens};
use crate::sdk::wire::problem::reason;
use crate::sdk::wire::{INVOCATION_TOKEN_HEADER, Time};

/// Name of the page's cookie: with the port, because a browser gives the cookies of a host to every port of it, and two
/// servers would take each other's session away (RFC 6265 section 8.5).
pub fn cookie_name(address: SocketAddr) -> String {
    format!("local_session_{}", address.port())
}

/// Refuses a request that a web page of another host could have made (DNS rebinding, cross-site requests).
pub fn same_site(headers: &Headers, address: SocketAddr) -> Result<(), Fail> {
    let host = headers.get("host").unwrap_or_default();
    if !own_hosts(address).iter().any(|own| own.eq_ignore_ascii_case(host)) {
        return Err(problems::http(421, "misdirected_request").into());
    }
    let foreign = headers.all("origin").any(|origin| !origin.eq_ignore_ascii_case(&format!("http://{host}")));
    let cross = headers.get("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
    if foreign || cross { Err(problems::forbidden().into()) } else { Ok(()) }
}

fn own_hosts(address: SocketAddr) -> [String; 2] {
    [address.to_string(), format!("localhost:{}", address.port())]
}

/// Whose credential the request carries; 401 for one that nobody has.
pub fn caller(core: &Core, head: &Head) -> Result<Caller, Fail> {
    let Some(value) = head.headers.get("authorization") else {
        return Ok(match cookie(&head.headers, core.address) {
            Some(value) if core.sessions.holds(value, Instant::now()) => Caller::Person,
            _ => Caller::Nobody,
        });
    };
    let (scheme, secret) = value.split_once(' ').unwrap_or((value, ""));
    let secret = secret.trim();
    let proven = match scheme.to_ascii_lowercase().as_str() {
        "bearer" if secrets::equal(secret, &core.person_secret) => return Ok(Caller::Person),
        "bearer" => None,
        "dpop" => Some(proof_of(core, head, secret).ok_or_else(problems::unauthenticated)?),
        _ => return Err(problems::unauthenticated().into()),
    };
    let kept = core.store.read(|tx| Ok(identity::agent_token(tx, &secrets::hash(secret))?))?;
    match kept {
        // A token that is bound to a key is worth nothing without a proof by that key.
        Some(token) if token.thumbprint.is_none() || token.thumbprint == proven => {
            Ok(Caller::Agent(token.agent_id))
        }
        _ => Err(problems::unauthenticated().into()),
    }
}

/// The thumbprint of the key that proved this request.
fn proof_of(core: &Core, head: &Head, token: &str) -> Option<String> {
    let mut proofs = head.headers.all("dpop");
    let (proof, None) = (proofs.next()?, proofs.next()) else { return None };
    let url = format!("http://{}{}", head.headers.get("host")?, head.path);
    let nonce = core.settings().dpop_nonce;
    let expected = dpop::Expected {
        method: &head.method,
        url: &url,
        token,
        nonce: nonce.as_deref(),
        now: Time::now().as_seconds(),
    };
    dpop::check(proof, &expected, &core.proofs)
}

/// The value of the page's cookie.
pub fn cookie(headers: &Headers, address: SocketAddr) -> Option<&str> {
    let own = cookie_name(address);
    let pairs = headers.all("cookie").flat_map(|line| line.split(';'));
    pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == own)
        .map(|(_, value)| value)
}

/// The run that the request's `Invocation-Token` binds it to; it must be alive, the token the newest and in time.
pub fn bound_run(tx: &Tx<'_>, core: &Core, request: &Request) -> Result<RunRow, Fail> {
    let (run, presented) = token_run(tx, core, request)?;
    if run.state.is_final() {
        return Err(problems::run_inactive());
    }
    in_time(tx, &run, &presented)?;
    Ok(run)
}

/// As [`bound_run`], for a run that may have ended: reports that are repeated after the end.
pub fn bound_run_or_ended(tx: &Tx<'_>, core: &Core, request: &Request) -> Result<RunRow, Fail> {
    let (run, presented) = token_run(tx, core, request)?;
    if !run.state.is_final() {
        in_time(tx, &run, &presented)?;
    }
    Ok(run)
}

/// The run of the path, when it is this agent's and the request is bound to it.
pub fn path_run(tx: &Tx<'_>, core: &Core, request: &Request) -> Result<RunRow, Fail> {
    same_run(bound_run(tx, core, request)?, request)
}

/// The run of the path for reports after its end.
pub fn path_run_or_ended(tx: &Tx<'_>, core: &Core, request: &Request) -> Result<RunRow, Fail> {
    same_run(bound_run_or_ended(tx, core, request)?, request)
}

/// The run of the path for this agent, bound or not; a token that comes along must still be the run's.
pub fn own_run(tx: &Tx<'_>, core: &Core, request: &Request) -> Result<RunRow, Fail> {
    if request.headers.get(INVOCATION_TOKEN_HEADER).is_some() {
        return path_run_or_ended(tx, core, request);
    }
    if request.caller != Caller::Agent(core.instance.agent_id) {
        return Err(problems::not_found());
    }
    runs::get(tx, request.id(0)?)?.filter(|run| run.dispatched).ok_or_else(problems::not_found)
}

fn same_run(run: RunRow, request: &Request) -> Result<RunRow, Fail> {
    if run.id == request.id(0)? { Ok(run) } else { Err(problems::token(reason::INVALID)) }
}

fn token_run(tx: &Tx<'_>, core: &Core, request: &Request) -> Result<(RunRow, tokens::TokenRow), Fail> {
    let invalid = || problems::token(reason::INVALID);
    if request.caller != Caller::Agent(core.instance.agent_id) {
        return Err(invalid());
    }
    let presented = request.headers.get(INVOCATION_TOKEN_HEADER).ok_or_else(invalid)?;
    // Only what this server gave out is kept, so finding it is the proof of its signature.
    let row = tokens::by_hash(tx, &secrets::hash(presented.trim()))?.ok_or_else(invalid)?;
    let run = runs::get(tx, row.run_id)?.ok_or_else(invalid)?;
    Ok((run, row))
}

fn in_time(tx: &Tx<'_>, run: &RunRow, presented: &tokens::TokenRow) -> Result<(), Fail> {
    if tokens::newest(tx, run.id)?.is_some_and(|newest| newest.jti != presented.jti) {
        return Err(problems::token(reason::SUPERSEDED));
    }
    if presented.exp <= Time::now().as_seconds() {
        return Err(problems::token(reason::EXPIRED));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::http::parse;

    fn headers(lines: &str) -> Headers {
        parse(format!("GET / HTTP/1.1\r\n{lines}\r\n").as_bytes()).unwrap().unwrap().0.headers
    }

    #[test]
    fn only_the_own_site_may_ask() {
        let address: SocketAddr = "127.0.0.1:8080".parse().unwrap();
        let rows = [
            ("own address", "Host: 127.0.0.1:8080\r\n", None),
            ("own name", "Host: localhost:8080\r\nOrigin: http://localhost:8080\r\n", None),
            ("typed address", "Host: 127.0.0.1:8080\r\nSec-Fetch-Site: none\r\n", None),
            ("rebound name", "Host: example.com:8080\r\n", Some(421)),
            ("other port", "Host: 127.0.0.1:80\r\n", Some(421)),
            ("no port", "Host: 127.0.0.1\r\n", Some(421)),
            ("other origin", "Host: 127.0.0.1:8080\r\nOrigin: http://example.com\r\n", Some(403)),
            ("same site, other port", "Host: 127.0.0.1:8080\r\nOrigin: http://127.0.0.1:3000\r\n", Some(403)),
            ("null origin", "Host: 127.0.0.1:8080\r\nOrigin: null\r\n", Some(403)),
            ("cross site", "Host: 127.0.0.1:8080\r\nSec-Fetch-Site: cross-site\r\n", Some(403)),
            ("same site", "Host: 127.0.0.1:8080\r\nSec-Fetch-Site: same-site\r\n", Some(403)),
        ];
        for (name, lines, status) in rows {
            let found = same_site(&headers(lines), address).err().map(|fail| fail.into_problem().status);
            assert_eq!(found, status, "{name}");
        }
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let address: SocketAddr = "127.0.0.1:8080".parse().unwrap();
        for (line, value) in [
            ("Host: x\r\nCookie: a=b; local_session_8080=c; d=e\r\n", Some("c")),
            ("Host: x\r\nCookie: local_session_8081=b; local_session_8080=c\r\n", Some("c")),
            ("Host: x\r\nCookie: local_session_8081=c\r\n", None),
            ("Host: x\r\nCookie: xlocal_session_8080=c\r\n", None),
            ("Host: x\r\n", None),
        ] {
            assert_eq!(cookie(&headers(line), address), value, "{line}");
        }
    }
}
