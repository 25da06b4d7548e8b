//! Metrics of a node.

use std::sync::Arc;
use std::time::Duration;

use contactd_core::metrics::{Family, Measured, Measuring, MetricKind, MetricValue};

use crate::state::Shared;

/// Measures a node. Does not keep it running.
pub struct NodeMeasures(pub(crate) Arc<Shared>);

impl Measured for NodeMeasures {
    fn families(&self) -> Measuring<'_> {
        Box::pin(std::future::ready(self.measure()))
    }
}

impl NodeMeasures {
    /// Whether this node hears from the database, and can renew its lease there.
    pub fn does_follow(&self) -> bool {
        self.0.does_follow()
    }

    fn measure(&self) -> Vec<Family> {
        let state = self.0.state();
        let seconds = |name, help, time: Duration| {
            let mut family = Family::new(name, MetricKind::Gauge, help);
            family.push("", &[], MetricValue::Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
            family
        };
        let by_counter = |name, help, access: u64, details: u64| {
            Family::new(name, MetricKind::Gauge, help)
                .with(&[("counter", "access")], access)
                .with(&[("counter", "details")], details)
        };
        let number = |number: i64| u64::try_from(number).unwrap_or(0);
        let (access, details) = (state.access.number, state.details_number());
        let unheard = state.heard_at.filter(|heard| heard.elapsed() > state.silence());
        vec![
            seconds(
                "contactd_lease_seconds",
                "How long this node may still answer lookups without hearing from the database.",
                self.0.settings.lease.left().unwrap_or_default(),
            ),
            Family::gauge(
                "contactd_copy_ready",
                "Whether this node's copy of the database is complete.",
                u64::from(state.is_loaded),
            ),
            Family::gauge(
                "contactd_state_changed_by_hand",
                "Whether tokens, opt-outs or accounts in the database are not those that contactd stored.",
                u64::from(state.fault.is_some()),
            ),
            by_counter(
                "contactd_copy_number",
                "The last change that this node's copy contains.",
                number(access),
                number(details),
            ),
            by_counter(
                "contactd_copy_behind",
                "How many changes of the database this node's copy does not contain yet.",
                number(state.newest_access - access),
                number(state.newest_details - details),
            ),
            seconds(
                "contactd_copy_lag_seconds",
                "For how long this node's copy has been behind the database.",
                // Without an answer it cannot be known whether the copy is behind.
                state
                    .behind_since
                    .into_iter()
                    .chain(unheard)
                    .map(|since| since.elapsed())
                    .max()
                    .unwrap_or_default(),
            ),
            seconds(
                "contactd_clock_difference_seconds",
                "By how much the clocks of this node and of the database differ.",
                Duration::from_millis(state.clock.1.unsigned_abs()),
            ),
            seconds(
                "contactd_database_answer_seconds",
                "How long the database took for an answer at the last heartbeat.",
                state.round_trip.0,
            ),
            Family::gauge(
                "contactd_held_changes",
                "How many opt-outs, and revocations and limits of tokens, this node holds that the database has lost.",
                state.held,
            ),
        ]
    }
}
