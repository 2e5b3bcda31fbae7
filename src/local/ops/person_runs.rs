//! listRuns, getRunDocument, cancelRun: the person's side of a run.

use crate::local::core::Core;
use crate::local::fail::Fail;
use crate::local::flow;
use crate::local::http::Answer;
use crate::local::request::Request;
use crate::local::settings::MAX_BATCH;
use crate::local::store::{identity, runs, threads};
use crate::local::{problems, views};
use crate::sdk::wire::person::Runs;
use crate::sdk::wire::run::RunState;

/// Why the person's stop stops (contract, `run.cancel_requested`).
const USER_STOP: &str = "user_stop";

/// `listRuns`
pub fn list_runs(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let list = core.store.read(|tx| {
        let thread = threads::get(tx, request.id(0)?)?.ok_or_else(problems::not_found)?;
        let rows = runs::of_thread(tx, thread.id, MAX_BATCH)?;
        Ok(Runs { runs: rows.iter().map(|row| views::run(tx, row)).collect::<Result<_, _>>()? })
    })?;
    Ok(Answer::json(200, &list))
}

/// `getRunDocument`
pub fn get_run_document(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let document = core.store.read(|tx| {
        let row = runs::get(tx, request.id(0)?)?.ok_or_else(problems::not_found)?;
        views::run(tx, &row)
    })?;
    Ok(Answer::json(200, &document).etag(document.version))
}

/// `cancelRun`: asking again changes nothing; an ended run cannot be stopped.
pub fn cancel_run(core: &Core, request: &Request) -> Result<Answer, Fail> {
    let run = core.write(|tx| {
        let run = runs::get(tx, request.id(0)?)?.ok_or_else(problems::not_found)?;
        match run.state {
            RunState::Cancelling => Ok(run),
            state if state.is_final() => Err(problems::transition()),
            _ => {
                let by = identity::principal(tx, core.instance.person_id)?.principal();
                flow::cancel(tx, core, run, USER_STOP, Some(by))
            }
        }
    })?;
    Ok(Answer::json(202, &run.info()))
}
