//! pollEvents, ackEvents: at least once, acknowledged one by one.

use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::http::Answer;
use crate::local::request::Request;
use crate::local::settings::{MAX_BATCH, MAX_CONSUMERS, MAX_WAIT};
use crate::local::store::events;
use crate::local::{lock, problems, rules};
use crate::sdk::wire::event::{AckEvents, PollAnswer};
use crate::sdk::wire::problem::code;
use crate::sdk::wire::raw::RawJson;

/// `pollEvents`
pub fn poll_events(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let agent = request.principal(core);
    let consumer = request.query("consumer").filter(|name| rules::consumer(name));
    let consumer = consumer.ok_or_else(|| problems::invalid("/consumer", "wrong_value"))?;
    let after = request.query_number("after")?.unwrap_or(0);
    let deadline = Instant::now() + wait(request)?;
    let max = request.query_number("max")?.unwrap_or(MAX_BATCH).clamp(1, MAX_BATCH);
    let poll = begin_poll(core, agent, &consumer);
    register(core, agent, &consumer)?;
    loop {
        let seen = core.notifier.count();
        if newest_poll(core, agent, &consumer) != poll {
            return Err(problems::conflict(code::SUPERSEDED_POLL));
        }
        let (found, gap) = pending(core, agent, &consumer, after, max)?;
        if gap && !request.client.has_gone() {
            // Told once; somebody who left while the poll waited was told nothing.
            core.store.write(|tx| Ok(events::set_consumer(tx, agent, &consumer, false)?))?;
        }
        if !found.is_empty() || gap || core.is_stopping() || !core.notifier.wait(seen, deadline) {
            let interval = u64::try_from(core.settings().heartbeat_interval.as_millis()).ok();
            let events: Vec<RawJson> = found.iter().filter_map(|event| RawJson::of(event).ok()).collect();
            let answer = PollAnswer { events, heartbeat_interval_ms: interval, gap: gap.then_some(true) };
            return Ok(Answer::json(200, &answer));
        }
    }
}

/// `ackEvents`
pub fn ack_events(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: AckEvents = request.json()?;
    if !rules::consumer(&body.consumer) {
        return Err(problems::invalid("/consumer", "wrong_value"));
    }
    let agent = request.principal(core);
    register(core, agent, &body.consumer)?;
    core.store.write(|tx| Ok(events::ack(tx, agent, &body.consumer, &body.seqs)?))?;
    Ok(Answer::empty(204))
}

/// The wait a long poll asks for, cut to what the server gives.
pub fn wait(request: &Request) -> Result<Duration, Fail> {
    let millis = request.query_number("wait_ms")?.unwrap_or(0);
    Ok(Duration::from_millis(u64::try_from(millis).unwrap_or(0)).min(MAX_WAIT))
}

/// Makes this the consumer's newest poll; an older one that still waits is woken to find out.
fn begin_poll(core: &Core, agent: Uuid, consumer: &str) -> u64 {
    let mut polls = lock(&core.polls);
    let count = polls.entry((agent, consumer.to_owned())).or_default();
    *count += 1;
    let poll = *count;
    drop(polls);
    core.notifier.notify();
    poll
}

fn newest_poll(core: &Core, agent: Uuid, consumer: &str) -> u64 {
    lock(&core.polls).get(&(agent, consumer.to_owned())).copied().unwrap_or(0)
}

/// A consumer that never asked before keeps events alive from now on.
fn register(core: &Core, agent: Uuid, consumer: &str) -> Result<(), Fail> {
    if core.store.read(|tx| Ok(events::consumer(tx, agent, consumer)?))?.is_some() {
        return Ok(());
    }
    core.store.write(|tx| {
        if events::consumer_count(tx, agent)? >= MAX_CONSUMERS {
            return Err(problems::invalid("/consumer", "too_many"));
        }
        Ok(events::set_consumer(tx, agent, consumer, false)?)
    })
}

/// What waits for the consumer, and whether it lost events.
fn pending(
    core: &Core,
    agent: Uuid,
    consumer: &str,
    after: i64,
    max: i64,
) -> Result<(Vec<serde_json::Value>, bool), Fail> {
    core.store.read(|tx| {
        let found = events::pending(tx, agent, consumer, after, max)?;
        Ok((found, events::consumer(tx, agent, consumer)?.unwrap_or(false)))
    })
}
