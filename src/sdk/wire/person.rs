//! The person's side of the contract: what the page, `ask` and tests read and write.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::file::File;
use super::heartbeat::Heartbeat;
use super::message::TitleSource;
use super::run::{CostReport, FollowupState, RunState};
use super::time::Time;

/// Body of `createSession`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionCreate {
    /// The secret of the page's address.
    pub secret: String,
}

/// Answer of `listProjects`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Projects {
    /// Every project of the server.
    pub projects: Vec<Project>,
}

/// One project: a forum and its binding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Project {
    /// The forum.
    pub channel_id: Uuid,
    /// Its name.
    pub name: String,
    /// Its binding.
    pub workspace_ref: String,
    /// Whether the runner last said that it is ready.
    pub ready: bool,
    /// Whether turns may write.
    pub workspace_write: bool,
    /// Counts changes of the permissions; also the ETag.
    pub grant_revision: i64,
    /// Whether the project's own settings may load.
    pub trust_project_settings: bool,
}

/// Body of `setProjectGrant`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectGrantPut {
    /// New value, unchanged when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_write: Option<bool>,
    /// New value, unchanged when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_project_settings: Option<bool>,
}

/// Body of `createThread`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadCreate {
    /// A title makes the thread's title `manual`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Answer of `listThreads`, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threads {
    /// One page.
    pub threads: Vec<ThreadSummary>,
    /// Where the next page starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One thread; also the answer of `createThread`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadSummary {
    /// Identity.
    pub id: Uuid,
    /// The forum.
    pub channel_id: Uuid,
    /// Title.
    pub title: String,
    /// Who chose it.
    pub title_source: TitleSource,
    /// Version for `If-Match`.
    pub version: i64,
    /// When it was opened.
    pub created_at: Time,
    /// When something last happened.
    pub updated_at: Time,
    /// The run that works or waits in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_run_id: Option<Uuid>,
}

/// Answer of `listMessages`, ascending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Messages {
    /// One page.
    pub messages: Vec<Message>,
    /// Whether older ones exist.
    pub has_more: bool,
}

/// One message as a person sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Identity.
    pub message_id: Uuid,
    /// Position in the thread.
    pub seq: i64,
    /// Who wrote it.
    pub author: MessageAuthor,
    /// When.
    pub created_at: Time,
    /// Markdown.
    pub content_md: String,
    /// Rendered and sanitised.
    pub content_html: String,
    /// Its files.
    pub attachments: Vec<File>,
    /// The run that answered or was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Uuid>,
    /// The follow-up the message became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followup_id: Option<Uuid>,
}

/// Author of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageAuthor {
    /// Identity.
    pub principal_id: Uuid,
    /// Display name.
    pub display_name: String,
    /// Agent or person.
    pub kind: super::file::PrincipalKind,
}

/// Body of `postMessage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessagePost {
    /// Makes a repeat harmless.
    pub client_msg_id: Uuid,
    /// The text, empty only with at least one attachment.
    pub content_md: String,
    /// Completed uploads of the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment_file_ids: Option<Vec<Uuid>>,
}

/// Answer of `postMessage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessagePosted {
    /// Identity.
    pub message_id: Uuid,
    /// Position in the thread.
    pub seq: i64,
    /// The id of the request.
    pub client_msg_id: Uuid,
    /// The run it opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Uuid>,
    /// The follow-up it became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followup_id: Option<Uuid>,
}

/// Answer of `listRuns`, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    /// The thread's runs.
    pub runs: Vec<RunDocument>,
}

/// Answer of `getRunDocument`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunDocument {
    /// Identity.
    pub run_id: Uuid,
    /// The thread.
    pub thread_id: Uuid,
    /// How far it is.
    pub state: RunState,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the runner patched.
    pub document: Value,
    /// Version of the document.
    pub version: i64,
    /// What it cost; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Vec<CostReport>>,
    /// Its follow-ups.
    pub followups: Vec<Followup>,
    /// When it was opened.
    pub created_at: Time,
    /// When it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
}

/// One follow-up of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Followup {
    /// Identity.
    pub followup_id: Uuid,
    /// The message.
    pub message_id: Uuid,
    /// What became of it; absent while the runner has said nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<FollowupState>,
}

/// Answer of `pollChanges`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Changes above `after`, ascending.
    pub changes: Vec<Change>,
    /// The oldest position kept; an `after` below it means: load anew.
    pub oldest_seq: i64,
}

/// One change of something a person sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Position.
    pub seq: i64,
    /// What changed.
    #[serde(rename = "type")]
    pub kind: ChangeKind,
    /// The ids involved, by name.
    pub ids: std::collections::BTreeMap<String, Uuid>,
    /// The thing as it is now.
    pub payload: Value,
}

/// The kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// A message came.
    Message,
    /// A thread is new or has another title.
    Thread,
    /// A run or its document.
    Run,
    /// A follow-up's state.
    Followup,
    /// A project's permission.
    Project,
    /// The runner's state.
    Runner,
}

/// Answer of `getRunnerState`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunnerState {
    /// The last heartbeat; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Heartbeat>,
    /// Its age, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Whether it is young enough to believe.
    pub reachable: bool,
}
