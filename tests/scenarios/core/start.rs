//! From a message to a running turn: what is promised to the server, what the CLI is started with.

use std::collections::BTreeSet;

use claude_code_runner::local::Behavior;
use claude_code_runner::local::hooks::{Fault, Gate};
use claude_code_runner::sdk::wire::run::{RunState, ToolClass};
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::support::logs;
use crate::support::wait::{DEADLINE, eventually};
use crate::support::world::{API_KEY, Setup, World};

/// The variables of a turn in mode organization whose runner has only HOME, PATH and USER.
const ENVIRONMENT: [&str; 12] = [
    "ANTHROPIC_API_KEY",
    "CLAUDE_CODE_DISABLE_ATTACHMENTS",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CONFIG_DIR",
    "DISABLE_AUTOUPDATER",
    "DISABLE_TELEMETRY",
    "HOME",
    "LANG",
    "PATH",
    "TMPDIR",
    "USER",
];

#[test]
fn happy_path_organization() {
    let world = World::new();
    let gate = Gate::new();
    world.hooks.next("startRun", Fault::DoneThenHold(gate.clone()));
    world.claude.plays(&json!({"turns": [{"title": "Orders of May", "steps": [
        {"tool": {"name": "Read", "input": {"file_path": "orders.txt"}, "do": [{"mark": "reads"}, {"hold": "go"}]}},
        {"text": "Seven orders."},
    ]}]}));
    let thread = world.thread();
    let file = world.person.uploads(world.channel(), "orders.txt", b"three rows");
    let run = world.person.says_with(thread, "Count the orders", &[file]).run_id.unwrap();

    assert!(gate.reached(DEADLINE));
    assert!(world.claude.captured("turn").is_empty(), "no process before the answer to startRun");
    gate.open();
    reached(&world, "reads");
    eventually("the call shows", || {
        steps(&world.person.run(run)).iter().any(|step| step["status"] == "running").then_some(())
    });
    world.claude.release("go");
    let found = world.ends_as(run, RunState::Completed, None);

    let session = checks_start(&world, run);
    checks_argv(&world, run, thread, &session);
    checks_environment(&world, run);
    checks_document(&world, run, &found);
    checks_answer(&world, run, thread, &session);
    checks_tokens(&world, run);
    let inbox = world.state().join("files").join(thread.to_string()).join(file.to_string());
    assert_eq!(std::fs::read(inbox.join("orders.txt")).unwrap(), b"three rows");
}

fn checks_start(world: &World, run: Uuid) -> String {
    let body = start_body(world, run);
    let session = body["external_session_ref"].as_str().unwrap().to_owned();
    assert!(Uuid::parse_str(&session).is_ok());
    let expected = json!({
        "billing_mode_used": "organization", "tool_class_used": "scoped", "external_session_ref": session,
        "model": "claude-sonnet-4-5",
        "billing_evidence": {"provider": "anthropic", "key_type": "api_key", "method": "claude_auth_status"},
    });
    assert_eq!(body, expected);
    session
}

fn checks_argv(world: &World, run: Uuid, thread: Uuid, session: &str) {
    let state = world.state().display().to_string();
    let (temp, inbox) = (format!("{state}/tmp/{run}"), format!("{state}/files/{thread}"));
    let prompt = format!("{state}/sessions/{session}/{run}.system-prompt.md");
    // The local server's projects are read only until the person says otherwise (IN-8).
    let (write, edit) = (format!("Write(/{temp}/**)"), format!("Edit(/{temp}/**)"));
    let program = world.claude.program().display().to_string();
    #[rustfmt::skip]
    let expected = [
        program.as_str(), "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
        "--replay-user-messages", "--model", "claude-sonnet-4-5", "--session-id", session,
        "--permission-mode", "dontAsk", "--allowedTools", "Read", &write, &edit,
        "--strict-mcp-config", "--system-prompt-snapshot", "off", "--restricted", "--tools", "Read,Write,Edit",
        "--permission-prompts", "none", "--add-dir", &inbox, &temp, "--append-system-prompt-file", &prompt,
    ];
    assert_eq!(world.claude.argvs(), [expected.map(str::to_owned).to_vec()]);
    assert_eq!(world.claude.captured("turn")[0]["cwd"], world.project().display().to_string());
    let auth = &world.claude.captured("auth")[0]["argv"];
    assert_eq!(auth, &json!([program, "--setting-sources", "", "auth", "status"]));
}

