//! Reading requests and actions, from the index or from the journal itself.

use std::collections::BTreeMap;

use contactd_core::store::{AuditFilter, IndexedLine};
use contactd_core::{AuditOutcome, AuditPosition, AuditRecord, NOT_RECORDED, blocking};
use contactd_journal::{Entry, JournalReader, Mark, Roots};

use super::copies;
use super::copies::{IndexedJournal, index_copies};
use super::indexing::{catch_up, lost_line};
use crate::{AuditError, IndexState, Parts};

/// Where requests are read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The index, which is fast.
    #[default]
    Index,
    /// The journal itself: this node's own, and what other nodes have shipped of theirs.
    Journal,
}

/// Reads requests and actions: from the index or, if that cannot be brought up to date, from the journals.
pub(crate) struct Reader<'a> {
    parts: &'a Parts,
    /// Problems with the index.
    pub(super) state: IndexState,
    /// The journals themselves, if they are read instead.
    journals: Option<Vec<(JournalReader, Roots, Corrections)>>,
}

impl<'a> Reader<'a> {
    /// Indexes everything that is in the journal now, or gets ready to read the journal itself.
    pub(crate) async fn ready(parts: &'a Parts, source: ReadFrom) -> Result<Self, AuditError> {
        let unusable = match source {
            ReadFrom::Index => match up_to_date(parts).await {
                Ok(state) => return Ok(Self { parts, state, journals: None }),
                Err(error) => Some(error.to_string()),
            },
            ReadFrom::Journal => None,
        };
        let mut journals = Vec::new();
        for IndexedJournal { journal, roots, .. } in copies::all(parts).await? {
            let corrections = corrections(&journal, &roots)?;
            journals.push((journal, roots, corrections));
        }
        let state = IndexState { is_lost: lost_line(parts).await?.is_some(), unusable };
        Ok(Self { parts, state, journals: Some(journals) })
    }

    /// Reads what is indexed.
    pub(super) fn of_index(parts: &'a Parts) -> Self {
        Self { parts, state: IndexState::default(), journals: None }
    }

    /// Visits every line that matches, newest first. Without the index, it keeps as many lines in memory as
    /// `filter.newest` says, or all that match. `visit` returns whether to continue.
    pub(crate) async fn newest(
        &self,
        filter: &AuditFilter,
        mut visit: impl FnMut(IndexedLine) -> bool + Send,
    ) -> Result<(), AuditError> {
        if self.journals.is_none() {
            return Ok(self.parts.store.visit_audit(filter, &mut visit).await?);
        }
        let most = filter.newest.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        let mut newest = BTreeMap::new();
        let keep = |line: IndexedLine| {
            newest.insert((line.at(), line.seq(), line.node().to_owned()), line);
            if newest.len() > most {
                newest.pop_first();
            }
        };
        self.each(filter, keep).await?;
        let _ = newest.into_values().rev().all(&mut visit);
        Ok(())
    }

    /// Visits every line that matches, in any order, without keeping any in memory.
    pub(crate) async fn each(
        &self,
        filter: &AuditFilter,
        mut visit: impl FnMut(IndexedLine) + Send,
    ) -> Result<(), AuditError> {
        let Some(journals) = &self.journals else {
            let mut visit = |line| {
                visit(line);
                true
            };
            return Ok(self.parts.store.visit_audit(filter, &mut visit).await?);
        };
        let mut read = |journal: &JournalReader, roots: &Roots, corrections: &Corrections| {
            let mut lines = journal.lines_after(AuditPosition::default(), roots);
            while let Some(line) = lines.read()? {
                let line = match line.entry {
                    Entry::Request(record) => {
                        IndexedLine::Request(corrected(record, &corrections.undisclosed))
                    }
                    Entry::Admin(record) => IndexedLine::Admin(*record),
                    Entry::Mark(_) => continue,
                };
                if filter.matches(&line) {
                    visit(line);
                }
            }
            Ok::<(), AuditError>(())
        };
        journals
            .iter()
            .try_for_each(|(journal, roots, corrections)| blocking(|| read(journal, roots, corrections)))
    }
}

/// A request as it counts: if nothing was disclosed after all, it was refused.
pub(super) fn corrected(mut record: AuditRecord, undisclosed: &[(u64, u64)]) -> AuditRecord {
    let is_undisclosed = undisclosed.iter().any(|&(from, through)| (from..=through).contains(&record.seq));
    let refused = AuditOutcome::Refused(NOT_RECORDED).name();
    if is_undisclosed && record.outcome != refused {
        record.outcome = refused.to_owned();
        record.reason = Some(NOT_RECORDED.to_owned());
    }
    record
}

/// What later lines say about earlier ones.
#[derive(Debug, Default)]
pub(super) struct Corrections {
    /// The ranges (first, last) of lines that say hit or miss although nothing was disclosed.
    pub(super) undisclosed: Vec<(u64, u64)>,
    /// Lines up to this one are removed, or about to be.
    pub(super) retired_through: u64,
}

pub(super) fn corrections(journal: &JournalReader, roots: &Roots) -> Result<Corrections, AuditError> {
    blocking(|| {
        let mut found = Corrections::default();
        let mut lines = journal.lines_after(AuditPosition::default(), roots);
        while let Some(line) = lines.read()? {
            match line.entry {
                Entry::Mark(Mark::Undisclosed { from, through }) => found.undisclosed.push((from, through)),
                Entry::Mark(Mark::Retired { through, .. }) => {
                    found.retired_through = found.retired_through.max(through);
                }
                _ => {}
            }
        }
        Ok(found)
    })
}

/// Indexes everything that is in the journal now, and what other nodes have shipped.
pub(crate) async fn up_to_date(parts: &Parts) -> Result<IndexState, AuditError> {
    let state = catch_up(parts).await?;
    index_copies(parts).await?;
    Ok(state)
}
