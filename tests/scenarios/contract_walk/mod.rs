//! Every operation of the contract against the embedded server, good and bad, each answer judged by the file.
//!
//! `promised` reads from the file what each operation may answer; `good` has one good request for each; the
//! walks here and in `states`, `files` and `site_rules` provoke the problems. What a server of one person never
//! answers is listed in [`NEVER_HERE`] with its reason, and played by a fault, so that it is judged too.

mod files;
mod good;
mod promised;
mod site;
mod site_rules;
mod states;

use std::collections::BTreeSet;

use claude_code_runner::local::hooks::Fault;
use claude_code_runner::sdk::wire::problem::Problem;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::openapi::{Operation, contract};
use crate::support::raw_http::Ask;
use promised::{Outcome, promised};
use site::Site;

/// Problems that the file names and this server never gives by itself: operations (empty: all of them),
/// status, code, reason, and why.
type NeverHere = (&'static [&'static str], u16, &'static str, Option<&'static str>, &'static str);

const UPLOADS: &[&str] = &["createUpload", "completeUpload"];

const NEVER_HERE: &[NeverHere] = &[
    (&[], 429, "rate_limited", None, "one person, one runner: nobody is slowed down"),
    (&[], 503, "unavailable", None, "only when it has no room for another connection or on the disk"),
    (&["createUpload"], 503, "unavailable", Some("storage_full"), "only with a full disk"),
    (&["createMessage", "postMessage"], 403, "feature_disabled", None, "nothing can be switched off"),
    (&["createMessage"], 403, "forbidden", Some("capability_missing"), "the agent has every capability"),
    (&["createUpload"], 403, "forbidden", Some("capability_missing"), "the agent has every capability"),
    (&["createUpload"], 403, "forbidden", Some("acting_for_insufficient"), "the person may do everything"),
    (&["createMessage"], 403, "channel_read_only", None, "a run ends before its channel is taken away"),
    (UPLOADS, 403, "channel_read_only", None, "a channel that is not served is not found"),
    (UPLOADS, 415, "unsupported_media_type", None, "every kind of file is taken"),
    (
        &["createUpload"],
        415,
        "unsupported_media_type",
        Some("file_type_denied"),
        "every kind of file is taken",
    ),
    (&["completeUpload"], 413, "payload_too_large", None, "the size was checked when it was announced"),
    (
        &["completeUpload"],
        409,
        "conflict",
        Some("quota_exceeded"),
        "the quota was taken when it was announced",
    ),
    (&["completeUpload"], 409, "conflict", Some("part_conflict"), "a wrong mark is an incomplete upload"),
    (&["downloadFile"], 501, "not_enabled", None, "files are always on"),
    (
        &["createMessage", "postMessage"],
        409,
        "request_in_progress",
        None,
        "the stored answer comes once the first is done; there is no key to hold",
    ),
    (&["postMessage"], 409, "invalid_state_transition", None, "a person may always write"),
    (
        &["createMessage", "getRunContext", "patchRun", "startRun"],
        404,
        "not_found",
        None,
        "a token names a run that is there; with another run's id it is refused first",
    ),
];

/// Problems that cannot meet an operation: those of a run's token on the side that has none.
fn cannot_meet(id: &str, outcome: &Outcome) -> bool {
    let (_, code, reason) = outcome;
    match (code.as_str(), id) {
        ("invocation_token_invalid", "postMessage" | "renewInvocationToken") => true,
        // Without a token these are answered too, and a run that has ended still has a state.
        ("invocation_token_invalid", "getRun" | "finishRun" | "reportFollowup") => {
            reason.as_deref() == Some("run_inactive")
        }
        // Ids are part of the path: a malformed one is a path that does not exist.
        ("validation_failed", _) => MALFORMED_ONLY_BY_ID.contains(&id),
        // Both sides may ask; there is no other side.
        ("forbidden", _) => is_of_both_sides(id) || is_open(id),
        _ => false,
    }
}

/// Operations whose only malformed part could be an id.
const MALFORMED_ONLY_BY_ID: &[&str] = &[
    "getServedChannelConfig",
    "getRun",
    "getRunContext",
    "getThread",
    "getUpload",
    "abortUpload",
    "downloadFile",
    "listRuns",
    "getRunDocument",
    "cancelRun",
];

/// Queries that must be refused.
const BAD_QUERIES: &[(&str, &str)] = &[
    ("pollEvents", "after=0"),
    ("pollEvents", "consumer=a%20b"),
    ("pollEvents", "consumer=walk&after=-1"),
    ("pollEvents", "consumer=walk&after=x"),
    ("pollEvents", "consumer=walk&wait_ms=-1"),
    ("pollEvents", "consumer=walk&max=x"),
    ("pollChanges", "after=-1"),
    ("pollChanges", "wait_ms=soon"),
    ("listMessages", "before=x"),
    ("listMessages", "limit=-1"),
    ("listServedChannels", "cursor=nowhere"),
    ("listThreads", "cursor=nowhere"),
];

