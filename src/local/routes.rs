//! The table of operations: method and path, who may ask, what body comes, what answers.

use uuid::Uuid;

use super::ops::{self, Operation};
use super::request::Caller;

/// Who may ask for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Everybody.
    Open,
    /// The agent.
    Agent,
    /// The person.
    Person,
    /// Both.
    Both,
}

/// What body an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// None.
    Nothing,
    /// JSON.
    Json,
    /// Bytes, streamed into a file.
    Bytes,
}

/// One operation.
pub struct Route {
    /// Its name in the contract.
    pub name: &'static str,
    /// Its method.
    pub method: &'static str,
    /// Its path; `{}` stands for an id, `#` for a number, `*` for a name.
    pub path: &'static str,
    /// Who may ask.
    pub side: Side,
    /// What body it takes.
    pub takes: Takes,
    /// Whether it needs an `Idempotency-Key`.
    pub keyed: bool,
    /// What answers.
    pub run: Operation,
}

const fn route(
    name: &'static str,
    method: &'static str,
    path: &'static str,
    side: Side,
    takes: Takes,
    run: Operation,
) -> Route {
    Route { name, method, path, side, takes, keyed: false, run }
}

const fn keyed(name: &'static str, path: &'static str, side: Side, run: Operation) -> Route {
    Route { name, method: "POST", path, side, takes: Takes::Json, keyed: true, run }
}

use Side::{Agent, Both, Open, Person};
use Takes::{Bytes, Json, Nothing};

/// Every operation.
#[rustfmt::skip] // one line per operation reads as the table it is
pub const ROUTES: &[Route] = &[
    route("getPage", "GET", "/", Open, Nothing, ops::page::get_page),
    route("getPagePart", "GET", "/page/*", Open, Nothing, ops::page::get_page),
    route("getDiscovery", "GET", "/.well-known/agent-server", Open, Nothing, ops::discovery::get_discovery),
    route("getJwks", "GET", ops::discovery::JWKS_PATH, Open, Nothing, ops::discovery::get_jwks),
    route("getInstance", "GET", "/api/v1/instance", Both, Nothing, ops::discovery::get_instance),
    route("getMe", "GET", "/api/v1/me", Both, Nothing, ops::discovery::get_me),
    route("listServedChannels", "GET", "/api/v1/agents/me/channels", Agent, Nothing, ops::channels::list_served_channels),
    route("getServedChannelConfig", "GET", "/api/v1/agents/me/channels/{}", Agent, Nothing, ops::channels::get_served_channel_config),
    route("sendHeartbeat", "POST", "/api/v1/agents/me/heartbeat", Agent, Json, ops::heartbeat::send_heartbeat),
    route("pollEvents", "GET", "/api/v1/gateway/events", Agent, Nothing, ops::gateway::poll_events),
    route("ackEvents", "POST", "/api/v1/gateway/acks", Agent, Json, ops::gateway::ack_events),
    route("getRun", "GET", "/api/v1/runs/{}", Agent, Nothing, ops::runs::get_run),
    route("getRunContext", "GET", "/api/v1/runs/{}/context", Agent, Nothing, ops::context::get_run_context),
    route("renewInvocationToken", "POST", "/api/v1/runs/{}/invocation-token", Agent, Json, ops::runs::renew_invocation_token),
    keyed("startRun", "/api/v1/runs/{}/start", Agent, ops::runs::start_run),
    route("patchRun", "PATCH", "/api/v1/runs/{}", Agent, Json, ops::runs::patch_run),
    route("finishRun", "POST", "/api/v1/runs/{}/finish", Agent, Json, ops::runs::finish_run),
    route("reportAgentSession", "PUT", "/api/v1/runs/{}/agent-session", Agent, Json, ops::sessions::report_agent_session),
    route("reportFollowup", "POST", "/api/v1/runs/{}/followups/{}", Agent, Json, ops::runs::report_followup),
    route("createMessage", "POST", "/api/v1/threads/{}/messages", Agent, Json, ops::messages::create_message),
    route("postMessage", "POST", "/api/v1/threads/{}/messages", Person, Json, ops::messages::post_message),
    route("listMessages", "GET", "/api/v1/threads/{}/messages", Person, Nothing, ops::messages::list_messages),
    route("getThread", "GET", "/api/v1/threads/{}", Both, Nothing, ops::threads::get_thread),
    route("setThreadTitle", "PUT", "/api/v1/threads/{}/title", Both, Json, ops::threads::set_thread_title),
    route("downloadFile", "GET", "/api/v1/files/{}/content", Both, Nothing, ops::downloads::download_file),
    keyed("createUpload", "/api/v1/channels/{}/uploads", Both, ops::uploads::create_upload),
    route("uploadPart", "PUT", "/api/v1/uploads/{}/parts/#", Both, Bytes, ops::uploads::upload_part),
    route("getUpload", "GET", "/api/v1/uploads/{}", Both, Nothing, ops::uploads::get_upload),
    keyed("completeUpload", "/api/v1/uploads/{}/complete", Both, ops::uploads::complete_upload),
    route("abortUpload", "DELETE", "/api/v1/uploads/{}", Both, Nothing, ops::uploads::abort_upload),
    route("createSession", "POST", "/session", Open, Json, ops::person_threads::create_session),
    route("deleteSession", "DELETE", "/session", Person, Nothing, ops::person_threads::delete_session),
    route("listProjects", "GET", "/api/v1/projects", Person, Nothing, ops::grants::list_projects),
    route("setProjectGrant", "PUT", "/api/v1/projects/{}/grant", Person, Json, ops::grants::set_project_grant),
    route("listThreads", "GET", "/api/v1/projects/{}/threads", Person, Nothing, ops::person_threads::list_threads),
    route("createThread", "POST", "/api/v1/projects/{}/threads", Person, Json, ops::person_threads::create_thread),
    route("listRuns", "GET", "/api/v1/threads/{}/runs", Person, Nothing, ops::person_runs::list_runs),
    route("getRunDocument", "GET", "/api/v1/runs/{}/document", Person, Nothing, ops::person_runs::get_run_document),
    route("cancelRun", "POST", "/api/v1/runs/{}/cancel", Person, Nothing, ops::person_runs::cancel_run),
    route("pollChanges", "GET", "/api/v1/changes", Person, Nothing, ops::changes::poll_changes),
    route("getRunnerState", "GET", "/api/v1/runner", Person, Nothing, ops::heartbeat::get_runner_state),
];

