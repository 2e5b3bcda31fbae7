//! The contract's file, its examples and the wire types say the same.

use std::collections::BTreeSet;

use claude_code_runner::sdk::wire::{channel, event, file, heartbeat, message, person, problem, run};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::support::openapi::{self, contract};
use crate::support::source;

/// Every operation of the contract: its name, method and path.
const OPERATIONS: &[(&str, &str, &str)] = &[
    ("getDiscovery", "GET", "/.well-known/agent-server"),
    ("getJwks", "GET", "/.well-known/jwks.json"),
    ("getInstance", "GET", "/api/v1/instance"),
    ("getMe", "GET", "/api/v1/me"),
    ("listServedChannels", "GET", "/api/v1/agents/me/channels"),
    ("getServedChannelConfig", "GET", "/api/v1/agents/me/channels/{channel_id}"),
    ("pollEvents", "GET", "/api/v1/gateway/events"),
    ("ackEvents", "POST", "/api/v1/gateway/acks"),
    ("getRun", "GET", "/api/v1/runs/{run_id}"),
    ("getRunContext", "GET", "/api/v1/runs/{run_id}/context"),
    ("renewInvocationToken", "POST", "/api/v1/runs/{run_id}/invocation-token"),
    ("startRun", "POST", "/api/v1/runs/{run_id}/start"),
    ("patchRun", "PATCH", "/api/v1/runs/{run_id}"),
    ("finishRun", "POST", "/api/v1/runs/{run_id}/finish"),
    ("reportAgentSession", "PUT", "/api/v1/runs/{run_id}/agent-session"),
    ("reportFollowup", "POST", "/api/v1/runs/{run_id}/followups/{followup_id}"),
    ("createMessage", "POST", "/api/v1/threads/{thread_id}/messages"),
    ("getThread", "GET", "/api/v1/threads/{thread_id}"),
    ("setThreadTitle", "PUT", "/api/v1/threads/{thread_id}/title"),
    ("downloadFile", "GET", "/api/v1/files/{file_id}/content"),
    ("createUpload", "POST", "/api/v1/channels/{channel_id}/uploads"),
    ("uploadPart", "PUT", "/api/v1/uploads/{file_id}/parts/{part_number}"),
    ("getUpload", "GET", "/api/v1/uploads/{file_id}"),
    ("completeUpload", "POST", "/api/v1/uploads/{file_id}/complete"),
    ("abortUpload", "DELETE", "/api/v1/uploads/{file_id}"),
    ("sendHeartbeat", "POST", "/api/v1/agents/me/heartbeat"),
    ("createSession", "POST", "/session"),
    ("deleteSession", "DELETE", "/session"),
    ("listProjects", "GET", "/api/v1/projects"),
    ("setProjectGrant", "PUT", "/api/v1/projects/{channel_id}/grant"),
    ("listThreads", "GET", "/api/v1/projects/{channel_id}/threads"),
    ("createThread", "POST", "/api/v1/projects/{channel_id}/threads"),
    ("listRuns", "GET", "/api/v1/threads/{thread_id}/runs"),
    ("listMessages", "GET", "/api/v1/threads/{thread_id}/messages"),
    ("postMessage", "POST", "/api/v1/threads/{thread_id}/messages"),
    ("getRunDocument", "GET", "/api/v1/runs/{run_id}/document"),
    ("cancelRun", "POST", "/api/v1/runs/{run_id}/cancel"),
    ("pollChanges", "GET", "/api/v1/changes"),
    ("getRunnerState", "GET", "/api/v1/runner"),
];

/// Reads a value into a wire type and prints it back.
type RoundTrip = fn(&Value) -> Result<(), String>;

