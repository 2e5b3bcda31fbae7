//! Everything that is decided before the start, in the order of M2-34 note 5, each fault with its end.
//!
//! Nothing here is visible to the person but the place in the queue, and nothing runs but `auth status`.

use std::ffi::OsString;
use std::path::PathBuf;

use uuid::Uuid;

use super::end::{Cause, End};
use super::workspace::Project;
use super::{Run, channels, followup, locks, waiting};
use crate::attachments::incoming::Inbox;
use crate::claude::argv::{self, SessionArg, TurnArgs};
use crate::claude::auth_check::{self, Decision};
use crate::claude::environment::{self, EnvFault, EnvInputs, TurnEnv};
use crate::claude::prompt;
use crate::claude::version::{Probed, Verdict};
use crate::config::{Config, TurnEnvValue};
use crate::sdk::bound::RunError;
use crate::sdk::context::{Boundary, FileText, Rendered, render_context};
use crate::sdk::inbox::EntryState;
use crate::sdk::wire::Time;
use crate::sdk::wire::channel::{ProjectBinding, ProjectRunnerConfig};
use crate::sdk::wire::event::TriggerKind;
use crate::sdk::wire::message::RunContext;
use crate::sdk::wire::run::{BillingEvidence, BillingMode, FollowupState, ToolClass};
use crate::sys::{private, process};

/// What the person reads when a message waited too long.
const TOO_OLD: &str =
    "This message waited too long before it could be worked on, so nothing was done. Please send it again.";

/// A run that may be started.
pub struct Prepared {
    /// The project, resolved.
    pub project: Project,
    /// Its binding as it was when the run was prepared.
    pub binding: ProjectBinding,
    /// The arguments of the turn.
    pub args: TurnArgs,
    /// Its environment.
    pub environment: TurnEnv,
    /// Who pays.
    pub billing_mode: BillingMode,
    /// The proof of who pays.
    pub evidence: BillingEvidence,
    /// The two parts of the first line.
    pub prompt: Rendered,
    /// The appended system prompt.
    pub system_prompt: String,
    /// A title is wanted from the first answer.
    pub title_wanted: bool,
    /// Every file that messages of this turn may mention by path.
    pub context: RunContext,
}

/// Decides whether and how a run starts.
///
/// # Errors
/// The end of a run that does not start.
pub fn prepare(run: &mut Run) -> Result<Prepared, End> {
    run.check_cancel()?;
    refuse_left_over_start(run)?;
    // Nothing that came for it under a former runner can be read any more.
    followup::settle_open(run, FollowupState::Refused)?;
    check_age(run)?;
    check_allowed(run)?;
    check_trigger(run)?;
    load_newer_binding(run)?;
    let session = session(run)?;
    plan(run, session)?;
    locks::take(
        run,
        &run.shared.state.thread_lock(run.entry()?.invocation.thread_id),
        &run.shared.state.session_lock(session.id()),
    )?;
    waiting::for_slot(run)?;
    // The wait can be long: what the binding says now is what the turn gets (IN-8).
    let Plan { binding, project, mut args } = plan(run, session)?;
    let context = context(run)?;
    make_directories(run, &args)?;
    let files = fetch_files(run, &context)?;
    let billing_mode = run.entry()?.invocation.billing_mode;
    let environment = turn_environment(run, billing_mode)?;
    args.claude_bin = run.shared.runtime.program().ok_or(Cause::EnvironmentFault)?;
    let evidence = prove_who_pays(run, billing_mode, &args, &environment, &project)?;
    let channel_prompt =
        run.shared.channels.get(context.channel.id).and_then(|channel| channel.behavior.prompt);
    let title_wanted = matches!(session, SessionArg::New(_));
    Ok(Prepared {
        prompt: render_context(&context, Boundary::random(), &files),
        system_prompt: prompt::system_prompt(title_wanted, channel_prompt.as_deref()),
        project,
        binding,
        args,
        environment,
        billing_mode,
        evidence,
        title_wanted,
        context,
    })
}

