//! How many connections each client has open.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::client_address::ClientAddress;

/// How many connections over the limit are answered at the same time. More are closed without an answer, so that refusing
/// costs next to nothing, however many there are.
const MAX_ANSWERED: usize = 64;

/// Counts the connections of each address. An address without a connection has no entry, so there are never more entries
/// than connections.
#[derive(Debug, Default)]
pub(crate) struct ClientConnections {
    open: Mutex<HashMap<ClientAddress, usize>>,
    answered: AtomicUsize,
}

/// What is done with a new connection.
#[derive(Debug)]
pub(crate) enum Reception {
    /// It is served. If connections are limited, it counts until it is dropped.
    Served(Option<OpenConnection>),
    /// It is over the limit, and is told so.
    Refused(RefusedConnection),
    /// It is over the limit, and is closed at once.
    Closed,
}

/// An open connection of an address.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    connections: Arc<ClientConnections>,
    address: ClientAddress,
}

/// A connection that is being refused.
#[derive(Debug)]
pub(crate) struct RefusedConnection(Arc<ClientConnections>);

impl ClientConnections {
    /// Counts a new connection of an address that may have `most`.
    pub(crate) fn admit(self: &Arc<Self>, address: ClientAddress, most: usize) -> Reception {
        let mut open = self.open.lock();
        let count = open.entry(address).or_default();
        if *count < most {
            *count += 1;
            return Reception::Served(Some(OpenConnection { connections: Arc::clone(self), address }));
        }
        drop(open);
        let refused = RefusedConnection(Arc::clone(self));
        match self.answered.fetch_add(1, Ordering::Relaxed) {
            before if before < MAX_ANSWERED => Reception::Refused(refused),
            _ => Reception::Closed,
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

impl Drop for RefusedConnection {
    fn drop(&mut self) {
        self.0.answered.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_address::Peer;

    fn address(text: &str) -> ClientAddress {
        ClientAddress::of_connection(Peer::new(text.parse().expect(text)))
    }

    #[test]
    fn a_limited_number_of_refused_connections_is_answered_at_the_same_time() {
        let connections = Arc::new(ClientConnections::default());
        let _open = connections.admit(address("192.0.2.1"), 1);
        let admit = || connections.admit(address("192.0.2.1"), 1);
        let mut answered: Vec<Reception> = (0..MAX_ANSWERED).map(|_| admit()).collect();
        assert!(answered.iter().all(|reception| matches!(reception, Reception::Refused(_))));
        for _ in 0..3 {
            assert!(matches!(admit(), Reception::Closed));
        }
        answered.pop();
        assert!(matches!(admit(), Reception::Refused(_)));
    }
}
