//! `GET /metrics` on the admin listener, in Prometheus' text format.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contactd_contract::{ErrorCode, Operation};
use contactd_core::Timestamp;
use contactd_core::store::Details;

use crate::App;
use crate::answer::{self, Answer};
use crate::router::Route;

/// How a request ended. A suppressed person is a miss like any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    Miss,
    Refused(ErrorCode),
}

impl Outcome {
    const NAMES: usize = 2 + ErrorCode::ALL.len();

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Miss => "miss",
            Self::Refused(code) => code.status().unwrap_or("internal_error"),
        }
    }

    /// Whether something was wrong with the request, or with us.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Self::Refused(_))
    }

    fn index(self) -> usize {
        match self {
            Self::Ok => 0,
            Self::Miss => 1,
            Self::Refused(code) => {
                2 + ErrorCode::ALL.iter().position(|known| *known == code).unwrap_or_default()
            }
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        [Self::Ok, Self::Miss].into_iter().chain(ErrorCode::ALL.into_iter().map(Self::Refused))
    }
}

const OPERATIONS: [&str; 3] = ["phone", "email", "other"];

fn operation_index(route: Option<Route>) -> usize {
    match route {
        Some(Route::Fetch(Operation::FetchPhoneNumber)) => 0,
        Some(Route::Fetch(Operation::FetchPersonalEmail)) => 1,
        _ => 2,
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

/// Counters of this process. They hold no names and no values.
pub(crate) struct Metrics {
    started_at: Timestamp,
    requests: [[AtomicU64; Outcome::NAMES]; OPERATIONS.len()],
    latency: [Latency; OPERATIONS.len()],
}

impl Metrics {
    pub(crate) fn new(started_at: Timestamp) -> Self {
        Self { started_at, requests: Default::default(), latency: Default::default() }
    }

    /// Counts one request.
    pub(crate) fn record(&self, route: Option<Route>, refused: Option<ErrorCode>, took: Duration) -> Outcome {
        let outcome = match refused {
            None => Outcome::Ok,
            Some(ErrorCode::ContactNotFound) => Outcome::Miss,
            Some(code) => Outcome::Refused(code),
        };
        let operation = operation_index(route);
        self.requests[operation][outcome.index()].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.iter().position(|&bound| micros <= bound).unwrap_or(BUCKETS.len());
        let latency = &self.latency[operation];
        latency.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        latency.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(0), Ordering::Relaxed);
        outcome
    }
}

/// `GET /metrics`
pub(crate) async fn show<D: Details>(app: &Arc<App<D>>) -> Answer {
    let mut page = Page::default();
    requests(&mut page, &app.metrics);
    latency(&mut page, &app.metrics);
    tokens_and_connections(&mut page, app);
    store(&mut page, app).await;
    process(&mut page, &app.metrics);
    answer::of_type("text/plain; version=0.0.4; charset=utf-8", "", page.0.into())
}

fn requests(page: &mut Page, metrics: &Metrics) {
    page.family("contactd_requests_total", "counter", "Requests by operation and outcome.");
    for (operation, counts) in OPERATIONS.iter().zip(&metrics.requests) {
        for outcome in Outcome::all() {
            let count = counts[outcome.index()].load(Ordering::Relaxed);
            if count > 0 || matches!(outcome, Outcome::Ok | Outcome::Miss) {
                page.value(
                    format_args!("{{operation=\"{operation}\",outcome=\"{}\"}}", outcome.name()),
                    count,
                );
            }
        }
    }
}

fn latency(page: &mut Page, metrics: &Metrics) {
    let name = "contactd_request_duration_seconds";
    page.family(name, "histogram", "From the head of a request to its answer.");
    for (operation, latency) in OPERATIONS.iter().zip(&metrics.latency) {
        let mut total = 0;
        for (index, count) in latency.buckets.iter().enumerate() {
            total += count.load(Ordering::Relaxed);
            let bound = BUCKETS.get(index).map_or("+Inf".to_owned(), |&micros| seconds(micros * 1_000));
            page.line(format_args!("{name}_bucket{{operation=\"{operation}\",le=\"{bound}\"}} {total}"));
        }
        let sum = seconds(latency.nanos.load(Ordering::Relaxed));
        page.line(format_args!("{name}_sum{{operation=\"{operation}\"}} {sum}"));
        page.line(format_args!("{name}_count{{operation=\"{operation}\"}} {total}"));
    }
}

fn tokens_and_connections<D: Details>(page: &mut Page, app: &App<D>) {
    let (live, ending) = app.callers.count(app.clock.now());
    page.single("contactd_tokens", "gauge", "Tokens that are accepted.", live as u64);
    page.single("contactd_tokens_ending", "gauge", "Accepted tokens that end within 14 days.", ending as u64);
    page.single(
        "contactd_suppressions",
        "gauge",
        "Suppressed people, numbers and addresses.",
        app.suppressions.len() as u64,
    );
    let audit = app.lookups.audit_health();
    page.single("contactd_audit_up", "gauge", "Whether audit lines can be written.", u64::from(audit.is_up));
    page.single("contactd_audit_lines_total", "counter", "Audit lines written.", audit.lines);
    page.single(
        "contactd_audit_lost_total",
        "counter",
        "Audit lines that could not be written in time.",
        audit.lost,
    );
    let connections = app.connections.load(Ordering::Relaxed);
    page.single("contactd_connections", "gauge", "Open connections.", connections as u64);
    let in_flight = app.in_flight.load(Ordering::Relaxed);
    page.single("contactd_requests_in_flight", "gauge", "Lookups being worked on.", in_flight as u64);
}

async fn store<D: Details>(page: &mut Page, app: &App<D>) {
    let Ok(totals) = app.lookups.totals().await else {
        page.single("contactd_store_up", "gauge", "Whether the store could be asked.", 0);
        return;
    };
    page.single("contactd_store_up", "gauge", "Whether the store could be asked.", 1);
    page.single("contactd_store_profiles", "gauge", "Profiles held.", totals.profiles);
    page.family("contactd_store_details", "gauge", "Details held, by kind and label.");
    let mut by_sort: Vec<((&str, &str), u64)> = Vec::new();
    for total in &totals.details {
        let sort = (total.kind.name(), total.label.name());
        match by_sort.iter_mut().find(|(known, _)| *known == sort) {
            Some((_, count)) => *count += total.count,
            None => by_sort.push((sort, total.count)),
        }
    }
    for ((kind, label), count) in by_sort {
        page.value(format_args!("{{kind=\"{kind}\",label=\"{label}\"}}"), count);
    }
    page.family("contactd_store_bytes", "gauge", "Bytes on disk, by file.");
    for (file, bytes) in &totals.bytes {
        page.value(format_args!("{{file=\"{file}\"}}"), *bytes);
    }
}

fn process(page: &mut Page, metrics: &Metrics) {
    page.family("contactd_build_info", "gauge", "The version that is running.");
    page.value(format_args!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1);
    let start = u64::try_from(metrics.started_at.seconds()).unwrap_or(0);
    page.single("process_start_time_seconds", "gauge", "When the process started.", start);
    if let Some(usage) = ProcessUsage::read() {
        page.family("process_cpu_seconds_total", "counter", "User and system time.");
        page.line(format_args!("process_cpu_seconds_total {}", seconds(usage.cpu_nanos)));
        page.single("process_resident_memory_bytes", "gauge", "Resident memory.", usage.resident_bytes);
    }
    if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
        page.single("process_open_fds", "gauge", "Open file descriptors.", entries.count() as u64);
    }
}

struct ProcessUsage {
    cpu_nanos: u64,
    resident_bytes: u64,
}

impl ProcessUsage {
    /// What the kernel says about this process; nothing where there is no `/proc`.
    fn read() -> Option<Self> {
        // Ticks of user and system time are fields 14 and 15, counted behind the command's
        // name; Linux has 100 ticks a second wherever it matters to a program.
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: u64 = resident.trim().trim_end_matches(" kB").parse().ok()?;
        Some(Self { cpu_nanos: (ticks(11)? + ticks(12)?) * 10_000_000, resident_bytes: kib * 1024 })
    }
}

fn seconds(nanos: u64) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A page of metrics under construction.
#[derive(Default)]
struct Page(String, &'static str);

impl Page {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.1 = name;
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    /// A value of the family that was begun last.
    fn value(&mut self, labels: fmt::Arguments<'_>, value: u64) {
        let family = self.1;
        self.line(format_args!("{family}{labels} {value}"));
    }

    fn single(&mut self, name: &'static str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help);
        self.value(format_args!(""), value);
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}
