//! Facts that the store remembers about itself.

use async_trait::async_trait;
use contactd_core::store::{Facts, Noted, Stored};

use crate::database::Work;
use crate::{PostgresStore, outbox};

#[async_trait]
impl Facts for PostgresStore {
    async fn fact(&self, name: &str) -> Stored<Option<String>> {
        let found = self.database.query_opt("SELECT value FROM facts WHERE name = $1", &[&name]).await?;
        Ok(found.map(|row| row.get(0)))
    }

    async fn remember(&self, name: &str, value: &str) -> Stored<String> {
        let prepare = move |work: Work| async move {
            let find = "SELECT value FROM facts WHERE name = $1";
            if let Some(known) = work.query_opt(find, &[&name]).await? {
                return Ok(known.get(0));
            }
            work.execute("INSERT INTO facts VALUES ($1, $2) ON CONFLICT DO NOTHING", &[&name, &value])
                .await?;
            Ok(work.query_one(find, &[&name]).await?.get(0))
        };
        self.database.prepare(prepare).await
    }

    async fn replace_fact(&self, name: &str, value: &str, entry: Noted<'_>) -> Stored<()> {
        self.database.prepare(move |work| async move {
            let replace =
                "INSERT INTO facts VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
            work.execute(replace, &[&name, &value]).await?;
            outbox::add(&work, entry, &[]).await
        }).await
    }

    async fn forget(&self, name: &str) -> Stored<()> {
        self.database.execute("DELETE FROM facts WHERE name = $1", &[&name]).await.map(|_| ())
    }
}
