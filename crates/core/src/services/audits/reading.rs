//! Reading requests and actions, from the index or from the journal itself.

use super::indexing::catch_up;
use super::roots;
use crate::services::{AuditError, IndexState, Parts};
use crate::store::{AuditFilter, AuditIndex, Facts};
use crate::{
    AdminRecord, AuditOutcome, AuditPosition, AuditRecord, JournalFiles, JournalLine, NOT_RECORDED, Roots,
    Timestamp,
};

/// Where requests are read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The index, which is fast.
    #[default]
    Index,
    /// The journal itself.
    Journal,
}

/// Reads requests and actions: from the index or, if that cannot be brought up to date, from this node's journal.
pub(in crate::services) struct Reader<'a, S> {
    parts: &'a Parts<S>,
    /// Problems with the index.
    pub(super) state: IndexState,
    /// What is needed to read the journal itself.
    journal: Option<(Roots, Corrections)>,
}

impl<'a, S: AuditIndex + Facts> Reader<'a, S> {
    /// Indexes everything that is in the journal now, or gets ready to read the journal itself.
    pub(in crate::services) async fn ready(
        parts: &'a Parts<S>,
        source: ReadFrom,
    ) -> Result<Self, AuditError> {
        let unusable = match source {
            ReadFrom::Index => match catch_up(parts).await {
                Ok(state) => return Ok(Self { parts, state, journal: None }),
                Err(error) => Some(error.to_string()),
            },
            ReadFrom::Journal => None,
        };
        let roots = roots(parts).await?;
        let corrections = corrections(&*parts.journal, &roots)?;
        let state = IndexState { is_lost: false, unusable };
        Ok(Self { parts, state, journal: Some((roots, corrections)) })
    }

    /// Visits every request that matches, those of each node oldest first. `visit` returns whether to continue.
    pub(in crate::services) async fn visit(
        &self,
        filter: &AuditFilter,
        mut visit: impl FnMut(AuditRecord) -> bool + Send,
    ) -> Result<(), AuditError> {
        let Some((roots, corrections)) = &self.journal else {
            return Ok(self.parts.store.visit_audit(filter, visit).await?);
        };
        let mut lines = self.parts.journal.lines_after(AuditPosition::default(), roots);
        while let Some(line) = lines.read()? {
            let JournalLine::Request(record) = line else { continue };
            let record = corrected(record, &corrections.undisclosed);
            if filter.matches(&record) && !visit(record) {
                break;
            }
        }
        Ok(())
    }

    /// The administrative actions between two times, those of each node in order.
    pub(in crate::services) async fn list_admin(
        &self,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<Vec<AdminRecord>, AuditError> {
        let Some((roots, _)) = &self.journal else {
            return Ok(self.parts.store.list_admin(since, until).await?);
        };
        let mut lines = self.parts.journal.lines_after(AuditPosition::default(), roots);
        let mut found = Vec::new();
        while let Some(line) = lines.read()? {
            if let JournalLine::Admin(record) = line
                && since.is_none_or(|since| record.entry.time >= since)
                && until.is_none_or(|until| record.entry.time < until)
            {
                found.push(record);
            }
        }
        Ok(found)
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

pub(super) fn corrections(journal: &dyn JournalFiles, roots: &Roots) -> Result<Corrections, AuditError> {
    let mut lines = journal.lines_after(AuditPosition::default(), roots);
    let mut found = Corrections::default();
    while let Some(line) = lines.read()? {
        match line {
            JournalLine::Undisclosed { from, through } => found.undisclosed.push((from, through)),
            JournalLine::Retired { through } => found.retired_through = found.retired_through.max(through),
            _ => {}
        }
    }
    Ok(found)
}
