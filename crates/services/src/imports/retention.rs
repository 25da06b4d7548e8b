//! The rules by which details are removed.

use std::time::Duration;

use contactd_core::Actor;
use contactd_core::store::{SourceRetention, Swept};

use super::{ImportError, Imports};
use crate::views::SourceView;

impl Imports {
    /// Every source with its rule, and what is removed next.
    pub async fn retention(&self, actor: &Actor) -> Result<Vec<SourceView>, ImportError> {
        actor.note("retention");
        let sources = self.parts.store.list_retention(self.parts.clock.now()).await?;
        Ok(sources.into_iter().map(SourceView::from).collect())
    }

    /// What a sweep would remove now of what is held.
    pub async fn due(&self, actor: &Actor) -> Result<Swept, ImportError> {
        actor.note("retention");
        let sources = self.parts.store.list_retention(self.parts.removal_time().await?).await?;
        let sum = |of: fn(&SourceRetention) -> u64| sources.iter().map(of).sum();
        Ok(Swept {
            expired: sum(|source| source.expired),
            aged: sum(|source| source.due - source.expired),
            former: 0,
        })
    }

    /// How long imports can be undone; zero if they cannot.
    pub fn undo_for(&self) -> Duration {
        self.parts.undo_for
    }
}
