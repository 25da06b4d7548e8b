//! Metrics about requests, which the admin listener shows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contactd_contract::{ErrorCode, Operation};
use contactd_core::metrics::{Family, Measured, Measuring, MetricKind, MetricValue};
use contactd_core::store::LocalRead;
use contactd_core::{Caller, Timestamp, quota_families};

use crate::App;
use crate::refusal::Refusal;
use crate::route::Route;

/// How a request ended. A suppressed person is counted as a miss, like an unknown one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    Miss,
    /// However the sandbox answered it: whoever tests their program with a made-up fault raises no alarm here.
    Sandbox,
    Refused(ErrorCode),
}

impl Outcome {
    const NAMES: usize = 3 + ErrorCode::ALL.len();

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Miss => "miss",
            Self::Sandbox => "sandbox",
            Self::Refused(code) => code.recorded(),
        }
    }

    /// Whether the request was refused or failed. A miss is neither, and the sandbox is not counted.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// How a request of this caller ended. Trouble of the service is not the sandbox's answer.
    pub(crate) fn of(caller: Option<&Caller>, refusal: Option<&Refusal>) -> Self {
        let caller = caller.filter(|_| !refusal.is_some_and(Refusal::is_trouble));
        Self::of_answer(caller, refusal.map(Refusal::code))
    }

    /// As [`of`](Self::of), if the service is not in trouble.
    pub(crate) fn of_answer(caller: Option<&Caller>, refused: Option<ErrorCode>) -> Self {
        if caller.is_some_and(Caller::is_sandbox) {
            return Self::Sandbox;
        }
        match refused {
            None => Self::Ok,
            Some(ErrorCode::ContactNotFound) => Self::Miss,
            Some(code) => Self::Refused(code),
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Ok => 0,
            Self::Miss => 1,
            Self::Sandbox => 2,
            Self::Refused(code) => {
                3 + ErrorCode::ALL.iter().position(|known| *known == code).unwrap_or_default()
            }
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        [Self::Ok, Self::Miss, Self::Sandbox].into_iter().chain(ErrorCode::ALL.into_iter().map(Self::Refused))
    }
}

const OPERATIONS: [&str; 5] = ["phone", "email", "batch", "mcp", "other"];

/// How many of them, from the first, are lookups.
const LOOKUPS: usize = 2;

const fn lookup_index(operation: Operation) -> usize {
    match operation {
        Operation::FetchPhoneNumber => 0,
        Operation::FetchPersonalEmail => 1,
    }
}

fn operation_index(route: Option<Route>) -> usize {
    match route {
        Some(Route::Fetch(operation)) => lookup_index(operation),
        Some(Route::Batch) => 2,
        Some(Route::Mcp) => 3,
        _ => 4,
    }
}

/// The operation's name in metrics and logs.
pub(crate) fn route_name(route: Option<Route>) -> &'static str {
    OPERATIONS[operation_index(route)]
}

/// Upper bounds of the latency histogram, in microseconds.
const BUCKETS: [u64; 14] =
    [25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 1_000_000, 10_000_000];

#[derive(Default)]
struct Latency {
    buckets: [AtomicU64; BUCKETS.len() + 1],
    nanos: AtomicU64,
}

/// Counters of this process. They contain no names and no contact values.
pub(crate) struct Metrics {
    started_at: Timestamp,
    gave_way: AtomicU64,
    requests: [[AtomicU64; Outcome::NAMES]; OPERATIONS.len()],
    /// Lookups of batches, and of agents.
    inside: [[AtomicU64; Outcome::NAMES]; LOOKUPS],
    latency: [Latency; OPERATIONS.len()],
}

impl Metrics {
    pub(crate) fn new(started_at: Timestamp) -> Self {
        Self {
            started_at,
            gave_way: AtomicU64::new(0),
            requests: Default::default(),
            inside: Default::default(),
            latency: Default::default(),
        }
    }

    /// Counts a connection that was told to close for another one.
    pub(crate) fn count_gave_way(&self) {
        self.gave_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a lookup of a batch or of an agent.
    pub(crate) fn record_inside(&self, operation: Operation, outcome: Outcome) {
        self.inside[lookup_index(operation)][outcome.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one request.
    pub(crate) fn record(&self, route: Option<Route>, outcome: Outcome, took: Duration) {
        let operation = operation_index(route);
        self.requests[operation][outcome.index()].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.iter().position(|&bound| micros <= bound).unwrap_or(BUCKETS.len());
        let latency = &self.latency[operation];
        latency.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        latency.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(0), Ordering::Relaxed);
    }
}

impl<D: LocalRead> App<D> {
    /// How long lookups took since the start, in microseconds: for each share, the time within which that share of them was
    /// answered. `None` if there was none.
    pub fn lookup_micros<const N: usize>(&self, shares: [f64; N]) -> Option<[u64; N]> {
        let mut counts = [0; BUCKETS.len() + 1];
        for latency in &self.metrics.latency[..LOOKUPS] {
            for (sum, count) in counts.iter_mut().zip(&latency.buckets) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        (counts.iter().sum::<u64>() > 0).then(|| shares.map(|share| quantile(&counts, share)))
    }
}

/// The time within which a share of all were answered, as exactly as the histogram knows it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "shares and bounds are small and positive"
)]
fn quantile(counts: &[u64; BUCKETS.len() + 1], share: f64) -> u64 {
    let wanted = counts.iter().sum::<u64>() as f64 * share;
    let (mut below, mut from) = (0.0, 0);
    for (&count, &bound) in counts.iter().zip(&BUCKETS) {
        let here = count as f64;
        if here > 0.0 && below + here >= wanted {
            return from + ((bound - from) as f64 * (wanted - below) / here) as u64;
        }
        (below, from) = (below + here, bound);
    }
    // Longer than the last bound.
    from
}

impl<D: LocalRead> Measured for App<D> {
    fn families(&self) -> Measuring<'_> {
        let mut families = vec![requests(&self.metrics), lookups(&self.metrics), latency(&self.metrics)];
        families.extend(tokens_and_connections(self));
        families.push(self.clients.family());
        families.extend(quota_families(&self.callers, self.clock.now()));
        let start = u64::try_from(self.metrics.started_at.seconds()).unwrap_or(0);
        families.push(Family::gauge("process_start_time_seconds", "When the process started.", start));
        Box::pin(std::future::ready(families))
    }
}

