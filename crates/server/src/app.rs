//! The state that all workers and requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use contactd_contract::openapi;
use contactd_core::store::LocalRead;
use contactd_core::{Audit, Callers, Clock, Lookups, Networks, SuppressionList};

use crate::Settings;
use crate::metrics::Metrics;

/// The service, as the listeners use it.
pub struct App<D> {
    pub(crate) lookups: Lookups<D>,
    pub(crate) callers: Arc<Callers>,
    pub(crate) suppressions: Arc<SuppressionList>,
    pub(crate) networks: Networks,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) openapi_json: Bytes,
    pub(crate) openapi_yaml: Bytes,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) connections: AtomicUsize,
    stopping: AtomicBool,
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
        Self {
            lookups: Lookups::new(details, Arc::clone(&suppressions), audit),
            callers,
            suppressions,
            networks,
            metrics: Metrics::new(clock.now()),
            clock,
            openapi_json: openapi::json_below(&settings.base_path).into(),
            openapi_yaml: openapi::yaml_below(&settings.base_path).into(),
            settings,
            in_flight: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
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
