//! The operator's HTTP: metrics now, the admin API and the console later.
//!
//! [`start`] serves a bound listener on a runtime and threads of its own, so that no slow page, report or client can delay a
//! lookup. It answers a `Host` that is an IP address or a loopback name, and the names that the operator configured: a web page
//! that makes a browser resolve its own name to this machine (DNS rebinding) gets nothing.

mod answer;
mod hosts;
mod metrics;
mod request_id;
mod routes;
mod serve;

use std::sync::Arc;

use contactd_core::Clock;
use contactd_core::metrics::Measured;

pub use hosts::Hosts;
pub use serve::{Running, start};

/// What the operator's listener needs.
pub struct Admin {
    /// Whose measurements `/metrics` shows, in this order.
    pub measured: Vec<Arc<dyn Measured>>,
    /// Which names it is reached by.
    pub hosts: Hosts,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}
