//! Locks that one process has at a time.

use std::sync::Arc;

use contactd_core::store::Stored;

use crate::connecting::Session;
use crate::database::Database;
use crate::database::waiting::Waiting;

impl Database {
    /// Takes a lock that one process has at a time, and nobody waits for: `None` if another has it. It ends with its connection.
    pub(crate) async fn try_lock(&self, lock: i64) -> Stored<Option<Locked<'_>>> {
        let mut waiting = Waiting::new(self);
        loop {
            let tried = async {
                let session = self.session().await?;
                let locking = async { session.query_one("SELECT pg_try_advisory_lock($1)", &[&lock]).await };
                match self.within(self.statement, locking).await {
                    Ok(row) if row.get(0) => {
                        Ok(Some(Locked { database: self, session, lock, is_released: false }))
                    }
                    Ok(_) => {
                        self.keep(session);
                        Ok(None)
                    }
                    Err(failure) => {
                        // It may have the lock.
                        self.give_up(&session);
                        Err(failure)
                    }
                }
            };
            match tried.await {
                Ok(locked) => return Ok(locked),
                Err(failure) => waiting.after(failure, false).await?,
            }
        }
    }
}

/// A lock on a connection of its own. Dropping it cuts the connection, which gives the lock back too.
pub(crate) struct Locked<'a> {
    database: &'a Database,
    session: Arc<Session>,
    lock: i64,
    is_released: bool,
}

impl Locked<'_> {
    /// Gives the lock back, and keeps the connection.
    pub(crate) async fn release(mut self) {
        let release = async { self.session.query_one("SELECT pg_advisory_unlock($1)", &[&self.lock]).await };
        if self.database.within(self.database.statement, release).await.is_ok() {
            self.is_released = true;
            self.database.keep(Arc::clone(&self.session));
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if !self.is_released {
            self.session.cut();
        }
    }
}
