//! From the document to the configuration: which key is read how, and which values belong together.
//!
//! The ranges stand here, with their reasons. Must not look at the file system.

use std::path::PathBuf;
use std::time::Duration;

use log::LevelFilter;
use uuid::Uuid;

use super::fault::Problem;
use super::model::{AdapterConfig, AgentConfig, Config, LogConfig, LogFormat, RunnerConfig, SdkConfig};
use super::raw::Document;
use super::secret::SecretRef;
use super::turn_env::turn_env;
use super::values::{
    ANY_DURATION, DurationRange, SOME_DURATION, absolute_path, amount, argument, boolean, choice, count,
    duration, filled, name, optional, program, size, uuid,
};
use super::{address, attach, tools};
use crate::sdk::wire::run::ToolClass;
use toml::de::DeValue;

/// More turns at once than any one host runs; keeps threads and descriptors bounded.
const PARALLEL_RUNS_MAX: u32 = 256;
/// More attempts would only hide an outage that the outbox handles.
const RETRY_ATTEMPTS_MAX: u32 = 100;
/// Shortest stream line limit: a line of the CLI's first message has several thousand bytes.
const LINE_LIMIT_MIN: u64 = 1024;
/// Longest stream line limit: the reader holds a small multiple of it in memory.
const LINE_LIMIT_MAX: u64 = 1 << 30;
/// Looking less often than this would be felt by a person who presses stop.
const POLL_INTERVAL: DurationRange =
    DurationRange { max: Duration::from_secs(60), zero: false, words: "more than 0, at most 1m" };
/// A wider leeway would make expired tokens valid for long.
const LEEWAY: DurationRange =
    DurationRange { max: Duration::from_secs(60 * 60), zero: true, words: "0 to 1h" };
/// Proxies and firewalls cut quiet connections after some minutes.
const POLL_WAIT: DurationRange =
    DurationRange { max: Duration::from_secs(5 * 60), zero: false, words: "more than 0, at most 5m" };

const TOOL_CLASSES: &[(&str, ToolClass)] =
    &[("chat", ToolClass::Chat), ("scoped", ToolClass::Scoped), ("host", ToolClass::Host)];
const LOG_FORMATS: &[(&str, LogFormat)] = &[("json", LogFormat::Json), ("text", LogFormat::Text)];
const LOG_LEVELS: &[(&str, LevelFilter)] = &[
    ("error", LevelFilter::Error),
    ("warn", LevelFilter::Warn),
    ("info", LevelFilter::Info),
    ("debug", LevelFilter::Debug),
    ("trace", LevelFilter::Trace),
];

/// Reads every key; what is faulty is noted in `document` and replaced by a stand-in.
pub(super) fn config(document: &mut Document<'_>) -> Config {
    Config {
        runner: runner(document),
        adapter: adapter(document),
        agent: AgentConfig {
            run_update_min_interval: time(document, "agent.run_update_min_interval", ANY_DURATION),
        },
        sdk: sdk(document),
        log: LogConfig {
            format: document.take("log.format", LogFormat::Json, choice(LOG_FORMATS, "json or text")),
            level: document.take(
                "log.level",
                LevelFilter::Info,
                choice(LOG_LEVELS, "error, warn, info, debug or trace"),
            ),
        },
    }
}

