//! The store of the services: the files of a data directory, or the database of a cluster.
//!
//! In a cluster, everything is in the database, except what belongs to one node: what its journal has counted and its own facts
//! are in the files of its data directory. A command on a machine without a node has no such files.

use std::path::Path;
use std::sync::Arc;

use contactd_core::store::{
    Accounts, AuditFilter, AuditIndex, AuditUsage, ChangeNumbers, Changes, CopiedLine, CopyStep, Crowd,
    DayHits, DetailFilter, Details, Facts, FormerDetail, FormerTotal, Import, ImportPlan, ImportSummary,
    Importing, IndexStep, IndexedLine, JournalCopies, Maintenance, Noted, Outbox, PartSize, PastImport,
    PutCounts, ShippedJournal, SourceRetention, StoreError, Suppressions, SweepPlan, Swept, TakenOver,
    Tokens, Totals, Undo, Usage, ValueOfProfile, Withdrawals, WithdrawnFrom,
};
use contactd_core::{
    AdminEntry, AdminToken, AuditPosition, ContactValue, Detail, Kind, Profile, Record, SubjectDigest,
    Timestamp, Token, TokenHash, TokenUpdate, UpdatedToken, UsageDelta, User, UserChange, UserChanged,
};
use contactd_store_postgres::PostgresStore;
use contactd_store_sqlite::SqliteStore;

use crate::ClusterInForce;

/// The facts that are about one node: its name, its settings, its journal, and what of it is counted and backed up.
const OF_NODE: [&str; 8] = [
    "node",
    "settings",
    "journal_roots",
    "audit_index_compared",
    "audit_lost",
    "usage_stored",
    "usage_not_in_journal",
    "last_backup",
];

/// The store of the services.
pub enum AnyStore {
    /// The files of a data directory are all there is.
    Embedded(Arc<SqliteStore>),
    /// A database that nodes share.
    Cluster(ClusterStore),
}

/// A database, and the node on this machine, if there is one.
pub struct ClusterStore {
    /// The database.
    pub database: Arc<PostgresStore>,
    /// The node.
    pub node: Option<LocalNode>,
}

/// A node on this machine.
pub struct LocalNode {
    /// Its id.
    pub id: String,
    /// Its files.
    pub files: Arc<SqliteStore>,
}

impl ClusterStore {
    /// The files that a fact is in; `None` if it is in the database.
    fn files_of(&self, fact: &str) -> Option<Option<&SqliteStore>> {
        OF_NODE.contains(&fact).then_some(self.node.as_ref().map(|node| &*node.files))
    }

    async fn list_entries(&self) -> Result<Vec<AdminEntry>, StoreError> {
        match &self.node {
            Some(LocalNode { id, files }) => {
                let mut entries = files.list_entries().await?;
                entries.extend(self.database.claim_entries(id).await?);
                Ok(entries)
            }
            None => self.database.list_entries().await,
        }
    }

    async fn wipe_removed(&self) -> Result<(), StoreError> {
        self.database.wipe_removed().await?;
        ClusterInForce::new(Arc::clone(&self.database)).wait_for_wipe().await
    }
}

/// Calls a method of the one store, or of the database.
macro_rules! shared {
    ($store:ident.$method:ident($($argument:expr),*)) => {
        match $store {
            Self::Embedded(files) => files.$method($($argument),*).await,
            Self::Cluster(cluster) => cluster.database.$method($($argument),*).await,
        }
    };
}

/// Calls a method of the files of this node; of the database, if there is no node on this machine.
macro_rules! of_node {
    ($store:ident.$method:ident($($argument:expr),*)) => {
        match $store {
            Self::Embedded(files) | Self::Cluster(ClusterStore { node: Some(LocalNode { files, .. }), .. }) => {
                files.$method($($argument),*).await
            }
            Self::Cluster(ClusterStore { database, node: None }) => database.$method($($argument),*).await,
        }
    };
}

impl Details for AnyStore {
    async fn list_details(&self, profile: &Profile) -> Result<Vec<Detail>, StoreError> {
        shared!(self.list_details(profile))
    }

