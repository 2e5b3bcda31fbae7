//! Heartbeats: when they are sent, what their answers change, and the probe of the CLI whose version they tell.

use std::sync::Arc;
use std::time::Instant;

use super::status::Phase;
use super::{Runner, readiness};
use crate::sdk::heartbeat::{HeartbeatEvent, interval_from_server};
use crate::sdk::wire::heartbeat::AgentState;

impl Runner {
    pub(super) fn on_heartbeat(&mut self, event: &HeartbeatEvent) {
        let state = match event {
            HeartbeatEvent::Acked { state, ack } => {
                self.signs.contact();
                self.set_interval(ack.heartbeat_interval_ms);
                state
            }
            HeartbeatEvent::Failed { state, code } => {
                log::warn!("code=heartbeat_failed error={code}");
                state
            }
        };
        // One that was sent before the stop says nothing of it.
        self.goodbye_said |= *state == AgentState::Stopping;
    }

    pub(super) fn set_interval(&mut self, wanted_ms: Option<u64>) {
        if let Some(millis) = wanted_ms {
            self.heartbeat_interval = interval_from_server(millis);
        }
    }

    /// Sends a heartbeat of this moment and sets the time of the next.
    pub(super) fn beat(&mut self) {
        let snapshot = readiness::Snapshot {
            active_runs: self.table.turns(),
            stopping: self.phase == Phase::Stopping,
            superseded: self.duel.is_on(),
        };
        if let Some(heartbeats) = &self.heartbeats {
            let probed = self.shared.runtime.last();
            let heartbeat = readiness::heartbeat(&self.shared, probed, snapshot);
            self.signs.degraded(&heartbeat.details.degraded_reasons);
            heartbeats.send_now(heartbeat);
        }
        self.due.heartbeat.set(Instant::now() + self.heartbeat_interval);
    }

    /// Probes the CLI on a thread of its own, because it may take `runner.cli_probe_timeout`.
    pub(super) fn probe_in_background(&self) -> std::io::Result<()> {
        let (shared, out) = (Arc::clone(&self.shared), self.outbound.probe.clone());
        let probe = move || {
            shared.runtime.probed();
            // Main has gone: the runner stops.
            let _ = out.send(());
        };
        std::thread::Builder::new().name("probe".into()).spawn(probe).map(|_| ())
    }

    pub(super) fn probe_if_changed(&self) {
        if self.shared.runtime.changed() && self.probe_in_background().is_err() {
            log::warn!("code=probe_not_started");
        }
    }
}
