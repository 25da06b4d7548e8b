//! The pair in use, shared by both listeners.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use contactd_core::Finding;
use contactd_core::Timestamp;
use contactd_core::metrics::{Family, Measured, Measuring, MetricKind};
use rustls::ServerConfig;

use crate::findings;
use crate::pair::{FilesState, Pair, PairFiles};

/// The certificate and the key in use, and what is counted about handshakes.
#[derive(Debug)]
pub struct Tls {
    pair: ArcSwap<Pair>,
    handshakes: [AtomicU64; Handshake::ALL.len()],
}

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// The connection is encrypted.
    Ok,
    /// The client sent something else, refused the certificate, or went away.
    Failed,
    /// The client did not finish in time.
    Timeout,
}

impl Handshake {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Ok, "ok"), (Self::Failed, "failed"), (Self::Timeout, "timeout")];
}

impl Tls {
    /// Begins with this pair.
    pub fn new(pair: Pair) -> Self {
        Self { pair: ArcSwap::from_pointee(pair), handshakes: Default::default() }
    }

    /// Uses another pair for new connections. Returns false if it has the same certificate as the one before.
    pub fn replace(&self, mut pair: Pair) -> bool {
        let before = self.pair.load();
        let is_new = before.chain != pair.chain;
        if !is_new {
            // Clients can go on with their sessions.
            pair.config = Arc::clone(&before.config);
        }
        self.pair.store(Arc::new(pair));
        is_new
    }

    /// When the certificate in use ends.
    pub fn ends(&self) -> Timestamp {
        self.pair.load().ends
    }

    /// What `doctor` says about the pair in use.
    pub fn findings(&self, now: Timestamp) -> Vec<Finding> {
        findings(&self.pair.load(), now)
    }

    /// Counts a handshake.
    pub fn count(&self, handshake: Handshake) {
        self.handshakes[handshake as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.pair.load().config)
    }

    /// The files of the pair in use, and their state when they were read.
    pub(crate) fn files(&self) -> (PairFiles, FilesState) {
        let pair = self.pair.load();
        (pair.files.clone(), pair.state)
    }

    pub(crate) fn pair(&self) -> Arc<Pair> {
        self.pair.load_full()
    }
}

impl Measured for Tls {
    fn families(&self) -> Measuring<'_> {
        let mut handshakes = Family::new(
            "contactd_tls_handshakes_total",
            MetricKind::Counter,
            "TLS handshakes of callers by outcome.",
        );
        for (outcome, name) in Handshake::ALL {
            let count = self.handshakes[outcome as usize].load(Ordering::Relaxed);
            handshakes = handshakes.with(&[("outcome", name)], count);
        }
        let ends = u64::try_from(self.ends().seconds()).unwrap_or(0);
        let help = "When the certificate in use ends, in seconds since 1970.";
        let ends = Family::gauge("contactd_tls_certificate_expires_seconds", help, ends);
        Box::pin(std::future::ready(vec![handshakes, ends]))
    }
}