/// The wire types of each operation's request and answer; operations without bodies have none.
const ROUND_TRIPS: &[(&str, RoundTrip, RoundTrip)] = &[
    ("getDiscovery", nothing, same::<file::Discovery>),
    ("getJwks", nothing, same::<Value>),
    ("getInstance", nothing, same::<file::InstanceInfo>),
    ("getMe", nothing, same::<file::Me>),
    ("listServedChannels", nothing, same::<channel::ServedChannels>),
    ("getServedChannelConfig", nothing, same::<channel::AgentChannelConfig>),
    ("pollEvents", nothing, same::<event::PollAnswer>),
    ("ackEvents", same::<event::AckEvents>, nothing),
    ("getRun", nothing, same::<run::RunInfo>),
    ("getRunContext", nothing, same::<message::RunContext>),
    ("renewInvocationToken", same::<run::InvocationTokenRenew>, same::<run::InvocationTokenGrant>),
    ("startRun", same::<run::RunStart>, same::<run::RunStarted>),
    ("patchRun", same_patch, same::<run::Versioned>),
    ("finishRun", same::<run::RunFinish>, same::<run::RunInfo>),
    ("reportAgentSession", same::<run::AgentSessionReport>, same::<run::Versioned>),
    ("reportFollowup", same::<run::FollowupReport>, same::<Map<String, Value>>),
    ("createMessage", same::<message::MessageCreate>, same::<message::MessageCreated>),
    ("getThread", nothing, same::<message::ThreadInfo>),
    ("setThreadTitle", same::<message::ThreadTitlePut>, same::<message::ThreadInfo>),
    ("downloadFile", nothing, nothing),
    ("createUpload", same::<file::UploadCreate>, same::<file::UploadSession>),
    ("uploadPart", nothing, same::<file::PartResult>),
    ("getUpload", nothing, same::<file::UploadState>),
    ("completeUpload", same::<file::UploadComplete>, same::<file::File>),
    ("abortUpload", nothing, nothing),
    ("sendHeartbeat", same::<heartbeat::Heartbeat>, same::<heartbeat::HeartbeatAck>),
    ("createSession", same::<person::SessionCreate>, nothing),
    ("deleteSession", nothing, nothing),
    ("listProjects", nothing, same::<person::Projects>),
    ("setProjectGrant", same::<person::ProjectGrantPut>, same::<person::Project>),
    ("listThreads", nothing, same::<person::Threads>),
    ("createThread", same::<person::ThreadCreate>, same::<person::ThreadSummary>),
    ("listRuns", nothing, same::<person::Runs>),
    ("listMessages", nothing, same::<person::Messages>),
    ("postMessage", same::<person::MessagePost>, same::<person::MessagePosted>),
    ("getRunDocument", nothing, same::<person::RunDocument>),
    ("cancelRun", nothing, same::<run::RunInfo>),
    ("pollChanges", nothing, same::<person::Changes>),
    ("getRunnerState", nothing, same::<person::RunnerState>),
];

fn same<T: Serialize + DeserializeOwned>(value: &Value) -> Result<(), String> {
    let typed: T = serde_json::from_value(value.clone()).map_err(|fault| fault.to_string())?;
    let printed = serde_json::to_value(typed).map_err(|fault| fault.to_string())?;
    if printed == *value { Ok(()) } else { Err(format!("became {printed}")) }
}

fn same_patch(value: &Value) -> Result<(), String> {
    same::<run::RunPatch>(value)?;
    let ops = value["ops"].as_array().ok_or("no operations")?;
    let steps = ops.iter().filter(|op| op["path"].as_str().is_some_and(|path| path.starts_with("/steps/")));
    steps.filter_map(|op| op.get("value")).try_for_each(same::<run::RunStep>)
}

fn nothing(value: &Value) -> Result<(), String> {
    Err(format!("no body belongs here, found {value}"))
}

struct Example {
    id: &'static str,
    method: &'static str,
    path: String,
    content: Value,
}

