//! The main thread: one loop over one event enum. It owns the run table, the slots, the inbox and the poll
//! position, and it never waits for the network; the gateway, courier and heartbeat threads do.
//!
//! A run's life here: event, check, inbox, acknowledgement (`intake`), thread (`launch`), end.
//!
//! Order that must hold: what a crash must not lose is committed before its acknowledgement is queued, and
//! after a start no run thread begins before the server has been asked, without waiting, until it had
//! nothing more to say.

mod beat;
mod clock;
pub mod courier;
mod ending;
pub mod event;
mod fault;
mod intake;
mod launch;
mod loads;
pub mod readiness;
mod signs;
pub mod status;
pub mod sweep;
pub mod table;

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select_biased, unbounded};
use uuid::Uuid;

use crate::config::Config;
use crate::run::record;
use crate::run::state_dir::StateDir;
use crate::run::workspace::Workspaces;
use crate::run::{RunSays, Shared};
use crate::sdk::client::{ApiResult, Client};
use crate::sdk::error::ApiError;
use crate::sdk::gateway::{self, Gateway, GatewayEvent, GatewaySettings};
use crate::sdk::heartbeat::{self, HeartbeatEvent, Heartbeats};
use crate::sdk::store::Store;
use crate::sdk::verify::Verifier;
use crate::sdk::wire;
use crate::sdk::wire::channel::AgentChannelConfig;
use crate::sdk::wire::file::PrincipalKind;
use crate::sys::lock::FileLock;
use crate::sys::private;
use crate::sys::service_manager::ServiceManager;
use crate::sys::signals::SignalSeen;

use clock::Due;
use courier::{Connection, Courier, Done, Job};
use ending::Duel;
use event::Event;
use loads::ChannelLoads;
use signs::Signs;
use status::Phase;
use table::{RunTable, Slots};

pub use fault::RunnerFault;

/// Longest time that polls may be answered `superseded_poll` before a runner without live turns gives up.
const SUPERSEDED_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Most events of one answer of the long poll: small enough to be stored between two signals.
const MAX_EVENTS: u32 = 100;

/// Asks a runner in the same process to stop, as SIGTERM does.
#[derive(Clone)]
pub struct StopHandle(Sender<SignalSeen>);

impl StopHandle {
    /// Asks once; a second call ends the runner at once.
    pub fn stop(&self) {
        // A runner that has ended needs no stop.
        let _ = self.0.send(SignalSeen::Terminate);
    }
}

/// One runner.
pub struct Runner {
    shared: Arc<Shared>,
    store: Store,
    /// Held as long as the runner lives.
    state_lock: FileLock,
    phase: Phase,
    courier: Courier,
    gateway: Option<Gateway>,
    heartbeats: Option<Heartbeats>,
    verifier: Option<Verifier>,
    table: RunTable,
    slots: Slots,
    /// Runs without a thread for now, and until when: those whose token was superseded, until a newer one
    /// comes, and those whose durable state could not be used a moment ago.
    parked: HashMap<Uuid, Instant>,
    /// Tokens of ended runs, for follow-ups that come late.
    late_tokens: HashMap<Uuid, crate::sdk::bound::TokenCell>,
    /// Events whose `kid` is unknown until the keys are loaded.
    waiting_for_keys: Vec<wire::event::Event>,
    channel_loads: ChannelLoads,
    position: Option<i64>,
    /// The next poll asks for everything unacknowledged again.
    look_again: bool,
    /// Events were lost before the runner began to serve.
    events_lost: bool,
    duel: Duel,
    superseded_limit: Duration,
    /// The server has heard, or cannot hear, that this runner stops.
    goodbye_said: bool,
    heartbeat_interval: Duration,
    due: Due,
    signs: Signs,
    inbound: Inbound,
    outbound: Outbound,
}

