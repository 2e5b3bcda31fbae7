//! A good request for each operation, with everything that must be there before it.

use serde_json::{Value, json};
use uuid::Uuid;

use super::site::{Run, SESSION, Site};
use crate::support::raw_http::Ask;

/// Makes a good request; the run is the one that it is bound to, a fresh one.
pub type Make = fn(&Site) -> (Ask, Option<Run>);

/// Every operation with its good request.
pub const REQUESTS: &[(&str, Make)] = &[
    ("getDiscovery", |site| (site.nobody("GET", "/.well-known/agent-server"), None)),
    ("getJwks", |site| (site.nobody("GET", "/.well-known/jwks.json"), None)),
    ("getInstance", |site| bound(site, site.running(), "GET", |_| "/instance".into(), None)),
    ("getMe", |site| (site.agent("GET", "/me"), None)),
    ("listServedChannels", |site| (site.agent("GET", "/agents/me/channels"), None)),
    ("getServedChannelConfig", |site| {
        (site.agent("GET", &format!("/agents/me/channels/{}", site.channel)), None)
    }),
    ("pollEvents", |site| {
        (site.agent("GET", "/gateway/events?consumer=walk&after=0&wait_ms=0&max=200"), None)
    }),
    ("ackEvents", |site| {
        let body = json!({"consumer": "walk", "seqs": [1, 1, 999_999]});
        (site.agent("POST", "/gateway/acks").json(&body), None)
    }),
    ("getRun", |site| bound(site, site.queued(), "GET", |run| format!("/runs/{}", run.id), None)),
    ("getRunContext", |site| {
        bound(site, site.queued(), "GET", |run| format!("/runs/{}/context", run.id), None)
    }),
    ("renewInvocationToken", |site| {
        let run = site.queued();
        let path = format!("/runs/{}/invocation-token", run.id);
        (site.agent("POST", &path).json(&json!({"expired_jti": jti(&run.token)})), None)
    }),
    ("startRun", |site| {
        let run = site.queued();
        (site.start(&run), Some(run))
    }),
    ("patchRun", |site| {
        let body = json!({"base_version": 1, "ops": [
            {"op": "add", "path": "/status_line", "value": "reading"},
            {"op": "replace", "path": "/metrics/tokens_in", "value": 12},
            {"op": "remove", "path": "/last_text_excerpt"},
        ]});
        bound(site, site.running(), "PATCH", |run| format!("/runs/{}", run.id), Some(body))
    }),
    ("finishRun", |site| {
        let body = json!({"state": "completed", "metrics": {"tokens_in": 12, "context_pct": 3}, "costs": [{
            "provider": "anthropic", "model": "sonnet", "tokens_in": 12, "tokens_out": 3, "tokens_cache_read": 0,
            "tokens_cache_write": 0, "amount_micros": 250, "currency": "USD",
        }]});
        bound(site, site.running(), "POST", |run| format!("/runs/{}/finish", run.id), Some(body))
    }),
    ("reportAgentSession", |site| {
        let body = json!({"external_session_ref": SESSION, "model": "sonnet", "started": true});
        let path = |run: &Run| format!("/runs/{}/agent-session", run.id);
        let (ask, run) = bound(site, site.running(), "PUT", path, Some(body));
        (ask.with("If-Match", "\"1\""), run)
    }),
    ("reportFollowup", |site| {
        let run = site.running();
        let followup = site.post(run.thread, "And the total?").id("followup_id");
        let path = format!("/runs/{}/followups/{followup}", run.id);
        bound(site, run, "POST", |_| path, Some(json!({"state": "delivered"})))
    }),
    ("createMessage", |site| {
        let run = site.running();
        (site.message(&run), Some(run))
    }),
    ("getThread", |site| bound(site, site.running(), "GET", |run| format!("/threads/{}", run.thread), None)),
    ("setThreadTitle", |site| {
        let path = |run: &Run| format!("/threads/{}/title", run.thread);
        let (ask, run) = bound(site, site.running(), "PUT", path, Some(json!({"title": "Orders"})));
        (ask.with("If-Match", "\"1\""), run)
    }),
    ("downloadFile", |site| {
        let (run, file) = site.run_with_file(b"1,2,3,4");
        bound(site, run, "GET", |_| format!("/files/{file}/content"), None)
    }),
    ("createUpload", |site| {
        let run = site.running();
        let ask = site.bound(&run, "POST", &format!("/channels/{}/uploads", site.channel));
        (site.announce(ask, b"seven"), Some(run))
    }),
    ("uploadPart", |site| {
        let run = site.running();
        let upload = site.upload(&run, b"seven");
        (site.part(&run, &upload, b"seven"), Some(run))
    }),
    ("getUpload", |site| {
        let run = site.running();
        let upload = site.upload(&run, b"seven");
        bound(site, run, "GET", |_| format!("/uploads/{}", upload.id), None)
    }),
    ("completeUpload", |site| {
        let run = site.running();
        let upload = site.upload(&run, b"seven");
        site.ok(&site.part(&run, &upload, b"seven"));
        (site.completion(&run, &upload, b"seven"), Some(run))
    }),
    ("abortUpload", |site| {
        let run = site.running();
        let upload = site.upload(&run, b"seven");
        bound(site, run, "DELETE", |_| format!("/uploads/{}", upload.id), None)
    }),
    ("sendHeartbeat", |site| (site.agent("POST", "/agents/me/heartbeat").json(&heartbeat(site)), None)),
    ("createSession", |site| {
        (site.nobody("POST", "/session").json(&json!({"secret": site.person_secret})), None)
    }),
    ("deleteSession", |site| {
        let opened = site.ok(&site.nobody("POST", "/session").json(&json!({"secret": site.person_secret})));
        let cookie = opened.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        (site.nobody("DELETE", "/session").with("Cookie", &cookie), None)
    }),
    ("listProjects", |site| (site.person("GET", "/projects"), None)),
    ("setProjectGrant", |site| {
        let projects = site.ok(&site.person("GET", "/projects"));
        let all = projects.body()["projects"].as_array().unwrap();
        let project = all.iter().find(|it| it["channel_id"] == json!(site.channel)).unwrap();
        let ask = site.person("PUT", &format!("/projects/{}/grant", site.channel));
        let ask = ask.with("If-Match", &format!("\"{}\"", project["grant_revision"]));
        (ask.json(&json!({"workspace_write": true, "trust_project_settings": false})), None)
    }),
    ("listThreads", |site| {
        site.thread();
        (site.person("GET", &format!("/projects/{}/threads", site.channel)), None)
    }),
    ("createThread", |site| {
        let ask = site.person("POST", &format!("/projects/{}/threads", site.channel));
        (ask.json(&json!({"title": "Orders"})), None)
    }),
    ("listRuns", |site| {
        let run = site.running();
        (site.person("GET", &format!("/threads/{}/runs", run.thread)), None)
    }),
    ("listMessages", |site| {
        let (run, _) = site.run_with_file(b"1,2");
        (site.person("GET", &format!("/threads/{}/messages?before=99&limit=10", run.thread)), None)
    }),
    ("postMessage", |site| {
        let body = json!({"client_msg_id": Uuid::now_v7(), "content_md": "How many orders?"});
        (site.person("POST", &format!("/threads/{}/messages", site.thread())).json(&body), None)
    }),
    ("getRunDocument", |site| {
        let run = site.running();
        (site.person("GET", &format!("/runs/{}/document", run.id)), None)
    }),
    ("cancelRun", |site| {
        let run = site.running();
        (site.person("POST", &format!("/runs/{}/cancel", run.id)), None)
    }),
    ("pollChanges", |site| {
        site.running();
        (site.person("GET", "/changes?after=0&wait_ms=0"), None)
    }),
    ("getRunnerState", |site| {
        site.ok(&site.agent("POST", "/agents/me/heartbeat").json(&heartbeat(site)));
        (site.person("GET", "/runner"), None)
    }),
];

