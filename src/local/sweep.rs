//! What happens without a request: runs of a silent runner end, and uploads beyond their time.

use std::time::{Duration, Instant};

use super::core::Core;
use super::fail::Fail;
use super::flow::{self, End};
use super::lock;
use super::store::{files, runs};
use crate::sdk::wire::Time;
use crate::sdk::wire::file::UploadPhase;
use crate::sdk::wire::run::RunState;

/// How often it is looked for.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);
/// Why a run ends whose runner is silent: the contract's reason for a runner that is gone.
const RUNNER_SILENT: &str = "runner_restarted";

/// Ends what nobody works on any more, until the server stops.
pub fn sweep(core: &Core) {
    while !core.is_stopping() {
        if core.silence() > core.settings().run_silence_limit {
            interrupt_runs(core);
        }
        end_uploads(core);
        let deadline = Instant::now() + SWEEP_INTERVAL;
        while !core.is_stopping() && Instant::now() < deadline {
            let count = core.notifier.count();
            core.notifier.wait(count, deadline);
        }
    }
}

fn interrupt_runs(core: &Core) {
    let Ok(started) = core.store.read(|tx| Ok(runs::started(tx)?)) else { return };
    for run in started {
        let ended = core.write(|tx| match runs::get(tx, run.id)? {
            Some(run) if !run.state.is_final() => {
                flow::end(tx, core, run, End::new(RunState::Interrupted, Some(RUNNER_SILENT))).map(drop)
            }
            _ => Ok(()),
        });
        match ended {
            Ok(()) => log::info!("code=local_run_interrupted run={}", run.id),
            Err(_) => log::error!("code=local_store_failed run={}", run.id),
        }
    }
}

fn end_uploads(core: &Core) {
    let Ok(overdue) = core.store.read(|tx| Ok(files::overdue(tx, Time::now())?)) else { return };
    for row in overdue {
        if end_upload(core, &row).is_err() {
            log::error!("code=local_store_failed");
        }
    }
}

/// Ends one upload and removes its bytes, unless another file has the same content. Looked at again inside,
/// because a message may have taken it since.
fn end_upload(core: &Core, row: &files::FileRow) -> Result<(), Fail> {
    let _keeping = lock(&core.keeping);
    let unused = core.store.write(|tx| {
        if files::get(tx, row.id)?.is_none_or(|row| row.message_id.is_some()) {
            return Ok(false);
        }
        files::set_phase(tx, row.id, UploadPhase::Expired)?;
        files::forget_parts(tx, row.id)?;
        Ok(!files::is_kept(tx, &row.sha256)?)
    })?;
    if unused {
        core.blobs.drop_whole(&row.sha256);
    }
    core.blobs.drop_parts(row.id);
    Ok(())
}
