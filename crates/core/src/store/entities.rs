//! Tokens, users and admin tokens as an engine keeps them: a row for each, with all of it as JSON.
//!
//! There are few of them, and they seldom change: a change reads all rows of a table and decides on them. So the rules are
//! written once (`tokens.rs`, `accounts.rs`), and an engine only reads and writes rows.

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::{Noted, StoreError, Stored};
use crate::{AdminToken, Timestamp, Token, TokenHash, User};

/// A table of entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityTable {
    /// Tokens. Lookups depend on them, so their changes are among [`Changes`](crate::store::Changes).
    Tokens,
    /// Users of the console.
    Users,
    /// Tokens of the admin API.
    AdminTokens,
}

impl EntityTable {
    /// All tables.
    pub const ALL: [Self; 3] = [Self::Tokens, Self::Users, Self::AdminTokens];

    /// The name of the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Users => "users",
            Self::AdminTokens => "admin_tokens",
        }
    }
}

/// A row. It has no `Debug`, because it holds hashes of secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct EntityRow {
    /// The id of the entity, or its name.
    pub id: String,
    /// The family of a token.
    pub family: Option<String>,
    /// The entity as JSON.
    pub body: String,
    /// When it was last used, in milliseconds. An engine does not store it with the row, but with what was used.
    pub last_used_at: Option<i64>,
    /// The hits that are counted for it. An engine does not store them here.
    pub hits: u64,
}

/// What has rows of its own.
pub(super) trait Entity: Serialize + DeserializeOwned {
    /// In which table.
    const TABLE: EntityTable;

    /// Its id, or its name.
    fn id(&self) -> &str;

    /// The family of a token.
    fn family(&self) -> Option<&str> {
        None
    }

    /// Takes what is not in its JSON.
    fn note_use(&mut self, _last_used_at: Option<Timestamp>, _hits: u64) {}

    /// Sorts them in the order in which they are listed, which is that of their creation so far.
    fn sort(_entities: &mut [Self])
    where
        Self: Sized;
}

impl Entity for (TokenHash, Token) {
    const TABLE: EntityTable = EntityTable::Tokens;

    fn id(&self) -> &str {
        &self.1.id
    }

    fn family(&self) -> Option<&str> {
        Some(&self.1.family)
    }

    fn note_use(&mut self, last_used_at: Option<Timestamp>, hits: u64) {
        (self.1.last_used_at, self.1.hits) = (last_used_at, hits);
    }

    fn sort(tokens: &mut [Self]) {
        tokens.sort_by_key(|(_, token)| token.created_at);
    }
}

impl Entity for (TokenHash, AdminToken) {
    const TABLE: EntityTable = EntityTable::AdminTokens;

    fn id(&self) -> &str {
        &self.1.id
    }

    fn note_use(&mut self, last_used_at: Option<Timestamp>, _hits: u64) {
        self.1.last_used_at = last_used_at;
    }

    fn sort(tokens: &mut [Self]) {
        tokens.sort_by_key(|(_, token)| token.created_at);
    }
}

impl Entity for User {
    const TABLE: EntityTable = EntityTable::Users;

    fn id(&self) -> &str {
        &self.name
    }

    fn sort(users: &mut [Self]) {
        users.sort_by(|one, other| one.name.cmp(&other.name));
    }
}

/// Which rows a change stores, decided on all rows of the table; `None` if there is nothing to change or to record.
pub type Decide<'a> = &'a (dyn Fn(&[EntityRow]) -> Stored<Option<Vec<EntityRow>>> + Send + Sync);

/// Rows of entities.
#[async_trait]
pub trait Entities: Send + Sync + 'static {
    /// All rows of a table, in the order in which they were first stored.
    async fn list_rows(&self, table: EntityTable) -> Stored<Vec<EntityRow>>;

    /// Stores what `decide` returns, and the entry with it, with nobody else changing the table meanwhile. `decide` may be
    /// called several times; what counts are the rows that are returned, which it was called with last. Committed and synced
    /// when this returns.
    async fn change_rows(
        &self,
        table: EntityTable,
        decide: Decide<'_>,
        entry: Noted<'_>,
    ) -> Stored<Vec<EntityRow>>;

    /// Fails if users or admin tokens are not those that contactd stored, because somebody changed their rows: then nobody may log in.
    async fn check_accounts(&self) -> Stored<()> {
        Ok(())
    }

    /// Stores when something was used, unless a later time is stored.
    async fn note_use(&self, table: EntityTable, id: &str, at: Timestamp) -> Stored<()>;
}

/// All entities of a kind, in their order.
pub(super) async fn list<E: Entity>(store: &(impl Entities + ?Sized)) -> Stored<Vec<E>> {
    from_rows(&store.list_rows(E::TABLE).await?)
}

/// Stores what `decide` says, and returns what else it says. Without a list of what to store, even an empty one, nothing is
/// recorded either.
pub(super) async fn change<E: Entity, T>(
    store: &(impl Entities + ?Sized),
    entry: Noted<'_>,
    decide: impl Fn(Vec<E>) -> (Option<Vec<E>>, T) + Send + Sync,
) -> Stored<T> {
    let decide_rows = |rows: &[EntityRow]| {
        let (stored, _) = decide(from_rows(rows)?);
        stored.map(|stored| stored.iter().map(to_row).collect()).transpose()
    };
    let rows = store.change_rows(E::TABLE, &decide_rows, entry).await?;
    Ok(decide(from_rows(&rows)?).1)
}

/// The entities in these rows, in their order.
pub(super) fn from_rows<E: Entity>(rows: &[EntityRow]) -> Stored<Vec<E>> {
    let entity = |row: &EntityRow| {
        let damaged = |_| StoreError::Damaged(format!("a row of {} cannot be read", E::TABLE.name()));
        let mut entity: E = serde_json::from_str(&row.body).map_err(damaged)?;
        entity.note_use(row.last_used_at.map(Timestamp::from_millis), row.hits);
        Ok(entity)
    };
    let mut entities = rows.iter().map(entity).collect::<Stored<Vec<E>>>()?;
    E::sort(&mut entities);
    Ok(entities)
}

/// The row of an entity.
pub(super) fn to_row<E: Entity>(entity: &E) -> Stored<EntityRow> {
    let failed = |_| StoreError::Engine(format!("a row of {} cannot be made", E::TABLE.name()));
    Ok(EntityRow {
        id: entity.id().to_owned(),
        family: entity.family().map(str::to_owned),
        body: serde_json::to_string(entity).map_err(failed)?,
        last_used_at: None,
        hits: 0,
    })
}