fn examples() -> Vec<Example> {
    let directory = openapi::directory().join("examples");
    let load = |(id, method, template): &(&'static str, &'static str, &str)| {
        let text = std::fs::read_to_string(directory.join(format!("{id}.json"))).expect(id);
        let content: Value = serde_json::from_str(&text).expect(id);
        let path = content["request"]["path"].as_str().unwrap_or(template).to_owned();
        Example { id, method, path, content }
    };
    OPERATIONS.iter().map(load).collect()
}

impl Example {
    fn headers(&self, part: &str) -> Vec<(String, String)> {
        let members = self.content[part].get("headers").and_then(Value::as_object);
        let pair = |(name, value): (&String, &Value)| (name.clone(), value.as_str().unwrap().to_owned());
        members.into_iter().flatten().map(pair).collect()
    }

    fn body(&self, part: &str) -> Option<&Value> {
        self.content[part].get("body")
    }

    fn status(&self) -> u16 {
        u16::try_from(self.content["response"]["status"].as_u64().unwrap()).unwrap()
    }

    fn problems(&self) -> &[Value] {
        self.content["problems"].as_array().map_or(&[], Vec::as_slice)
    }

    fn check_request(&self, body: Option<&Value>) -> Result<String, String> {
        contract().check_request(self.method, &self.path, &self.headers("request"), body)
    }

    /// The name that the file gives the operation: both sides of one path share it.
    fn shared_id(&self) -> &str {
        if self.id == "postMessage" { "createMessage" } else { self.id }
    }
}

fn events() -> Vec<(String, Value)> {
    let directory = openapi::directory().join("examples/events");
    let load = |kind: String| {
        let text = std::fs::read_to_string(directory.join(format!("{kind}.json"))).expect(&kind);
        (kind, serde_json::from_str(&text).unwrap())
    };
    source::constants("src/sdk/wire/event.rs", "kind").into_iter().map(load).collect()
}

