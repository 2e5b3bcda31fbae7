//! The durable inbox: what was accepted, asked to stop, added or refused, before the server hears of it.
//!
//! An event is acknowledged only after one of the calls here has returned `Ok`. The position of the poll is
//! not kept: the server delivers again what was not acknowledged, and everything here is repeatable.
//! Must not decide anything about tokens, runs or answers; it remembers.
//!
//! A file a thought: `entry` (accepted runs), `followups`, `notes` (stops, refusals, handled events),
//! `forget` (how long all of it is kept).

mod entry;
mod followups;
mod forget;
mod notes;

use uuid::Uuid;

use crate::sdk::wire::{Time, event::Event};

pub use entry::{Acceptance, Entry, EntryState, NewEntry, Stop, StoredStart};
pub use followups::StoredFollowup;
pub use notes::Refusal;

/// Which event something came with; it is remembered as handled in the same transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRef {
    /// Position at the gateway.
    pub seq: i64,
    /// Identity; the same in every delivery before the acknowledgement.
    pub event_id: Uuid,
    /// When the server made it.
    pub occurred_at: Time,
}

impl From<&Event> for EventRef {
    fn from(event: &Event) -> EventRef {
        EventRef { seq: event.seq, event_id: event.event_id, occurred_at: event.occurred_at }
    }
}

#[cfg(test)]
mod tests;
