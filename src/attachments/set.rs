//! From announced paths to a set that is staged or refused: the step between the answer's text and the upload.
//!
//! This module must not know of requests.

use uuid::Uuid;

use super::candidate::{Rules, check_set};
use super::notice::display_name;
use super::outcome::{Outcome, Reason};
use super::record::AttachmentSetRecord;
use super::staging::Staging;

/// Checks every announced file and stages them all, or none (D-M3-12-4, D-M3-12-5).
///
/// The answer is the record to store and to hand to [`super::delivery::upload_set`]; with outcomes in it the set is
/// refused, and the answer goes with the notice. `run_id` and `answer` are those of `staging`.
pub fn prepare(
    paths: &[String],
    rules: &Rules<'_>,
    staging: &Staging,
    run_id: Uuid,
    answer: u32,
) -> AttachmentSetRecord {
    match check_set(paths, rules).and_then(|candidates| staging.stage(candidates)) {
        Ok(staged) => AttachmentSetRecord::staged(run_id, answer, staged),
        Err(outcomes) => AttachmentSetRecord::refused(run_id, answer, outcomes),
    }
}

/// The record of a set whose own record cannot be read: its keys are lost, so nothing of it is uploaded again.
pub fn lost(
    paths: &[String],
    mask: &dyn Fn(&str) -> String,
    run_id: Uuid,
    answer: u32,
) -> AttachmentSetRecord {
    let outcome = |path: &String| Outcome::of(display_name(path, mask), Reason::UploadFailed);
    AttachmentSetRecord::refused(run_id, answer, paths.iter().map(outcome).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachments::policy::Patterns;
    use crate::attachments::world::{PATTERNS, World};
    use crate::sdk::wire::file::InstanceLimits;

    const LIMITS: InstanceLimits = InstanceLimits {
        message_max_attachments: 3,
        message_max_content_bytes: 10_000,
        file_max_upload_bytes: 10,
        file_name_max_bytes: 255,
    };

    fn plain(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn a_set_is_staged_or_refused() {
        let world = World::new();
        world.file("projects/website/a", "a");
        world.file("projects/website/.env", "b");
        let (roots, denied) = (world.roots(), Patterns::new(PATTERNS));
        let rules = Rules { roots: &roots, denied: &denied, limits: Some(LIMITS), mask: &plain };
        let staging = Staging::new(&world.at("state"), Uuid::nil(), 1);
        let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let staged = prepare(&paths(&["a"]), &rules, &staging, Uuid::nil(), 1);
        assert_eq!((staged.files.len(), staged.outcomes.len()), (1, 0));
        staging.remove().unwrap();
        let refused = prepare(&paths(&["a", ".env"]), &rules, &staging, Uuid::nil(), 1);
        let reasons: Vec<Reason> = refused.outcomes.iter().map(|outcome| outcome.reason).collect();
        assert_eq!(reasons, [Reason::SetNotSent, Reason::DeniedPattern]);
        assert!(staging.open(1, 1).is_err());
        let lost = lost(&paths(&["x/a", "b"]), &plain, Uuid::nil(), 1);
        assert!(lost.outcomes.iter().all(|outcome| outcome.reason == Reason::UploadFailed));
        assert_eq!(lost.outcomes[0].name, "a");
    }
}