fn requests(metrics: &Metrics) -> Family {
    let family =
        Family::new("contactd_requests_total", MetricKind::Counter, "Requests by operation and outcome.");
    by_outcome(family, &OPERATIONS, |operation, outcome| load(&metrics.requests[operation][outcome]))
}

fn lookups(metrics: &Metrics) -> Family {
    let what = "Lookups by operation and outcome: single ones, those of batches and those of agents.";
    let family = Family::new("contactd_lookups_total", MetricKind::Counter, what);
    by_outcome(family, &OPERATIONS[..LOOKUPS], |operation, outcome| {
        load(&metrics.requests[operation][outcome]) + load(&metrics.inside[operation][outcome])
    })
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Adds what is counted, by the index of the operation and of the outcome.
fn by_outcome(mut family: Family, operations: &[&str], count: impl Fn(usize, usize) -> u64) -> Family {
    for (index, operation) in operations.iter().enumerate() {
        for outcome in Outcome::all() {
            let count = count(index, outcome.index());
            if count > 0 || matches!(outcome, Outcome::Ok | Outcome::Miss) {
                family = family.with(&[("operation", operation), ("outcome", outcome.name())], count);
            }
        }
    }
    family
}

fn latency(metrics: &Metrics) -> Family {
    let name = "contactd_request_duration_seconds";
    let mut family = Family::new(name, MetricKind::Histogram, "From the head of a request to its answer.");
    for (operation, latency) in OPERATIONS.iter().zip(&metrics.latency) {
        let of_operation = ("operation", *operation);
        let mut total = 0;
        for (index, count) in latency.buckets.iter().enumerate() {
            total += count.load(Ordering::Relaxed);
            let bound = BUCKETS.get(index).map(|micros| MetricValue::Nanos(micros * 1_000).to_string());
            let bound = bound.unwrap_or_else(|| "+Inf".to_owned());
            family.push("_bucket", &[of_operation, ("le", &bound)], MetricValue::Count(total));
        }
        let sum = latency.nanos.load(Ordering::Relaxed);
        family.push("_sum", &[of_operation], MetricValue::Nanos(sum));
        family.push("_count", &[of_operation], MetricValue::Count(total));
    }
    family
}

fn tokens_and_connections<D: LocalRead>(app: &App<D>) -> [Family; 10] {
    let (live, ending) = app.callers.count(app.clock.now());
    let audit = app.lookups.audit_health();
    let connections = app.connections.load(Ordering::Relaxed) as u64;
    let in_flight = app.places.taken() as u64;
    [
        Family::gauge("contactd_tokens", "Tokens that are accepted.", live as u64),
        Family::gauge("contactd_tokens_ending", "Accepted tokens that end within 14 days.", ending as u64),
        Family::gauge(
            "contactd_suppressions",
            "Suppressed people, numbers and addresses.",
            app.suppressions.len() as u64,
        ),
        Family::gauge("contactd_audit_up", "Whether audit lines can be written.", u64::from(audit.is_up)),
        Family::counter("contactd_audit_lines_total", "Audit lines written.", audit.lines),
        Family::counter("contactd_audit_lost_total", "Audit lines that could not be written.", audit.lost),
        Family::gauge("contactd_connections", "Open connections of callers.", connections),
        Family::counter(
            "contactd_connections_gave_way_total",
            "Connections that had waited for their clients and were told to close for others.",
            app.metrics.gave_way.load(Ordering::Relaxed),
        ),
        Family::gauge(
            "contactd_connections_limit",
            "How many connections of callers may be open; more wait to be accepted.",
            app.now().settings.max_connections as u64,
        ),
        Family::gauge("contactd_requests_in_flight", "Lookups being worked on.", in_flight),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_read_from_the_histogram() {
        let mut counts = [0; BUCKETS.len() + 1];
        counts[2] = 90;
        counts[3] = 10;
        assert_eq!(
            (quantile(&counts, 0.45), quantile(&counts, 0.9), quantile(&counts, 0.99)),
            (75, 100, 235)
        );
        let mut slow = [0; BUCKETS.len() + 1];
        slow[BUCKETS.len()] = 1;
        assert_eq!(quantile(&slow, 0.5), 10_000_000);
    }
}
