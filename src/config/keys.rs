//! Every key of the configuration file, once: name, default, meaning.
//!
//! The loader takes its defaults from here, and tests hold `config.example.toml` and the README's table
//! against it. Must not know how a value is checked.

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Section and key, `runner.server_url`.
    pub name: &'static str,
    /// The default as it would stand in the file; of a required key an example.
    pub default: &'static str,
    /// Whether the file must have it.
    pub required: bool,
    /// What it means, one sentence.
    pub meaning: &'static str,
}

const fn required(name: &'static str, example: &'static str, meaning: &'static str) -> Key {
    Key { name, default: example, required: true, meaning }
}

const fn optional(name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key { name, default, required: false, meaning }
}

/// All keys, in the order of the example file.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    required(
        "runner.server_url",
        r#""https://chat.example.com""#,
        "Base URL of the server; only https, http only for a loopback host.",
    ),
    required(
        "runner.instance_id",
        r#""00000000-0000-7000-8000-000000000001""#,
        "Id of the server's instance: expected issuer of every token, compared with the discovery at start.",
    ),
    required(
        "runner.agent_token_ref",
        r#""file:/etc/claude-code-runner/agent-token""#,
        "Secret reference (file:/path or env:NAME) of the agent token.",
    ),
    optional(
        "runner.dpop_key_ref",
        r#""""#,
        "Secret reference of the DPoP key (P-256, PKCS#8 PEM); empty: a token without one.",
    ),
    optional(
        "runner.consumer",
        r#""default""#,
        "Consumer name at the gateway.",
    ),
    required(
        "runner.projects_root",
        r#""/srv/projects""#,
        "Absolute, existing directory; the projects live below it.",
    ),
    required(
        "runner.state_dir",
        r#""/var/lib/claude-code-runner""#,
        "Absolute directory of the runner's own files; made with mode 0700, refused when anybody else has a permission; one runner per directory.",
    ),
    optional(
        "runner.claude_bin",
        r#""claude""#,
        "Program name looked up in the cleaned PATH, or an absolute path.",
    ),
    required(
        "runner.default_model",
        r#""sonnet""#,
        "Model when the binding names none.",
    ),
    optional(
        "runner.tool_class",
        r#""chat""#,
        "What a turn may do: chat, scoped or host.",
    ),
    optional(
        "runner.scoped_allowed_tools",
        "[]",
        "Tools of class scoped as the CLI's rules (Read, Edit(./**)); the binding's allowed_tools narrows it by equal text.",
    ),
    optional(
        "runner.write_tools",
        r#"["Write", "Edit", "NotebookEdit", "Bash"]"#,
        "Names of the tools that a read-only binding takes away.",
    ),
    optional(
        "runner.anthropic_api_key_ref",
        r#""""#,
        "Secret reference of the API key of mode organization; empty: organization cannot be proven.",
    ),
    optional(
        "runner.allow_personal",
        "false",
        "Whether mode personal may run with the runner user's own login.",
    ),
    optional(
        "runner.forward_ssh_agent",
        "false",
        "Whether a turn gets SSH_AUTH_SOCK, and with it the runner user's keys.",
    ),
    optional(
        "runner.turn_env",
        "{}",
        r#"Extra variables of a turn by name: NAME = "literal" or NAME = { secret = "file:/path" }."#,
    ),
    optional(
        "runner.max_parallel_runs",
        "2",
        "Turns at once.",
    ),
    optional(
        "runner.session_lock_wait",
        r#""10m""#,
        "Longest wait for the locks of thread and session.",
    ),
    optional(
        "runner.followup_grace",
        r#""2s""#,
        "How long stdin stays open after a result.",
    ),
    optional(
        "runner.stop_grace",
        r#""10s""#,
        "Time after SIGINT, before SIGTERM.",
    ),
    optional(
        "runner.kill_grace",
        r#""5s""#,
        "Time after SIGTERM, before SIGKILL.",
    ),
    optional(
        "runner.background_wait",
        r#""10m""#,
        "Longest wait for background work of a turn after its result.",
    ),
    optional(
        "runner.turn_time_limit",
        r#""6h""#,
        "Longest turn; then it is stopped and ends failed.",
    ),
    optional(
        "runner.turn_silence_limit",
        r#""30m""#,
        "Longest time without any stream line while no tool runs; then the same.",
    ),
    optional(
        "runner.max_budget_usd",
        r#""""#,
        "Passed to the CLI as --max-budget-usd; empty: no budget.",
    ),
    optional(
        "runner.trusted_projects",
        "[]",
        "Workspace refs whose own settings, hooks and instructions may load.",
    ),
    optional(
        "runner.stream_line_limit",
        r#""64MiB""#,
        "Longest line of the stream.",
    ),
    optional(
        "runner.cli_probe_timeout",
        r#""30s""#,
        "Limit of the CLI's auth status and --version.",
    ),
    optional(
        "runner.poll_interval",
        r#""200ms""#,
        "How often recording and locks are looked at, at the latest.",
    ),
    optional(
        "runner.stream_log_retention",
        r#""14d""#,
        "Age after which recordings, prompts, downloads and leftovers are deleted.",
    ),
    optional(
        "runner.attach_allowed_roots",
        r#"["project", "thread_inbox", "runner_temp"]"#,
        "Directories whose files may be attached, by name; the list can only be narrowed.",
    ),
    optional(
        "runner.attach_denied_patterns",
        super::attach::DEFAULT_DENIED_PATTERNS_TOML,
        "File names that are never attached; the list must keep every one of these and can be longer.",
    ),
    optional(
        "adapter.invocation_token_leeway",
        r#""60s""#,
        "Leeway between the server's clock and this one.",
    ),
    optional(
        "adapter.jwks_refresh_min_interval",
        r#""1m""#,
        "Least time between two loads of the server's keys.",
    ),
    optional(
        "adapter.max_event_age",
        r#""12h""#,
        "Older events are refused with a sentence.",
    ),
    optional(
        "adapter.heartbeat_interval",
        r#""30s""#,
        "Time between two heartbeats unless the server says otherwise.",
    ),
    optional(
        "agent.run_update_min_interval",
        r#""500ms""#,
        "Least time between two patches of a run.",
    ),
    optional(
        "sdk.http_timeout",
        r#""30s""#,
        "Limit of one attempt of one request; for file bytes the longest time without progress.",
    ),
    optional(
        "sdk.proxy",
        r#""""#,
        "HTTP proxy for the server's requests (http://host:port); the environment is never asked.",
    ),
    optional(
        "sdk.retry_max_attempts",
        "5",
        "Attempts of one request in all.",
    ),
    optional(
        "sdk.retry_max_delay",
        r#""30s""#,
        "Cap of the wait before one more attempt.",
    ),
    optional(
        "sdk.poll_wait",
        r#""25s""#,
        "How long the server may hold a poll.",
    ),
    optional(
        "sdk.ca_file",
        r#""""#,
        "PEM bundle trusted in addition to the platform's roots.",
    ),
    optional(
        "log.format",
        r#""json""#,
        "Form of the log: json or text.",
    ),
    optional(
        "log.level",
        r#""info""#,
        "Level of the log: error, warn, info, debug or trace.",
    ),
];

