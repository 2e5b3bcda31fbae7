//! What somebody with the server in hand does beside the contract: keys, limits, other authors, events by hand.
//!
//! A bigger server has an administration for this; here it is a set of methods.

use std::io::Read;

use serde_json::Value;
use uuid::Uuid;

use super::core::Core;
use super::fail::Fail;
use super::flow::{self, End};
use super::identity as first_use;
use super::lock;
use super::problems;
use super::secrets;
use super::settings::Settings;
use super::store::identity::{self, PrincipalRow};
use super::store::messages::{self, MessageRow};
use super::store::projects::{self, Behavior};
use super::store::runs::{self, RunRow};
use super::store::tokens::{self as kept_tokens, TokenRow};
use super::store::{Tx, events, files, threads};
use super::{ops, tokens, views};
use crate::sdk::jws::SigningKey;
use crate::sdk::wire::Time;
use crate::sdk::wire::event::kind;
use crate::sdk::wire::message::{Origin, ScanStatus};
use crate::sdk::wire::person::{Message, RunDocument};
use crate::sdk::wire::problem::Problem;
use crate::sdk::wire::run::{AgentSession, RunState};

/// The operator of a running server.
pub struct Operator<'a>(&'a Core);

/// Who signs a token made by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// The server's newest published key.
    Current,
    /// A key that nobody published.
    Stranger,
}

/// Done, or the problem that a client would get.
pub type Done<T> = Result<T, Box<Problem>>;

