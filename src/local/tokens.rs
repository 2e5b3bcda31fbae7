//! Invocation tokens: what they say, who signs them, and the key set that proves them.

use serde_json::{Value, json};
use uuid::Uuid;

use super::core::Core;
use super::fail::Fail;
use super::lock;
use super::secrets;
use super::store::Tx;
use super::store::runs::RunRow;
use super::store::tokens::{self, TokenRow};
use crate::sdk::jws::SigningKey;
use crate::sdk::wire::Time;

/// `typ` of every invocation token (contract, "Invocation token").
pub const TYPE: &str = "invocation+jwt";

/// One of the server's keys with its published name.
pub struct ServerKey {
    /// Its name in JWKS and headers.
    pub kid: String,
    /// The key.
    pub key: SigningKey,
}

impl ServerKey {
    /// The key kept as `pkcs8` under the name `kid`; `None` when the bytes are no key.
    pub fn load(kid: &str, pkcs8: &[u8]) -> Option<ServerKey> {
        Some(ServerKey { kid: kid.to_owned(), key: SigningKey::from_pkcs8(pkcs8).ok()? })
    }
}

/// The header of a token signed by `key`.
pub fn header(key: &ServerKey) -> Value {
    json!({"alg": "EdDSA", "typ": TYPE, "kid": key.kid})
}

/// The claims of a fresh token for `run`.
pub fn claims(core: &Core, run: &RunRow) -> Value {
    let now = Time::now().as_seconds();
    let life = i64::try_from(core.settings().token_life.as_secs()).unwrap_or(i64::MAX);
    json!({
        "iss": core.instance.id, "aud": core.instance.agent_id, "jti": Uuid::now_v7(),
        "iat": now, "nbf": now, "exp": now.saturating_add(life),
        "run_id": run.id, "thread_id": run.thread_id, "channel_id": run.channel_id,
        "acting_for": run.acting_for, "billing_mode": run.billing_mode, "tool_class": run.tool_class,
    })
}

/// Makes, keeps and returns a new token for `run`, which supersedes its older ones.
pub fn mint(tx: &Tx<'_>, core: &Core, run: &RunRow, renewed_from: Option<&str>) -> Result<TokenRow, Fail> {
    let claims = claims(core, run);
    let keys = lock(&core.keys);
    let Some(key) = keys.last() else { return Err(std::io::Error::other("no signing key").into()) };
    let token = key.key.sign(&header(key), &claims);
    let row = TokenRow {
        jti: claims["jti"].as_str().unwrap_or_default().to_owned(),
        run_id: run.id,
        exp: claims["exp"].as_i64().unwrap_or_default(),
        token,
    };
    tokens::add(tx, &row, &secrets::hash(&row.token), renewed_from)?;
    Ok(row)
}

/// The published key set.
pub fn jwks(core: &Core) -> Value {
    let keys: Vec<Value> = lock(&core.keys).iter().map(|key| key.key.public_jwk(&key.kid)).collect();
    json!({"keys": keys})
}
