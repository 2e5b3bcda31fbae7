//! What becomes of messages that arrive while a run exists: told to the server, once each, durably.

use uuid::Uuid;

use super::Run;
use super::end::End;
use super::record::FollowupRecord;
use crate::sdk::outbox::Delivery;
use crate::sdk::wire::run::FollowupState;

/// Stores that a follow-up is in `state`, to be reported in the order of the outbox. A repeat, or a state
/// after a final one, changes nothing.
///
/// # Errors
/// The state directory cannot be written.
pub fn settle(run: &mut Run, followup_id: Uuid, state: FollowupState) -> Result<(), End> {
    if !is_news(run, followup_id, state)? {
        return Ok(());
    }
    let delivery = Delivery::Followup { followup_id, state };
    run.store.put(run.run_id, Uuid::now_v7(), &delivery).map_err(|fault| run.end_of_store(fault))?;
    if state != FollowupState::Delivered {
        run.store.settle_followup(followup_id, state).map_err(|fault| run.end_of_store(fault))?;
    }
    remember(run, followup_id, state)
}

/// Gives every follow-up that has no final state yet the state `state`: nobody will read it any more.
///
/// # Errors
/// As [`settle`].
pub fn settle_open(run: &mut Run, state: FollowupState) -> Result<(), End> {
    for open in run.store.open_followups(run.run_id).map_err(|fault| run.end_of_store(fault))? {
        settle(run, open.followup.followup_id, state)?;
    }
    Ok(())
}

fn is_news(run: &Run, followup_id: Uuid, state: FollowupState) -> Result<bool, End> {
    let known = run.record.as_ref().and_then(|record| {
        let mut all = record.get().followups.iter();
        all.find(|known| known.followup_id == followup_id).map(|known| known.state)
    });
    let stored = run.store.followup(followup_id).map_err(|fault| run.end_of_store(fault))?;
    let is_final =
        stored.is_some_and(|stored| stored.state.is_some_and(|state| state != FollowupState::Delivered));
    Ok(!is_final && known != Some(state) && known.is_none_or(|known| known == FollowupState::Delivered))
}

fn remember(run: &mut Run, followup_id: Uuid, state: FollowupState) -> Result<(), End> {
    let Some(record) = &mut run.record else { return Ok(()) };
    let kept = record.update(|record| {
        record.followups.retain(|known| known.followup_id != followup_id);
        record.followups.push(FollowupRecord { followup_id, state });
    });
    kept.map_err(|fault| run.end_of_file(&fault))
}
