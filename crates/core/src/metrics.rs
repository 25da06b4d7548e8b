//! Measurements as data. Whoever measures describes them; whoever shows them decides how.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// Something that has measurements to show. They hold no names, no values and no URLs of people.
pub trait Measured: Send + Sync {
    /// What was measured so far.
    fn families(&self) -> Measuring<'_>;
}

/// Measurements being gathered.
pub type Measuring<'a> = Pin<Box<dyn Future<Output = Vec<Family>> + Send + 'a>>;

/// Measurements of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The name, as Prometheus has it.
    pub name: &'static str,
    /// What kind of numbers they are.
    pub kind: MetricKind,
    /// One sentence about them.
    pub help: &'static str,
    /// The numbers.
    pub samples: Vec<Sample>,
}

/// What kind of numbers a family holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words are Prometheus' own")]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// One number and its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What follows the family's name, such as `_bucket`.
    pub suffix: &'static str,
    /// Names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: MetricValue,
}

/// A number, exactly as it is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricValue {
    /// A whole number.
    Count(u64),
    /// A time in nanoseconds, shown in seconds.
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
    /// A family without numbers yet.
    pub const fn new(name: &'static str, kind: MetricKind, help: &'static str) -> Self {
        Self { name, kind, help, samples: Vec::new() }
    }

    /// A family of one gauge.
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self::new(name, MetricKind::Gauge, help).with(&[], value)
    }

    /// A family of one counter.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self::new(name, MetricKind::Counter, help).with(&[], value)
    }

    /// The family with one more number.
    #[must_use]
    pub fn with(mut self, labels: &[(&'static str, &str)], value: u64) -> Self {
        self.push("", labels, MetricValue::Count(value));
        self
    }

    /// Adds a number.
    pub fn push(&mut self, suffix: &'static str, labels: &[(&'static str, &str)], value: MetricValue) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.samples.push(Sample { suffix, labels, value });
    }
}