fn operation(id: &str) -> Operation {
    let named = |it: &Operation| it.id == id || it.person_id.as_deref() == Some(id);
    contract().operations().into_iter().find(named).unwrap()
}

/// How the file lets somebody ask: its sets of credentials.
fn security(id: &str) -> Vec<BTreeSet<String>> {
    let operation = operation(id);
    let document = contract().document();
    let own = &document["paths"][&operation.path][operation.method.to_lowercase()]["security"];
    let sets = if own.is_null() { &document["security"] } else { own };
    let names = |set: &Value| set.as_object().unwrap().keys().cloned().collect();
    sets.as_array().unwrap().iter().map(names).collect()
}

fn is_open(id: &str) -> bool {
    security(id).is_empty()
}

fn is_of_both_sides(id: &str) -> bool {
    let has = |name: &str| security(id).iter().any(|set| set.contains(name));
    has("agentBearer") && has("personBearer")
}

/// Whether the operation takes an invocation token, and whether it insists.
fn takes_token(id: &str) -> (bool, bool) {
    let of_agent: Vec<_> = security(id).into_iter().filter(|set| set.contains("agentBearer")).collect();
    let bound = |set: &BTreeSet<String>| set.contains("invocationToken");
    (id != "postMessage" && of_agent.iter().any(bound), !of_agent.is_empty() && of_agent.iter().all(bound))
}

#[test]
fn every_operation_has_a_route_and_a_good_request() {
    let site = Site::new();
    let promised = promised();
    let requests: BTreeSet<&str> = good::REQUESTS.iter().map(|(id, _)| *id).collect();
    assert_eq!(requests, promised.keys().map(String::as_str).collect(), "each once, and no other");
    for id in promised.keys() {
        let (ask, _) = good::make(&site, id);
        site.ok(&ask);
        assert_eq!(site.hooks.requests().last().unwrap().operation, *id, "the route that answered");
    }
}

#[test]
fn every_good_request_is_one_that_the_file_describes() {
    let site = Site::new();
    for (id, make) in good::REQUESTS {
        let (ask, _) = make(&site);
        let body = (!ask.body.is_empty()).then(|| serde_json::from_slice::<Value>(&ask.body).ok()).flatten();
        let judged = contract().check_request(&ask.method, &ask.path, &ask.headers, body.as_ref());
        let name = if *id == "postMessage" { "createMessage" } else { id };
        assert_eq!(judged.as_deref(), Ok(name), "{ask:?}");
    }
}

#[test]
fn every_operation_is_walked_good_and_bad() {
    let site = Site::new();
    for id in promised().keys() {
        let (ask, _) = good::make(&site, id);
        walk_credentials(&site, id, &ask);
        walk_bodies(&site, id, &ask);
        walk_missing(&site, id, &ask);
        walk_tokens(&site, id);
        site.ok(&good::make(&site, id).0);
    }
    states::walk(&site);
    files::walk(&site);
    site_rules::walk(&site);
    play_what_never_happens(&site);
    let mut seen = site.seen();
    let mut unseen = Vec::new();
    for (id, outcomes) in promised() {
        let found = seen.remove(&id).unwrap_or_default();
        let open = outcomes.into_iter().filter(|it| !found.contains(it) && !cannot_meet(&id, it));
        unseen.extend(open.map(|outcome| (id.clone(), outcome)));
    }
    assert!(unseen.is_empty(), "never answered: {unseen:#?}");
}

/// Without a credential, with one of nobody, with one of the other side.
fn walk_credentials(site: &Site, id: &str, ask: &Ask) {
    if is_open(id) {
        if id == "createSession" {
            site.refused(&ask.clone().json(&json!({"secret": "guessed"})), 401, "unauthenticated");
        }
        return;
    }
    let bare = ask.clone().without("Authorization").without("Cookie");
    site.refused(&bare, 401, "unauthenticated");
    site.refused(&bare.clone().with("Authorization", "Bearer nobody"), 401, "unauthenticated");
    site.refused(&bare.clone().with("Authorization", "Basic nobody"), 401, "unauthenticated");
    if !is_of_both_sides(id) {
        let of_agent = security(id).iter().any(|set| set.contains("agentBearer"));
        let other = if of_agent { &site.person_secret } else { &site.agent_token };
        site.refused(&bare.with("Authorization", &format!("Bearer {other}")), 403, "forbidden");
    }
}