/// The runner died after the answer to `startRun` and before the process: never repeated (turn-paths).
fn refuse_left_over_start(run: &Run) -> Result<(), End> {
    match run.entry()?.state {
        EntryState::Started => Err(End::by(Cause::RunnerRestarted)),
        EntryState::Accepted | EntryState::Starting | EntryState::Closed => Ok(()),
    }
}

/// R-22, looked at here and again right before the start.
pub fn check_age(run: &Run) -> Result<(), End> {
    let age = Time::now().as_millis().saturating_sub(run.entry()?.event.occurred_at.as_millis());
    let limit = run.shared.config.adapter.max_event_age.as_millis();
    if i128::from(age) > i128::try_from(limit).unwrap_or(i128::MAX) {
        return Err(End::by(Cause::EventTooOld).telling(TOO_OLD));
    }
    Ok(())
}

/// Points 8 and 10 of the token check: what the runner may not do, whoever signed for it (M2-34 note 4).
pub fn not_allowed(config: &Config, mode: BillingMode, class: ToolClass) -> Option<Cause> {
    if mode == BillingMode::Personal && !config.runner.allow_personal {
        return Some(Cause::PersonalNotAllowed);
    }
    config.runner.tool_class.exceeds(class).then_some(Cause::ToolClassMismatch)
}

/// The same as on acceptance: the configuration may be another one since.
fn check_allowed(run: &Run) -> Result<(), End> {
    let invocation = &run.entry()?.invocation;
    not_allowed(&run.shared.config, invocation.billing_mode, invocation.tool_class)
        .map_or(Ok(()), |cause| Err(End::by(cause)))
}

fn check_trigger(run: &Run) -> Result<(), End> {
    match run.entry()?.invocation.trigger_kind {
        TriggerKind::Message => Ok(()),
        TriggerKind::Command | TriggerKind::Component | TriggerKind::Other => {
            Err(End::by(Cause::TriggerKind))
        }
    }
}

/// Loads the run's forum anew when the event knows a newer version.
fn load_newer_binding(run: &Run) -> Result<(), End> {
    let invocation = &run.entry()?.invocation;
    let (channel_id, wanted) = (invocation.channel_id, invocation.settings_version);
    let known = run.shared.channels.get(channel_id);
    if known.is_none_or(|channel| channel.settings_version < wanted) {
        match run.bound.client().get_served_channel_config(channel_id) {
            Ok(channel) => run.shared.channels.put(channel_id, channel),
            // The version held is still the best there is; without one the run ends right after.
            Err(error) => log::warn!("code=channel_not_loaded run={} error={}", run.run_id, error.code()),
        }
        run.check_cancel()?;
    }
    Ok(())
}

/// Where and how the turn would work.
struct Plan {
    binding: ProjectBinding,
    project: Project,
    args: TurnArgs,
}

/// What follows from the binding as it is now; needs no lock and asks nobody but the CLI for its version.
fn plan(run: &Run, session: SessionArg) -> Result<Plan, End> {
    let channel =
        run.shared.channels.get(run.entry()?.invocation.channel_id).ok_or(Cause::ProjectNotBound)?;
    let binding = channels::binding(&channel).cloned().ok_or(Cause::ProjectNotBound)?;
    let config = binding.runner_config.clone().unwrap_or_default();
    check_runtime(run)?;
    let project = run.shared.workspaces.resolve(&binding.workspace_ref).map_err(Cause::from)?;
    check_host(run, &config)?;
    let args = arguments(run, &binding, &config, session)?;
    Ok(Plan { binding, project, args })
}

fn check_runtime(run: &Run) -> Result<(), End> {
    runtime_fault(run.shared.runtime.probed()).map_or(Ok(()), |cause| Err(End::by(cause)))
}

/// What keeps the CLI from running turns, under the code that the heartbeat says of it too.
fn runtime_fault(probed: Probed) -> Option<Cause> {
    match probed.verdict {
        Verdict::Pinned | Verdict::Untested => None,
        Verdict::Unsupported => Some(Cause::RuntimeUnsupported),
        Verdict::Unreachable => Some(Cause::RuntimeUnreachable),
    }
}