fn checks_environment(world: &World, run: Uuid) {
    let environment = world.claude.environment(0);
    let names: BTreeSet<&str> = environment.keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(ENVIRONMENT));
    let state = world.state().display().to_string();
    assert_eq!(environment["ANTHROPIC_API_KEY"], API_KEY);
    assert_eq!(environment["CLAUDE_CONFIG_DIR"], format!("{state}/claude-config/organization"));
    assert_eq!(environment["TMPDIR"], format!("{state}/tmp/{run}"));
    assert_eq!(environment["LANG"], "C.UTF-8", "R-17");
    assert_eq!(world.claude.captured("auth")[0]["env"], world.claude.captured("turn")[0]["env"]);
}

fn checks_document(world: &World, run: Uuid, found: &claude_code_runner::sdk::wire::person::RunDocument) {
    let ops = patches(world, run);
    let set = |path: &str| ops.iter().filter(|op| op["path"] == path).cloned().collect::<Vec<_>>();
    assert_eq!(set("/model")[0]["value"], "claude-sonnet-4-5");
    let calls: Vec<Value> = ops.iter().filter(|op| op["value"]["kind"] == "tool_call").cloned().collect();
    let states: Vec<&str> = calls.iter().filter_map(|op| op["value"]["status"].as_str()).collect();
    assert_eq!(states, ["running", "completed"]);
    assert!(calls.iter().all(|op| op["path"] == calls[0]["path"] && op["value"]["title"] == "orders.txt"));
    assert!(calls[1]["value"]["finished_at"].is_string());
    let excerpts = set("/last_text_excerpt");
    assert_eq!(excerpts.last().unwrap()["value"], "Seven orders.", "the title line does not show");
    assert!(found.document.get("status_line").is_none());
    let costs = found.costs.as_ref().unwrap();
    assert_eq!((costs.len(), costs[0].amount_micros, costs[0].currency.as_str()), (1, 6855, "USD"));
    assert_eq!(found.document["metrics"]["tokens_in"], 1200);
}

fn checks_answer(world: &World, run: Uuid, thread: Uuid, session: &str) {
    let answers = world.answers(thread);
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].content_md.as_str(), answers[0].run_id), ("Seven orders.", Some(run)));
    let reports = of_run(world, "reportAgentSession", run);
    assert_eq!(reports.len(), 1);
    let report = reports[0].json().unwrap();
    assert_eq!(report["external_session_ref"], session);
    assert_eq!((&report["started"], &report["bind_failed"]), (&json!(true), &Value::Null));
    assert_eq!(reports[0].header("If-Match"), Some("\"1\""));
    let titles = world.hooks.requests_of("setThreadTitle");
    assert_eq!(titles.len(), 1);
    assert_eq!(titles[0].json().unwrap(), json!({"title": "Orders of May"}));
    assert!(titles[0].header("If-Match").is_some());
    let finish = &bodies(world, "finishRun", run)[0];
    assert_eq!(finish["state"], "completed");
    assert!(finish["costs"].is_array() && finish["metrics"].is_object());
}

fn checks_tokens(world: &World, run: Uuid) {
    let token = world.server.operator().newest_token(run).unwrap();
    let inside = [
        "getRunContext",
        "downloadFile",
        "startRun",
        "getThread",
        "setThreadTitle",
        "reportAgentSession",
        "patchRun",
        "createMessage",
        "finishRun",
    ];
    for operation in inside {
        let requests = world.hooks.requests_of(operation);
        // The person's own requests go to some of the same paths, with the person's secret.
        let own: Vec<_> =
            requests.iter().filter(|request| request.header("Invocation-Token").is_some()).collect();
        assert!(!own.is_empty(), "{operation}");
        assert!(
            own.iter().all(|request| request.header("Invocation-Token") == Some(token.as_str())),
            "{operation}"
        );
    }
    world.server.operator().set_behavior(world.channel(), Behavior::default()).unwrap();
    answered(world, "getServedChannelConfig", 1);
    for operation in
        ["listServedChannels", "sendHeartbeat", "getServedChannelConfig", "pollEvents", "ackEvents"]
    {
        let requests = world.hooks.requests_of(operation);
        assert!(!requests.is_empty(), "{operation}");
        assert!(requests.iter().all(|request| request.header("Invocation-Token").is_none()), "{operation}");
    }
}

#[test]
fn tool_class_used_is_configured_class() {
    for class in classes() {
        for allowed in [ToolClass::Chat, ToolClass::Scoped, ToolClass::Host] {
            if class.exceeds(allowed) {
                continue;
            }
            let world = World::with(Setup { runner_class: class, server_class: allowed, ..Setup::default() });
            if class == ToolClass::Host {
                grant(&world, json!({"workspace_write": true}));
            }
            let (_, run) = world.asks("Hello");
            world.ends_as(run, RunState::Completed, None);
            assert_eq!(start_body(&world, run)["tool_class_used"], json!(class), "{class:?} {allowed:?}");
            let argv = &world.claude.argvs()[0];
            let mode = if class == ToolClass::Host { "bypassPermissions" } else { "dontAsk" };
            assert_eq!(values_of(argv, "--permission-mode"), [mode]);
            assert_eq!(argv.contains(&"--restricted".to_owned()), class != ToolClass::Host);
            let heartbeat = world.hooks.requests_of("sendHeartbeat")[0].json().unwrap();
            assert_eq!(heartbeat["reported_tool_class"], json!(class));
        }
    }
}