/// No JSON, another type, an unknown member, a null, a missing member, a wrong query.
fn walk_bodies(site: &Site, id: &str, ask: &Ask) {
    let (path, _) = ask.path.split_once('?').unwrap_or((&ask.path, ""));
    for (_, query) in BAD_QUERIES.iter().filter(|(of, _)| *of == id) {
        site.refused(&ask.clone().at(&format!("{path}?{query}")), 400, "validation_failed");
    }
    let Ok(body) = serde_json::from_slice::<Value>(&ask.body) else { return };
    site.refused(&ask.clone().bytes(b"{\"half\":"), 400, "validation_failed");
    site.refused(&ask.clone().bytes(b""), 400, "validation_failed");
    site.refused(&ask.clone().bytes(b"\xff\xfe"), 400, "validation_failed");
    site.refused(&ask.clone().bytes(b"[]"), 400, "validation_failed");
    site.refused(&ask.clone().with("Content-Type", "text/plain"), 415, "unsupported_media_type");
    for extra in [json!(1), Value::Null] {
        let mut grown = body.clone();
        grown["surprise"] = extra;
        let reply = site.refused(&ask.clone().json(&grown), 400, "validation_failed");
        assert_eq!(reply.body()["errors"][0]["pointer"], "/surprise");
    }
    for member in body.as_object().unwrap().keys() {
        let mut broken = body.clone();
        broken[member] = json!({"not": "this"});
        site.refused(&ask.clone().json(&broken), 400, "validation_failed");
    }
}

/// Another id in the path, and another method.
fn walk_missing(site: &Site, id: &str, ask: &Ask) {
    let whole = ask.path.split('?').next().unwrap();
    let template = operation(id).path;
    for (index, part) in template.split('/').enumerate().filter(|(_, part)| part.starts_with('{')) {
        let mut parts: Vec<String> = whole.split('/').map(str::to_owned).collect();
        parts[index] = if part == "{part_number}" { "77".to_owned() } else { Uuid::now_v7().to_string() };
        let reply = site.send(&ask.clone().at(&parts.join("/")));
        // Within a run another run, thread or channel is not the token's; the person is told that it is not there.
        let code = reply.body()["code"].as_str().unwrap().to_owned();
        let token = code == "invocation_token_invalid" && reply.body()["reason"] == "invalid";
        assert!(code == "not_found" || token, "{id} {part}: {reply:?}");
        for odd in
            ["x", "..", "%00", "01980000-0000-7000-8000-00000000000g", "01980000000070008000000000000001/.."]
        {
            parts[index] = odd.to_owned();
            site.refused_outside(&ask.clone().at(&parts.join("/")), 404);
        }
    }
    let wrong = Ask { method: "OPTIONS".to_owned(), ..ask.clone() };
    let reply = site.refused(&wrong, 405, "method_not_allowed");
    let allow = reply.header("allow").unwrap().to_owned();
    assert!(allow.split(", ").any(|it| it == operation(id).method), "{id}: {allow}");
}

/// Without a token, with a foreign, an expired, a superseded one, and that of a run that has ended.
fn walk_tokens(site: &Site, id: &str) {
    let (takes, insists) = takes_token(id);
    if !takes {
        return;
    }
    let denied = |ask: &Ask, reason: &str| {
        site.refused_because(ask, 403, "invocation_token_invalid", reason);
    };
    let (ask, run) = good::make(site, id);
    let run = run.unwrap_or_else(|| panic!("{id} is bound to a run"));
    let bare = ask.clone().without("Invocation-Token");
    if insists {
        denied(&bare, "invalid");
    }
    denied(&bare.clone().with("Invocation-Token", "a.b.c"), "invalid");
    // These two name nothing of the run, so every living run may ask.
    if !matches!(id, "getInstance" | "createUpload") {
        let foreign = site.send(&bare.clone().with("Invocation-Token", &site.queued().token));
        assert!(matches!(foreign.status, 403 | 404), "{id}: {foreign:?}");
    }
    let mut of_person = bare.with("Authorization", &format!("Bearer {}", site.person_secret));
    of_person = of_person.with("Invocation-Token", &run.token);
    if !is_of_both_sides(id) && id != "createMessage" {
        site.refused(&of_person, 403, "forbidden");
    }
    site.operator().expire_tokens(run.id).unwrap();
    denied(&ask, "expired");
    let (ask, run) = good::make(site, id);
    site.operator().mint_token(run.unwrap().id).unwrap();
    denied(&ask, "superseded");
    if !cannot_meet(id, &promised::problem(403, "invocation_token_invalid", Some("run_inactive"))) {
        let (ask, run) = good::make(site, id);
        site.finish(&run.unwrap());
        denied(&ask, "run_inactive");
    }
}

/// What this server never answers by itself is played by a fault and judged like the rest.
fn play_what_never_happens(site: &Site) {
    for (id, outcomes) in promised() {
        for (only, status, code, reason, _) in NEVER_HERE {
            let outcome = promised::problem(*status, code, *reason);
            if !outcomes.contains(&outcome) || !(only.is_empty() || only.contains(&id.as_str())) {
                continue;
            }
            let (ask, _) = good::make(site, &id);
            let mut problem = Problem::new(*status, code);
            problem.reason = reason.map(str::to_owned);
            let wait = matches!(status, 429 | 503).then(|| "1".to_owned());
            site.hooks.next(&id, Fault::Refuse(problem, wait));
            site.refused(&ask, *status, code);
        }
    }
}
