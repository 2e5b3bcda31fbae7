//! getDiscovery, getJwks, getInstance, getMe.

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::http::Answer;
use crate::local::request::Request;
use crate::local::store::identity;
use crate::local::{access, tokens};
use crate::sdk::wire::file::{Discovery, InstanceInfo, Me, MePrincipal, PrincipalKind};
use crate::sdk::wire::{INVOCATION_TOKEN_HEADER, PROTOCOL_VERSION};

/// Path of the key set.
pub const JWKS_PATH: &str = "/.well-known/jwks.json";
/// The name of every instance of this server.
const NAME: &str = "local";

/// `getDiscovery`
pub fn get_discovery(core: &Core, request: &Request) -> Result<Answer, Fail> {
    // The origin that the client used, so that everything it is sent to has the same one.
    let host = request.headers.get("host").map_or_else(|| core.address.to_string(), str::to_owned);
    Ok(Answer::json(
        200,
        &Discovery {
            instance_id: core.instance.id,
            api_base: format!("http://{host}/api/v1"),
            jwks_uri: format!("http://{host}{JWKS_PATH}"),
            protocol_version: PROTOCOL_VERSION.to_owned(),
        },
    ))
}

/// `getJwks`
pub fn get_jwks(core: &Core, _: &Request) -> Result<Answer, Fail> {
    Ok(Answer::json(200, &tokens::jwks(core)))
}

/// `getInstance`: asked for an answer, it is a request of that answer's run and must hold its binding.
pub fn get_instance(core: &Core, request: &Request) -> Result<Answer, Fail> {
    if request.headers.get(INVOCATION_TOKEN_HEADER).is_some() {
        core.store.read(|tx| access::bound_run(tx, core, request))?;
    }
    Ok(Answer::json(
        200,
        &InstanceInfo {
            instance_id: core.instance.id,
            name: NAME.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            limits: core.settings().limits,
        },
    ))
}

/// `getMe`
pub fn get_me(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let id = request.principal(core);
    let row = core.store.read(|tx| Ok(identity::principal(tx, id)?))?;
    let kind = if row.kind == "agent" { PrincipalKind::Agent } else { PrincipalKind::Person };
    Ok(Answer::json(200, &Me { principal: MePrincipal { id, kind, display_name: row.display_name } }))
}