/// The members that the query of an operation may have; `None` where any may come along, as on the page, which people
/// open by links.
pub fn query_of(route: &Route) -> Option<&'static [&'static str]> {
    match route.name {
        "pollEvents" => Some(&["consumer", "after", "wait_ms", "max"]),
        "pollChanges" => Some(&["after", "wait_ms"]),
        "listMessages" => Some(&["before", "limit"]),
        "listThreads" | "listServedChannels" => Some(&["cursor"]),
        _ if route.side == Open => None,
        _ => Some(&[]),
    }
}

/// What a path names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Its ids, in order.
    pub ids: Vec<Uuid>,
    /// Its number.
    pub number: u32,
}

/// Why no route fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// No operation has this path.
    NotFound,
    /// The path's operations have these methods.
    Method(String),
    /// The path's operation belongs to the other side.
    OtherSide,
    /// The path's operation needs a credential.
    NoCredential,
}

/// The operation of `method` and `path` for `caller`; HEAD is answered as GET is.
pub fn find(method: &str, path: &str, caller: Caller) -> Result<(&'static Route, Names), Miss> {
    let here: Vec<(&Route, Names)> =
        ROUTES.iter().filter_map(|route| Some((route, fit(route.path, path)?))).collect();
    if here.is_empty() {
        return Err(Miss::NotFound);
    }
    let asked = if method == "HEAD" { "GET" } else { method };
    let methods: Vec<&str> = here.iter().map(|(route, _)| route.method).collect();
    let mut fitting = here.into_iter().filter(|(route, _)| route.method == asked).peekable();
    if fitting.peek().is_none() {
        return Err(Miss::Method(allow(&methods)));
    }
    let miss = if caller == Caller::Nobody { Miss::NoCredential } else { Miss::OtherSide };
    fitting.find(|(route, _)| admits(route.side, caller)).ok_or(miss)
}