/// Changes the permissions of `Projekt-A` and waits until the runner has loaded them.
fn grant(world: &World, change: Value) {
    let loaded = world.hooks.requests_of("getServedChannelConfig").len();
    world.person.grants(world.channel(), &change);
    answered(world, "getServedChannelConfig", loaded + 1);
}

#[test]
fn ag_30_runner_side_tool_class_mismatch() {
    let host = Setup { runner_class: ToolClass::Host, ..Setup::default() };
    let world = World::with(host);
    let (_, run) = world.asks("Hello");
    refused_before_start(&world, run, "tool_class_mismatch", "host above scoped");
    assert!(world.claude.captured("auth").is_empty());
    answered(&world, "ackEvents", 1);
    assert!(logs::has_code(run, "tool_class_mismatch"));

    let world = World::with(Setup { runner_class: ToolClass::Chat, ..Setup::default() });
    let (_, run) = world.asks("Hello");
    world.ends_as(run, RunState::Completed, None);
    assert_eq!(start_body(&world, run)["tool_class_used"], "chat");
}

#[test]
fn unbound_channel_and_other_trigger_kinds_refused() {
    let mut world = World::without_runner(Setup::default());
    let (_, run) = world.asks("Hello");
    world.server.operator().unbind(world.channel()).unwrap();
    world.start_runner();
    refused_before_start(&world, run, "adapter_error", "not served any more");
    assert!(world.claude.captured("auth").is_empty() && logs::has_code(run, "project_not_bound"));

    let mut world = World::without_runner(Setup::default());
    let (_, run) = world.asks("Hello");
    text_channel(&world);
    world.start_runner();
    refused_before_start(&world, run, "adapter_error", "a text channel");
    assert!(logs::has_code(run, "project_not_bound"));

    for kind in ["command", "component", "something_new"] {
        let mut world = World::without_runner(Setup::default());
        let (_, run) = world.asks("Hello");
        let operator = world.server.operator();
        operator.lose_events().unwrap();
        let token = operator.mint_token(run).unwrap();
        operator.redeliver_with(run, token, |payload| payload["trigger_kind"] = kind.into()).unwrap();
        world.start_runner();
        refused_before_start(&world, run, "adapter_error", kind);
        assert!(world.claude.captured("auth").is_empty() && logs::has_code(run, "trigger_kind_unsupported"));
    }
}

/// Makes the server say that its only channel is a text channel.
fn text_channel(world: &World) {
    let channel = json!({
        "channel_id": world.channel(), "space_id": Uuid::now_v7(), "kind": "text", "name": "Werkzeuge",
        "settings_version": 1000, "behavior": {"project_binding": {"workspace_ref": "website"}},
    });
    let all = json!({"channels": [channel]}).to_string();
    world.hooks.always("listServedChannels", Fault::DoneThenBody(all));
    world.hooks.always("getServedChannelConfig", Fault::DoneThenBody(channel.to_string()));
}

/// R-16: class host as root is refused before the start and shown in the heartbeat.
#[test]
fn r_16_host_as_root_is_refused() {
    let setup = Setup { runner_class: ToolClass::Host, server_class: ToolClass::Host, ..Setup::default() };
    let world = World::with(setup);
    let (_, run) = world.asks("Hello");
    if host_may_run() {
        // IN-8: the project is read only until the person says otherwise.
        refused_before_start(&world, run, "adapter_error", "read only");
        assert!(logs::has_code(run, "workspace_read_only"));
        return;
    }
    refused_before_start(&world, run, "adapter_error", "root");
    assert!(logs::has_code(run, "host_as_root"));
    let heartbeat = world.hooks.requests_of("sendHeartbeat").last().unwrap().json().unwrap();
    assert_eq!(heartbeat["state"], "degraded");
    assert_eq!(heartbeat["details"]["degraded_reasons"], json!(["host_as_root"]));
    assert_eq!(heartbeat["project_readiness"][0]["ready"], false);
}

