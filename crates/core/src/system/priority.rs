//! Work that gives way to lookups.

use thread_priority::ThreadPriority;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// Gives this thread, and the threads it starts later, less priority than lookups: the lowest on all cores but the first, which
/// they do not use. If the system does not allow it, the work goes on as it is.
pub fn give_way_to_lookups() {
    let _ = rustix::process::nice(19);
    let Ok(mut cores) = rustix::thread::sched_getaffinity(None) else { return };
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|&core| cores.is_set(core));
    if let Some(first) = first.filter(|_| cores.count() > 1) {
        cores.unset(first);
        let _ = rustix::thread::sched_setaffinity(None, &cores);
    }
}

/// Runs the calling thread only when its core has nothing else to do. A thread with a low priority is not enough: once it runs,
/// Linux lets it finish its slice of a millisecond or two before another thread gets the core. There is no way back without
/// privileges. The thread must hold no lock that others wait for: it may not run for long.
pub fn work_in_background() {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    if let Err(error) = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle) {
        tracing::debug!(%error, "a background thread runs like any other");
    }
}
