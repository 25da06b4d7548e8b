//! The journal: who received what, and the check that nothing was changed.

mod copies;
mod counting;
mod following;
mod index_check;
mod indexing;
mod lists;
mod outbox;
mod paging;
mod questions;
mod reading;
mod shipping;
mod state_check;
mod usage;
mod verified;
mod verify;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) use copies::known_since;
pub use copies::{NodeName, OfNode, RootList};
pub use counting::Uncounted;
pub use following::{FollowNote, FollowPlace, Follower};
pub(super) use index_check::compared_at;
pub(super) use indexing::known_from_index;
pub use paging::AuditPlace;
pub use questions::AuditQuery;
pub use reading::ReadFrom;
pub(super) use reading::{Reader, up_to_date};
pub use shipping::Shipped;
pub(super) use usage::indexed_lookups;
pub use usage::{Days, DaysError, MOST_DAYS, by_token};
pub(super) use verified::journal_state;
pub use verified::{
    JournalState, LastVerification, VerifiedCopy, VerifiedJournals, hooks_found, unknown_node,
};
pub use verify::VerifyQuery;

use contactd_core::store::{Store, StoreError};
use contactd_core::{Actor, RootKey};
use contactd_journal::{JournalError, JournalHead, Roots};
use parking_lot::Mutex;

use crate::Parts;

/// Queries and checks the journal.
pub struct Audits {
    parts: Arc<Parts>,
    /// The entries that this process has put or found in the journal, once it knows which were there before.
    recorded: Mutex<Option<HashSet<String>>>,
}

/// Why the journal could not be queried or checked.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// There is no token with this id or name.
    #[error("there is no token `{0}`; `contactd token list` shows their ids and names")]
    UnknownToken(String),
    /// No node with this id or name has shipped its journal.
    #[error("no node `{node}` has shipped its journal; those that have: {known}")]
    UnknownNode {
        /// The id or name.
        node: String,
        /// The nodes that have.
        known: String,
    },
    /// This is about one node, and there are several.
    #[error("this is about the journal of one node: say which with --node; there are {known}")]
    WhichNode {
        /// The nodes.
        known: String,
    },
    /// The journal could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AuditError {
    /// Whether it may work later: files or the database cannot be read now.
    pub const fn may_pass(&self) -> bool {
        use StoreError::{Busy, OutcomeUnknown, Unavailable};
        match self {
            Self::Store(error) | Self::Journal(JournalError::Store(error)) => {
                matches!(error, Unavailable(_) | Busy | OutcomeUnknown(_))
            }
            Self::Journal(error) => matches!(error, JournalError::File { .. }),
            _ => false,
        }
    }
}

/// Problems with the index that should be reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexState {
    /// Lines that had been indexed are missing from the journal, or changed.
    pub is_lost: bool,
    /// Why the index could not be used; the whole journal was read instead.
    pub unusable: Option<String>,
}

impl Audits {
    pub(super) fn new(parts: Arc<Parts>) -> Self {
        Self { parts, recorded: Mutex::default() }
    }

    /// The last checkpoint that is on disk; `None` if there is none.
    pub async fn head(&self, actor: &Actor) -> Result<Option<JournalHead>, AuditError> {
        actor.note("audit head");
        Ok(self.parts.journal.head(&roots(&self.parts).await?)?)
    }

    /// The roots of the journal, oldest first: those that the store remembered or, if it remembered none, those that
    /// the journal names.
    pub async fn roots(&self, actor: &Actor) -> Result<Vec<RootKey>, AuditError> {
        actor.note("audit root");
        let known = roots(&self.parts).await?;
        if known.keys.is_empty() { Ok(self.parts.journal.roots()?) } else { Ok(known.keys) }
    }

    /// The roots that the store remembered.
    pub async fn trusted(&self) -> Result<Roots, AuditError> {
        roots(&self.parts).await
    }

    /// Remembers the root of the journal, so that a later verification can trust it.
    pub async fn remember_root(&self, root: RootKey) -> Result<(), AuditError> {
        match &self.parts.machine {
            Some(machine) => Ok(machine.add_roots(&[root]).await?),
            None => Ok(()),
        }
    }
}

/// The roots that this machine remembered.
pub(super) async fn roots(parts: &Parts) -> Result<Roots, AuditError> {
    Ok(match &parts.machine {
        Some(machine) => Roots::remembered(machine.roots().await?),
        None => Roots::default(),
    })
}

/// The names of all tokens by id, including expired and revoked ones.
pub(super) async fn token_names(store: &dyn Store) -> Result<HashMap<String, String>, AuditError> {
    let tokens = store.list_tokens().await?;
    Ok(tokens.into_iter().map(|(_, token)| (token.id, token.name)).collect())
}

/// The ids of the tokens with this id or name.
fn named_tokens(names: &HashMap<String, String>, wanted: &str) -> Result<Vec<String>, AuditError> {
    let is_meant = |(id, name): &(&String, &String)| *id == wanted || *name == wanted;
    let found: Vec<String> = names.iter().filter(is_meant).map(|(id, _)| id.clone()).collect();
    if found.is_empty() { Err(AuditError::UnknownToken(wanted.to_owned())) } else { Ok(found) }
}