/// Section and leaf of a full name.
pub(super) fn split(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or(("", name))
}

/// The sections, in no order and with repetitions.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|key| split(key.name).0)
}

/// The key of this name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

impl Key {
    /// The default as a table for people shows it: `required`, `empty`, or the value without quotes.
    pub fn shown_default(&self) -> &'static str {
        let text =
            self.default.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(self.default);
        match text {
            _ if self.required => "required",
            "" => "empty",
            text => text,
        }
    }
}

/// The text of `config.example.toml`: every key with its default and one line on what it means.
pub fn example_file() -> String {
    let mut text = String::from(EXAMPLE_HEAD);
    let mut current = "";
    for key in KEYS {
        let (section, leaf) = split(key.name);
        if section != current {
            text.push_str(&format!("\n[{section}]\n"));
            current = section;
        }
        let required = if key.required { "Required. " } else { "" };
        text.push_str(&format!("\n# {required}{}\n{leaf} = {}\n", key.meaning, key.default));
    }
    text
}

const EXAMPLE_HEAD: &str =
    "# Configuration of claude-code-runner: every key with its default, required ones with an example.
# Durations are a whole number and ms, s, m, h or d; sizes a whole number and B, KiB, MiB or GiB.
# Check a file with `claude-code-runner check-config --config <file>`.
";