fn enumerated(schema: &str) -> BTreeSet<String> {
    let values = contract().document()["components"]["schemas"][schema]["enum"].as_array().expect(schema);
    values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_operation_of_the_contract_is_described() {
    let mut described = BTreeSet::new();
    for operation in contract().operations() {
        for id in [Some(operation.id), operation.person_id].into_iter().flatten() {
            assert!(described.insert((id.clone(), operation.method.clone(), operation.path.clone())), "{id}");
        }
    }
    let row = |(id, method, path): &(&str, &str, &str)| {
        ((*id).to_owned(), (*method).to_owned(), (*path).to_owned())
    };
    let expected: BTreeSet<_> = OPERATIONS.iter().map(row).collect();
    assert_eq!(described, expected);
}

#[test]
fn every_operation_and_event_has_an_example_and_no_other_file_is_there() {
    let names = |directory: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(openapi::directory().join(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect()
    };
    let operations: BTreeSet<String> = OPERATIONS.iter().map(|(id, _, _)| (*id).to_owned()).collect();
    assert_eq!(names("examples"), operations);
    let kinds: BTreeSet<String> = events().into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(names("examples/events"), kinds);
}

#[test]
fn examples_are_valid() {
    for example in examples() {
        let (id, status) = (example.id, example.status());
        assert_eq!(
            example.check_request(example.body("request")),
            Ok(example.shared_id().to_owned()),
            "{id}"
        );
        let headers = example.headers("response");
        let judged = contract().check_answer_headers(example.method, &example.path, status, &headers);
        assert_eq!(judged, Ok(example.shared_id().to_owned()), "{id}");
        let body = example.body("response");
        let media = openapi::find_header(&headers, "content-type").or(body.map(|_| "application/json"));
        let judged = contract().check_answer(example.method, &example.path, status, media, body);
        assert_eq!(judged, Ok(example.shared_id().to_owned()), "{id}");
    }
}

#[test]
fn example_problems_are_valid() {
    for example in examples() {
        assert!(!example.problems().is_empty(), "{}", example.id);
        for problem in example.problems() {
            let status = u16::try_from(problem["status"].as_u64().unwrap()).unwrap();
            let media = Some("application/problem+json; charset=utf-8");
            let method = if status == 405 { "PUT" } else { example.method };
            let judged =
                contract().check_answer(method, &example.path, status, media, Some(&problem["body"]));
            assert!(judged.is_ok(), "{}: {problem}: {judged:?}", example.id);
        }
    }
}

#[test]
fn example_events_are_valid() {
    for (kind, event) in events() {
        assert_eq!(event["type"], kind.as_str());
        contract().check_schema("Event", &event).expect(&kind);
    }
}

#[test]
fn examples_parse_into_the_wire_types_and_print_back() {
    assert_eq!(ROUND_TRIPS.len(), OPERATIONS.len());
    for example in examples() {
        let (id, request, response) =
            ROUND_TRIPS.iter().find(|(id, _, _)| *id == example.id).expect(example.id);
        if let Some(body) = example.body("request") {
            assert_eq!(request(body), Ok(()), "request of {id}");
        }
        if let Some(body) = example.body("response") {
            assert_eq!(response(body), Ok(()), "answer of {id}");
        }
        for problem in example.problems() {
            assert_eq!(same::<problem::Problem>(&problem["body"]), Ok(()), "{id}");
        }
    }
}

#[test]
fn example_events_parse_into_the_wire_types_and_print_back() {
    for (kind, event) in events() {
        assert_eq!(same::<event::Event>(&event), Ok(()), "{kind}");
        let payload: RoundTrip = match kind.as_str() {
            event::kind::AGENT_INVOCATION => same::<event::AgentInvocation>,
            event::kind::AGENT_FOLLOWUP => same::<event::AgentFollowup>,
            event::kind::AGENT_CONFIG_CHANGED => same::<event::AgentConfigChanged>,
            event::kind::RUN_CANCEL_REQUESTED => same::<event::RunCancelRequested>,
            _ => same::<Value>,
        };
        assert_eq!(payload(&event["payload"]), Ok(()), "{kind}");
    }
}

#[test]
fn no_schema_allows_null() {
    let mut places = Vec::new();
    for (name, schema) in contract().document()["components"]["schemas"].as_object().unwrap() {
        let members = schema["properties"].as_object().into_iter().flatten();
        places.extend(members.map(|(member, _)| format!("{name}/properties/{member}")));
        places.push(name.clone());
    }
    // All in one schema, because compiling hundreds of them takes seconds.
    let refused = contract().check_any_schema(&places, &Value::Null).is_err();
    let culprit = || places.iter().find(|place| contract().check_schema(place, &Value::Null).is_ok());
    assert!(refused, "null fits {:?}", culprit());
}

#[test]
fn requests_with_unknown_or_null_members_are_refused() {
    for example in examples() {
        let Some(body) = example.body("request") else { continue };
        for extra in [json!(1), Value::Null] {
            let mut grown = body.clone();
            grown["surprise"] = extra;
            assert!(example.check_request(Some(&grown)).is_err(), "{}", example.id);
        }
        for member in body.as_object().unwrap().keys() {
            let mut broken = body.clone();
            broken[member] = Value::Null;
            assert!(example.check_request(Some(&broken)).is_err(), "{} {member}", example.id);
        }
    }
}

#[test]
fn answers_may_grow_but_never_with_a_null() {
    for example in examples() {
        let Some(body) = example.body("response").filter(|body| body.is_object()) else { continue };
        for (extra, fine) in [(json!(1), true), (Value::Null, false), (json!({"deep": [null]}), false)] {
            let mut grown = body.clone();
            grown["surprise"] = extra;
            let media = Some("application/json");
            let judged =
                contract().check_answer(example.method, &example.path, example.status(), media, Some(&grown));
            assert_eq!(judged.is_ok(), fine, "{}: {judged:?}", example.id);
        }
    }
}

#[test]
fn problem_codes_reasons_and_event_types_are_those_of_the_wire() {
    for (path, module, schema) in [
        ("src/sdk/wire/problem.rs", "code", "ProblemCode"),
        ("src/sdk/wire/problem.rs", "reason", "ProblemReason"),
        ("src/sdk/wire/event.rs", "kind", "EventType"),
    ] {
        let ours: BTreeSet<String> = source::constants(path, module).into_iter().collect();
        assert_eq!(enumerated(schema), ours, "{schema}");
    }
}

#[test]
fn every_problem_code_and_reason_has_an_example() {
    let examples = examples();
    for (member, schema) in [("code", "ProblemCode"), ("reason", "ProblemReason")] {
        let problems = examples.iter().flat_map(Example::problems);
        let shown = problems.filter_map(|problem| problem["body"][member].as_str()).map(str::to_owned);
        assert_eq!(shown.collect::<BTreeSet<_>>(), enumerated(schema));
    }
}

#[test]
fn every_wire_type_has_its_schema() {
    let types = source::wire_types();
    assert!(types.len() > 70, "only {} types were found in the source", types.len());
    for wire_type in types {
        let schema = &contract().document()["components"]["schemas"][&wire_type.name];
        let problem =
            if wire_type.is_struct { struct_fault(&wire_type, schema) } else { enum_fault(&wire_type) };
        assert_eq!(problem, None, "{}", wire_type.name);
    }
}

fn struct_fault(wire_type: &source::WireType, schema: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let described: BTreeSet<String> = schema["properties"].as_object()?.keys().cloned().collect();
    let declared: BTreeSet<String> = wire_type.items.iter().map(|item| item.name.clone()).collect();
    if described != declared {
        return Some(format!("described {described:?}, declared {declared:?}"));
    }
    if wire_type.closed != (schema["additionalProperties"] == false) {
        return Some("only one of both refuses unknown members".to_owned());
    }
    let required: BTreeSet<String> = schema["required"].as_array().into_iter().flatten().map(text).collect();
    let differs = |item: &&source::WireItem| {
        let needed = required.contains(&item.name);
        needed == item.optional && !(needed && item.lenient)
    };
    wire_type.items.iter().find(differs).map(|item| format!("{} is required in one of both only", item.name))
}

fn enum_fault(wire_type: &source::WireType) -> Option<String> {
    let described = enumerated(&wire_type.name);
    let known = |name: &String| wire_type.items.iter().any(|item| item.name == *name);
    if let Some(stray) = described.iter().find(|name| !known(name)) {
        return Some(format!("{stray} is no value of the type"));
    }
    let missing = wire_type.items.iter().find(|item| !item.lenient && !described.contains(&item.name));
    missing.map(|item| format!("{} is not described", item.name))
}

#[test]
fn the_judge_refuses_what_the_contract_does_not_promise() {
    let run = "/api/v1/runs/01980000-0000-7000-8000-0000000000e1";
    let json = Some("application/json");
    let problem = Some("application/problem+json");
    let info = json!({"run_id": "01980000-0000-7000-8000-0000000000e1", "state": "running", "version": 1});
    let missing = json!({"type": "about:blank", "title": "", "status": 404, "code": "not_found"});
    let with = |member: &str, value: Value| {
        let mut changed = info.clone();
        changed[member] = value;
        changed
    };
    let rows = [
        ("good", "GET", run, 200, json, Some(info.clone()), true),
        ("good problem", "GET", run, 404, problem, Some(missing.clone()), true),
        ("unknown path", "GET", "/api/v1/nothing", 200, json, Some(info.clone()), false),
        ("unknown method", "PUT", run, 200, json, Some(info.clone()), false),
        ("unknown status", "GET", run, 201, json, Some(info.clone()), false),
        ("wrong media type", "GET", run, 200, Some("text/html"), Some(info.clone()), false),
        ("no body", "GET", run, 200, json, None, false),
        ("no media type and no body", "GET", run, 200, None, None, false),
        ("id is no UUID", "GET", run, 200, json, Some(with("run_id", json!("e1"))), false),
        ("state is unknown", "GET", run, 200, json, Some(with("state", json!("asleep"))), false),
        ("version is text", "GET", run, 200, json, Some(with("version", json!("1"))), false),
        ("problem as plain JSON", "GET", run, 404, json, Some(missing.clone()), false),
        ("problem of another status", "GET", run, 401, problem, Some(missing), false),
        ("body where none belongs", "DELETE", "/session", 204, json, Some(json!({})), false),
    ];
    for (name, method, path, status, media, body, fine) in rows {
        let judged = contract().check_answer(method, path, status, media, body.as_ref());
        assert_eq!(judged.is_ok(), fine, "{name}: {judged:?}");
    }
    let clock = |time: &str| contract().check_schema("HeartbeatAck", &json!({"server_time": time})).is_ok();
    assert!(clock("2026-01-02T03:04:05.678Z"));
    for time in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+00:00", "2026-13-02T03:04:05.678Z", "now"] {
        assert!(!clock(time), "{time}");
    }
}

#[test]
fn the_judge_refuses_requests_with_wrong_credentials_or_parameters() {
    let run = "/api/v1/runs/01980000-0000-7000-8000-0000000000e1";
    let context = format!("{run}/context");
    let bearer = ("Authorization", "Bearer agent-token");
    let dpop = ("Authorization", "DPoP agent-token");
    let bound = ("Invocation-Token", "eyJh.eyJp.c2ln");
    let cookie = ("Cookie", "other=1; local_session=example");
    let upload = "/api/v1/uploads/01980000-0000-7000-8000-000000000f03";
    type Row<'a> = (&'a str, &'a str, &'a str, &'a [(&'a str, &'a str)], bool);
    let rows: &[Row] = &[
        ("bound", "GET", &context, &[bearer, bound], true),
        ("bound without a token", "GET", &context, &[bearer], false),
        ("bound by a person", "GET", &context, &[cookie], false),
        ("DPoP without a proof", "GET", &context, &[dpop, bound], false),
        ("DPoP with a proof", "GET", &context, &[dpop, ("dpop", "x.y.z"), bound], true),
        ("run with or without a token", "GET", run, &[bearer], true),
        ("no credential", "GET", run, &[], false),
        ("a token where none belongs", "GET", "/api/v1/me", &[bearer, bound], false),
        ("a person's cookie", "GET", "/api/v1/me", &[cookie], true),
        ("a credential for the discovery", "GET", "/.well-known/agent-server", &[bearer], false),
        ("no UUID in the path", "GET", "/api/v1/runs/e1", &[bearer], false),
        ("no key", "POST", &format!("{upload}/complete"), &[bearer, bound], false),
        ("query", "GET", "/api/v1/changes?after=1&wait_ms=0", &[cookie], true),
        ("query is no number", "GET", "/api/v1/changes?after=x", &[cookie], false),
        ("query is negative", "GET", "/api/v1/changes?after=-1", &[cookie], false),
        ("query is unknown", "GET", "/api/v1/changes?since=1", &[cookie], false),
        ("query twice", "GET", "/api/v1/changes?after=1&after=2", &[cookie], false),
        ("query is missing", "GET", "/api/v1/gateway/events", &[bearer], false),
        ("query is escaped", "GET", "/api/v1/gateway/events?consumer=a%20b", &[bearer], true),
        ("escape is cut", "GET", "/api/v1/gateway/events?consumer=a%2", &[bearer], false),
    ];
    for (name, method, path, headers, fine) in rows {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let headers: Vec<(String, String)> = headers.iter().map(owned).collect();
        let judged = contract().check_request(method, path, &headers, None);
        assert_eq!(judged.is_ok(), *fine, "{name}: {judged:?}");
    }
}
