//! The state that all workers and requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};
use contactd_core::store::LocalRead;
use contactd_core::{Audit, Callers, Clock, Lease, Lookups, Networks, Repeats, SuppressionList};
use contactd_tls::Tls;

use crate::Settings;
use crate::clients::{Clients, RequestLimits};
use crate::cors::Cors;
use crate::docs::Descriptions;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::slots::Slots;

/// The service, as the listeners use it.
pub struct App<D> {
    pub(crate) lookups: Lookups<D>,
    pub(crate) callers: Arc<Callers>,
    pub(crate) suppressions: Arc<SuppressionList>,
    pub(crate) clock: Arc<dyn Clock>,
    reloadable: ArcSwap<Reloadable>,
    pub(crate) metrics: Metrics,
    pub(crate) faults: Repeats,
    pub(crate) descriptions: Descriptions,
    pub(crate) places: Places,
    pub(crate) connections: AtomicUsize,
    pub(crate) slots: Arc<Slots>,
    pub(crate) clients: Clients,
    /// For the connections of callers; plain HTTP if `None`.
    pub(crate) tls: Option<Arc<Tls>>,
    stopping: AtomicBool,
    /// How often each worker has ticked.
    beats: Box<[AtomicU64]>,
}

/// What a reload of the configuration replaces, all of it at once.
pub(crate) struct Reloadable {
    pub(crate) settings: Settings,
    pub(crate) networks: Networks,
    pub(crate) cors: Cors,
    /// The limits of requests per client address, if there are any.
    pub(crate) client_limits: Option<RequestLimits>,
}

impl Reloadable {
    fn new(settings: Settings, networks: Networks, before: Option<&Self>) -> Self {
        let cors = Cors::new(&settings.allow_origins);
        let client_limits = before.and_then(|before| before.client_limits.as_ref());
        let client_limits = RequestLimits::new(&settings.clients, client_limits);
        Self { settings, networks, cors, client_limits }
    }
}

impl<D: LocalRead> App<D> {
    /// A service that answers `callers` from `details` without `suppressions`, and records lookups in `audit`.
    pub fn new(
        details: Arc<D>,
        audit: Arc<dyn Audit>,
        callers: Arc<Callers>,
        suppressions: Arc<SuppressionList>,
        networks: Networks,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let beats = (0..settings.workers.max(1)).map(|_| AtomicU64::new(0)).collect();
        Self {
            lookups: Lookups::new(details, Arc::clone(&suppressions), audit),
            callers,
            suppressions,
            metrics: Metrics::new(clock.now()),
            faults: Repeats::default(),
            clock,
            descriptions: Descriptions::at(settings.server_url()),
            reloadable: ArcSwap::from_pointee(Reloadable::new(settings, networks, None)),
            places: Places::default(),
            connections: AtomicUsize::new(0),
            slots: Arc::default(),
            clients: Clients::default(),
            tls: None,
            stopping: AtomicBool::new(false),
            beats,
        }
    }

    /// Answers lookups only while this lease holds.
    #[must_use]
    pub fn with_lease(self, lease: Lease) -> Self {
        Self { lookups: self.lookups.with_lease(lease), ..self }
    }

    /// Serves callers over TLS.
    #[must_use]
    pub fn with_tls(self, tls: Option<Arc<Tls>>) -> Self {
        Self { tls, ..self }
    }

    /// The settings and networks of this moment. Do not keep them across an `await`: a request has its own.
    pub(crate) fn now(&self) -> Guard<Arc<Reloadable>> {
        self.reloadable.load()
    }

    /// The settings and networks for a request that begins now.
    pub(crate) fn for_request(&self) -> Arc<Reloadable> {
        self.reloadable.load_full()
    }

    /// Replaces the networks, and the settings that can change while the service runs. Every request that begins
    /// afterwards sees all of the new ones; a connection keeps the timeouts with which it was opened.
    pub fn reload(&self, settings: Settings, networks: Networks) {
        let before = self.now();
        let Settings { base_path, public_url, workers, audit_patience, .. } = before.settings.clone();
        let settings = Settings { base_path, public_url, workers, audit_patience, ..settings };
        self.reloadable.store(Arc::new(Reloadable::new(settings, networks, Some(&before))));
        self.slots.look_again();
    }

    /// How often each worker has ticked: a number that stays the same for long is that of a worker that hangs.
    pub fn beats(&self) -> Vec<u64> {
        self.beats.iter().map(|beat| beat.load(Ordering::Relaxed)).collect()
    }

    pub(crate) fn beat(&self, worker: usize) {
        if let Some(beat) = self.beats.get(worker) {
            beat.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the service is stopping: it is not ready, and every answer closes its connection.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }
}