/// Where the main thread hears from the others.
struct Inbound {
    signals: Receiver<SignalSeen>,
    runs: Receiver<(Uuid, RunSays)>,
    gateway: Receiver<GatewayEvent>,
    courier: Receiver<Done>,
    heartbeat: Receiver<HeartbeatEvent>,
    probe: Receiver<()>,
}

/// What the others are given to speak into.
struct Outbound {
    signals: Sender<SignalSeen>,
    runs: Sender<(Uuid, RunSays)>,
    gateway: Sender<GatewayEvent>,
    heartbeat: Sender<HeartbeatEvent>,
    probe: Sender<()>,
}

impl Runner {
    /// Takes the state directory and starts the courier; nothing is sent yet. `environment`: the variables of
    /// the runner's own process, from which a turn's allow list picks.
    ///
    /// # Errors
    /// See [`RunnerFault`].
    pub fn new(
        mut config: Config,
        workspaces: Workspaces,
        environment: Vec<(OsString, OsString)>,
    ) -> Result<Runner, RunnerFault> {
        private::create_dir_all(&config.runner.state_dir).map_err(RunnerFault::StateDir)?;
        // Without links from here on: SQLite refuses them, and the CLI compares its rules with real paths.
        config.runner.state_dir =
            std::fs::canonicalize(&config.runner.state_dir).map_err(RunnerFault::StateDir)?;
        let state = StateDir::new(&config.runner.state_dir);
        for directory in state.directories() {
            private::create_dir_all(&directory).map_err(RunnerFault::StateDir)?;
        }
        let lock = FileLock::acquire(&state.runner_lock()).map_err(RunnerFault::StateDir)?;
        let lock = lock.ok_or(RunnerFault::StateDirInUse)?;
        for directory in [state.turns(), state.root().to_owned()] {
            record::clear_partial(&directory).map_err(RunnerFault::StateDir)?;
        }
        let store = Store::open(&state.inbox()).map_err(RunnerFault::Store)?;
        if store.moved_aside().is_some() {
            log::error!("code=inbox_damaged_moved_aside");
        }
        let client = Client::new(crate::run::client_settings(&config)).map_err(RunnerFault::Client)?;
        let (inbound, outbound, done) = channels();
        let courier = Courier::spawn(client.fork(), config.runner.consumer.clone(), done)
            .map_err(RunnerFault::System)?;
        let heartbeat_interval = config.adapter.heartbeat_interval;
        let manager = ServiceManager::named_in(&environment, std::process::id());
        let signs = Signs::new(state.status(), manager);
        let slots = Slots::new(crate::run::parallel_limit(&config));
        let shared = Shared::new(config, workspaces, environment, client);
        Ok(Runner {
            shared: Arc::new(shared),
            store,
            state_lock: lock,
            phase: Phase::Connecting,
            courier,
            gateway: None,
            heartbeats: None,
            verifier: None,
            table: RunTable::default(),
            slots,
            parked: HashMap::new(),
            late_tokens: HashMap::new(),
            waiting_for_keys: Vec::new(),
            channel_loads: ChannelLoads::default(),
            position: None,
            look_again: false,
            events_lost: false,
            duel: Duel::default(),
            superseded_limit: SUPERSEDED_LIMIT,
            goodbye_said: false,
            heartbeat_interval,
            due: Due::default(),
            signs,
            inbound,
            outbound,
        })
    }

    /// Gives up after `limit` of superseded polls in place of the usual five minutes.
    pub fn give_up_superseded_after(mut self, limit: Duration) -> Runner {
        self.superseded_limit = limit;
        self
    }

    /// Where the operating system's signals go.
    pub fn signal_sender(&self) -> Sender<SignalSeen> {
        self.outbound.signals.clone()
    }

