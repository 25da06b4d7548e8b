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
}
