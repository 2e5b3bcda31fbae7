//! The database's tables, by version. A version that was ever released is never edited, only followed.

/// Steps from an empty file to the present schema; `user_version` counts the ones that ran.
pub const STEPS: &[&str] = &[FIRST];

const FIRST: &str = "
CREATE TABLE instance (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, space_id TEXT NOT NULL,
  agent_id TEXT NOT NULL, person_id TEXT NOT NULL, port INTEGER) STRICT;
CREATE TABLE principals (id TEXT PRIMARY KEY, kind TEXT NOT NULL, display_name TEXT NOT NULL,
  trusted INTEGER NOT NULL, may_upload INTEGER NOT NULL) STRICT;
CREATE TABLE agent_tokens (hash TEXT PRIMARY KEY, agent_id TEXT NOT NULL REFERENCES principals(id),
  thumbprint TEXT) STRICT;
CREATE TABLE signing_keys (n INTEGER PRIMARY KEY AUTOINCREMENT, kid TEXT NOT NULL UNIQUE, pkcs8 BLOB NOT NULL,
  published INTEGER NOT NULL) STRICT;
CREATE TABLE projects (channel_id TEXT PRIMARY KEY, workspace_ref TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
  served INTEGER NOT NULL, settings_version INTEGER NOT NULL, workspace_write INTEGER NOT NULL,
  trust_project_settings INTEGER NOT NULL, grant_revision INTEGER NOT NULL, behavior TEXT NOT NULL) STRICT;
CREATE TABLE threads (id TEXT PRIMARY KEY, channel_id TEXT NOT NULL REFERENCES projects(channel_id),
  title TEXT NOT NULL, title_source TEXT NOT NULL, version INTEGER NOT NULL, last_seq INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;
CREATE INDEX threads_newest ON threads (channel_id, updated_at DESC, id DESC);
CREATE TABLE sessions (thread_id TEXT PRIMARY KEY REFERENCES threads(id), external_session_ref TEXT NOT NULL,
  started INTEGER NOT NULL, version INTEGER NOT NULL, model TEXT) STRICT;
CREATE TABLE messages (id TEXT PRIMARY KEY, thread_id TEXT NOT NULL REFERENCES threads(id), seq INTEGER NOT NULL,
  author_id TEXT NOT NULL REFERENCES principals(id), origin TEXT NOT NULL, created_at INTEGER NOT NULL,
  content_md TEXT NOT NULL, client_msg_id TEXT, fingerprint TEXT, run_id TEXT, followup_id TEXT,
  delivered_ref TEXT, UNIQUE (thread_id, seq), UNIQUE (author_id, client_msg_id)) STRICT;
CREATE TABLE runs (id TEXT PRIMARY KEY, thread_id TEXT NOT NULL REFERENCES threads(id), channel_id TEXT NOT NULL,
  trigger_message_id TEXT NOT NULL REFERENCES messages(id), acting_for TEXT NOT NULL REFERENCES principals(id),
  state TEXT NOT NULL, reason TEXT, version INTEGER NOT NULL, document TEXT NOT NULL, costs TEXT,
  billing_mode TEXT NOT NULL, tool_class TEXT NOT NULL, cancel_reason TEXT,
  dispatched INTEGER NOT NULL, context_floor INTEGER NOT NULL, created_at INTEGER NOT NULL,
  started_at INTEGER, finished_at INTEGER) STRICT;
CREATE INDEX runs_of_thread ON runs (thread_id, created_at);
CREATE TABLE followups (id TEXT PRIMARY KEY, run_id TEXT NOT NULL REFERENCES runs(id),
  message_id TEXT NOT NULL REFERENCES messages(id), state TEXT) STRICT;
CREATE INDEX followups_of_run ON followups (run_id);
CREATE TABLE invocation_tokens (n INTEGER PRIMARY KEY AUTOINCREMENT, hash TEXT NOT NULL UNIQUE,
  jti TEXT NOT NULL UNIQUE, run_id TEXT NOT NULL REFERENCES runs(id), token TEXT NOT NULL, exp INTEGER NOT NULL,
  renewed_from TEXT UNIQUE) STRICT;
CREATE INDEX tokens_of_run ON invocation_tokens (run_id);
CREATE TABLE events (seq INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT NOT NULL, event TEXT NOT NULL) STRICT;
CREATE TABLE consumers (agent_id TEXT NOT NULL, name TEXT NOT NULL, gap INTEGER NOT NULL,
  PRIMARY KEY (agent_id, name)) STRICT;
CREATE TABLE acks (agent_id TEXT NOT NULL, consumer TEXT NOT NULL,
  seq INTEGER NOT NULL REFERENCES events(seq) ON DELETE CASCADE, PRIMARY KEY (agent_id, consumer, seq)) STRICT;
CREATE TABLE changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, type TEXT NOT NULL, subject TEXT NOT NULL,
  ids TEXT NOT NULL, UNIQUE (type, subject)) STRICT;
CREATE TABLE change_history (one INTEGER PRIMARY KEY CHECK (one = 1), oldest INTEGER NOT NULL) STRICT;
INSERT INTO change_history VALUES (1, 0);
CREATE TABLE files (id TEXT PRIMARY KEY, owner_id TEXT NOT NULL REFERENCES principals(id), channel_id TEXT NOT NULL,
  run_id TEXT, name TEXT NOT NULL, size_bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, mime_type TEXT NOT NULL,
  scan_status TEXT NOT NULL, phase TEXT NOT NULL, part_size_bytes INTEGER NOT NULL, part_token TEXT NOT NULL,
  expires_at INTEGER NOT NULL, message_id TEXT REFERENCES messages(id), position INTEGER) STRICT;
CREATE INDEX files_of_message ON files (message_id, position);
CREATE TABLE parts (file_id TEXT NOT NULL REFERENCES files(id), part_number INTEGER NOT NULL, etag TEXT NOT NULL,
  size_bytes INTEGER NOT NULL, PRIMARY KEY (file_id, part_number)) STRICT;
CREATE TABLE idempotency (principal_id TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL,
  status INTEGER NOT NULL, etag TEXT, body TEXT NOT NULL, made_at INTEGER NOT NULL,
  PRIMARY KEY (principal_id, key)) STRICT;
";
