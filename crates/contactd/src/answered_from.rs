//! Where the lookups of a running server are answered from: for metrics, and for commands, which ask it on `control.sock`.

use std::sync::Arc;

use anyhow::Context as _;
use contactd_core::metrics::{Family, Measured, Measuring, MetricKind};
use contactd_core::{Finding, blocking};
use contactd_store_sqlite::{AnsweredFrom, TableStatus};
use serde::{Deserialize, Serialize};

use crate::control::{self, LOOKUPS};
use crate::data_dir::DataDir;
use crate::engine::Files;

/// The lookup table of a running server.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lookups {
    /// Where lookups are answered from.
    answered_from: Place,
    /// The size of the table.
    table_bytes: u64,
    /// What it holds: one record is for one profile and kind.
    table_records: u64,
    /// Places of profiles that were changed since it was made.
    changed_since: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    Memory,
    File,
    Store,
}

impl Lookups {
    /// Those of this process.
    pub(crate) fn of(files: &Files) -> Self {
        let TableStatus { from, bytes, records, changed } = files.table_status();
        let answered_from = match from {
            AnsweredFrom::Memory => Place::Memory,
            AnsweredFrom::File => Place::File,
            AnsweredFrom::Store => Place::Store,
        };
        Self { answered_from, table_bytes: bytes, table_records: records, changed_since: changed as u64 }
    }

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

    /// For `doctor`.
    pub(crate) fn finding(&self) -> Finding {
        let message = format!("answered from {}", self.words());
        match self.answered_from {
            Place::Memory | Place::File => Finding::ok("lookups", message),
            Place::Store => Finding::warn(
                "lookups",
                message,
                "lookups cost more until it is made; if this stays so, the log of the server says why",
            ),
        }
    }
}

/// For metrics.
pub(crate) struct LookupMeasures(pub(crate) Arc<Files>);

impl Measured for LookupMeasures {
    fn families(&self) -> Measuring<'_> {
        Box::pin(async {
            let lookups = Lookups::of(&self.0);
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
