//! The outbox: entries of administrative actions that are not in a journal yet.

use async_trait::async_trait;
use contactd_core::AdminEntry;
use contactd_core::store::{Noted, Outbox, StoreError, Stored};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use crate::PostgresStore;
use crate::database::Work;
use crate::failure::{Failure, Tried};

/// Claims what nobody has claimed, and what belongs to a node that was forgotten, or whose lease ended ten minutes ago.
const CLAIM: &str = "UPDATE outbox SET claimed_by = $1 WHERE claimed_by IS NULL OR NOT EXISTS (
    SELECT 1 FROM nodes WHERE nodes.id = outbox.claimed_by
        AND seen_at + lease_ms * interval '1 millisecond' + interval '10 minutes' > now())";

/// An entry as the outbox and the index keep it.
pub(crate) fn to_text(entry: &AdminEntry) -> Tried<String> {
    serde_json::to_string(entry)
        .map_err(|_| StoreError::Engine("an administrative entry cannot be stored".to_owned()).into())
}

/// The entry in a column of a row.
pub(crate) fn from_text(row: &Row, column: usize) -> Tried<AdminEntry> {
    serde_json::from_str(row.get(column)).map_err(|_| Failure::damaged("an administrative entry"))
}

/// Adds an entry, with the counts and the seal of its change, in the transaction of the change: after all rows of that are stored.
/// Adding it twice is not an error. Fails if it is not there afterwards, as it was given: a rule or a trigger can prevent that.
pub(crate) async fn add(work: &Work, entry: Noted<'_>, counts: &[(&str, u64)]) -> Tried<()> {
    let Some(entry) = entry else { return Ok(()) };
    let text = to_text(&AdminEntry { state: work.noted_seal(), ..entry.counted(counts) })?;
    // In a WITH, PostgreSQL refuses it if the table has rules. Otherwise, a statement that a rule makes nothing of would stay so for
    // this connection after the rule is gone.
    let insert =
        "WITH added AS (INSERT INTO outbox (entry, record) VALUES ($1, $2) ON CONFLICT (entry) DO NOTHING)
        SELECT 1";
    match work.execute(insert, &[&entry.entry, &text]).await {
        Err(error) if error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) => {
            return Err(StoreError::NotNoted.into());
        }
        added => added?,
    };
    let find = "SELECT EXISTS (SELECT 1 FROM outbox WHERE entry = $1 AND record = $2)";
    match work.query_one(find, &[&entry.entry, &text]).await?.get(0) {
        true => Ok(()),
        false => Err(StoreError::NotNoted.into()),
    }
}

#[async_trait]
impl Outbox for PostgresStore {
    async fn add_entry(&self, entry: &AdminEntry) -> Stored<()> {
        self.database.prepare(move |work| async move { add(&work, Some(entry), &[]).await }).await
    }

    /// Claims entries for a node, which writes them to its journal and then removes them: those that nobody has claimed, and
    /// those of nodes that were forgotten or have been silent for long. Returns all that the node has claimed, oldest first.
    async fn claim_entries(&self, node: &str) -> Stored<Vec<AdminEntry>> {
        let claim = move |work: Work| async move {
            self.check_claim(&work, node).await?;
            work.execute(CLAIM, &[&node]).await?;
            let claimed = "SELECT record FROM outbox WHERE claimed_by = $1 ORDER BY id";
            let rows = work.query(claimed, &[&node]).await?;
            rows.iter().map(|row| from_text(row, 0)).collect()
        };
        self.database.prepare(claim).await
    }

    async fn list_entries(&self) -> Stored<Vec<AdminEntry>> {
        let rows = self.database.query("SELECT record FROM outbox ORDER BY id", &[]).await?;
        rows.iter().map(|row| Ok(from_text(row, 0)?)).collect()
    }

    async fn remove_entries(&self, ids: &[String]) -> Stored<()> {
        self.database.execute("DELETE FROM outbox WHERE entry = ANY($1)", &[&ids]).await.map(|_| ())
    }
}

impl PostgresStore {
    /// Whether an entry is in the outbox.
    pub async fn has_entry(&self, id: &str) -> Stored<bool> {
        Ok(self.database.query_opt("SELECT 1 FROM outbox WHERE entry = $1", &[&id]).await?.is_some())
    }
}
