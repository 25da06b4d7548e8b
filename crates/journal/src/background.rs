//! Threads that must not delay lookups.

use thread_priority::ThreadPriority;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// Runs the calling thread only when its core has nothing else to do. A thread with a low priority is not enough: once
/// it runs, Linux lets it finish its slice of a millisecond or two before another thread gets the core.
pub fn work_in_background() {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    if let Err(error) = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle) {
        tracing::debug!(%error, "a background thread runs like any other");
    }
}