/// The good request of an operation.
pub fn make(site: &Site, id: &str) -> (Ask, Option<Run>) {
    let (_, make) =
        REQUESTS.iter().find(|(name, _)| *name == id).unwrap_or_else(|| panic!("no request: {id}"));
    make(site)
}

fn bound(
    site: &Site,
    run: Run,
    method: &str,
    path: impl FnOnce(&Run) -> String,
    body: Option<Value>,
) -> (Ask, Option<Run>) {
    let ask = site.bound(&run, method, &path(&run));
    let ask = match body {
        Some(body) => ask.json(&body),
        None => ask,
    };
    (ask, Some(run))
}

fn heartbeat(site: &Site) -> Value {
    json!({
        "state": "degraded", "runtime_version": "2.1.332", "billing_modes_supported": ["organization"],
        "reported_tool_class": "scoped",
        "details": {
            "capabilities": {
                "title": true, "components": false, "voice_input": false, "files_out": true, "followups": true,
            },
            "active_runs": 1, "degraded_reasons": ["runtime_version_untested"],
            "adapter": {"name": "claude-code-runner", "version": "0.1.0"}, "runtime": {"name": "claude-code"},
            "protocol_version": "1",
        },
        "project_readiness": [{"channel_id": site.channel, "ready": true}],
    })
}

/// The `jti` of a token.
pub fn jti(token: &str) -> String {
    claude_code_runner::sdk::verify::peek_claims(token).unwrap().jti
}
