//! Putting back what this node holds, after somebody changed rows of the database by hand, or the database has become an older one.

use std::sync::Arc;

use contactd_core::store::copying::AccessChanges;
use contactd_core::store::{Entities, EntityRow, EntityTable, Outbox, StoreError, Stored, accounts_of};
use contactd_core::{Actor, AdminEntry, AdminToken, Affected, InForce, NotConfirmed, Timestamp, User};
use contactd_store_postgres::{Difference, DifferentRow, PostgresStore};
use contactd_store_sqlite::SqliteStore;
use serde::Serialize;

use crate::in_force::ClusterInForce;

/// Compares the state of a node with the database, and puts it back.
pub struct Reconciling {
    /// The database.
    pub database: Arc<PostgresStore>,
    /// The files of this machine's node.
    pub local: Arc<SqliteStore>,
    /// The id of this machine's node.
    pub node: String,
}

/// What to do with what is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconcile {
    /// Nothing.
    Look,
    /// Put back what this node holds.
    PutBack,
    /// Give up what the database has lost.
    AcceptLost,
}

/// What was found, and put back if that was asked for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reconciled {
    /// What is wrong with the database.
    pub faults: Vec<String>,
    /// Whether this node holds tokens and opt-outs. If not, those of the database are accepted as they are.
    pub holds_state: bool,
    /// How the tokens and opt-outs of the database differ from those that this node holds.
    pub differences: Vec<DifferentRow>,
    /// The accounts, which no node holds, if they are not those that contactd stored: they are accepted as they are listed here.
    pub accounts: Option<AccountList>,
    /// Whether it was done.
    pub is_done: bool,
}

/// Users and admin tokens as the database has them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are the words of the glossary")]
pub struct AccountList {
    pub users: Vec<ListedUser>,
    pub admin_tokens: Vec<ListedAdminToken>,
    #[serde(skip)]
    rows: Vec<(EntityTable, Vec<EntityRow>)>,
}

/// A user.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedUser {
    pub name: String,
    pub role: String,
    pub is_enabled: bool,
}

/// An admin token.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedAdminToken {
    pub id: String,
    pub name: String,
    pub role: String,
    pub is_live: bool,
}

/// Why nothing was put back.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// This node holds nothing, and another one does.
    #[error(
        "this node holds nothing yet: run this on the machine of node {0}, which holds tokens and opt-outs"
    )]
    HeldElsewhere(String),
    /// It was put back, and is not known to be in force.
    #[error(transparent)]
    NotConfirmed(#[from] NotConfirmed),
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Reconciling {
    /// Compares, and puts back or gives up what this node holds if that is asked for. The entries for the journal wait in the database.
    pub async fn run(
        &self,
        actor: &Actor,
        what: Reconcile,
        now: Timestamp,
    ) -> Result<Reconciled, ReconcileError> {
        let database = &*self.database;
        let checked = database.check_access().await?;
        let access_fault = checked.and_then(|checked| checked.sealed.err());
        let accounts = match database.check_accounts().await {
            Err(StoreError::Tampered(fault)) => Some((fault, self.list_accounts(now).await?)),
            checked => checked.map(|()| None)?,
        };
        let held = Some(self.local.read_access()?).filter(|held| held.at.number > 0);
        if held.is_none() && access_fault.is_some() {
            self.look_elsewhere().await?;
        }
        let differences = match &held {
            Some(held) if access_fault.is_some() => database.compare_access(held, now).await?,
            _ => Vec::new(),
        };
        let mut reconciled = Reconciled {
            faults: access_fault.iter().map(PostgresStore::access_fault).collect(),
            holds_state: held.is_some(),
            differences,
            accounts: None,
            is_done: false,
        };
        if let Some((fault, accounts)) = accounts {
            reconciled.faults.push(fault);
            reconciled.accounts = Some(accounts);
        }
        let lost = self.local.held()?;
        let is_lost = !lost.suppressions.is_empty() || !lost.tokens.is_empty();
        if is_lost {
            reconciled.faults.push(format!(
                "the database has lost {} opt-outs and the ends of {} tokens that this node holds",
                lost.suppressions.len(),
                lost.tokens.len()
            ));
            reconciled.differences.extend(DifferentRow::of_lost(&lost));
        }
        match what {
            Reconcile::PutBack if !reconciled.faults.is_empty() => {
                self.put_back(actor, held.as_ref(), access_fault.is_some(), &mut reconciled, now).await?;
                if is_lost {
                    let entry = AdminEntry::new(actor, "node reconcile", now).about_node(&self.node);
                    database.put_back_lost(&lost, &entry, now).await?;
                }
                ClusterInForce::new(Arc::clone(&self.database)).announce(Affected::Access).await?;
            }
            Reconcile::AcceptLost if is_lost => {
                let counts = [
                    ("lostOptOuts", lost.suppressions.len() as u64),
                    ("lostEndsOfTokens", lost.tokens.len() as u64),
                ];
                let entry = AdminEntry::new(actor, "node reconcile", now).about_node(&self.node);
                database.add_entry(&entry.counted(&counts)).await?;
                self.local.give_up_held()?;
                reconciled.is_done = true;
            }
            _ => {}
        }
        Ok(reconciled)
    }

    async fn put_back(
        &self,
        actor: &Actor,
        held: Option<&AccessChanges>,
        is_access: bool,
        reconciled: &mut Reconciled,
        now: Timestamp,
    ) -> Stored<()> {
        if is_access {
            let entry = AdminEntry::new(actor, "node reconcile", now).about_node(&self.node);
            let put_back = self.database.put_back(held, &entry, now).await?;
            reconciled.differences.retain(|row| row.how == Difference::Lost);
            reconciled.differences.extend(put_back);
        }
        if let Some(AccountList { users, admin_tokens, rows }) = &reconciled.accounts {
            let counts = [("users", users.len() as u64), ("adminTokens", admin_tokens.len() as u64)];
            let entry = AdminEntry::new(actor, "node reconcile", now).about("accounts").counted(&counts);
            self.database.accept_accounts(rows, &entry).await?;
        }
        reconciled.is_done = true;
        Ok(())
    }

    /// Refuses if another node holds what this one does not.
    async fn look_elsewhere(&self) -> Result<(), ReconcileError> {
        let nodes = self.database.list_nodes().await?;
        let holder = nodes.into_iter().find(|node| node.id != self.node && node.access_number > 0);
        holder.map_or(Ok(()), |holder| Err(ReconcileError::HeldElsewhere(holder.name)))
    }

    async fn list_accounts(&self, now: Timestamp) -> Stored<AccountList> {
        let users = self.database.list_rows(EntityTable::Users).await?;
        let tokens = self.database.list_rows(EntityTable::AdminTokens).await?;
        // What is listed is what is sealed.
        let (listed_users, listed_tokens) = accounts_of(&users, &tokens)?;
        let user = |user: User| ListedUser {
            is_enabled: user.is_enabled(),
            role: user.role.to_string(),
            name: user.name,
        };
        let token = |token: AdminToken| ListedAdminToken {
            is_live: token.is_live(now),
            role: token.role.to_string(),
            id: token.id,
            name: token.name,
        };
        Ok(AccountList {
            users: listed_users.into_iter().map(user).collect(),
            admin_tokens: listed_tokens.into_iter().map(token).collect(),
            rows: vec![(EntityTable::Users, users), (EntityTable::AdminTokens, tokens)],
        })
    }
}
