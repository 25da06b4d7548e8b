//! Whether the lookups of a running server are answered, and where from: for metrics, and for commands, which ask it on `control.sock`.

use std::sync::Arc;

use anyhow::Context as _;
use contactd_core::metrics::{Family, Measured, Measuring, MetricKind};
use contactd_core::{Finding, Lease, blocking};
use contactd_store_sqlite::{AnsweredFrom, TableStatus};
use serde::{Deserialize, Serialize};

use crate::control::{self, LOOKUPS};
use crate::data_dir::DataDir;
use crate::engine::Files;

/// What a running server says of its lookups.
pub(crate) struct LookupStatus {
    pub(crate) files: Arc<Files>,
    /// Whether lookups can be recorded. It does not keep the journal open.
    pub(crate) can_record: Box<dyn Fn() -> bool + Send + Sync>,
    pub(crate) lease: Lease,
}

/// The lookups of a running server.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lookups {
    /// Whether they are answered.
    answers: Answers,
    /// Where lookups are answered from.
    answered_from: Place,
    /// The size of the table.
    table_bytes: u64,
    /// What it holds: one record is for one profile and kind.
    table_records: u64,
    /// Places of profiles that were changed since it was made.
    changed_since: u64,
}

/// Whether lookups are answered. `readyz` is 503 if they are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum Answers {
    Now,
    /// Not without the audit journal.
    NoJournal,
    /// Not without the lease of a node.
    NoLease,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    Memory,
    File,
    Store,
}

impl LookupStatus {
    pub(crate) fn now(&self) -> Lookups {
        let TableStatus { from, bytes, records, changed } = self.files.table_status();
        let answers = match ((self.can_record)(), self.lease.holds()) {
            (true, true) => Answers::Now,
            (false, _) => Answers::NoJournal,
            (true, false) => Answers::NoLease,
        };
        let answered_from = match from {
            AnsweredFrom::Memory => Place::Memory,
            AnsweredFrom::File => Place::File,
            AnsweredFrom::Store => Place::Store,
        };
        Lookups {
            answers,
            answered_from,
            table_bytes: bytes,
            table_records: records,
            changed_since: changed as u64,
        }
    }
}

impl Lookups {
    /// Those of the server that runs on this data directory; `None` if there is none.
    pub(crate) fn of_server(dir: &DataDir) -> anyhow::Result<Option<Self>> {
        let reply =
            blocking(|| control::reply(dir, LOOKUPS)).context("the running server does not answer")?;
        reply
            .map(|reply| serde_json::from_str(&reply).context("the running server is another version"))
            .transpose()
    }

    /// In words, after "answered from".
    pub(crate) fn words(&self) -> String {
        let place = match self.answered_from {
            Place::Store => return "details.db: there is no lookup table yet".to_owned(),
            Place::Memory => "a table in memory",
            Place::File => "a table in its file",
        };
        let (mebibytes, records) = (self.table_bytes as f64 / f64::from(1 << 20), self.table_records);
        format!("{place} ({mebibytes:.1} MiB, records: {records}, changed since: {})", self.changed_since)
    }

    /// What `doctor` says of the server that runs on this data directory.
    pub(crate) fn findings(dir: &DataDir) -> Vec<Finding> {
        let server = |message: &str| Finding::ok("server", message.to_owned());
        let mut findings = match control::is_served(dir) {
            true => vec![server("a server is running on this data directory")],
            // One that waits for its database the first time has not taken it.
            false => return vec![server("no server answers lookups from this data directory")],
        };
        match Self::of_server(dir) {
            Ok(Some(lookups)) => findings.extend([lookups.answers.finding(), lookups.table_finding()]),
            Ok(None) | Err(_) => findings.push(Finding::warn(
                "lookups",
                "the server does not say whether it answers lookups: it starts, stops or hangs".to_owned(),
                "ask GET /readyz, and look at its log",
            )),
        }
        findings
    }

    fn table_finding(&self) -> Finding {
        let check = "lookup table";
        match self.answered_from {
            Place::Memory | Place::File => Finding::ok(check, format!("loaded: {}", self.words())),
            Place::Store => Finding::warn(
                check,
                format!("lookups read {}", self.words()),
                "lookups cost more until it is made; if this stays so, the log of the server says why",
            ),
        }
    }
}

impl Answers {
    fn finding(self) -> Finding {
        let (message, advice) = match self {
            Self::Now => return Finding::ok("lookups", "they are answered now".to_owned()),
            Self::NoJournal => (
                "they are answered 503 now: the audit journal cannot be written",
                "make room on the disk that holds audit/, or mend it; the server goes on by itself",
            ),
            Self::NoLease => (
                "they are answered 503 now: this node has no lease",
                "mend what is said above of the database, the clock or this node. If nothing is, it copies the database: its log says so. \
                 It goes on by itself",
            ),
        };
        Finding::fail("lookups", message.to_owned(), advice)
    }
}

/// For metrics.
impl Measured for LookupStatus {
    fn families(&self) -> Measuring<'_> {
        Box::pin(async {
            let lookups = self.now();
            let mut from = Family::new(
                "contactd_lookups_answered_from",
                MetricKind::Gauge,
                "1 for where lookups are answered from: a table in memory, its file, or the store itself.",
            );
            for (name, place) in [("memory", Place::Memory), ("file", Place::File), ("store", Place::Store)] {
                from = from.with(&[("place", name)], u64::from(place == lookups.answered_from));
            }
            let changed = "Places of profiles that were changed since the lookup table was made.";
            vec![
                from,
                Family::gauge(
                    "contactd_lookup_table_bytes",
                    "Size of the lookup table.",
                    lookups.table_bytes,
                ),
                Family::gauge("contactd_lookup_table_changed", changed, lookups.changed_since),
            ]
        })
    }
}
