//! How a job runs, and what it says meanwhile.

use contactd_core::Progress;

use crate::api::jobs::Done;

/// Gives this thread, and the threads it starts, less priority than lookups: the lowest on all cores but the first, which they do
/// not use. If the system does not allow it, the job continues as it is.
pub(super) fn lower_priority() {
    let _ = rustix::process::nice(19);
    let Ok(mut cores) = rustix::thread::sched_getaffinity(None) else { return };
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|&core| cores.is_set(core));
    if let Some(first) = first.filter(|_| cores.count() > 1) {
        cores.unset(first);
        let _ = rustix::thread::sched_setaffinity(None, &cores);
    }
}

/// Progress of a service, in words.
pub(super) fn done(progress: Progress) -> Done {
    let (done, total, unit, phase) = match progress {
        Progress::Waiting => (0, None, "", "waiting for another command that writes to the store"),
        Progress::Suppressed { .. } => (0, None, "", "opted out; removing the details"),
        Progress::Reading { bytes: Some((done, all)), .. } => (done, Some(all), "bytes", "reading"),
        Progress::Reading { rows, bytes: None } => (rows, None, "rows", "reading"),
        Progress::Writing { rows, all } => (rows, Some(all), "rows", "writing"),
        Progress::Checking { step, lines, all } => (lines, all.map(|all| all.max(lines)), "lines", step),
        Progress::Copying { step, done, all } => (done, all, "bytes", step),
    };
    Done { done, total, unit: unit.to_owned(), phase: phase.to_owned() }
}
