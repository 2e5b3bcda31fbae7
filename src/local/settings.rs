//! Limits and times of the server, each with its reason. One value of it per server, changeable by the operator.

use std::time::Duration;

use crate::sdk::wire::file::InstanceLimits;
use crate::sdk::wire::run::{BillingMode, ToolClass};

/// A run whose runner is silent for longer is `interrupted` (local-server.md): ten missed heartbeats.
pub const RUN_SILENCE_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Longest JSON body, bytes: the longest message with every letter escaped, and room.
pub const MAX_JSON_BYTES: u64 = 4 * 1024 * 1024;
/// Longest `wait_ms` of a long poll; longer ones are cut to it.
pub const MAX_WAIT: Duration = Duration::from_secs(60);
/// Most events or changes of one answer.
pub const MAX_BATCH: i64 = 200;
/// Most open upload sessions of one principal.
pub const MAX_OPEN_UPLOADS: i64 = 256;
/// Most parts of one upload.
pub const MAX_PARTS: u64 = 10_000;
/// Most consumers of one agent; each keeps events alive.
pub const MAX_CONSUMERS: i64 = 16;
/// Most messages of a run context; older ones are named by `truncated_before_seq`.
pub const MAX_CONTEXT_MESSAGES: i64 = 200;
/// Longest text of one context message, bytes; the trigger is never cut.
pub const MAX_CONTEXT_TEXT: usize = 64 * 1024;

/// What one server allows and how long things live.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Limits that `getInstance` publishes.
    pub limits: InstanceLimits,
    /// Length of every part of an upload but the last, bytes.
    pub part_size_bytes: u64,
    /// Bytes of all files together.
    pub upload_quota_bytes: u64,
    /// Life of an open upload session.
    pub upload_life: Duration,
    /// Life of an invocation token; minutes, so that a lost one is soon worth nothing.
    pub token_life: Duration,
    /// How often heartbeats are wanted; one is believed for three times as long.
    pub heartbeat_interval: Duration,
    /// [`RUN_SILENCE_LIMIT`] unless the operator says otherwise.
    pub run_silence_limit: Duration,
    /// The nonce that proofs of possession must carry (RFC 9449 section 8); none is asked for without it.
    pub dpop_nonce: Option<String>,
    /// The class every run gets.
    pub tool_class: ToolClass,
    /// Who pays for every run.
    pub billing_mode: BillingMode,
}

impl Settings {
    /// The defaults for runs of `tool_class` paid by `billing_mode`.
    pub fn new(tool_class: ToolClass, billing_mode: BillingMode) -> Settings {
        Settings {
            limits: InstanceLimits {
                message_max_attachments: 20,
                message_max_content_bytes: 512 * 1024,
                file_max_upload_bytes: 4 * 1024 * 1024 * 1024,
                file_name_max_bytes: 255,
            },
            part_size_bytes: 8 * 1024 * 1024,
            upload_quota_bytes: 64 * 1024 * 1024 * 1024,
            upload_life: Duration::from_secs(24 * 60 * 60),
            token_life: Duration::from_secs(15 * 60),
            heartbeat_interval: Duration::from_secs(30),
            run_silence_limit: RUN_SILENCE_LIMIT,
            dpop_nonce: None,
            tool_class,
            billing_mode,
        }
    }
}
