//! Copies of the journals of nodes, in the database that the nodes share.

use crate::store::{StoreError, StoreFuture};
use crate::{AuditPosition, SignedLine, Timestamp};

/// Copies of journals, line by line as they were written. A node ships its journal in steps, each of which begins where the
/// one before ended and is stored whole or not at all. So every line is there once, whenever the node was killed.
///
/// A store that only one process uses keeps no copies: that is what the methods do that an engine does not implement.
pub trait JournalCopies: Send + Sync + 'static {
    /// How far the journal of a node is copied; `None` if this store keeps no copies.
    fn copy_position(&self, _node: &str) -> impl StoreFuture<Option<AuditPosition>> {
        async { Ok::<Option<AuditPosition>, StoreError>(None) }
    }

    /// Adds lines to the copy of a node, if it still ends where the step begins. Returns whether it ends where the step ends.
    fn add_to_copy(&self, _step: CopyStep<'_>) -> impl StoreFuture<bool> {
        async { Ok::<bool, StoreError>(false) }
    }

    /// Begins another copy of the journal of a node, which does not continue the last one. That one is kept.
    fn begin_journal_copy(&self, _node: &str) -> impl StoreFuture<()> {
        async { Ok::<(), StoreError>(()) }
    }

    /// Removes some of the lines that a node has removed from its journal after their retention period. Returns whether there
    /// may be more.
    fn trim_copy(&self, _node: &str) -> impl StoreFuture<bool> {
        async { Ok::<bool, StoreError>(false) }
    }

    /// Removes the copies of a node before its last one.
    fn remove_earlier_copies(&self, _node: &str) -> impl StoreFuture<()> {
        async { Ok::<(), StoreError>(()) }
    }

    /// Removes copies to which nothing was added since this time and never will be: those of nodes that are not in the cluster
    /// any more, and those before the last one of a node.
    fn remove_old_copies(&self, _before: Timestamp) -> impl StoreFuture<()> {
        async { Ok::<(), StoreError>(()) }
    }

    /// All copies, those of a node in the order in which they were begun.
    fn list_copies(&self) -> impl StoreFuture<Vec<ShippedJournal>> {
        async { Ok::<Vec<ShippedJournal>, StoreError>(Vec::new()) }
    }

    /// The number of the first line of each segment of a copy, in order.
    fn copied_segments(&self, _copy: i32) -> impl StoreFuture<Vec<u64>> {
        async { Ok::<Vec<u64>, StoreError>(Vec::new()) }
    }

    /// At most `most` lines of a copy, in order, from this number on.
    fn copied_lines(&self, _copy: i32, _from: u64, _most: u32) -> impl StoreFuture<Vec<CopiedLine>> {
        async { Ok::<Vec<CopiedLine>, StoreError>(Vec::new()) }
    }

    /// The copies of the seals, in order.
    fn copied_seals(&self, _copy: i32) -> impl StoreFuture<Vec<String>> {
        async { Ok::<Vec<String>, StoreError>(Vec::new()) }
    }
}

/// Lines to add to the copy of a node's journal.
#[derive(Clone, Copy, Debug)]
pub struct CopyStep<'a> {
    /// The node.
    pub node: &'a str,
    /// The position where reading began.
    pub from: AuditPosition,
    /// The position where it ended.
    pub to: AuditPosition,
    /// The lines between them.
    pub lines: &'a [SignedLine],
    /// Seals of lines that were removed from the journal before they could be copied.
    pub seals: &'a [(u64, String)],
}

/// A line of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedLine {
    /// The number under which it is stored.
    pub seq: u64,
    /// Whether it is the first line of a segment.
    pub begins_segment: bool,
    /// Its text.
    pub text: String,
}

/// A copy of the journal of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShippedJournal {
    /// The id of the copy.
    pub copy: i32,
    /// The id of the node.
    pub node: String,
    /// The name of the node, when it shipped last.
    pub name: String,
    /// How far it goes.
    pub position: AuditPosition,
    /// When something was last added to it.
    pub shipped_at: Timestamp,
    /// Whether it is the last one of its node, to which lines are added.
    pub is_last: bool,
}
