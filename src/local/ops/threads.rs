//! getThread, setThreadTitle, by the agent inside its run and by the person.

use serde_json::json;

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::flow;
use crate::local::http::Answer;
use crate::local::request::{Caller, Request};
use crate::local::store::Tx;
use crate::local::store::threads::{self, ThreadRow};
use crate::local::{access, problems, rules};
use crate::sdk::wire::message::{ThreadTitlePut, TitleSource};
use crate::sdk::wire::problem::{code, reason};

/// `getThread`
pub fn get_thread(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let thread = core.store.read(|tx| allowed(tx, core, request))?;
    Ok(Answer::json(200, &thread.info()).etag(thread.version))
}

/// `setThreadTitle`: the agent never replaces a title that a person chose.
pub fn set_thread_title(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let body: ThreadTitlePut = request.json()?;
    if !rules::title(&body.title) {
        return Err(problems::invalid("/title", "wrong_value"));
    }
    let wanted = request.if_match()?;
    let source = match request.caller {
        Caller::Agent(_) => TitleSource::Auto,
        Caller::Person | Caller::Nobody => TitleSource::Manual,
    };
    let thread = core.write(|tx| {
        let thread = allowed(tx, core, request)?;
        if source == TitleSource::Auto && thread.title_source == TitleSource::Manual {
            return Err(problems::conflict(code::TITLE_MANUAL));
        }
        if thread.version != wanted {
            return Err(problems::version(json!(thread.info())));
        }
        threads::set_title(tx, thread.id, &body.title, source)?;
        let thread = threads::get(tx, thread.id)?.ok_or_else(problems::not_found)?;
        flow::note_thread(tx, &thread)?;
        Ok(thread)
    })?;
    Ok(Answer::json(200, &thread.info()).etag(thread.version))
}

fn allowed(tx: &Tx<'_>, core: &Core, request: &Request) -> Result<ThreadRow, Fail> {
    let id = request.id(0)?;
    if matches!(request.caller, Caller::Agent(_)) && access::bound_run(tx, core, request)?.thread_id != id {
        return Err(problems::token(reason::INVALID));
    }
    threads::get(tx, id)?.ok_or_else(problems::not_found)
}
