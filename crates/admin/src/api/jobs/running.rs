//! What a job says while it runs.

use contactd_core::Progress;

use crate::api::jobs::Done;

/// Progress of a service, in words.
pub(super) fn done(progress: Progress) -> Done {
    let (done, total, unit, phase) = match progress {
        Progress::Waiting => (0, None, "", "waiting for another command that writes to the store"),
        Progress::Suppressed { .. } => (0, None, "", "opted out; looking for what is held"),
        Progress::Reading { bytes: Some((done, all)), .. } => (done, Some(all), "bytes", "reading"),
        Progress::Reading { rows, bytes: None } => (rows, None, "rows", "reading"),
        Progress::Writing { rows, all } => (rows, Some(all), "rows", "writing"),
        Progress::Checking { step, lines, all } => (lines, all.map(|all| all.max(lines)), "lines", step),
        Progress::Copying { step, done, all } => (done, all, "bytes", step),
    };
    Done { done, total, unit: unit.to_owned(), phase: phase.to_owned() }
}