fn runner(document: &mut Document<'_>) -> RunnerConfig {
    let d = document;
    RunnerConfig {
        server_url: d.take("runner.server_url", String::new(), address::server_url),
        instance_id: d.take("runner.instance_id", Uuid::nil(), uuid),
        agent_token_ref: d.take("runner.agent_token_ref", SecretRef::file("".as_ref()), secret_ref),
        dpop_key_ref: d.take("runner.dpop_key_ref", None, optional(secret_ref)),
        consumer: d.take("runner.consumer", String::new(), name),
        projects_root: d.take("runner.projects_root", PathBuf::new(), absolute_path),
        state_dir: d.take("runner.state_dir", PathBuf::new(), absolute_path),
        claude_bin: d.take("runner.claude_bin", String::new(), program),
        default_model: d.take("runner.default_model", String::new(), argument),
        tool_class: d.take(
            "runner.tool_class",
            ToolClass::Chat,
            choice(TOOL_CLASSES, "chat, scoped or host"),
        ),
        scoped_allowed_tools: d.take_list("runner.scoped_allowed_tools", tools::rule),
        write_tools: d.take_list("runner.write_tools", tools::tool_name),
        anthropic_api_key_ref: d.take("runner.anthropic_api_key_ref", None, optional(secret_ref)),
        allow_personal: d.take("runner.allow_personal", false, boolean),
        forward_ssh_agent: d.take("runner.forward_ssh_agent", false, boolean),
        turn_env: d.take_whole("runner.turn_env", Default::default(), turn_env),
        max_parallel_runs: d.take("runner.max_parallel_runs", 1, count(1, PARALLEL_RUNS_MAX, "1 to 256")),
        session_lock_wait: time(d, "runner.session_lock_wait", ANY_DURATION),
        followup_grace: time(d, "runner.followup_grace", ANY_DURATION),
        stop_grace: time(d, "runner.stop_grace", ANY_DURATION),
        kill_grace: time(d, "runner.kill_grace", ANY_DURATION),
        background_wait: time(d, "runner.background_wait", ANY_DURATION),
        turn_time_limit: time(d, "runner.turn_time_limit", SOME_DURATION),
        turn_silence_limit: time(d, "runner.turn_silence_limit", SOME_DURATION),
        max_budget_usd: d.take("runner.max_budget_usd", None, optional(amount)),
        trusted_projects: d.take_list("runner.trusted_projects", workspace_ref),
        stream_line_limit: d.take(
            "runner.stream_line_limit",
            LINE_LIMIT_MIN,
            size(LINE_LIMIT_MIN, LINE_LIMIT_MAX, "1KiB to 1GiB"),
        ),
        cli_probe_timeout: time(d, "runner.cli_probe_timeout", SOME_DURATION),
        poll_interval: time(d, "runner.poll_interval", POLL_INTERVAL),
        stream_log_retention: time(d, "runner.stream_log_retention", SOME_DURATION),
        attach_allowed_roots: d.take_list("runner.attach_allowed_roots", attach::root_name),
        attach_denied_patterns: denied_patterns(d),
    }
}

fn adapter(document: &mut Document<'_>) -> AdapterConfig {
    AdapterConfig {
        invocation_token_leeway: time(document, "adapter.invocation_token_leeway", LEEWAY),
        jwks_refresh_min_interval: time(document, "adapter.jwks_refresh_min_interval", SOME_DURATION),
        max_event_age: time(document, "adapter.max_event_age", SOME_DURATION),
        heartbeat_interval: time(document, "adapter.heartbeat_interval", SOME_DURATION),
    }
}

fn sdk(document: &mut Document<'_>) -> SdkConfig {
    SdkConfig {
        http_timeout: time(document, "sdk.http_timeout", SOME_DURATION),
        proxy: document.take("sdk.proxy", None, optional(address::proxy)),
        retry_max_attempts: document.take(
            "sdk.retry_max_attempts",
            1,
            count(1, RETRY_ATTEMPTS_MAX, "1 to 100"),
        ),
        retry_max_delay: time(document, "sdk.retry_max_delay", SOME_DURATION),
        poll_wait: time(document, "sdk.poll_wait", POLL_WAIT),
        ca_file: document.take("sdk.ca_file", None, optional(absolute_path)),
    }
}

fn time(document: &mut Document<'_>, key: &'static str, range: DurationRange) -> Duration {
    document.take(key, Duration::ZERO, duration(range))
}

fn secret_ref(value: &DeValue<'_>) -> Result<SecretRef, Problem> {
    SecretRef::parse(filled(value)?)
}

/// A workspace ref in the form that can lie below the projects root at all (M2-34 note 6).
fn workspace_ref(value: &DeValue<'_>) -> Result<String, Problem> {
    let text = argument(value)?;
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    let good = !text.starts_with('~') && !text.contains(['\\', ':']) && text.split('/').all(plain);
    if good { Ok(text) } else { Err(Problem::WorkspaceRef) }
}

fn denied_patterns(document: &mut Document<'_>) -> Vec<String> {
    const KEY: &str = "runner.attach_denied_patterns";
    let patterns = document.take_list(KEY, attach::pattern);
    if !document.is_faulty(KEY) {
        let missing = attach::missing_patterns(&patterns);
        missing.into_iter().for_each(|pattern| document.report(KEY, Problem::PatternMissing(pattern)));
    }
    patterns
}
