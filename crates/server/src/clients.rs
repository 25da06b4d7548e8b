//! Limits per client address: open connections, failed authorizations, misses.
//!
//! All are off unless the operator sets them, and then no address is looked at. Nothing that is kept here outlives the
//! process, and no address is in a log, a metric or the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contactd_core::metrics::{Family, MetricKind};
use contactd_core::{LimitExceeded, Rate, Timestamp};

use crate::client_address::{ClientAddress, Peer};
use crate::client_connections::{ClientConnections, Reception};
use crate::client_table::{Buckets, ClientTable, ReservedMiss};
use crate::proxies::Proxies;
use crate::refusal::{Refusal, Unauthorized};

/// The limits of each client address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientLimits {
    /// Open connections of an address. The operator's proxies may have more.
    pub connections: Option<usize>,
    /// Requests without a valid token that are answered 401. More are answered 429.
    pub failed_authorizations: Option<Rate>,
    /// Lookups that find nothing. Once they are used up, every lookup is answered 429.
    pub misses: Option<Rate>,
    /// The operator's proxies, which name the client in a header.
    pub proxies: Option<Proxies>,
}

/// The limits of requests, and what clients have used of them.
#[derive(Debug)]
pub(crate) struct RequestLimits {
    limits: ClientLimits,
    table: Arc<ClientTable>,
}

impl RequestLimits {
    /// The limits of requests, if there are any. What was used of the limits before counts on, unless a rate has changed.
    pub(crate) fn new(limits: &ClientLimits, before: Option<&Self>) -> Option<Self> {
        let rates = |limits: &ClientLimits| (limits.failed_authorizations, limits.misses);
        if rates(limits) == (None, None) {
            return None;
        }
        let same = before.filter(|before| rates(&before.limits) == rates(limits));
        let table = same.map(|before| Arc::clone(&before.table)).unwrap_or_default();
        Some(Self { limits: limits.clone(), table })
    }
}

/// The connections of clients, and what was refused.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    connections: Arc<ClientConnections>,
    refused: Refused,
}

/// How many connections and requests were refused, by limit.
#[derive(Debug, Default)]
struct Refused {
    connections: AtomicU64,
    failed_authorizations: AtomicU64,
    misses: AtomicU64,
}

impl Clients {
    /// Counts a new connection.
    pub(crate) fn admit(&self, limits: &ClientLimits, peer: Peer) -> Reception {
        let Some(most) = limits.connections else { return Reception::Served(None) };
        if limits.proxies.as_ref().is_some_and(|proxies| peer.is_one_of(proxies)) {
            return Reception::Served(None);
        }
        let admission = self.connections.admit(ClientAddress::of_connection(peer), most);
        if !matches!(admission, Reception::Served(_)) {
            self.refused.connections.fetch_add(1, Ordering::Relaxed);
        }
        admission
    }

    pub(crate) fn family(&self) -> Family {
        let Refused { connections, failed_authorizations, misses } = &self.refused;
        let mut family = Family::new(
            "contactd_client_refusals_total",
            MetricKind::Counter,
            "Connections and requests that were refused by a limit per client address.",
        );
        for (limit, count) in [
            ("connections", connections),
            ("failed_authorizations", failed_authorizations),
            ("misses", misses),
        ] {
            family = family.with(&[("limit", limit)], count.load(Ordering::Relaxed));
        }
        family
    }
}

/// The client of a request, if requests are limited by address. Its address is only found out when it is needed.
pub(crate) struct Client<'a> {
    pub(crate) limits: &'a RequestLimits,
    pub(crate) clients: &'a Clients,
    pub(crate) peer: Peer,
    /// The head of the request, as it was received.
    pub(crate) head: &'a [u8],
}

impl<'a> Client<'a> {
    fn buckets(&self, now: Timestamp) -> Arc<Buckets> {
        let RequestLimits { limits, table } = self.limits;
        table.find(ClientAddress::of_request(self.peer, self.head, limits.proxies.as_ref()), now)
    }

    /// The answer to a request without a valid token: 401 as long as the client has some left, then 429. A valid token is
    /// not asked about here, even if it is not for this operation.
    pub(crate) fn unauthorized(&self, why: Unauthorized, now: Timestamp) -> Refusal {
        let rate = self.limits.limits.failed_authorizations;
        let taken = match (rate, why) {
            (None, _) | (_, Unauthorized::InsufficientScope) => Ok(()),
            (Some(rate), Unauthorized::NoToken | Unauthorized::InvalidToken(_)) => {
                self.buckets(now).failed_authorizations.take(rate, now)
            }
        };
        match taken {
            Ok(()) => Refusal::Unauthorized(why),
            Err(exceeded) => {
                self.clients.refused.failed_authorizations.fetch_add(1, Ordering::Relaxed);
                Refusal::Limit(exceeded)
            }
        }
    }

    /// What the client has left for misses, if they are limited.
    pub(crate) fn misses(&self, now: Timestamp) -> Option<Misses<'a>> {
        let rate = self.limits.limits.misses?;
        Some(Misses { rate, buckets: self.buckets(now), refused: &self.clients.refused.misses })
    }
}

/// What a client has left for lookups that find nothing.
pub(crate) struct Misses<'a> {
    rate: Rate,
    buckets: Arc<Buckets>,
    refused: &'a AtomicU64,
}

impl Misses<'_> {
    /// Refuses the request if nothing is left.
    pub(crate) fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        self.buckets.check_miss(self.rate, now).map_err(|exceeded| self.refuse(exceeded))
    }

    /// Reserves a miss before anything is read, so that a client without any left does not learn who is on file, and
    /// many lookups at once do not exceed the rate.
    pub(crate) fn reserve(&self, now: Timestamp) -> Result<ReservedMiss, Refusal> {
        self.buckets.reserve_miss(self.rate, now).map_err(|exceeded| self.refuse(exceeded))
    }

    fn refuse(&self, exceeded: LimitExceeded) -> Refusal {
        self.refused.fetch_add(1, Ordering::Relaxed);
        Refusal::Limit(exceeded)
    }
}