/// The name under which a request without a fitting credential is captured.
pub fn name_of(method: &str, path: &str) -> &'static str {
    let asked = if method == "HEAD" { "GET" } else { method };
    let mut all = ROUTES.iter().filter(|route| route.method == asked && fit(route.path, path).is_some());
    all.next().map_or("unknown", |route| route.name)
}

fn admits(side: Side, caller: Caller) -> bool {
    match side {
        Side::Open => true,
        Side::Agent => matches!(caller, Caller::Agent(_)),
        Side::Person => caller == Caller::Person,
        Side::Both => caller != Caller::Nobody,
    }
}

fn allow(methods: &[&str]) -> String {
    let mut all: Vec<&str> = methods.to_vec();
    if all.contains(&"GET") {
        all.push("HEAD");
    }
    all.sort_unstable();
    all.dedup();
    all.join(", ")
}

fn fit(pattern: &str, path: &str) -> Option<Names> {
    let mut names = Names::default();
    let mut wanted = pattern.split('/');
    for given in path.split('/') {
        match wanted.next()? {
            "{}" => names.ids.push(plain_uuid(given)?),
            "#" => names.number = plain_number(given)?,
            "*" => {}
            literal if literal == given => {}
            _ => return None,
        }
    }
    wanted.next().is_none().then_some(names)
}

/// Only the hyphenated form: one thing has one address.
fn plain_uuid(text: &str) -> Option<Uuid> {
    Uuid::parse_str(text).ok().filter(|id| id.to_string().eq_ignore_ascii_case(text))
}

fn plain_number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number: &u32| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    #[test]
    fn paths_find_their_operation_by_credential() {
        let agent = Caller::Agent(Uuid::nil());
        let messages = format!("/api/v1/threads/{ID}/messages");
        let part = format!("/api/v1/uploads/{ID}/parts/2");
        let rows = [
            ("agent posts", "POST", messages.as_str(), agent, Ok("createMessage")),
            ("person posts", "POST", &messages, Caller::Person, Ok("postMessage")),
            ("nobody posts", "POST", &messages, Caller::Nobody, Err(Miss::NoCredential)),
            ("agent reads messages", "GET", &messages, agent, Err(Miss::OtherSide)),
            ("person polls events", "GET", "/api/v1/gateway/events", Caller::Person, Err(Miss::OtherSide)),
            ("page", "GET", "/", Caller::Nobody, Ok("getPage")),
            ("part of the page", "GET", "/page/main.js", Caller::Nobody, Ok("getPagePart")),
            ("below a part", "GET", "/page/a/b", Caller::Nobody, Err(Miss::NotFound)),
            ("open", "GET", "/.well-known/agent-server", Caller::Nobody, Ok("getDiscovery")),
            ("head", "HEAD", "/api/v1/instance", agent, Ok("getInstance")),
            ("part", "PUT", &part, agent, Ok("uploadPart")),
            ("signed number", "PUT", &format!("/api/v1/uploads/{ID}/parts/+2"), agent, Err(Miss::NotFound)),
            ("no id", "GET", "/api/v1/runs/1", agent, Err(Miss::NotFound)),
            ("other form of id", "GET", &format!("/api/v1/runs/{{{ID}}}"), agent, Err(Miss::NotFound)),
            ("slash behind", "GET", "/api/v1/me/", agent, Err(Miss::NotFound)),
            ("dots", "GET", "/api/v1/../v1/me", agent, Err(Miss::NotFound)),
            ("method", "DELETE", "/api/v1/me", agent, Err(Miss::Method("GET, HEAD".to_owned()))),
            ("methods", "PUT", &messages, agent, Err(Miss::Method("GET, HEAD, POST".to_owned()))),
        ];
        for (name, method, path, caller, expected) in rows {
            assert_eq!(find(method, path, caller).map(|(route, _)| route.name), expected, "{name}");
        }
        assert_eq!(find("PUT", &part, agent).unwrap().1.number, 2);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ROUTES.iter().map(|route| route.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROUTES.len());
    }
}
