//! The journals themselves: this node's own, and the copies of the others.

use std::sync::Arc;

use super::copies::files_of;
use super::{AuditError, roots};
use crate::services::Parts;
use crate::store::ShippedJournal;
use crate::{AuditPosition, CopiedFiles, JournalFiles, JournalLines, Roots, Timestamp};

/// A journal that can be read from its beginning.
pub(super) enum ReadableJournal {
    /// This node's own.
    Own(Arc<dyn JournalFiles>, Roots),
    /// The copy of another node's.
    Copy(Box<dyn CopiedFiles>),
}

impl ReadableJournal {
    /// All of its lines.
    pub(super) fn lines(&self) -> Box<dyn JournalLines> {
        match self {
            Self::Own(files, roots) => files.lines_after(AuditPosition::default(), roots),
            Self::Copy(files) => files.lines_after(AuditPosition::default(), &Roots::default()),
        }
    }
}

/// This node's journal, and those that other nodes have shipped.
pub(super) async fn all(parts: &Parts) -> Result<Vec<ReadableJournal>, AuditError> {
    let mut journals = vec![ReadableJournal::Own(Arc::clone(&parts.journal), roots(parts).await?)];
    for copy in of_others(parts).await? {
        journals.push(ReadableJournal::Copy(files_of(parts, copy.copy, AuditPosition::default())));
    }
    Ok(journals)
}

/// Since when every disclosure is on record; `None` if nothing is. That is when the first journal begins. Where lines were removed
/// after their retention period, it is the time up to which that was done.
pub(in crate::services) async fn known_since(parts: &Parts) -> Result<Option<Timestamp>, AuditError> {
    let mut journals = vec![(parts.journal.first_line()?, parts.journal.begins()?)];
    for copy in of_others(parts).await? {
        let first = parts.store.copied_segments(copy.copy).await?.first().copied();
        journals.push((first, files_of(parts, copy.copy, AuditPosition::default()).begins()?));
    }
    let removed = journals.iter().filter(|(first, _)| first.is_some_and(|first| first > 1));
    let removed = removed.filter_map(|(_, begins)| *begins).max();
    Ok(removed.or_else(|| journals.iter().filter_map(|(_, begins)| *begins).min()))
}

/// The journals that other nodes have shipped.
pub(super) async fn of_others(parts: &Parts) -> Result<Vec<ShippedJournal>, AuditError> {
    let mut copies = parts.store.list_copies().await?;
    copies.retain(|copy| copy.is_last && copy.node != parts.node());
    Ok(copies)
}
