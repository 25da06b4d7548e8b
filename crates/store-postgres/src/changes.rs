//! Noticing changes.

use async_trait::async_trait;
use contactd_core::store::{ChangeNumbers, Changes, Stored};

use crate::PostgresStore;
use crate::database::Counter;
use crate::usage::unsigned;

#[async_trait]
impl Changes for PostgresStore {
    async fn changes(&self) -> Stored<ChangeNumbers> {
        let mut numbers = ChangeNumbers::default();
        for row in self.database.query("SELECT counter, number FROM counters", &[]).await? {
            let number = unsigned(row.get(1));
            match row.get::<_, &str>(0) {
                name if name == Counter::Access.name() => numbers.access = number,
                name if name == Counter::Details.name() => numbers.details = number,
                _ => {}
            }
        }
        Ok(numbers)
    }

    fn server(&self) -> u64 {
        self.database.moves()
    }

    /// Writes something, and waits for the standby. A former primary cannot do that, or has to be left for it.
    async fn confirm_server(&self) -> Stored<u64> {
        self.database.execute("SELECT pg_logical_emit_message(TRUE, 'contactd', '')", &[]).await?;
        Ok(self.server())
    }
}