    async fn remove_details(
        &self,
        profile: &Profile,
        which: &DetailFilter,
        entry: Noted<'_>,
    ) -> Result<u64, StoreError> {
        shared!(self.remove_details(profile, which, entry))
    }

    async fn visit_all(
        &self,
        visit: impl FnMut(&Profile, Vec<Detail>) -> bool + Send,
    ) -> Result<(), StoreError> {
        shared!(self.visit_all(visit))
    }

    async fn find_profiles(&self, kind: Kind, value: &ContactValue) -> Result<Vec<Profile>, StoreError> {
        shared!(self.find_profiles(kind, value))
    }

    async fn find_holders(
        &self,
        values: &[(Kind, ContactValue)],
    ) -> Result<Vec<(Profile, usize)>, StoreError> {
        shared!(self.find_holders(values))
    }

    async fn are_held(&self, profiles: &[Profile]) -> Result<Vec<bool>, StoreError> {
        shared!(self.are_held(profiles))
    }

    async fn sweep(&self, plan: SweepPlan<'_>, entry: Noted<'_>) -> Result<Swept, StoreError> {
        shared!(self.sweep(plan, entry))
    }

    async fn list_retention(&self, now: Timestamp) -> Result<Vec<SourceRetention>, StoreError> {
        shared!(self.list_retention(now))
    }

    async fn totals(&self) -> Result<Totals, StoreError> {
        shared!(self.totals())
    }
}

/// An import into either store.
pub enum AnyImport<'a> {
    /// Into files.
    Embedded(Box<<SqliteStore as Importing>::Import<'a>>),
    /// Into a database.
    Cluster(Box<<PostgresStore as Importing>::Import<'a>>),
}

macro_rules! import {
    ($import:ident.$method:ident($($argument:expr),*)) => {
        match $import {
            Self::Embedded(import) => import.$method($($argument),*),
            Self::Cluster(import) => import.$method($($argument),*),
        }
    };
    ($import:ident.$method:ident($($argument:expr),*).await) => {
        match $import {
            Self::Embedded(import) => import.$method($($argument),*).await,
            Self::Cluster(import) => import.$method($($argument),*).await,
        }
    };
}

impl Importing for AnyStore {
    type Import<'a> = AnyImport<'a>;

    fn sort_key(&self, profile: &Profile) -> u64 {
        match self {
            Self::Embedded(files) => files.sort_key(profile),
            Self::Cluster(cluster) => cluster.database.sort_key(profile),
        }
    }

    async fn begin_import(&self, plan: &ImportPlan) -> Result<AnyImport<'_>, StoreError> {
        Ok(match self {
            Self::Embedded(files) => AnyImport::Embedded(Box::new(files.begin_import(plan).await?)),
            Self::Cluster(cluster) => {
                AnyImport::Cluster(Box::new(cluster.database.begin_import(plan).await?))
            }
        })
    }

    async fn list_imports(&self) -> Result<Vec<PastImport>, StoreError> {
        shared!(self.list_imports())
    }

    async fn undo_import(&self, id: i64, at: Timestamp, entry: Noted<'_>) -> Result<Undo, StoreError> {
        shared!(self.undo_import(id, at, entry))
    }

    async fn list_former(&self, profile: &Profile) -> Result<Vec<FormerDetail>, StoreError> {
        shared!(self.list_former(profile))
    }

    async fn former_total(&self) -> Result<FormerTotal, StoreError> {
        shared!(self.former_total())
    }
}

impl Import for AnyImport<'_> {
    async fn put(&mut self, batch: Vec<Record>) -> Result<(), StoreError> {
        import!(self.put(batch).await)
    }

    async fn finish(&mut self) -> Result<(), StoreError> {
        import!(self.finish().await)
    }

    async fn take_back(&mut self, values: &[ValueOfProfile]) -> Result<(), StoreError> {
        import!(self.take_back(values).await)
    }

    fn counts(&self) -> PutCounts {
        import!(self.counts())
    }

    fn crowds(&self) -> &[Crowd] {
        import!(self.crowds())
    }

    fn withdrawn(&self) -> Vec<WithdrawnFrom> {
        import!(self.withdrawn())
    }

    async fn commit(self, summary: &ImportSummary, entry: Noted<'_>) -> Result<i64, StoreError> {
        import!(self.commit(summary, entry).await)
    }
}

