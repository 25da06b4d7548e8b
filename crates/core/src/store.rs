//! The traits that a storage engine implements.
//!
//! These traits use only our own types: no SQL, no row and no driver error leaves an engine. Guarantees that a
//! signature cannot express are documented on the method and tested by the conformance suite
//! (`contactd-testing`), which every engine runs.
//!
//! [`LocalRead`] is the read side of a lookup: it runs on the thread that serves the request and waits for
//! nothing. Everything else is async, and the services have it as `Arc<dyn Store>`. An engine that blocks does so
//! where it may: a caller just awaits.
//!
//! A method that writes details waits about half a second for another writer, then returns
//! [`StoreError::Busy`]: nothing has changed, and the caller decides whether to try again.

mod access;
mod accounts;
mod audit;
pub mod copying;
mod details;
mod entities;
mod imports;
mod journal_copies;
mod local;
mod machine;
mod maintenance;
pub mod merge;
pub mod moving;
mod outbox;
pub mod place;
mod retention;
pub mod sealing;
mod tokens;
mod withdrawals;

pub use access::{DayHits, Suppressions, Usage};
pub use accounts::{Accounts, accounts_of};
pub use audit::{
    ActionFilter, AuditFilter, AuditIndex, AuditUsage, EntryPlace, IndexStep, IndexedLine, RequestFilter,
    VisitLines,
};
pub use details::{
    Aged, DetailFilter, DetailTotal, Details, ScanLimits, SweepPlan, Swept, Totals, VisitDetails,
};
pub use entities::{Decide, Entities, EntityRow, EntityTable};
pub use imports::{
    Crowd, FormerDetail, FormerTotal, Import, ImportPlan, ImportSummary, Importing, MOST_VALUES, PastImport,
    PutCounts, Undo, Undone, ValueOfProfile, WithdrawnFrom, surplus,
};
pub use journal_copies::{CopiedLine, CopyStep, JournalCopies, ShippedJournal};
pub use local::{LocalRead, Verdict};
pub use machine::{JournalEnd, Machine};
pub use maintenance::{ChangeNumbers, Changes, Facts, Maintenance, PartSize};
pub use outbox::{Noted, Outbox};
pub use retention::{NextEnding, SourceRetention};
pub use tokens::Tokens;
pub use withdrawals::{TakenOver, Withdrawals};

/// Why the engine failed. The text describes the fault and never contains row data.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The engine failed.
    #[error("store: {0}")]
    Engine(String),
    /// The stored data is damaged; the text says what to do.
    #[error("store: {0}")]
    Damaged(String),
    /// The store was written by a newer version.
    #[error("the store has schema {found}, this version knows {known}: use a newer contactd")]
    SchemaTooNew {
        /// The schema of the store.
        found: u32,
        /// The newest schema that this version knows.
        known: u32,
    },
    /// Another writer took too long. Nothing has changed.
    #[error("the store is busy: another command is writing; try again when it has finished")]
    Busy,
    /// The engine cannot be reached, or cannot read or write now. Callers get a 503. The text says what to do.
    #[error("the store cannot be used now: {0}")]
    Unavailable(String),
    /// The engine stopped answering while it committed. The change was made once or not at all.
    #[error(
        "the outcome is unknown, and it is safe to repeat: the store stopped answering while it stored the change ({0})"
    )]
    OutcomeUnknown(String),
    /// The entry of a change for the journal is not in the outbox after it was added to it. Nothing has changed.
    #[error(
        "nothing was changed: the store does not keep the entry of this change for the audit journal. Look for rules and triggers \
         on its table outbox"
    )]
    NotNoted,
    /// Somebody changed rows of the database; the text says which, and what to do.
    #[error("{0}")]
    Tampered(String),
    /// It is done in the store, and these nodes of a cluster have not done it in their files. They do it before they answer lookups
    /// again.
    #[error("these nodes have not done it in their files: {}", .0.join(", "))]
    Pending(Vec<String>),
}

/// What an engine answers, or why it failed.
pub type Stored<T> = Result<T, StoreError>;

/// Everything an engine implements, apart from [`LocalRead`].
pub trait Store:
    Details
    + Importing
    + Tokens
    + Accounts
    + Suppressions
    + Usage
    + AuditIndex
    + JournalCopies
    + Outbox
    + Facts
    + Changes
    + Maintenance
{
}
