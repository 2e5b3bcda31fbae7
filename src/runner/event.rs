//! Everything the main thread can be told, in one enum, so that its loop is one `select`.

use uuid::Uuid;

use super::courier::Done;
use crate::run::RunSays;
use crate::sdk::gateway::GatewayEvent;
use crate::sdk::heartbeat::HeartbeatEvent;
use crate::sys::signals::SignalSeen;

/// One thing that happened outside the main thread.
pub enum Event {
    /// The long poll answered or failed.
    Gateway(GatewayEvent),
    /// The courier did, or could not do, one of its jobs.
    Courier(Done),
    /// The server acknowledged a heartbeat, or did not.
    Heartbeat(HeartbeatEvent),
    /// The operating system asks for something.
    Signal(SignalSeen),
    /// The CLI's version was looked at.
    Probed,
    /// A run thread says something.
    Run(Uuid, RunSays),
}
