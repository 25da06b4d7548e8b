//! Metrics as data, independent of how they are exported.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// Provides metrics. They contain no names, no values and no URLs of people.
pub trait Measured: Send + Sync {
    /// The current metrics.
    fn families(&self) -> Measuring<'_>;
}

/// Metrics being collected.
pub type Measuring<'a> = Pin<Box<dyn Future<Output = Vec<Family>> + Send + 'a>>;

/// The samples of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The name in Prometheus.
    pub name: &'static str,
    /// The type of the metric.
    pub kind: MetricKind,
    /// One sentence about the metric.
    pub help: &'static str,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words are Prometheus' own")]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// One value and its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The suffix of the family's name, such as `_bucket`.
    pub suffix: &'static str,
    /// Names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: MetricValue,
}

/// A value, exactly as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricValue {
    /// A whole number.
    Count(u64),
    /// A duration in nanoseconds, shown in seconds.
    Nanos(u64),
}

impl fmt::Display for MetricValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND: u64 = 1_000_000_000;
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Nanos(nanos) => {
                let text = format!("{}.{:09}", nanos / SECOND, nanos % SECOND);
                f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

impl Family {
    /// Creates a family without samples.
    pub const fn new(name: &'static str, kind: MetricKind, help: &'static str) -> Self {
        Self { name, kind, help, samples: Vec::new() }
    }

    /// Creates a family with one gauge.
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self::new(name, MetricKind::Gauge, help).with(&[], value)
    }

    /// Creates a family with one counter.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self::new(name, MetricKind::Counter, help).with(&[], value)
    }

    /// Adds a sample without a suffix.
    #[must_use]
    pub fn with(mut self, labels: &[(&'static str, &str)], value: u64) -> Self {
        self.push("", labels, MetricValue::Count(value));
        self
    }

    /// Adds a sample.
    pub fn push(&mut self, suffix: &'static str, labels: &[(&'static str, &str)], value: MetricValue) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.samples.push(Sample { suffix, labels, value });
    }
}
