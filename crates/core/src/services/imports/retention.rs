//! The rules by which details are removed.

use super::{ImportError, Imports};
use crate::Actor;
use crate::store::{self, Details, Maintenance, Outbox, SourceRetention, Suppressions};

impl<S: Details + store::Importing + Suppressions + Outbox + Maintenance> Imports<S> {
    /// Every source with its rule, and what is removed next.
    pub async fn retention(&self, actor: &Actor) -> Result<Vec<SourceRetention>, ImportError> {
        actor.note("retention");
        Ok(self.parts.store.list_retention(self.parts.clock.now()).await?)
    }
}