/// R-1a: both must trust the project; then its settings load, and every file rule must carry a path.
#[test]
fn r_1a_trusted_projects() {
    let rules = r#"scoped_allowed_tools = ["Read(./**)", "Bash(cargo test)"]"#;
    let trusted = r#"trusted_projects = ["website"]"#;
    let rows: [(&str, &[&str], bool, Option<&str>); 4] = [
        ("both", &[rules, trusted], true, Some("project")),
        ("operator only", &[rules, trusted], false, None),
        ("binding only", &[rules], true, None),
        ("another project", &[rules, r#"trusted_projects = ["docs"]"#], true, None),
    ];
    for (name, lines, bound, sources) in rows {
        let world = World::with(runner_lines(lines));
        if bound {
            grant(&world, json!({"trust_project_settings": true, "workspace_write": true}));
        }
        let (_, run) = world.asks("Hello");
        world.ends_as(run, RunState::Completed, None);
        let argv = &world.claude.argvs()[0];
        let found = values_of(argv, "--setting-sources");
        assert_eq!(found.first().map(String::as_str), sources, "{name}");
        assert_eq!(argv.contains(&"--restricted".to_owned()), sources.is_none(), "{name}");
        assert_eq!(argv.contains(&"--strict-mcp-config".to_owned()), sources.is_none(), "{name}");
        let auth = &world.claude.captured("auth")[0]["argv"];
        assert_eq!(auth[2], sources.unwrap_or_default(), "{name}");
    }
    let world = World::with(runner_lines(&[r#"scoped_allowed_tools = ["Read"]"#, trusted]));
    grant(&world, json!({"trust_project_settings": true, "workspace_write": true}));
    let (_, run) = world.asks("Hello");
    refused_before_start(&world, run, "adapter_error", "a rule without a path");
    assert!(logs::has_code(run, "rule_without_path"));
}

/// IN-8: what the binding grants counts when the turn starts, however long the run waited for its slot.
#[test]
fn a_permission_withdrawn_while_a_run_waits_is_not_in_its_turn() {
    let rules = r#"scoped_allowed_tools = ["Read(./**)", "Write(./**)"]"#;
    let world = World::with(runner_lines(&["max_parallel_runs = 1", rules]));
    grant(&world, json!({"workspace_write": true}));
    let tool = json!({"tool": {"name": "Read", "input": {}, "do": [{"mark": "up"}, {"hold": "go"}]}});
    world.claude.steps(json!([tool, {"text": "done"}]));
    let (_, first) = world.asks("Hello");
    reached(&world, "up");
    let waiting = ["Hello", "Hello again"].map(|text| world.asks(text).1);
    for run in waiting {
        let shown =
            || world.person.run(run).document["status_line"].as_str()?.starts_with("queued").then_some(());
        eventually("it waits", shown);
    }
    let beats = world.hooks.count("sendHeartbeat");
    grant(&world, json!({"workspace_write": false}));
    // Sent once the new permissions are known.
    eventually("a heartbeat", || (world.hooks.count("sendHeartbeat") > beats).then_some(()));
    world.claude.release("go");
    for run in [first, waiting[0], waiting[1]] {
        world.ends_as(run, RunState::Completed, None);
    }
    let may_write: Vec<_> =
        world.claude.argvs().iter().map(|argv| argv.contains(&"Write(./**)".to_owned())).collect();
    assert_eq!(may_write, [true, false, false]);
    let revision = |run| world.person.run(run).document["grant_revision"].as_i64().unwrap();
    assert_eq!(revision(waiting[0]), revision(first) + 1);
}

/// The binding may choose a model and narrow the tools, never widen them; what cannot be an argument is refused.
#[test]
fn the_binding_chooses_model_and_narrows_tools() {
    let rows = [
        (
            "model",
            Behavior { model: Some("claude-opus-4".into()), ..Behavior::default() },
            Some(("claude-opus-4", 1)),
        ),
        (
            "tools",
            Behavior { allowed_tools: Some(vec!["Bash".into()]), ..Behavior::default() },
            Some(("claude-sonnet-4-5", 0)),
        ),
        ("a flag as model", Behavior { model: Some("--dangerous".into()), ..Behavior::default() }, None),
    ];
    for (name, behavior, expected) in rows {
        let world = World::new();
        world.server.operator().set_behavior(world.channel(), behavior).unwrap();
        // The invocation names the newer version, so that no notice is needed (settings_version).
        let (_, run) = world.asks("Hello");
        let Some((model, reads)) = expected else {
            refused_before_start(&world, run, "adapter_error", name);
            assert!(logs::has_code(run, "argument_refused"), "{name}");
            continue;
        };
        world.ends_as(run, RunState::Completed, None);
        assert_eq!(start_body(&world, run)["model"], model, "{name}");
        let argv = &world.claude.argvs()[0];
        assert_eq!(values_of(argv, "--model"), [model], "{name}");
        let tools = values_of(argv, "--allowedTools");
        assert_eq!(tools.iter().filter(|tool| *tool == "Read").count(), reads, "{name}");
        assert!(!tools.contains(&"Bash".to_owned()), "{name}");
    }
}