    /// Stops the runner from another thread.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.outbound.signals.clone())
    }

    /// Works until it is told to stop.
    ///
    /// # Errors
    /// What made it give up.
    pub fn run(mut self) -> Result<(), RunnerFault> {
        self.probe_in_background().map_err(RunnerFault::System)?;
        self.courier.send(Job::Connect);
        let result = self.serve();
        self.close();
        result
    }

    fn serve(&mut self) -> Result<(), RunnerFault> {
        loop {
            self.give_signs();
            match self.next_event() {
                Some(event) => self.on_event(event)?,
                None => self.on_time()?,
            }
            if self.has_stopped() {
                return Ok(());
            }
        }
    }

    /// The next event, or `None` when something is due. A stop is looked at before everything else.
    fn next_event(&self) -> Option<Event> {
        let inbound = &self.inbound;
        select_biased! {
            recv(inbound.signals) -> seen => seen.ok().map(Event::Signal),
            recv(inbound.runs) -> said => said.ok().map(|(run_id, event)| Event::Run(run_id, event)),
            recv(inbound.gateway) -> event => event.ok().map(Event::Gateway),
            recv(inbound.courier) -> done => done.ok().map(Event::Courier),
            recv(inbound.probe) -> done => done.ok().map(|()| Event::Probed),
            recv(inbound.heartbeat) -> event => event.ok().map(Event::Heartbeat),
            default(self.due.wait()) => None,
        }
    }

    fn on_event(&mut self, event: Event) -> Result<(), RunnerFault> {
        match event {
            Event::Signal(seen) => self.on_signal(seen),
            Event::Run(run_id, event) => self.on_run(run_id, event),
            Event::Gateway(event) => self.on_gateway(event),
            Event::Courier(done) => return self.on_done(done),
            Event::Heartbeat(event) => self.on_heartbeat(&event),
            Event::Probed => self.beat(),
        }
        Ok(())
    }

    fn on_time(&mut self) -> Result<(), RunnerFault> {
        let now = Instant::now();
        if self.due.connect.take_if_due(now) {
            self.courier.send(Job::Connect);
        }
        if self.due.heartbeat.take_if_due(now) {
            self.check_state_dir()?;
            self.probe_if_changed();
            self.beat();
        }
        if self.due.poll_anew.take_if_due(now) {
            self.look_again = true;
        }
        if self.due.poll.take_if_due(now) {
            self.poll();
        }
        if self.due.refusals.take_if_due(now) {
            self.send_refusals();
        }
        if self.due.channels.take_if_due(now) {
            self.channel_loads.again().into_iter().for_each(|id| self.courier.send(Job::LoadChannel(id)));
        }
        if self.due.lost.take_if_due(now) {
            self.ask_open_runs();
        }
        if self.due.parked.take_if_due(now) {
            self.release_parked(now);
        }
        self.check_superseded(now)
    }

    fn on_done(&mut self, done: Done) -> Result<(), RunnerFault> {
        match done {
            // The event comes again with a poll without a position, and is acknowledged then.
            Done::AckLost => drop(self.due.poll_anew.grow()),
            Done::Connected(Ok(connection)) => return self.connected(*connection),
            Done::Connected(Err(error)) => return self.not_connected(&error),
            Done::Keys(result) => self.on_keys(result),
            Done::Channel(channel_id, result) => self.on_channel(channel_id, result),
            Done::Refused(run_id, result) => self.on_refused(run_id, result),
            Done::FollowupRefused(followup_id, result) => self.on_followup_refused(followup_id, result),
            Done::Run(run_id, result) => self.on_run_state(run_id, result),
        }
        Ok(())
    }

    fn on_channel(&mut self, id: Uuid, result: ApiResult<Option<AgentChannelConfig>>) {
        if self.channel_loads.answered(id) {
            self.courier.send(Job::LoadChannel(id));
        }
        match result {
            Ok(channel) => {
                self.due.channels.reset();
                self.shared.channels.put(id, channel);
                self.beat();
            }
            Err(error) => {
                log::warn!("code=channel_not_loaded channel={id} error={}", error.code());
                // The event of its change is acknowledged already.
                if error.is_transient() {
                    self.channel_loads.failed(id);
                    self.due.channels.grow();
                }
            }
        }
    }

    fn connected(&mut self, connection: Connection) -> Result<(), RunnerFault> {
        let config = &self.shared.config;
        if connection.discovery.instance_id != config.runner.instance_id {
            return Err(RunnerFault::WrongInstance);
        }
        if connection.me.principal.kind != PrincipalKind::Agent {
            return Err(RunnerFault::NotAnAgent);
        }
        let agent_id = connection.me.principal.id;
        self.shared.set_agent_id(agent_id);
        self.verifier = Some(Verifier::new(
            config.runner.instance_id,
            agent_id,
            config.adapter.invocation_token_leeway,
            config.adapter.jwks_refresh_min_interval,
        ));
        self.shared.channels.load(connection.channels);
        let settings = GatewaySettings {
            wait: config.sdk.poll_wait,
            max: MAX_EVENTS,
            retry_max_delay: config.sdk.retry_max_delay,
        };
        let consumer = config.runner.consumer.clone();
        let out = self.outbound.gateway.clone();
        let gateway = gateway::spawn(self.shared.client.fork(), consumer, settings, out);
        self.gateway = Some(gateway.map_err(RunnerFault::System)?);
        let heartbeats = heartbeat::spawn(self.shared.client.fork(), self.outbound.heartbeat.clone());
        self.heartbeats = Some(heartbeats.map_err(RunnerFault::System)?);
        log::info!("code=connected agent={agent_id}");
        self.signs.contact();
        self.signs.tell("READY=1");
        self.phase = Phase::Draining;
        self.poll();
        self.beat();
        self.due.parked.set(Instant::now() + clock::PARKED_LOOK);
        Ok(())
    }

    fn not_connected(&mut self, error: &ApiError) -> Result<(), RunnerFault> {
        if error.problem().is_some_and(|problem| problem.status == 401) {
            return Err(RunnerFault::TokenRefused);
        }
        let wait = self.due.connect.grow();
        log::warn!("code=not_connected error={} wait_ms={}", error.code(), wait.as_millis());
        Ok(())
    }

    fn on_gateway(&mut self, event: GatewayEvent) {
        match event {
            GatewayEvent::Batch { after_used, answer } => {
                self.signs.contact();
                if self.duel.answered(Instant::now()) {
                    self.beat();
                }
                if !self.on_batch(after_used, answer) {
                    self.due.poll.grow();
                    return;
                }
                self.due.poll.reset();
            }
            GatewayEvent::Failed { code, status } => {
                log::warn!("code=poll_failed error={code} status={}", status.unwrap_or_default());
            }
            GatewayEvent::Superseded => {
                log::warn!("code=poll_superseded");
                self.on_superseded();
            }
        }
        self.poll();
    }

    /// Asks the gateway thread for the next answer: at once while draining, with a wait otherwise.
    fn poll(&mut self) {
        if let Some(gateway) = &self.gateway {
            let after = if std::mem::take(&mut self.look_again) { None } else { self.position };
            gateway.poll_from(after, self.phase == Phase::Serving);
        }
    }

    /// Ends the small threads.
    fn close(self) {
        if let Some(gateway) = self.gateway {
            gateway.stop();
        }
        if let Some(heartbeats) = self.heartbeats {
            heartbeats.stop();
        }
        self.courier.stop();
        log::info!("code=runner_stopped");
    }
}

fn channels() -> (Inbound, Outbound, Sender<Done>) {
    let (signals, signals_in) = unbounded();
    let (runs, runs_in) = unbounded();
    let (gateway, gateway_in) = unbounded();
    let (done, courier_in) = unbounded();
    let (heartbeat, heartbeat_in) = unbounded();
    let (probe, probe_in) = unbounded();
    let inbound = Inbound {
        signals: signals_in,
        runs: runs_in,
        gateway: gateway_in,
        courier: courier_in,
        heartbeat: heartbeat_in,
        probe: probe_in,
    };
    (inbound, Outbound { signals, runs, gateway, heartbeat, probe }, done)
}
