//! What the server says: its instance, whose token this is, which projects it serves and whether they are ready.

use std::time::Duration;

use super::report::Check;
use crate::config::Config;
use crate::run::channels::binding;
use crate::run::client_settings;
use crate::run::workspace::Workspaces;
use crate::sdk::client::{ApiResult, Client};
use crate::sdk::error::ApiError;
use crate::sdk::wire::Time;
use crate::sdk::wire::channel::AgentChannelConfig;
use crate::sdk::wire::file::PrincipalKind;
use crate::sdk::wire::run::ToolClass;

/// Longest time of one question with its repeats; a person waits for it.
const LIMIT: Duration = Duration::from_secs(20);

/// Milliseconds of a second.
const SECOND_MS: u64 = 1000;

/// Every question in turn, as far as the answers allow.
pub fn checks(config: &Config) -> Vec<Check> {
    let Ok(client) = Client::new(client_settings(config)) else {
        // The offline checks have said so already.
        return Vec::new();
    };
    let client = client.with_total_limit(LIMIT);
    let mut checks = vec![instance(config, &client)];
    if checks.iter().any(Check::is_fail) {
        return checks;
    }
    checks.push(clock(client.server_clock(), config.adapter.invocation_token_leeway));
    checks.push(agent(&client));
    if !checks.iter().any(Check::is_fail) {
        checks.extend(channels(config, &client));
    }
    checks
}

fn instance(config: &Config, client: &Client) -> Check {
    match client.get_discovery() {
        Ok(found) if found.instance_id == config.runner.instance_id => {
            Check::ok("server_reachable", "the server is the instance of runner.instance_id")
        }
        Ok(found) => Check::fail(
            "wrong_instance",
            format!(
                "the server is instance {}, runner.instance_id says {}; correct runner.instance_id or runner.server_url",
                found.instance_id, config.runner.instance_id
            ),
        ),
        Err(fault) => Check::fail(
            "server_unreachable",
            format!(
                "no discovery: {fault}; check runner.server_url, the name service, firewall and proxy (sdk.proxy), and that \
                 the server is up"
            ),
        ),
    }
}

/// Compares the clocks: tokens say from when and until when they hold. The server's is told to a second.
fn clock(server: ApiResult<Option<Time>>, leeway: Duration) -> Check {
    let Ok(Some(server)) = server else {
        return Check::warn(
            "clock_unknown",
            "the server does not tell its time; keep this machine's clock synchronised",
        );
    };
    let ahead_ms = Time::now().as_millis() - server.as_millis();
    let seconds = ahead_ms.unsigned_abs() / SECOND_MS;
    let side = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let said = format!("this machine's clock is {seconds} s {side} the server's");
    let cure = "synchronise it, for example with timedatectl set-ntp true";
    if u128::from(seconds) * u128::from(SECOND_MS) > leeway.as_millis() {
        let limit = leeway.as_secs();
        return Check::fail(
            "clock_off",
            format!(
                "{said}, and tokens are refused beyond adapter.invocation_token_leeway ({limit} s); {cure}"
            ),
        );
    }
    if u128::from(seconds) * u128::from(SECOND_MS) * 2 > leeway.as_millis() {
        return Check::warn("clock_drifts", format!("{said}; {cure}"));
    }
    Check::ok("clock_agrees", said)
}

fn agent(client: &Client) -> Check {
    match client.get_me() {
        Ok(me) if me.principal.kind == PrincipalKind::Agent => {
            Check::ok("agent_token_accepted", format!("the token belongs to agent {}", me.principal.id))
        }
        Ok(_) => Check::fail(
            "not_an_agent",
            "the token belongs to a person; use the one that was made for the agent",
        ),
        Err(fault) if is_refusal(&fault) => Check::fail(
            "agent_token_refused",
            "the server refuses the token of runner.agent_token_ref; make a new one there",
        ),
        Err(fault) => {
            Check::fail("agent_unknown", format!("the server does not say whose token it is: {fault}"))
        }
    }
}

fn is_refusal(fault: &ApiError) -> bool {
    fault.problem().is_some_and(|problem| problem.status == 401)
}

fn channels(config: &Config, client: &Client) -> Vec<Check> {
    match client.list_served_channels() {
        Err(fault) => {
            vec![Check::fail("channels_unknown", format!("the served channels cannot be listed: {fault}"))]
        }
        Ok(channels) => {
            let bound: Vec<_> = channels.iter().filter_map(|channel| readiness(config, channel)).collect();
            if bound.is_empty() {
                let sentence = "the server has no project for this agent; bind one to a forum there";
                return vec![Check::warn("no_projects", sentence)];
            }
            bound
        }
    }
}

/// Whether the project of a bound channel is ready; `None` for a channel without a project.
fn readiness(config: &Config, channel: &AgentChannelConfig) -> Option<Check> {
    let binding = binding(channel)?;
    let class = config.runner.tool_class;
    let granted = binding.runner_config.as_ref().and_then(|config| config.workspace_write);
    let writes = granted.unwrap_or(class != ToolClass::Chat);
    let workspaces = Workspaces::Root(config.runner.projects_root.clone());
    Some(match workspaces.readiness(&binding.workspace_ref, writes) {
        Ok(_) => Check::ok("project_ready", format!("channel {}: the project is ready", channel.channel_id)),
        Err(fault) => Check::warn(
            "project_not_ready",
            format!(
                "channel {}: {} in runner.projects_root is not ready ({})",
                channel.channel_id,
                binding.workspace_ref,
                fault.code()
            ),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_have_their_steps() {
        let leeway = Duration::from_secs(60);
        let off = |seconds: i64| Ok(Some(Time::from_millis(Time::now().as_millis() - seconds * 1000)));
        let rows = [
            (off(0), "clock_agrees", "0 s"),
            (off(40), "clock_drifts", "40 s ahead of"),
            (off(-40), "clock_drifts", "behind"),
            (off(300), "clock_off", "300 s ahead of"),
            (off(-300), "clock_off", "behind"),
            (Ok(None), "clock_unknown", "synchronised"),
            (Err(crate::sdk::error::TransportError::Connect.into()), "clock_unknown", "synchronised"),
        ];
        for (server, code, said) in rows {
            let check = clock(server, leeway);
            assert_eq!(check.code, code, "{}", check.sentence);
            assert!(check.sentence.contains(said), "{}", check.sentence);
        }
    }
}
