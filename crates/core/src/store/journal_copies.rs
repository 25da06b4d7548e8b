//! Copies of the journals of nodes, in the database that the nodes share.

use async_trait::async_trait;

use crate::store::{EntryPlace, Stored};
use crate::{AuditPosition, ShortDigest, SignedLine, Timestamp};

/// Copies of journals, line by line as they were written. A node ships its journal in steps, each of which begins where the
/// one before ended and is stored whole or not at all. So every line is there once, whenever the node was killed.
///
/// A store that only one process uses keeps no copies: that is what the methods do that an engine does not implement.
#[async_trait]
pub trait JournalCopies: Send + Sync + 'static {
    /// How far the journal of a node is copied; `None` if this store keeps no copies.
    async fn copy_position(&self, _node: &str) -> Stored<Option<AuditPosition>> {
        Ok(None)
    }

    /// Adds lines to the copy of a node, if it still ends where the step begins. Returns whether it ends where the step ends.
    async fn add_to_copy(&self, _step: CopyStep<'_>) -> Stored<bool> {
        Ok(false)
    }

    /// Begins another copy of the journal of a node, which does not continue the last one. That one is kept.
    async fn begin_journal_copy(&self, _node: &str) -> Stored<()> {
        Ok(())
    }

    /// Removes some of the lines that a node has removed from its journal after their retention period. Returns whether there
    /// may be more.
    async fn trim_copy(&self, _node: &str) -> Stored<bool> {
        Ok(false)
    }

    /// Removes the copies of a node before its last one.
    async fn remove_earlier_copies(&self, _node: &str) -> Stored<()> {
        Ok(())
    }

    /// Removes copies to which nothing was added since this time and never will be: those of nodes that are not in the cluster
    /// any more, and those before the last one of a node.
    async fn remove_old_copies(&self, _before: Timestamp) -> Stored<()> {
        Ok(())
    }

    /// All copies, those of a node in the order in which they were begun.
    async fn list_copies(&self) -> Stored<Vec<ShippedJournal>> {
        Ok(Vec::new())
    }

    /// The number of the first line of each segment of a copy, in order.
    async fn copied_segments(&self, _copy: i32) -> Stored<Vec<u64>> {
        Ok(Vec::new())
    }

    /// At most `most` lines of a copy, in order, from this number on.
    async fn copied_lines(&self, _copy: i32, _from: u64, _most: u32) -> Stored<Vec<CopiedLine>> {
        Ok(Vec::new())
    }

    /// Adds a part of a list file. The parts are added from the last one to the first, so that a list is whole once its part 0 is
    /// there. A part that is there stays, and counts as new.
    async fn add_list_part(&self, _list: &str, _part: u32, _digests: &[u8]) -> Stored<()> {
        Ok(())
    }

    /// A part of a list file.
    async fn list_part(&self, _list: &str, _part: u32) -> Stored<Option<Vec<u8>>> {
        Ok(None)
    }

    /// The names of the lists with one of these digests; `None` if this store keeps no lists.
    async fn lists_with(&self, _digests: &[ShortDigest]) -> Stored<Option<Vec<String>>> {
        Ok(None)
    }

    /// The names of the lists that were added before this time.
    async fn lists_before(&self, _time: Timestamp) -> Stored<Vec<String>> {
        Ok(Vec::new())
    }

    /// Removes a list.
    async fn remove_list(&self, _list: &str) -> Stored<()> {
        Ok(())
    }

    /// Where these entries of administrative actions seem to be, by their ids: among the last lines of the last copies.
    async fn find_copied(&self, _ids: &[String]) -> Stored<Vec<EntryPlace>> {
        Ok(Vec::new())
    }

    /// The copies of the seals, in order.
    async fn copied_seals(&self, _copy: i32) -> Stored<Vec<String>> {
        Ok(Vec::new())
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
