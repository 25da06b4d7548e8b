//! How many files this process may have open, and how many of them connections may use. What the service needs for itself
//! is kept back, so that lookups, commands and `/metrics` work however many clients connect.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a server opens besides connections: 25 were measured for databases, journal, keys, sockets and event loops; the rest is
/// for what comes and goes (a sweep, a reload, a new segment, segments that are compressed, `/metrics`).
const OWN: u64 = 34;
/// What a worker opens: its event loop and its view of the store.
const PER_WORKER: u64 = 6;
/// What is open at the start, if that cannot be counted.
const AT_START: u64 = 16;

/// The most connections of the admin listener and of the control socket, and the fewest with which a server starts.
const ADMIN: (u64, u64) = (1, 64);
const CONTROL: (u64, u64) = (2, 32);

/// What a server needs besides connections.
#[derive(Clone, Copy, Debug)]
pub struct OpenFiles {
    needed: u64,
}

/// How many connections may be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Of callers.
    pub public: usize,
    /// Of the admin listener.
    pub admin: usize,
    /// Of commands.
    pub control: usize,
}

/// The limit is too low to serve at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the open-files limit is {limit}, and this server needs at least {needed}; raise it (`ulimit -n`, or LimitNOFILE= in a \
     systemd unit), or use fewer --workers"
)]
pub struct TooFewFiles {
    limit: u64,
    needed: u64,
}

impl OpenFiles {
    /// To be called before the server opens anything: what is open by then stays open.
    pub fn before_start(workers: usize) -> Self {
        // One of them is the directory that is being read.
        let open = std::fs::read_dir("/proc/self/fd").map_or(AT_START, |files| files.count() as u64 - 1);
        Self { needed: open + OWN + PER_WORKER * workers as u64 }
    }

    /// Raises the limit as far as `wanted` connections need it and the system allows it, and shares it out. Fails if it is too low
    /// to serve at all.
    pub fn share(self, wanted: usize) -> Result<Shares, TooFewFiles> {
        let limit = raise_limit(self.needed + ADMIN.1 + CONTROL.1 + wanted as u64);
        let needed = self.needed + ADMIN.0 + CONTROL.0 + 1;
        let shares = self.shares(limit, wanted).ok_or(TooFewFiles { limit, needed })?;
        if shares.public < wanted {
            tracing::warn!(
                open_files = limit,
                connections = shares.public,
                "the open-files limit allows fewer connections than limits.connections ({wanted}); more wait to be accepted. \
                 Raise the limit (`ulimit -n`, or LimitNOFILE= in a systemd unit), or lower limits.connections"
            );
        }
        Ok(shares)
    }

    fn shares(self, limit: u64, wanted: usize) -> Option<Shares> {
        let free = limit.checked_sub(self.needed)?;
        let admin = (free / 8).clamp(ADMIN.0, ADMIN.1);
        let control = (free / 8).clamp(CONTROL.0, CONTROL.1);
        let public = free.checked_sub(admin + control).filter(|&public| public > 0)?.min(wanted as u64);
        let count = |share| usize::try_from(share).ok();
        Some(Shares { public: count(public)?, admin: count(admin)?, control: count(control)? })
    }
}

/// Raises the limit to `wanted`, or as far as the system allows. Returns the limit in force.
fn raise_limit(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current else { return u64::MAX };
    let raised = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if raised <= current {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }) {
        Ok(()) => raised,
        Err(_) => current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_get_what_the_service_does_not_need_itself() {
        let files = OpenFiles { needed: 57 };
        let shares = |limit, wanted| {
            files.shares(limit, wanted).map(|shares| (shares.public, shares.admin, shares.control))
        };
        assert_eq!(shares(60, 10_000), None);
        assert_eq!(shares(61, 10_000), Some((1, 1, 2)));
        assert_eq!(shares(64, 10_000), Some((4, 1, 2)));
        assert_eq!(shares(1_024, 10_000), Some((871, 64, 32)));
        assert_eq!(shares(1_024, 100), Some((100, 64, 32)));
        assert_eq!(shares(10_153, 10_000), Some((10_000, 64, 32)));
        assert_eq!(shares(u64::MAX, 10_000), Some((10_000, 64, 32)));
    }
}
