//! Work that gives way to lookups.

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