impl Tokens for AnyStore {
    async fn create_token(
        &self,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> Result<(), StoreError> {
        shared!(self.create_token(hash, token, entry))
    }

    async fn list_tokens(&self) -> Result<Vec<(TokenHash, Token)>, StoreError> {
        shared!(self.list_tokens())
    }

    async fn revoke_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<Token>, StoreError> {
        shared!(self.revoke_token(id, at, entry))
    }

    async fn rotate_token(
        &self,
        old: &str,
        old_ends_at: Timestamp,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> Result<bool, StoreError> {
        shared!(self.rotate_token(old, old_ends_at, hash, token, entry))
    }

    async fn update_token(
        &self,
        id: &str,
        update: &TokenUpdate,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<UpdatedToken>, StoreError> {
        shared!(self.update_token(id, update, at, entry))
    }
}

impl Accounts for AnyStore {
    async fn create_user(&self, user: &User, entry: Noted<'_>) -> Result<bool, StoreError> {
        shared!(self.create_user(user, entry))
    }

    async fn find_user(&self, name: &str) -> Result<Option<User>, StoreError> {
        shared!(self.find_user(name))
    }

    async fn list_users(&self) -> Result<Vec<User>, StoreError> {
        shared!(self.list_users())
    }

    async fn change_user(
        &self,
        name: &str,
        change: &UserChange,
        entry: Noted<'_>,
    ) -> Result<UserChanged, StoreError> {
        shared!(self.change_user(name, change, entry))
    }

    async fn create_admin_token(
        &self,
        hash: &TokenHash,
        token: &AdminToken,
        entry: Noted<'_>,
    ) -> Result<(), StoreError> {
        shared!(self.create_admin_token(hash, token, entry))
    }

    async fn find_admin_token(&self, hash: &TokenHash) -> Result<Option<AdminToken>, StoreError> {
        shared!(self.find_admin_token(hash))
    }

    async fn list_admin_tokens(&self) -> Result<Vec<AdminToken>, StoreError> {
        shared!(self.list_admin_tokens())
    }

    async fn revoke_admin_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<AdminToken>, StoreError> {
        shared!(self.revoke_admin_token(id, at, entry))
    }

    async fn note_admin_token_use(&self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        shared!(self.note_admin_token_use(id, at))
    }
}

impl Suppressions for AnyStore {
    async fn suppress(
        &self,
        subjects: &[SubjectDigest],
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<u64, StoreError> {
        shared!(self.suppress(subjects, at, entry))
    }

    async fn unsuppress(&self, subjects: &[SubjectDigest], entry: Noted<'_>) -> Result<u64, StoreError> {
        shared!(self.unsuppress(subjects, entry))
    }

    async fn find_suppression(&self, subjects: &[SubjectDigest]) -> Result<Option<Timestamp>, StoreError> {
        shared!(self.find_suppression(subjects))
    }

    async fn list_suppressions(&self) -> Result<Vec<SubjectDigest>, StoreError> {
        shared!(self.list_suppressions())
    }
}

impl Usage for AnyStore {
    async fn record_usage(&self, usage: &[UsageDelta], at: Timestamp) -> Result<(), StoreError> {
        of_node!(self.record_usage(usage, at))
    }

    async fn hits_since(&self, family: &str, day: i64) -> Result<u64, StoreError> {
        of_node!(self.hits_since(family, day))
    }

    async fn hits_by_day(&self, since: i64) -> Result<Vec<DayHits>, StoreError> {
        of_node!(self.hits_by_day(since))
    }

    async fn raise_hits(&self, hits: &[DayHits]) -> Result<(), StoreError> {
        of_node!(self.raise_hits(hits))
    }
}

impl AuditIndex for AnyStore {
    async fn audit_position(&self, node: &str) -> Result<AuditPosition, StoreError> {
        shared!(self.audit_position(node))
    }

    async fn index_audit(&self, step: IndexStep<'_>) -> Result<bool, StoreError> {
        shared!(self.index_audit(step))
    }

    async fn reset_audit_index(&self, node: &str, first_day: i64) -> Result<(), StoreError> {
        shared!(self.reset_audit_index(node, first_day))
    }

    async fn forget_audit(&self, node: &str, through: u64) -> Result<(), StoreError> {
        shared!(self.forget_audit(node, through))
    }

    async fn find_entries(&self, ids: &[String]) -> Result<Vec<String>, StoreError> {
        shared!(self.find_entries(ids))
    }

    async fn indexed(&self, node: &str, from: u64, through: u64) -> Result<Vec<IndexedLine>, StoreError> {
        shared!(self.indexed(node, from, through))
    }

    async fn count_foreign(&self, node: &str) -> Result<u64, StoreError> {
        match self {
            Self::Embedded(files) => files.count_foreign(node).await,
            // The index of a cluster has the lines of all nodes, so only those after the position of this one are foreign.
            Self::Cluster(cluster) => {
                let position = cluster.database.audit_position(node).await?;
                let after = cluster.database.indexed(node, position.seq + 1, u64::MAX >> 1).await?;
                Ok(after.len() as u64)
            }
        }
    }

    async fn remove_foreign(&self, node: &str) -> Result<(), StoreError> {
        match self {
            Self::Embedded(files) => files.remove_foreign(node).await,
            // Whoever finds foreign lines resets the index of this node too. The other nodes keep theirs.
            Self::Cluster(_) => Ok(()),
        }
    }

    async fn check_index(&self) -> Result<Vec<String>, StoreError> {
        shared!(self.check_index())
    }

    async fn audit_usage_of(&self, node: &str) -> Result<Vec<AuditUsage>, StoreError> {
        shared!(self.audit_usage_of(node))
    }

    async fn visit_audit(
        &self,
        filter: &AuditFilter,
        visit: impl FnMut(IndexedLine) -> bool + Send,
    ) -> Result<(), StoreError> {
        shared!(self.visit_audit(filter, visit))
    }

    async fn audit_usage(&self, since: i64) -> Result<Vec<AuditUsage>, StoreError> {
        shared!(self.audit_usage(since))
    }
}

/// Only a database keeps copies.
impl JournalCopies for AnyStore {
    async fn copy_position(&self, node: &str) -> Result<Option<AuditPosition>, StoreError> {
        shared!(self.copy_position(node))
    }

    async fn add_to_copy(&self, step: CopyStep<'_>) -> Result<bool, StoreError> {
        shared!(self.add_to_copy(step))
    }

    async fn begin_journal_copy(&self, node: &str) -> Result<(), StoreError> {
        shared!(self.begin_journal_copy(node))
    }

    async fn trim_copy(&self, node: &str) -> Result<bool, StoreError> {
        shared!(self.trim_copy(node))
    }

    async fn remove_earlier_copies(&self, node: &str) -> Result<(), StoreError> {
        shared!(self.remove_earlier_copies(node))
    }

    async fn remove_old_copies(&self, before: Timestamp) -> Result<(), StoreError> {
        shared!(self.remove_old_copies(before))
    }

    async fn list_copies(&self) -> Result<Vec<ShippedJournal>, StoreError> {
        shared!(self.list_copies())
    }

    async fn copied_segments(&self, copy: i32) -> Result<Vec<u64>, StoreError> {
        shared!(self.copied_segments(copy))
    }

    async fn copied_lines(&self, copy: i32, from: u64, most: u32) -> Result<Vec<CopiedLine>, StoreError> {
        shared!(self.copied_lines(copy, from, most))
    }

    async fn copied_seals(&self, copy: i32) -> Result<Vec<String>, StoreError> {
        shared!(self.copied_seals(copy))
    }
}

impl Outbox for AnyStore {
    async fn add_entry(&self, entry: &AdminEntry) -> Result<(), StoreError> {
        shared!(self.add_entry(entry))
    }

    /// In a cluster: those that are for the journal of this node. Without a node on this machine, all of them.
    async fn list_entries(&self) -> Result<Vec<AdminEntry>, StoreError> {
        match self {
            Self::Embedded(files) => files.list_entries().await,
            Self::Cluster(cluster) => cluster.list_entries().await,
        }
    }

    async fn remove_entries(&self, ids: &[String]) -> Result<(), StoreError> {
        match self {
            Self::Embedded(files) => files.remove_entries(ids).await,
            Self::Cluster(ClusterStore { database, node }) => {
                database.remove_entries(ids).await?;
                match node {
                    Some(LocalNode { files, .. }) => files.remove_entries(ids).await,
                    None => Ok(()),
                }
            }
        }
    }
}

impl Facts for AnyStore {
    async fn fact(&self, name: &str) -> Result<Option<String>, StoreError> {
        match self {
            Self::Embedded(files) => files.fact(name).await,
            Self::Cluster(cluster) => match cluster.files_of(name) {
                Some(Some(files)) => files.fact(name).await,
                Some(None) => Ok(None),
                None => cluster.database.fact(name).await,
            },
        }
    }

    /// Without a node on this machine, a fact about it is not stored.
    async fn remember(&self, name: &str, value: &str) -> Result<String, StoreError> {
        match self {
            Self::Embedded(files) => files.remember(name, value).await,
            Self::Cluster(cluster) => match cluster.files_of(name) {
                Some(Some(files)) => files.remember(name, value).await,
                Some(None) => Ok(value.to_owned()),
                None => cluster.database.remember(name, value).await,
            },
        }
    }

    async fn replace_fact(&self, name: &str, value: &str, entry: Noted<'_>) -> Result<(), StoreError> {
        match self {
            Self::Embedded(files) => files.replace_fact(name, value, entry).await,
            Self::Cluster(cluster) => match (cluster.files_of(name), entry) {
                (Some(Some(files)), _) => files.replace_fact(name, value, entry).await,
                (Some(None), Some(entry)) => cluster.database.add_entry(entry).await,
                (Some(None), None) => Ok(()),
                (None, _) => cluster.database.replace_fact(name, value, entry).await,
            },
        }
    }

    async fn forget(&self, name: &str) -> Result<(), StoreError> {
        match self {
            Self::Embedded(files) => files.forget(name).await,
            Self::Cluster(cluster) => match cluster.files_of(name) {
                Some(Some(files)) => files.forget(name).await,
                Some(None) => Ok(()),
                None => cluster.database.forget(name).await,
            },
        }
    }
}

impl Changes for AnyStore {
    async fn changes(&self) -> Result<ChangeNumbers, StoreError> {
        shared!(self.changes())
    }
}

/// In a cluster, each node maintains its own copy when it applies a change.
impl Maintenance for AnyStore {
    async fn tidy(&self) -> Result<(), StoreError> {
        shared!(self.tidy())
    }

    async fn flush_removed(&self) -> Result<bool, StoreError> {
        shared!(self.flush_removed())
    }

    /// In a cluster, waits for the nodes.
    async fn wipe_removed(&self) -> Result<(), StoreError> {
        match self {
            Self::Embedded(files) => files.wipe_removed().await,
            Self::Cluster(cluster) => cluster.wipe_removed().await,
        }
    }

    async fn check(&self) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Embedded(files) => files.check().await,
            Self::Cluster(ClusterStore { database, node }) => {
                let mut wrong = database.check().await?;
                if let Some(LocalNode { files, .. }) = node {
                    wrong.extend(files.check().await?);
                }
                Ok(wrong)
            }
        }
    }

    async fn sizes(&self) -> Result<Vec<PartSize>, StoreError> {
        shared!(self.sizes())
    }

    /// In a cluster, a copy of the files of this node: a database is backed up with its own tools.
    async fn copy_to(&self, dir: &Path) -> Result<Vec<String>, StoreError> {
        of_node!(self.copy_to(dir))
    }

    async fn take_over(&self, withdrawals: &Withdrawals, at: Timestamp) -> Result<TakenOver, StoreError> {
        shared!(self.take_over(withdrawals, at))
    }
}
