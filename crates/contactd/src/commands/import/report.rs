//! What an import did, for people and for scripts.

use std::collections::{BTreeMap, BTreeSet};

use contactd_core::RecordError;
use contactd_core::store::{ImportSummary, PutCounts};
use serde::Serialize;

use crate::output;

/// How many rejected rows are named.
const EXAMPLES: usize = 10;

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Whether it was carried out: not if there were too many rejects, nor in a dry run.
    pub(crate) committed: bool,
    pub(crate) rows: u64,
    profiles_new: u64,
    profiles_changed: u64,
    details_new: u64,
    details_changed: u64,
    details_unchanged: u64,
    /// Details that a replaced source no longer holds.
    details_withdrawn: u64,
    /// Details that were skipped because their person, number or address has opted out.
    pub(crate) suppressed: u64,
    pub(crate) rejected: u64,
    rejected_by_reason: BTreeMap<&'static str, u64>,
    examples: Vec<Example>,
}

#[derive(Serialize)]
struct Example {
    file: String,
    line: u64,
    column: &'static str,
    reason: &'static str,
}

impl Report {
    pub(crate) fn add(&mut self, counts: PutCounts) {
        self.profiles_new += counts.profiles_new;
        self.profiles_changed += counts.profiles_changed;
        self.details_new += counts.new;
        self.details_changed += counts.changed;
        self.details_unchanged += counts.unchanged;
        self.details_withdrawn += counts.withdrawn;
    }

    /// Counts details as suppressed that were counted as new.
    pub(crate) fn take_back(&mut self, taken: PutCounts) {
        self.suppressed += taken.new;
        self.details_new -= taken.new;
        self.profiles_new -= taken.profiles_new;
    }

    pub(crate) fn reject(&mut self, file: &str, line: u64, error: RecordError) {
        self.rejected += 1;
        *self.rejected_by_reason.entry(error.reason).or_default() += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(Example {
                file: file.to_owned(),
                line,
                column: error.column,
                reason: error.reason,
            });
        }
    }

    pub(crate) fn summary(&self, sources: BTreeSet<String>) -> ImportSummary {
        ImportSummary {
            source: Vec::from_iter(sources).join(", "),
            rows: self.rows,
            rejected: self.rejected,
            suppressed: self.suppressed,
            counts: PutCounts {
                profiles_new: self.profiles_new,
                profiles_changed: self.profiles_changed,
                new: self.details_new,
                changed: self.details_changed,
                unchanged: self.details_unchanged,
                withdrawn: self.details_withdrawn,
            },
        }
    }

    pub(crate) fn show(&self, dry_run: bool) -> anyhow::Result<()> {
        if dry_run {
            output::words(format_args!("A dry run: nothing was changed."));
        }
        for (what, count) in [
            ("rows read", self.rows),
            ("profiles new", self.profiles_new),
            ("profiles changed", self.profiles_changed),
            ("details new", self.details_new),
            ("details changed", self.details_changed),
            ("details unchanged", self.details_unchanged),
            ("details withdrawn", self.details_withdrawn),
            ("details suppressed", self.suppressed),
            ("rows rejected", self.rejected),
        ] {
            output::data(format_args!("{what:<22}{count:>10}"))?;
        }
        for (reason, count) in &self.rejected_by_reason {
            output::data(format_args!("  {reason:<20}{count:>10}"))?;
        }
        for Example { file, line, column, reason } in &self.examples {
            output::data(format_args!("  {file}, line {line}, {column}: {reason}"))?;
        }
        Ok(())
    }
}
