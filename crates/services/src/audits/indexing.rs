//! Keeping the index up to date.

use contactd_core::store::{IndexStep, StoreError};
use contactd_core::{AdminRecord, AuditPosition, AuditRecord, Chain, Timestamp, blocking};
use contactd_journal::{Entry, JournalError, JournalReader, KnownLine, Lines, Mark};

use super::roots;
use crate::{AuditError, Audits, IndexState, Parts};

/// How many lines are indexed together.
pub(super) const BATCH: usize = 5_000;

impl Audits {
    /// Indexes some of the lines that are not indexed yet. `lines` keeps where the last call stopped; `None` at first.
    /// Returns whether there may be more.
    pub async fn index_some(&self, lines: &mut Option<Lines>) -> Result<bool, AuditError> {
        Ok(index_some(&self.parts, lines).await? == BATCH)
    }

    /// Removes the lines up to this number from the index, because the journal no longer keeps them.
    pub async fn forget(&self, through: u64) -> Result<(), AuditError> {
        Ok(self.parts.store.forget_audit(self.parts.node(), through).await?)
    }
}

/// Indexes everything that is in the journal now.
pub(super) async fn catch_up(parts: &Parts) -> Result<IndexState, AuditError> {
    let mut lines = None;
    while index_some(parts, &mut lines).await? == BATCH {}
    Ok(IndexState { is_lost: lost_line(parts).await?.is_some(), unusable: None })
}

/// Indexes up to [`BATCH`] lines; returns how many.
async fn index_some(parts: &Parts, kept: &mut Option<Lines>) -> Result<usize, AuditError> {
    loop {
        let from = parts.store.audit_position(parts.node()).await?;
        let lines = match kept.take() {
            Some(lines) if lines.position() == from => lines,
            _ => parts.journal.lines_after(from, &roots(parts).await?),
        };
        let lines = kept.insert(lines);
        let batch = Batch::read(lines);
        if let Err(JournalError::Changed { .. }) = batch {
            tracing::error!(
                "the audit journal is not as it was when it was indexed: lines were changed or removed, or a disk lost \
                 them; `contactd audit verify` says more"
            );
            // Remember the last indexed line, so that `verify` reports it as missing.
            if let Some(machine) = &parts.machine {
                machine.note_lost_line(from.seq, Chain(from.chain)).await?;
            }
            // From a journal that is not whole, an index would lack what can be put back.
            if !parts.journal.verify(&[], &roots(parts).await?)?.is_whole() {
                batch?;
            }
            reset_index(parts, parts.node(), &parts.journal).await?;
            continue;
        }
        let (batch, to) = (batch?, lines.position());
        // If another process has indexed these lines, continue from its position.
        if to == from || parts.store.index_audit(batch.step(parts.node(), from, to)).await? {
            return Ok(batch.lines);
        }
    }
}

/// Removes the lines of a node from the index, so that they are indexed again.
pub(super) async fn reset_index(
    parts: &Parts,
    node: &str,
    journal: &JournalReader,
) -> Result<(), AuditError> {
    let first_day = journal.begins()?.map_or(i64::MIN, Timestamp::day);
    Ok(parts.store.reset_audit_index(node, first_day).await?)
}

/// A line that was indexed and is missing from this machine's journal.
pub(super) async fn lost_line(parts: &Parts) -> Result<Option<(u64, Chain)>, StoreError> {
    match &parts.machine {
        Some(machine) => machine.lost_line().await,
        None => Ok(None),
    }
}

/// Lines that are indexed together.
#[derive(Default)]
pub(super) struct Batch {
    /// How many they are.
    pub(super) lines: usize,
    records: Vec<AuditRecord>,
    admin: Vec<AdminRecord>,
    undisclosed: Vec<(u64, u64)>,
}

impl Batch {
    /// Reads up to [`BATCH`] lines.
    pub(super) fn read(lines: &mut Lines) -> Result<Self, JournalError> {
        blocking(|| {
            let mut batch = Self::default();
            while batch.lines < BATCH
                && let Some(line) = lines.read()?
            {
                batch.lines += 1;
                match line.entry {
                    Entry::Request(record) => batch.records.push(record),
                    Entry::Admin(record) => batch.admin.push(*record),
                    Entry::Mark(Mark::Undisclosed { from, through }) => {
                        batch.undisclosed.push((from, through));
                    }
                    Entry::Mark(_) => {}
                }
            }
            Ok(batch)
        })
    }

    pub(super) fn step<'a>(&'a self, node: &'a str, from: AuditPosition, to: AuditPosition) -> IndexStep<'a> {
        let Self { records, admin, undisclosed, .. } = self;
        IndexStep { node, records, admin, undisclosed, from, to }
    }
}

/// Lines that the index knows and the journal must contain.
pub(crate) async fn known_from_index(parts: &Parts) -> Result<Vec<KnownLine>, AuditError> {
    let mut known = Vec::new();
    let indexed = parts.store.audit_position(parts.node()).await?;
    if indexed.seq > 0 {
        known.push(KnownLine { seq: indexed.seq, chain: Chain(indexed.chain), how: "had been indexed" });
    }
    if let Some((seq, chain)) = lost_line(parts).await? {
        known.push(KnownLine { seq, chain, how: "had been indexed, before the index was rebuilt" });
    }
    Ok(known)
}
