//! HTTP for the operator: metrics, the admin API and the console; and the page of an access report.
//!
//! [`start`] serves a bound listener on its own runtime and threads, so that a slow page, report or client cannot
//! delay a lookup. It only accepts a `Host` that is an IP address, a loopback name or a name that the operator
//! configured. This protects against DNS rebinding, where a web page makes its own name resolve to this machine.

mod answer;
mod api;
mod export;
mod hosts;
mod metrics;
mod report_page;
mod request_id;
mod routes;
mod serve;

use std::sync::Arc;

use contactd_core::Clock;
use contactd_core::metrics::Measured;
use contactd_tls::Tls;

pub use api::{ApiSettings, Console, LookupTimes, ServerStatus, delete_personal_files};
pub use export::{ExportFormat, ExportWriter};
pub use hosts::Hosts;
pub use report_page::render_report;
pub use serve::{Running, start};

/// What the admin listener needs.
pub struct Admin {
    /// The sources of the metrics that `/metrics` shows, in this order.
    pub measured: Vec<Arc<dyn Measured>>,
    /// The host names that it accepts.
    pub hosts: Hosts,
    /// The certificate; plain HTTP if `None`.
    pub tls: Option<Arc<Tls>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Maximum number of open connections; more wait to be accepted.
    pub connections: usize,
    /// The admin API and the console.
    pub console: Console,
}
