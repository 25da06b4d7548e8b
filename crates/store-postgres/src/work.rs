//! What runs in a transaction, and under which counter.

use std::sync::Arc;
use std::time::Duration;

use contactd_core::store::EntityTable;
use tokio_postgres::{Error, Row};

use crate::connecting::{Session, Values};
use crate::sealing::Sealing;

/// Which counter a change increases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Tokens and suppressions.
    Access,
    /// Details.
    Details,
    /// Users and admin tokens. Nodes do not follow them.
    Accounts,
    /// Usage that is added up. Nodes do not follow it.
    Usage,
}

impl Counter {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Details => "details",
            Self::Accounts => "accounts",
            Self::Usage => "usage",
        }
    }

    /// The counter of a table.
    pub(crate) const fn of(table: EntityTable) -> Self {
        match table {
            EntityTable::Tokens => Self::Access,
            EntityTable::Users | EntityTable::AdminTokens => Self::Accounts,
        }
    }

    /// Whether its changes are sealed.
    pub(crate) const fn is_sealed(self) -> bool {
        matches!(self, Self::Access | Self::Accounts)
    }

    /// What it counts the changes of.
    pub(crate) const fn rows(self) -> &'static str {
        match self {
            Self::Access => "tokens and opt-outs",
            Self::Details => "details",
            Self::Accounts => "users and admin tokens",
            Self::Usage => "usage",
        }
    }

    /// How long to wait for another change of the same counter. An import holds the one of details for long.
    pub(crate) const fn lock_timeout(self) -> Duration {
        match self {
            Self::Access | Self::Accounts | Self::Usage => Duration::from_secs(2),
            Self::Details => Duration::from_millis(500),
        }
    }
}

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