/// What class host may not do (R-16, IN-8).
fn check_host(run: &Run, config: &ProjectRunnerConfig) -> Result<(), End> {
    if run.shared.config.runner.tool_class != ToolClass::Host {
        return Ok(());
    }
    if process::effective_uid() == 0 {
        return Err(End::by(Cause::HostAsRoot));
    }
    if config.workspace_write == Some(false) {
        return Err(End::by(Cause::WorkspaceReadOnly));
    }
    Ok(())
}

/// The session: the server's, or a new one (M2-34 note 9). A start that may have reached the server is
/// repeated with the session it named.
fn session(run: &Run) -> Result<SessionArg, End> {
    let entry = run.entry()?;
    let known = entry.invocation.agent_session.as_ref();
    let stored = entry.start.as_ref().map(|start| start.body.external_session_ref.as_str());
    let reference = known.map(|session| session.external_session_ref.as_str()).or(stored);
    let started = known.is_some_and(|session| session.started);
    SessionArg::choose(reference.map(|reference| (reference, started)))
        .map_err(|_| End::by(Cause::SessionRefNotUuid))
}

fn arguments(
    run: &Run,
    binding: &ProjectBinding,
    config: &ProjectRunnerConfig,
    session: SessionArg,
) -> Result<TurnArgs, End> {
    let (runner, state) = (&run.shared.config.runner, &run.shared.state);
    let temp_dir = state.run_temp(run.run_id);
    let trusted = runner.trusted_projects.contains(&binding.workspace_ref)
        && config.trust_project_settings == Some(true)
        && runner.tool_class != ToolClass::Chat;
    let args = TurnArgs {
        // Looked up after the locks, because the operator may replace the program while a run waits.
        claude_bin: PathBuf::from("/"),
        model: argv::choose_model(config.model.as_deref(), &runner.default_model).to_owned(),
        session,
        class: runner.tool_class,
        billing: run.entry()?.invocation.billing_mode,
        tools: argv::scoped_tools(
            &runner.scoped_allowed_tools,
            config.allowed_tools.as_deref(),
            config.workspace_write,
            &runner.write_tools,
            &temp_dir,
        ),
        trusted_project: trusted,
        system_prompt_file: state.process(run.run_id, session.id(), 1).system_prompt,
        inbox_dir: state.thread_inbox(run.entry()?.invocation.thread_id),
        temp_dir,
        max_budget_usd: runner.max_budget_usd.clone(),
    };
    match argv::build(&args) {
        Ok(_) => Ok(args),
        Err(fault) if fault.code() == "rule_without_path" => Err(End::by(Cause::RuleWithoutPath)),
        Err(fault) => {
            log::warn!("code=argument_refused run={} fault={}", run.run_id, fault.code());
            Err(End::by(Cause::ArgumentRefused))
        }
    }
}

fn context(run: &Run) -> Result<RunContext, End> {
    let context = loop {
        match run.bound.get_run_context() {
            Ok(context) => break context,
            // The server is away; the run waits for it like everything else.
            Err(RunError::Hold(_) | RunError::Transport(_)) => run.wait_for_server()?,
            Err(error) => return Err(run.end_of_request(&error, Cause::ContextUnavailable)),
        }
    };
    let invocation = &run.entry()?.invocation;
    let same = context.thread.id == invocation.thread_id && context.channel.id == invocation.channel_id;
    if same { Ok(context) } else { Err(End::by(Cause::ContextUnavailable)) }
}

/// Both directories of `--add-dir`, the CLI's own one, and those of the recordings exist before the turn. They
/// are touched, so that the retention does not take an old empty one away before the turn uses it.
fn make_directories(run: &Run, args: &TurnArgs) -> Result<(), End> {
    let state = &run.shared.state;
    let inbox = Inbox::new(state.root(), run.entry()?.invocation.thread_id);
    inbox.create().map_err(|fault| run.end_of_file(&fault))?;
    let all = [args.temp_dir.clone(), state.session(args.session.id()), state.organization_config()];
    for directory in all {
        private::create_dir_all(&directory)
            .and_then(|()| private::touch(&directory))
            .map_err(|fault| run.end_of_file(&fault))?;
    }
    Ok(())
}

