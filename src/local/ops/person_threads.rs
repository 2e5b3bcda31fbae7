//! createSession, deleteSession, listThreads, createThread.

use std::time::Instant;

use uuid::Uuid;

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::flow;
use crate::local::http::Answer;
use crate::local::request::Request;
use crate::local::secrets::{self, SESSION_LIFE};
use crate::local::store::projects;
use crate::local::store::threads::{self, ThreadRow};
use crate::local::{access, problems, rules, views};
use crate::sdk::wire::Time;
use crate::sdk::wire::message::TitleSource;
use crate::sdk::wire::person::{SessionCreate, ThreadCreate, Threads};

/// Threads of one page.
const PAGE: i64 = 50;

/// `createSession`
pub fn create_session(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: SessionCreate = request.json()?;
    if !secrets::equal(&body.secret, &core.person_secret) {
        return Err(problems::unauthenticated().into());
    }
    let value = core.sessions.open(Instant::now()).ok_or_else(|| std::io::Error::other("no random bytes"))?;
    Ok(Answer::empty(204).with("Set-Cookie", cookie(core, &value, SESSION_LIFE.as_secs())))
}

/// `deleteSession`
pub fn delete_session(core: &Core, request: &Request) -> Result<Answer, Fail> {
    if let Some(value) = access::cookie(&request.headers, core.address) {
        core.sessions.close(value);
    }
    Ok(Answer::empty(204).with("Set-Cookie", cookie(core, "", 0)))
}

fn cookie(core: &Core, value: &str, life_seconds: u64) -> String {
    format!(
        "{}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={life_seconds}",
        access::cookie_name(core.address)
    )
}

/// `listThreads`
pub fn list_threads(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let before = match request.query("cursor") {
        None => None,
        Some(text) => Some(position(&text).ok_or_else(|| problems::invalid("/cursor", "not_a_cursor"))?),
    };
    let page = core.store.read(|tx| {
        let channel_id = request.id(0)?;
        if projects::get(tx, channel_id)?.is_none() {
            return Err(problems::not_found());
        }
        let rows = threads::list(tx, channel_id, before, PAGE)?;
        let last = rows.last().filter(|_| i64::try_from(rows.len()) == Ok(PAGE));
        let next_cursor = last.map(|row| format!("{}.{}", row.updated_at.as_millis(), row.id));
        let threads = rows.iter().map(|row| views::thread(tx, row)).collect::<Result<_, _>>()?;
        Ok(Threads { threads, next_cursor })
    })?;
    Ok(Answer::json(200, &page))
}

fn position(cursor: &str) -> Option<(Time, Uuid)> {
    let (millis, id) = cursor.split_once('.')?;
    Some((Time::from_millis(millis.parse().ok()?), Uuid::parse_str(id).ok()?))
}

/// `createThread`
pub fn create_thread(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: ThreadCreate = request.json()?;
    if body.title.as_deref().is_some_and(|title| !rules::title(title)) {
        return Err(problems::invalid("/title", "wrong_value"));
    }
    let now = Time::now();
    let row = ThreadRow {
        id: Uuid::now_v7(),
        channel_id: request.id(0)?,
        title_source: if body.title.is_some() { TitleSource::Manual } else { TitleSource::Auto },
        title: body.title.unwrap_or_default(),
        version: 1,
        created_at: now,
        updated_at: now,
    };
    let summary = core.write(|tx| {
        if projects::get(tx, row.channel_id)?.is_none() {
            return Err(problems::not_found());
        }
        threads::add(tx, &row)?;
        flow::note_thread(tx, &row)?;
        views::thread(tx, &row)
    })?;
    Ok(Answer::json(201, &summary).etag(row.version))
}
