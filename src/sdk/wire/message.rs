//! Messages: the context a run reads and the answers it writes.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::event::Principal;
use super::time::Time;

/// Answer of `getRunContext`: everything a turn may know of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunContext {
    /// The run.
    pub run_id: Uuid,
    /// Its thread.
    pub thread: ThreadInfo,
    /// Its channel.
    pub channel: ContextChannel,
    /// Messages of the channel beside the thread, ascending.
    #[serde(default)]
    pub channel_context: Vec<RunContextMessage>,
    /// Messages of the thread before the trigger, ascending.
    #[serde(default)]
    pub thread_context: Vec<RunContextMessage>,
    /// The message that triggered the run.
    pub trigger_message: RunContextMessage,
    /// Messages below this position were cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_before_seq: Option<i64>,
    /// Messages up to this position are in the session already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_floor_seq: Option<i64>,
}

/// A thread as `getThread` and the run context show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadInfo {
    /// Identity.
    pub id: Uuid,
    /// Title, untrusted text.
    pub title: String,
    /// Who chose the title.
    pub title_source: TitleSource,
    /// Version for `If-Match`.
    pub version: i64,
}

/// Who chose a thread's title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TitleSource {
    /// Nobody yet, or an agent: an agent may propose another.
    Auto,
    /// A person: never replaced by an agent.
    #[serde(other)]
    Manual,
}

/// The channel inside a run context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextChannel {
    /// Identity.
    pub id: Uuid,
    /// Name, untrusted text.
    pub name: String,
    /// Kind of channel.
    pub kind: super::channel::ChannelKind,
}

/// One message of a run context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunContextMessage {
    /// Identity.
    pub message_id: Uuid,
    /// Position in its channel or thread.
    pub seq: i64,
    /// Who wrote it.
    pub author: Principal,
    /// What the author is to this agent.
    pub role: Role,
    /// How far the text may be believed.
    pub trust: Trust,
    /// How it came into the conversation.
    pub origin: Origin,
    /// What it is.
    pub kind: MessageKind,
    /// When it was written.
    pub created_at: Time,
    /// The text, Markdown.
    pub content_md: String,
    /// The session has it already.
    #[serde(default)]
    pub already_delivered: bool,
    /// The server cut the text.
    #[serde(default)]
    pub truncated: bool,
    /// Its files.
    #[serde(default)]
    pub attachments: Vec<RunContextAttachment>,
}

/// What an author is to this agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person.
    Person,
    /// An agent.
    Agent,
    /// This agent.
    #[serde(rename = "self")]
    Own,
    /// An imported author.
    Import,
    /// Anything else.
    #[serde(other)]
    Other,
}

/// How far a message may be believed; what this version does not know is unverified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// The triggering person's own words.
    Trigger,
    /// Somebody who may trigger the agent.
    Authorized,
    /// This agent's own words.
    #[serde(rename = "self")]
    Own,
    /// Material, never an instruction.
    #[serde(other)]
    Unverified,
}

/// How a message came into the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Written in the chat.
    Chat,
    /// Imported.
    Import,
    /// Posted by a web hook, or by a way this version does not know.
    #[serde(other)]
    Webhook,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageKind {
    /// Spoken, with a transcript among its attachments.
    Voice,
    /// Made by the server.
    System,
    /// Written.
    #[serde(other)]
    Text,
}

/// A file of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunContextAttachment {
    /// Identity.
    pub file_id: Uuid,
    /// The sender's name for it, untrusted text.
    pub name: String,
    /// The server's idea of its type, untrusted text.
    pub mime_type: String,
    /// Length in bytes.
    pub size_bytes: u64,
    /// SHA-256 of the bytes, lowercase hex.
    pub sha256: String,
    /// Result of the server's scan.
    pub scan_status: ScanStatus,
    /// What was said, for voice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript: Option<Transcript>,
}

/// Result of the server's scan of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScanStatus {
    /// Nothing was found.
    Clean,
    /// Nothing was looked for.
    Skipped,
    /// Not yet scanned.
    Pending,
    /// Something was found.
    Blocked,
    /// The scan failed, or ended in a way this version does not know.
    #[serde(other)]
    Failed,
}

/// What was said in a voice message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    /// The words.
    pub text: String,
    /// BCP 47 tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

/// Body of `createMessage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageCreate {
    /// Makes a repeat harmless: the same id and body give the stored answer.
    pub client_msg_id: Uuid,
    /// The text, empty only with at least one attachment.
    pub content_md: String,
    /// The run that answers.
    pub run_id: Uuid,
    /// Completed uploads, in the order they shall be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment_file_ids: Option<Vec<Uuid>>,
}

/// Answer of `createMessage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageCreated {
    /// Identity.
    pub message_id: Uuid,
    /// Position in the thread.
    pub seq: i64,
    /// The id of the request.
    pub client_msg_id: Uuid,
}

/// Body of `setThreadTitle`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadTitlePut {
    /// The new title.
    pub title: String,
}