/// Downloads the trigger's files; a file that fails is listed as unavailable and the run goes on (IN-4).
fn fetch_files(run: &mut Run, context: &RunContext) -> Result<Vec<(Uuid, FileText)>, End> {
    if context.trigger_message.attachments.is_empty() {
        return Ok(Vec::new());
    }
    run.document.set(waiting::STATUS_LINE, "downloading_attachments".into());
    run.document.flush(&run.bound, std::time::Instant::now());
    let fetched = super::inbox_files::fetch(run, &context.trigger_message);
    run.document.remove(waiting::STATUS_LINE);
    run.check_cancel()?;
    fetched
}

/// The environment of `auth status` and of the turn, built anew for this run.
fn turn_environment(run: &mut Run, mode: BillingMode) -> Result<TurnEnv, End> {
    let shared = std::sync::Arc::clone(&run.shared);
    let runner = &shared.config.runner;
    let key = match mode {
        BillingMode::Personal => None,
        BillingMode::Organization => {
            let reference = runner.anthropic_api_key_ref.as_ref().ok_or(Cause::KeyMissing)?;
            Some(reference.read().map_err(|_| End::by(Cause::KeyMissing))?)
        }
    };
    let mut turn_env = Vec::new();
    for (name, value) in &runner.turn_env {
        let text = match value {
            TurnEnvValue::Literal(text) => text.clone(),
            TurnEnvValue::Secret(secret) => {
                let secret = secret.read().map_err(|_| End::by(Cause::EnvironmentFault))?;
                run.mask.add(secret.expose());
                secret.expose().to_owned()
            }
        };
        turn_env.push((name.clone(), text));
    }
    if let Some(key) = &key {
        run.mask.add(key.expose());
    }
    environment::build(&EnvInputs {
        parent: &shared.environment,
        mode,
        state_dir: shared.state.root(),
        temp_dir: &shared.state.run_temp(run.run_id),
        api_key: key.as_ref(),
        turn_env: &turn_env,
        forward_ssh_agent: runner.forward_ssh_agent,
        passwd_home: environment::passwd_home(),
    })
    .map_err(|fault| {
        log::warn!("code=environment_fault run={} fault={}", run.run_id, fault.code());
        match fault {
            EnvFault::ApiKeyMissing | EnvFault::ApiKeyMalformed => End::by(Cause::KeyMissing),
            _ => End::by(Cause::EnvironmentFault),
        }
    })
}

/// `claude auth status` in the very environment of the turn (M2-34 note 8).
fn prove_who_pays(
    run: &Run,
    mode: BillingMode,
    args: &TurnArgs,
    environment: &TurnEnv,
    project: &Project,
) -> Result<BillingEvidence, End> {
    let sources = argv::setting_sources(args.class, args.billing, args.trusted_project);
    let limit = run.shared.config.runner.cli_probe_timeout;
    let status = |arguments: Vec<OsString>| {
        let wanted = || run.cancel.reason().is_none();
        let (program, vars) = (&args.claude_bin, &environment.vars);
        process::run_probe_while(program, &arguments, vars, &project.path, limit, &wanted)
            .ok()
            .filter(|output| output.exit.is_some())
            .map(|output| output.stdout)
    };
    let found = auth_check::probe(sources, status);
    run.check_cancel()?;
    match auth_check::decide(mode, found) {
        Decision::Start(evidence) => Ok(evidence),
        Decision::Refuse(reason) if reason == auth_check::REASON_NOT_AUTHENTICATED => {
            Err(End::by(Cause::NotLoggedIn))
        }
        Decision::Refuse(_) => Err(End::by(Cause::PrecheckMismatch)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::version;

    #[test]
    fn a_refused_run_has_the_code_of_the_heartbeat() {
        let answers =
            [None, Some("please reinstall"), Some("2.1.200 (Claude Code)"), Some("2.1.999 (Claude Code)")];
        for answer in answers {
            let probed = version::verdict(answer.map(str::as_bytes));
            let reason = probed.verdict.degraded_reason().filter(|_| !probed.verdict.allows_turns());
            assert_eq!(runtime_fault(probed).map(|cause| cause.row().code), reason, "{answer:?}");
        }
    }
}
