//! pollChanges: a long poll over everything the person sees.

use std::time::Instant;

use serde_json::{Value, json};
use uuid::Uuid;

use super::gateway::wait;
use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::http::Answer;
use crate::local::request::Request;
use crate::local::settings::MAX_BATCH;
use crate::local::store::changes::{self, ChangeRow, Ids};
use crate::local::store::{Tx, followups, messages, projects, runs, threads};
use crate::local::views;
use crate::sdk::wire::person::{Change, ChangeKind, Changes};

/// `pollChanges`; without `after` the newest change alone, so that a reader learns the present position.
pub fn poll_changes(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let deadline = Instant::now() + wait(request)?;
    let asked = request.query_number("after")?;
    loop {
        let seen = core.notifier.count();
        let found = core.store.read(|tx| {
            let after = match asked {
                Some(after) => after,
                None => changes::newest(tx)? - 1,
            };
            collect(tx, core, after)
        })?;
        let lost = asked.is_some_and(|after| after < found.oldest_seq);
        if !found.changes.is_empty() || lost || core.is_stopping() || !core.notifier.wait(seen, deadline) {
            return Ok(Answer::json(200, &found));
        }
    }
}

fn collect(tx: &Tx<'_>, core: &Core, after: i64) -> Result<Changes, Fail> {
    let mut found = Changes { changes: Vec::new(), oldest_seq: changes::oldest(tx)? };
    for row in changes::above(tx, after, MAX_BATCH)? {
        if let Some(payload) = payload(tx, core, &row)? {
            found.changes.push(Change { seq: row.seq, kind: row.kind, ids: row.ids, payload });
        }
    }
    Ok(found)
}

/// The changed thing as it is now; `None` when it is not served any more.
fn payload(tx: &Tx<'_>, core: &Core, row: &ChangeRow) -> Result<Option<Value>, Fail> {
    let id = |name: &str| id(&row.ids, name);
    Ok(match row.kind {
        ChangeKind::Message => messages::get(tx, id("message_id"))?
            .map(|row| views::message(tx, &row))
            .transpose()?
            .map(|view| json!(view)),
        ChangeKind::Thread => threads::get(tx, id("thread_id"))?
            .map(|row| views::thread(tx, &row))
            .transpose()?
            .map(|view| json!(view)),
        ChangeKind::Run => {
            runs::get(tx, id("run_id"))?.map(|row| views::run(tx, &row)).transpose()?.map(|view| json!(view))
        }
        ChangeKind::Followup => followups::get(tx, id("followup_id"))?.map(|row| json!(row.view())),
        ChangeKind::Project => {
            projects::get(tx, id("channel_id"))?.map(|row| json!(views::project(core, &row)))
        }
        ChangeKind::Runner => Some(json!(views::runner(core))),
    })
}

fn id(ids: &Ids, name: &str) -> Uuid {
    ids.get(name).copied().unwrap_or_default()
}