impl<'a> Operator<'a> {
    pub(super) fn new(core: &'a Core) -> Operator<'a> {
        Operator(core)
    }

    fn write<T>(&self, work: impl FnOnce(&Tx<'_>) -> Result<T, Fail>) -> Done<T> {
        self.0.write(work).map_err(boxed)
    }

    fn read<T>(&self, work: impl FnOnce(&Tx<'_>) -> Result<T, Fail>) -> Done<T> {
        self.0.store.read(work).map_err(boxed)
    }

    /// Changes limits and times from now on.
    pub fn change_settings(&self, change: impl FnOnce(&mut Settings)) {
        self.0.change_settings(change);
    }

    /// Signs with a new key from now on; the older ones stay published.
    pub fn rotate_keys(&self) -> Done<()> {
        self.write(first_use::add_key)?;
        self.load_keys()
    }

    /// Takes every key but the newest out of the published set.
    pub fn retire_older_keys(&self) -> Done<()> {
        self.write(|tx| Ok(identity::retire_older_keys(tx)?))?;
        self.load_keys()
    }

    fn load_keys(&self) -> Done<()> {
        let keys = first_use::load_keys(&self.0.store);
        *lock(&self.0.keys) = keys.map_err(|fault| Box::new(problems::http(500, fault.code())))?;
        Ok(())
    }

    /// The header and claims that a fresh token of the run has; change them and [`Operator::sign`].
    pub fn token_parts(&self, run_id: Uuid) -> Done<(Value, Value)> {
        let run = self.run_row(run_id)?;
        let header = lock(&self.0.keys).last().map(tokens::header).unwrap_or_default();
        Ok((header, tokens::claims(self.0, &run)))
    }

    /// A compact JWS of `claims` under `header`, whose `alg` the key sets.
    pub fn sign(&self, header: &Value, claims: &Value, signer: Signer) -> Done<String> {
        let keys = lock(&self.0.keys);
        let signed = match signer {
            Signer::Current => keys.last().map(|key| key.key.sign(header, claims)),
            Signer::Stranger => SigningKey::generate().ok().map(|key| key.sign(header, claims)),
        };
        signed.ok_or_else(|| Box::new(problems::http(500, "no_key")))
    }

    /// Makes a token made by hand the newest of its run, as if the server had given it.
    pub fn accept_token(&self, run_id: Uuid, token: &str, jti: &str, exp: i64) -> Done<()> {
        let row = TokenRow { jti: jti.to_owned(), run_id, token: token.to_owned(), exp };
        self.write(|tx| Ok(kept_tokens::add(tx, &row, &secrets::hash(token), None)?))
    }

    /// Gives a run a new token, which supersedes the older ones, and sends nothing.
    pub fn mint_token(&self, run_id: Uuid) -> Done<String> {
        let run = self.run_row(run_id)?;
        self.write(|tx| Ok(tokens::mint(tx, self.0, &run, None)?.token))
    }

    /// The newest token of a run.
    pub fn newest_token(&self, run_id: Uuid) -> Done<String> {
        let row = self.read(|tx| Ok(kept_tokens::newest(tx, run_id)?))?;
        row.map(|row| row.token).ok_or_else(missing)
    }

    /// Ends the life of every token of a run now.
    pub fn expire_tokens(&self, run_id: Uuid) -> Done<()> {
        self.write(|tx| Ok(kept_tokens::expire(tx, run_id, Time::now().as_seconds() - 1)?))
    }

    /// Sends a run's invocation again: a new event with a new token. Its position.
    pub fn redeliver(&self, run_id: Uuid) -> Done<i64> {
        let run = self.run_row(run_id)?;
        self.write(|tx| flow::invoke(tx, self.0, &run))
    }

    /// Sends a run's invocation again with `token`, its payload changed by `change`. Its position.
    pub fn redeliver_with(&self, run_id: Uuid, token: String, change: impl FnOnce(&mut Value)) -> Done<i64> {
        let run = self.run_row(run_id)?;
        self.write(|tx| {
            let mut payload = serde_json::json!(flow::invocation(tx, &run, token)?);
            change(&mut payload);
            flow::send(tx, self.0, kind::AGENT_INVOCATION, &payload)
        })
    }

    /// Sends an event of any type with any payload. Its position.
    pub fn publish(&self, kind: &str, payload: &Value) -> Done<i64> {
        self.write(|tx| flow::send(tx, self.0, kind, payload))
    }

    /// Sends an event exactly as given, with its `seq` added unless it has one. Its position.
    pub fn publish_raw(&self, event: &Value) -> Done<i64> {
        self.write(|tx| Ok(events::add_raw(tx, self.0.instance.agent_id, event)?))
    }

    /// Loses every event that waits; the next poll of each consumer says `gap`.
    pub fn lose_events(&self) -> Done<()> {
        self.write(|tx| Ok(events::lose(tx, self.0.instance.agent_id)?))
    }

    /// The events a consumer has not acknowledged.
    pub fn unacknowledged(&self, consumer: &str) -> Done<Vec<Value>> {
        self.read(|tx| Ok(events::pending(tx, self.0.instance.agent_id, consumer, 0, i64::MAX)?))
    }

    /// Adds an agent that serves nothing here: its id and token.
    pub fn add_agent(&self, name: &str) -> Done<(Uuid, String)> {
        let token = secrets::random().ok_or_else(|| Box::new(problems::http(500, "no_random")))?;
        let id = self.add_principal("agent", name, false)?;
        self.write(|tx| Ok(identity::set_agent_token(tx, id, &secrets::hash(&token))?))?;
        Ok((id, token))
    }

    /// Adds an author: `trusted` may trigger the agent, the words of another are unverified.
    pub fn add_person(&self, name: &str, trusted: bool) -> Done<Uuid> {
        self.add_principal("person", name, trusted)
    }

    /// Adds an author of imported messages.
    pub fn add_imported_author(&self, name: &str) -> Done<Uuid> {
        self.add_principal("import", name, false)
    }

    fn add_principal(&self, kind: &str, name: &str, trusted: bool) -> Done<Uuid> {
        let row = PrincipalRow {
            id: Uuid::now_v7(),
            kind: kind.to_owned(),
            display_name: name.to_owned(),
            trusted,
            may_upload: trusted,
        };
        self.write(|tx| Ok(identity::add_principal(tx, &row)?))?;
        Ok(row.id)
    }

    /// Says whether a person, and the agent for that person, may upload (SR9).
    pub fn set_may_upload(&self, principal_id: Uuid, may_upload: bool) -> Done<()> {
        self.write(|tx| Ok(identity::set_may_upload(tx, principal_id, may_upload)?))
    }

    /// Binds the agent's token to the key with this thumbprint (RFC 7638), or to none.
    pub fn bind_agent_token(&self, thumbprint: Option<&str>) -> Done<()> {
        self.write(|tx| Ok(identity::bind_agent_token(tx, self.0.instance.agent_id, thumbprint)?))
    }

    /// Puts a message into a thread that opens nothing. Its id.
    pub fn add_message(&self, thread_id: Uuid, author_id: Uuid, origin: Origin, text: &str) -> Done<Uuid> {
        self.write(|tx| Ok(message_by_hand(tx, thread_id, author_id, origin, text)?.0.id))
    }

    /// Posts a message as another author: the run it opened or the follow-up it became, and its id.
    pub fn post_as(&self, thread_id: Uuid, author_id: Uuid, text: &str) -> Done<(Uuid, flow::Became)> {
        self.write(|tx| {
            let (row, thread) = message_by_hand(tx, thread_id, author_id, Origin::Chat, text)?;
            Ok((row.id, flow::receive(tx, self.0, &thread, &row)?))
        })
    }

    /// Sets what the scan of a file found.
    pub fn set_scan_status(&self, file_id: Uuid, status: ScanStatus) -> Done<()> {
        self.write(|tx| Ok(files::set_scan_status(tx, file_id, status)?))
    }

    /// Sets prompt, model and tools of a forum and tells the agent.
    pub fn set_behavior(&self, channel_id: Uuid, behavior: Behavior) -> Done<()> {
        self.write(|tx| {
            let mut row = projects::get(tx, channel_id)?.ok_or_else(problems::not_found)?;
            row.behavior = behavior;
            ops::grants::changed(tx, self.0, &mut row)
        })
    }

    /// Takes a forum's binding away (until the next start) and tells the agent.
    pub fn unbind(&self, channel_id: Uuid) -> Done<()> {
        self.write(|tx| {
            let mut row = projects::get(tx, channel_id)?.ok_or_else(problems::not_found)?;
            ops::grants::changed(tx, self.0, &mut row)?;
            Ok(projects::stop_serving(tx, channel_id)?)
        })
    }

    /// Asks for the end of a run with any reason.
    pub fn cancel(&self, run_id: Uuid, reason: &str) -> Done<()> {
        let run = self.run_row(run_id)?;
        self.write(|tx| flow::cancel(tx, self.0, run, reason, None).map(drop))
    }

    /// Ends a run without asking its runner.
    pub fn end_run(&self, run_id: Uuid, state: RunState, reason: Option<&str>) -> Done<()> {
        let run = self.run_row(run_id)?;
        self.write(|tx| flow::end(tx, self.0, run, End::new(state, reason)).map(drop))
    }

    /// Sets the session of a thread.
    pub fn set_session(&self, thread_id: Uuid, session: &AgentSession) -> Done<()> {
        self.write(|tx| Ok(super::store::sessions::set(tx, thread_id, session, None)?))
    }

    /// The session of a thread.
    pub fn session(&self, thread_id: Uuid) -> Done<Option<AgentSession>> {
        self.read(|tx| Ok(super::store::sessions::get(tx, thread_id)?))
    }

    /// A run as the person sees it.
    pub fn run(&self, run_id: Uuid) -> Done<RunDocument> {
        self.read(|tx| views::run(tx, &runs::get(tx, run_id)?.ok_or_else(problems::not_found)?))
    }

    /// The runs of a thread, newest first.
    pub fn runs(&self, thread_id: Uuid) -> Done<Vec<RunDocument>> {
        self.read(|tx| {
            runs::of_thread(tx, thread_id, i64::MAX)?.iter().map(|row| views::run(tx, row)).collect()
        })
    }

    /// The messages of a thread, ascending.
    pub fn messages(&self, thread_id: Uuid) -> Done<Vec<Message>> {
        self.read(|tx| {
            let rows = messages::between(tx, thread_id, 0, i64::MAX, i64::MAX)?;
            rows.iter().map(|row| views::message(tx, row)).collect()
        })
    }

    /// Every upload session and file, oldest first: its id, name and phase as the wire spells it.
    pub fn uploads(&self) -> Done<Vec<(Uuid, String, String)>> {
        let rows = self.read(|tx| Ok(files::all(tx)?))?;
        Ok(rows.into_iter().map(|row| (row.id, row.name, word(row.phase))).collect())
    }

    /// The bytes of a whole file.
    pub fn file_bytes(&self, file_id: Uuid) -> Done<Vec<u8>> {
        let row = self.read(|tx| Ok(files::get(tx, file_id)?))?.ok_or_else(missing)?;
        let mut bytes = Vec::new();
        let read = self.0.blobs.open_whole(&row.sha256).and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(|fault| boxed(fault.into()))?;
        Ok(bytes)
    }

    fn run_row(&self, run_id: Uuid) -> Done<RunRow> {
        self.read(|tx| runs::get(tx, run_id)?.ok_or_else(problems::not_found))
    }
}

fn missing() -> Box<Problem> {
    boxed(problems::not_found())
}

fn boxed(fail: Fail) -> Box<Problem> {
    Box::new(fail.into_problem())
}

fn word<T: serde::Serialize>(value: T) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn message_by_hand(
    tx: &Tx<'_>,
    thread_id: Uuid,
    author_id: Uuid,
    origin: Origin,
    text: &str,
) -> Result<(MessageRow, threads::ThreadRow), Fail> {
    let thread = threads::get(tx, thread_id)?.ok_or_else(problems::not_found)?;
    let row = MessageRow {
        id: Uuid::now_v7(),
        thread_id,
        seq: threads::next_seq(tx, thread_id)?,
        author_id,
        origin,
        created_at: Time::now(),
        content_md: text.to_owned(),
        client_msg_id: None,
        fingerprint: None,
        run_id: None,
        followup_id: None,
        delivered_ref: None,
    };
    messages::add(tx, &row)?;
    flow::note_message(tx, &row, thread.channel_id)?;
    Ok((row, thread))
}
