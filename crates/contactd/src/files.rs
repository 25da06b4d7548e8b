//! How many files this process may have open.

/// Files a server has open besides its connections.
const OTHER_FILES: u64 = 200;

/// Raises the open-files limit to what the connection limit needs, if the system allows it.
pub(crate) fn raise_limit(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = connections as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let current = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum });
    if raised.is_err() || current < wanted {
        tracing::warn!(
            open_files = current,
            connections,
            "the open-files limit is too low for the connection limit; raise it (ulimit -n), or lower limits.connections"
        );
    }
}
