//! One connection: its requests one after another, each checked, asked about, done and answered.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use super::access;
use super::core::Core;
use super::fail::Fail;
use super::hooks::{Outgoing, Seen};
use super::http::{Answer, Head, Inbound, ReadFault, Refusal, STALL_LIMIT};
use super::problems;
use super::request::{Body, Caller, Request, check_query};
use super::routes::{self, Miss, Names, Route, Takes};
use super::settings::MAX_JSON_BYTES;
use crate::sdk::wire::problem::{Problem, code};

/// Bytes of an unwanted body that are read away, so that its sender sees the answer: more than a part of a file.
const DISCARD_BYTES: u64 = 16 * 1024 * 1024;
/// Time for that.
const DISCARD_TIME: Duration = Duration::from_secs(1);

/// A request that passed every check before its body.
struct Entry {
    route: &'static Route,
    names: Names,
    caller: Caller,
}

/// Why a body was not taken.
enum NoBody {
    Refused(Fail),
    Gone,
}

/// Answers the requests of `stream` until one side closes.
pub fn serve(core: &Core, stream: &TcpStream) {
    let ready = stream.set_nodelay(true).and_then(|()| stream.set_write_timeout(Some(STALL_LIMIT)));
    let mut inbound = Inbound::new(stream);
    while ready.is_ok() && !core.is_stopping() {
        let kept = match inbound.head() {
            Ok(head) => exchange(core, stream, &mut inbound, &head),
            Err(ReadFault::Refused(refusal)) => refuse(stream, &mut inbound, refusal),
            Err(ReadFault::Gone) => false,
        };
        if !kept {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn refuse(stream: &TcpStream, inbound: &mut Inbound<'_>, refusal: Refusal) -> bool {
    let answer = Answer::problem(&problems::http(refusal.status, refusal.code));
    if answer.write(&mut { stream }, false, false, None).is_ok() {
        let _ = stream.shutdown(Shutdown::Write);
        inbound.discard(DISCARD_BYTES, DISCARD_TIME);
    }
    false
}

/// One request and its answer; whether the connection is kept.
fn exchange(core: &Core, stream: &TcpStream, inbound: &mut Inbound<'_>, head: &Head) -> bool {
    let checked = check(core, head);
    let name = match &checked {
        Ok(entry) => entry.route.name,
        Err(_) => routes::name_of(&head.method, &head.path),
    };
    let seen = core.hooks.arrived(name, head);
    let mut unread = head.content_length;
    let outgoing = match checked.map_err(NoBody::Refused).and_then(|entry| {
        let request = take(core, inbound, head, seen.as_ref(), &entry, &mut unread)?;
        Ok((entry.route, request))
    }) {
        Ok((route, request)) => perform(core, route, &request, seen.as_ref()),
        Err(NoBody::Refused(fail)) => Outgoing::Answer(refusal(core, &fail.into_problem())),
        Err(NoBody::Gone) => return false,
    };
    let keep = head.keep_alive && unread == 0 && !core.is_stopping();
    let kept = send(core, stream, outgoing, head, keep, seen.as_ref());
    if unread > 0 {
        let _ = stream.shutdown(Shutdown::Write);
        inbound.discard(DISCARD_BYTES.min(unread), DISCARD_TIME);
    }
    kept
}

/// Everything that can be known before the body: where from, who, what.
fn check(core: &Core, head: &Head) -> Result<Entry, Fail> {
    access::same_site(&head.headers, core.address)?;
    let caller = access::caller(core, head)?;
    if caller == Caller::Agent(core.instance.agent_id) {
        core.saw_agent();
    }
    match routes::find(&head.method, &head.path, caller) {
        Ok((route, names)) => {
            if let Some(allowed) = routes::query_of(route) {
                check_query(&head.query, allowed)?;
            }
            Ok(Entry { route, names, caller })
        }
        Err(Miss::NotFound) => Err(problems::not_found()),
        Err(Miss::OtherSide) => Err(problems::forbidden().into()),
        Err(Miss::NoCredential) => Err(problems::unauthenticated().into()),
        Err(Miss::Method(allow)) => {
            Err(Problem { detail: Some(allow), ..problems::http(405, code::METHOD_NOT_ALLOWED) }.into())
        }
    }
}

/// A problem with the fields that its status wants.
fn refusal(core: &Core, problem: &Problem) -> Answer {
    let answer = Answer::problem(problem);
    match problem.status {
        401 => {
            let answer = answer.with("WWW-Authenticate", "Bearer, DPoP algs=\"ES256\"");
            match core.settings().dpop_nonce {
                Some(nonce) => answer.with("DPoP-Nonce", nonce),
                None => answer,
            }
        }
        405 => answer.with("Allow", problem.detail.clone().unwrap_or_default()),
        429 | 503 => answer.with("Retry-After", "1"),
        _ => answer,
    }
}

/// Takes the body that the operation wants; `unread` is what is left of it on the connection.
fn take(
    core: &Core,
    inbound: &mut Inbound<'_>,
    head: &Head,
    seen: Option<&Seen>,
    entry: &Entry,
    unread: &mut u64,
) -> Result<Request, NoBody> {
    check_body(core, head, entry.route).map_err(NoBody::Refused)?;
    inbound.invite(head).map_err(|_| NoBody::Gone)?;
    let body = match entry.route.takes {
        Takes::Bytes => receive(core, inbound, head, seen, &entry.names),
        Takes::Json | Takes::Nothing => read(core, inbound, head, seen),
    }?;
    *unread = 0;
    Ok(Request {
        method: entry.route.method,
        path: head.path.clone(),
        ids: entry.names.ids.clone(),
        number: entry.names.number,
        query: head.query.clone(),
        headers: head.headers.clone(),
        body,
        caller: entry.caller,
        client: inbound.client(),
    })
}

fn check_body(core: &Core, head: &Head, route: &Route) -> Result<(), Fail> {
    let most = match route.takes {
        Takes::Nothing => 0,
        Takes::Json => MAX_JSON_BYTES,
        Takes::Bytes => core.settings().part_size_bytes,
    };
    if head.content_length > most {
        return Err(problems::too_large().into());
    }
    let media = head.headers.get("content-type").unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    if route.takes == Takes::Json && !media.eq_ignore_ascii_case("application/json") {
        return Err(problems::http(415, code::UNSUPPORTED_MEDIA_TYPE).into());
    }
    Ok(())
}

fn read(core: &Core, inbound: &mut Inbound<'_>, head: &Head, seen: Option<&Seen>) -> Result<Body, NoBody> {
    let mut bytes = Vec::new();
    let read = inbound.body(head.content_length, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    });
    core.hooks.body(seen, &bytes);
    match read {
        Ok(_) => Ok(Body::Bytes(bytes)),
        Err(_) => Err(NoBody::Gone),
    }
}

fn receive(
    core: &Core,
    inbound: &mut Inbound<'_>,
    head: &Head,
    seen: Option<&Seen>,
    names: &Names,
) -> Result<Body, NoBody> {
    let failed = |fault: std::io::Error| NoBody::Refused(fault.into());
    let id = names.ids.first().copied().unwrap_or_default();
    let mut incoming = core.blobs.receive(id, names.number).map_err(failed)?;
    let received = inbound.body(head.content_length, &mut |piece| {
        core.hooks.body(seen, piece);
        incoming.push(piece)
    });
    match received {
        Ok(Ok(())) => Ok(Body::File(Box::new(Mutex::new(incoming)))),
        Ok(Err(fault)) => Err(failed(fault)),
        Err(_) => Err(NoBody::Gone),
    }
}

/// Does the operation between the two questions to the hooks, its idempotency key taken for all of it.
fn perform(core: &Core, route: &Route, request: &Request, seen: Option<&Seen>) -> Outgoing {
    let key = route.keyed.then(|| request.key().ok()).flatten();
    let taken = key.map(|key| core.take_key(request.principal(core), key));
    if let Some(None) = taken {
        return Outgoing::Answer(refusal(
            core,
            &problems::conflict(code::REQUEST_IN_PROGRESS).into_problem(),
        ));
    }
    if let Some(instead) = core.hooks.before(seen) {
        return instead;
    }
    // A panic must not take the connection's thread without an answer; the transaction it broke is undone.
    let done = catch_unwind(AssertUnwindSafe(|| (route.run)(core, request)));
    let answer = match done {
        Ok(Ok(answer)) => answer,
        Ok(Err(fail)) => refusal(core, &fail.into_problem()),
        Err(_) => Answer::problem(&problems::http(500, "internal_error")),
    };
    core.hooks.after(seen, answer)
}

fn send(
    core: &Core,
    stream: &TcpStream,
    outgoing: Outgoing,
    head: &Head,
    keep: bool,
    seen: Option<&Seen>,
) -> bool {
    let mut out = stream;
    let head_only = head.method == "HEAD";
    match outgoing {
        Outgoing::Answer(answer) => {
            core.hooks.answered(seen, answer.status);
            answer.write(&mut out, keep, head_only, None).is_ok() && keep
        }
        Outgoing::Part(answer, bytes, gate) => {
            core.hooks.answered(seen, answer.status);
            let _ = answer.write(&mut out, false, head_only, Some(bytes));
            if let Some(gate) = gate {
                gate.pass();
            }
            false
        }
        Outgoing::Raw(bytes) => {
            core.hooks.answered(seen, 0);
            let _ = out.write_all(&bytes);
            false
        }
        Outgoing::Cut => {
            core.hooks.answered(seen, 0);
            false
        }
    }
}
