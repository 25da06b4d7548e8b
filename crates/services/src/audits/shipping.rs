//! Shipping this node's journal: its signed lines are copied to the database that the nodes share.

use contactd_core::store::CopyStep;
use contactd_core::{SignedLine, Timestamp};
use contactd_journal::{JournalError, Lines};

use super::roots;
use crate::{AuditError, Audits};

/// A step ends with the first checkpoint after this many lines, so that a copy ends with a signature.
const LINES_PER_STEP: usize = 2_000;
/// It ends anyway after this many, so that memory is bounded.
const MOST_LINES: usize = 100_000;

/// What a step has shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// The number of the last line that is copied now.
    pub through: u64,
    /// Whether there may be more.
    pub has_more: bool,
}

impl Audits {
    /// Copies some of the lines that are signed and not copied yet. `lines` keeps where the last call stopped; `None` at first.
    /// Returns `None` if the store keeps no copies.
    pub async fn ship_some(&self, lines: &mut Option<Lines>) -> Result<Option<Shipped>, AuditError> {
        let (store, node) = (&self.parts.store, self.parts.node());
        loop {
            let Some(from) = store.copy_position(node).await? else { return Ok(None) };
            let mut reading = match lines.take() {
                Some(lines) if lines.position() == from => lines,
                _ => self.parts.journal.signed_after(from, &roots(&self.parts).await?),
            };
            let batch = match read_batch(&mut reading) {
                Err(JournalError::Changed { .. }) => {
                    tracing::error!(
                        "the audit journal is not as it was when it was shipped to the database: lines were changed or removed, \
                         or a disk lost them. What was shipped is kept, and another copy begins; `contactd audit verify` says more"
                    );
                    store.begin_journal_copy(node).await?;
                    continue;
                }
                batch => batch?,
            };
            let to = reading.position();
            if to == from {
                *lines = Some(reading);
                return Ok(Some(Shipped { through: from.seq, has_more: false }));
            }
            let seals = match (from.seq, batch.first()) {
                (0, Some(first)) => self.seals_before(first.seq)?,
                _ => Vec::new(),
            };
            for list in batch.iter().filter_map(|line| line.list.as_deref()) {
                self.parts.ship_list_of_line(list).await?;
            }
            let step = CopyStep { node, from, to, lines: &batch, seals: &seals };
            if store.add_to_copy(step).await? {
                if batch.iter().any(|line| line.retires.is_some()) {
                    while store.trim_copy(node).await? {}
                }
                *lines = Some(reading);
                return Ok(Some(Shipped { through: to.seq, has_more: batch.len() >= LINES_PER_STEP }));
            }
        }
    }

    /// Whether the lines up to this number may be removed from the journal: they are copied, or the store keeps no copies.
    pub async fn is_shipped(&self, through: u64) -> Result<bool, AuditError> {
        let position = self.parts.store.copy_position(self.parts.node()).await?;
        Ok(position.is_none_or(|position| position.seq >= through))
    }

    /// Accepts that the journal is not the one that was shipped: removes what does not belong to it.
    pub(super) async fn accept_lost_copy(&self) -> Result<(), AuditError> {
        let (store, node) = (&self.parts.store, self.parts.node());
        let Some(shipped) = store.copy_position(node).await? else { return Ok(()) };
        let mut lines = self.parts.journal.signed_after(shipped, &roots(&self.parts).await?);
        if let Err(JournalError::Changed { .. }) = lines.read_signed() {
            store.begin_journal_copy(node).await?;
        }
        Ok(store.remove_earlier_copies(node).await?)
    }

    /// Journals from before this time, less what the operator keeps, may be removed for good.
    pub async fn removal_time(&self) -> Result<Timestamp, AuditError> {
        Ok(self.parts.removal_time().await?)
    }

    /// Removes copies to which nothing was added since this time and never will be, and from the index what they had proven. Usage
    /// counts stay.
    pub async fn remove_old_copies(&self, before: Timestamp) -> Result<(), AuditError> {
        let store = &self.parts.store;
        let had = store.list_copies().await?;
        store.remove_old_copies(before).await?;
        let left = store.list_copies().await?;
        for gone in had.iter().filter(|gone| left.iter().all(|copy| copy.node != gone.node)) {
            store.reset_audit_index(&gone.node, i64::MAX).await?;
        }
        Ok(())
    }

    /// The seals whose lines had been removed before the first line was copied.
    fn seals_before(&self, first: u64) -> Result<Vec<(u64, String)>, AuditError> {
        Ok(self.parts.journal.seals()?.into_iter().filter(|(seq, _)| *seq < first).collect())
    }
}

/// Reads up to a checkpoint.
fn read_batch(lines: &mut Lines) -> Result<Vec<SignedLine>, JournalError> {
    let mut batch: Vec<SignedLine> = Vec::new();
    while let Some(line) = lines.read_signed()? {
        let is_end =
            (line.is_checkpoint && batch.len() + 1 >= LINES_PER_STEP) || batch.len() + 1 >= MOST_LINES;
        batch.push(line);
        if is_end {
            break;
        }
    }
    Ok(batch)
}
