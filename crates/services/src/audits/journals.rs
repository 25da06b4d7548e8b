//! The journals themselves: this node's own, and the copies of the others.

use std::sync::Arc;

use contactd_core::store::{ShippedJournal, Store};
use contactd_core::{AuditPosition, Timestamp};
use contactd_journal::{JournalReader, Roots};
use serde::Serialize;

use super::{AuditError, roots};
use crate::Parts;

/// A node, by its id and its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeName {
    /// Its id.
    pub node: String,
    /// Its name.
    pub name: String,
}

/// The copy of a journal with this id. If reading begins at a position, the lines before it need not be read.
pub(super) fn copy_of(parts: &Parts, copy: i32, position: AuditPosition) -> JournalReader {
    JournalReader::of_copy(Arc::<dyn Store>::clone(&parts.store), copy, position)
}

/// This node's journal, and those that other nodes have shipped, each with the roots that are trusted.
pub(super) async fn all(parts: &Parts) -> Result<Vec<(JournalReader, Roots)>, AuditError> {
    let mut journals = vec![(parts.journal.clone(), roots(parts).await?)];
    for copy in of_others(parts).await? {
        journals.push((copy_of(parts, copy.copy, AuditPosition::default()), Roots::default()));
    }
    Ok(journals)
}

/// Since when every disclosure is on record; `None` if nothing is. That is when the first journal begins. Where lines were removed
/// after their retention period, it is the time up to which that was done.
pub(crate) async fn known_since(parts: &Parts) -> Result<Option<Timestamp>, AuditError> {
    let mut journals = vec![(parts.journal.first_line()?, parts.journal.begins()?)];
    for copy in of_others(parts).await? {
        let first = parts.store.copied_segments(copy.copy).await?.first().copied();
        journals.push((first, copy_of(parts, copy.copy, AuditPosition::default()).begins()?));
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
