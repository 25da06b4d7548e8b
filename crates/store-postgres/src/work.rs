//! What runs in a transaction.

use std::sync::Arc;

use contactd_core::store::sealing::{BoundRow, RowSum, Seal, StateKey};
use tokio_postgres::{Error, Row};

use crate::connecting::{Session, Values};
use crate::sealing::Sealing;

/// A transaction in which something is changed.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) session: Arc<Session>,
    /// The number of this change.
    pub(crate) number: i64,
    /// Its seal, if it gets one.
    pub(crate) sealing: Option<Arc<Sealing>>,
}

impl Work {
    /// Reads the rows of a query some at a time. What is written meanwhile is not among them. The cursors of a transaction have
    /// different names.
    pub(crate) async fn cursor(
        &self,
        name: &'static str,
        query: &str,
        values: Values<'_>,
    ) -> Result<Cursor<'_>, Error> {
        self.execute(&format!("DECLARE {name} NO SCROLL CURSOR FOR {query}"), values).await?;
        Ok(Cursor { work: self, name, is_over: false })
    }

    /// Notes that a row is stored, in place of another one.
    pub(crate) fn replace(&self, before: Option<BoundRow<'_>>, after: Option<BoundRow<'_>>) {
        if let Some(sealing) = &self.sealing {
            sealing.replace(before, after);
        }
    }

    /// Whether what is stored is to be noted.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealing_key().is_some()
    }

    /// The key that this change is sealed with, if it is.
    pub(crate) fn sealing_key(&self) -> Option<StateKey> {
        self.sealing.as_ref()?.key()
    }

    /// Seals rows with this sum, whatever they were before.
    pub(crate) fn seal_anew(&self, key: &StateKey, sum: RowSum) {
        if let Some(sealing) = &self.sealing {
            sealing.begin_anew(key, sum);
        }
    }

    pub(crate) fn seal(&self) -> Option<Seal> {
        self.sealing.as_ref()?.seal()
    }

    /// How a line of the journal notes the seal. All rows have to be stored.
    pub(crate) fn noted_seal(&self) -> Option<String> {
        self.sealing.as_ref()?.noted()
    }
}

/// The rows of a query that are not read yet.
pub(crate) struct Cursor<'a> {
    work: &'a Work,
    name: &'static str,
    is_over: bool,
}

impl Cursor<'_> {
    /// The next rows, about as many as asked for; none if all were read.
    pub(crate) async fn next(&mut self, most: usize) -> Result<Vec<Row>, Error> {
        if self.is_over {
            return Ok(Vec::new());
        }
        let rows = self.work.query(&format!("FETCH {most} FROM {}", self.name), &[]).await?;
        self.is_over = rows.len() < most;
        if self.is_over {
            self.work.batch_execute(&format!("CLOSE {}", self.name)).await?;
        }
        Ok(rows)
    }
}

impl std::ops::Deref for Work {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}
