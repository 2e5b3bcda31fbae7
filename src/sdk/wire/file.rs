//! Files: upload sessions and limits.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::message::ScanStatus;
use super::time::Time;

/// Answer of `getDiscovery`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Discovery {
    /// The instance, `iss` of every invocation token.
    pub instance_id: Uuid,
    /// Base URL of the operations.
    pub api_base: String,
    /// Where the signing keys are.
    pub jwks_uri: String,
    /// [`super::PROTOCOL_VERSION`].
    pub protocol_version: String,
}

/// Answer of `getInstance`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceInfo {
    /// The instance.
    pub instance_id: Uuid,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Limits a client checks before it sends.
    pub limits: InstanceLimits,
}

/// Limits of the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceLimits {
    /// Most files of one message.
    pub message_max_attachments: u64,
    /// Longest text of one message, bytes.
    pub message_max_content_bytes: u64,
    /// Largest file, bytes.
    pub file_max_upload_bytes: u64,
    /// Longest file name, bytes of UTF-8.
    pub file_name_max_bytes: u64,
}

/// Answer of `getMe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Me {
    /// Who the credential belongs to.
    pub principal: MePrincipal,
}

/// The owner of a credential.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MePrincipal {
    /// Identity; the expected `aud` of every invocation token.
    pub id: Uuid,
    /// Agent or person.
    pub kind: PrincipalKind,
    /// Display name.
    pub display_name: String,
}

/// The kinds of principals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrincipalKind {
    /// An agent.
    Agent,
    /// A person.
    #[serde(other)]
    Person,
}

/// Body of `createUpload`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UploadCreate {
    /// The announced file name, without directory.
    pub name: String,
    /// Length in bytes, at least one.
    pub size_bytes: u64,
    /// SHA-256 of the bytes, lowercase hex.
    pub sha256: String,
}

/// Answer of `createUpload`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UploadSession {
    /// The file to be.
    pub file_id: Uuid,
    /// How the bytes travel.
    pub mode: UploadMode,
    /// Length of every part but the last, bytes.
    pub part_size_bytes: u64,
    /// The parts to send.
    pub parts: Vec<UploadPart>,
    /// When the session ends by itself.
    pub expires_at: Time,
}

/// How the bytes of an upload travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UploadMode {
    /// To the server itself; the only mode this runner uses (D-M3-12-6).
    Direct,
    /// To an address outside the server.
    #[serde(other)]
    Presigned,
}

/// One part of an upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadPart {
    /// Counts from one.
    pub part_number: u32,
    /// Headers to send with the part.
    #[serde(default)]
    pub headers: Vec<HeaderPair>,
}

/// One header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderPair {
    /// Field name.
    pub name: String,
    /// Field value.
    pub value: String,
}

/// Answer of `uploadPart`, and one confirmed part of [`UploadState`] and [`UploadComplete`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartResult {
    /// The part.
    pub part_number: u32,
    /// The server's mark of its bytes.
    pub etag: String,
    /// Its length, in answers of `getUpload` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// Answer of `getUpload`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadState {
    /// The file.
    pub file_id: Uuid,
    /// How far the session is.
    pub state: UploadPhase,
    /// Length of every part but the last, bytes.
    pub part_size_bytes: u64,
    /// The parts the server has.
    pub parts: Vec<PartResult>,
}

/// How far an upload session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UploadPhase {
    /// Parts may come.
    Open,
    /// The file is whole.
    Completed,
    /// Given up by the client.
    Aborted,
    /// Given up by the server.
    #[serde(other)]
    Expired,
}

/// Body of `completeUpload`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UploadComplete {
    /// Every part with its mark.
    pub parts: Vec<CompletedPart>,
}

/// One part in [`UploadComplete`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompletedPart {
    /// The part.
    pub part_number: u32,
    /// The mark that `uploadPart` answered.
    pub etag: String,
}

/// Answer of `completeUpload`, and a file of a message on the person's side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct File {
    /// Identity.
    pub file_id: Uuid,
    /// Name.
    pub name: String,
    /// Length in bytes.
    pub size_bytes: u64,
    /// SHA-256 of the bytes, lowercase hex.
    pub sha256: String,
    /// Type found by the server.
    pub mime_type: String,
    /// Result of the scan.
    pub scan_status: ScanStatus,
}
