//! The engine in memory, which fails, is busy or is slow as a seeded plan says.

use std::future::poll_fn;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use contactd_conformance::Memory;
use contactd_core::store::*;
use contactd_core::{
    AdminEntry, AdminToken, AuditPosition, ContactValue, Detail, Kind, Profile, Record, SubjectDigest,
    Timestamp, Token, TokenHash, TokenUpdate, UpdatedToken, UsageDelta, User, UserChange, UserChanged,
};

use crate::dice::Dice;

/// What goes wrong, and when. Everything follows from the seed.
pub(crate) struct Plan {
    dice: Mutex<Dice>,
    is_calm: AtomicBool,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        Self { dice: Mutex::new(Dice::new(seed)), is_calm: AtomicBool::new(false) }
    }

    /// From now on, nothing fails.
    pub(crate) fn calm_down(&self) {
        self.is_calm.store(true, Ordering::SeqCst);
    }

    pub(crate) fn one_in(&self, many: u64) -> bool {
        !self.is_calm.load(Ordering::SeqCst) && self.dice.lock().expect("a lock").one_in(many)
    }

    /// Other things happen meanwhile, or whoever asked gives up.
    pub(crate) async fn pause(&self) {
        while self.one_in(2) {
            poll_once().await;
        }
    }

    /// Before anything was read or changed.
    async fn before(&self) -> Result<(), StoreError> {
        self.pause().await;
        self.fail(14)
    }

    /// It was done, but the answer is lost.
    async fn after(&self) -> Result<(), StoreError> {
        self.pause().await;
        if self.one_in(20) { Err(StoreError::Unavailable("the answer is lost".to_owned())) } else { Ok(()) }
    }

    fn fail(&self, many: u64) -> Result<(), StoreError> {
        if !self.one_in(many) {
            return Ok(());
        }
        Err(match self.dice.lock().expect("a lock").below(3) {
            0 => StoreError::Damaged("a page is damaged".to_owned()),
            1 => StoreError::Engine("it failed".to_owned()),
            _ => StoreError::Unavailable("it is gone".to_owned()),
        })
    }
}

/// A store that fails as planned.
pub(crate) struct Faulty {
    pub(crate) memory: Memory,
    plan: Arc<Plan>,
    is_importing: AtomicBool,
}

impl Faulty {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self { memory: Memory::new(), plan, is_importing: AtomicBool::new(false) }
    }

    /// The engine itself would sleep while another writer is active; here, the others go on.
    async fn writing(&self) -> Result<(), StoreError> {
        self.plan.before().await?;
        if self.is_importing.load(Ordering::SeqCst) || self.plan.one_in(20) {
            poll_once().await;
            return Err(StoreError::Busy);
        }
        Ok(())
    }
}

async fn poll_once() {
    let mut was_polled = false;
    poll_fn(|_| if std::mem::replace(&mut was_polled, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Calls the engine, with what the plan has before and after.
macro_rules! planned {
    ($self:ident, $call:expr) => {{
        $self.plan.before().await?;
        let done = $call.await;
        $self.plan.after().await?;
        done
    }};
}

/// Calls the engine to change details, with what the plan has before and after.
macro_rules! written {
    ($self:ident, $call:expr) => {{
        $self.writing().await?;
        let done = $call.await;
        $self.plan.after().await?;
        done
    }};
}

impl LocalRead for Faulty {
    fn best_personal(
        &self,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> Result<Option<ContactValue>, StoreError> {
        self.plan.fail(12)?;
        let found = self.memory.best_personal(profile, kind, now, judge)?;
        self.plan.fail(20)?;
        Ok(found)
    }

    fn renew(&self) {}

    fn renew_all(&self) {}
}

impl Tokens for Faulty {
    async fn create_token(
        &self,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> Result<(), StoreError> {
        planned!(self, self.memory.create_token(hash, token, entry))
    }
    async fn list_tokens(&self) -> Result<Vec<(TokenHash, Token)>, StoreError> {
        planned!(self, self.memory.list_tokens())
    }
    async fn revoke_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<Token>, StoreError> {
        planned!(self, self.memory.revoke_token(id, at, entry))
    }
    async fn rotate_token(
        &self,
        old: &str,
        old_ends_at: Timestamp,
        hash: &TokenHash,
        token: &Token,
        entry: Noted<'_>,
    ) -> Result<bool, StoreError> {
        planned!(self, self.memory.rotate_token(old, old_ends_at, hash, token, entry))
    }
    async fn update_token(
        &self,
        id: &str,
        update: &TokenUpdate,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<UpdatedToken>, StoreError> {
        planned!(self, self.memory.update_token(id, update, at, entry))
    }
}

impl Accounts for Faulty {
    async fn create_user(&self, user: &User, entry: Noted<'_>) -> Result<bool, StoreError> {
        planned!(self, self.memory.create_user(user, entry))
    }
    async fn find_user(&self, name: &str) -> Result<Option<User>, StoreError> {
        planned!(self, self.memory.find_user(name))
    }
    async fn list_users(&self) -> Result<Vec<User>, StoreError> {
        planned!(self, self.memory.list_users())
    }
    async fn change_user(
        &self,
        name: &str,
        change: &UserChange,
        entry: Noted<'_>,
    ) -> Result<UserChanged, StoreError> {
        planned!(self, self.memory.change_user(name, change, entry))
    }
    async fn create_admin_token(
        &self,
        hash: &TokenHash,
        token: &AdminToken,
        entry: Noted<'_>,
    ) -> Result<(), StoreError> {
        planned!(self, self.memory.create_admin_token(hash, token, entry))
    }
    async fn find_admin_token(&self, hash: &TokenHash) -> Result<Option<AdminToken>, StoreError> {
        planned!(self, self.memory.find_admin_token(hash))
    }
    async fn list_admin_tokens(&self) -> Result<Vec<AdminToken>, StoreError> {
        planned!(self, self.memory.list_admin_tokens())
    }
    async fn revoke_admin_token(
        &self,
        id: &str,
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<Option<AdminToken>, StoreError> {
        planned!(self, self.memory.revoke_admin_token(id, at, entry))
    }
    async fn note_admin_token_use(&self, id: &str, at: Timestamp) -> Result<(), StoreError> {
        planned!(self, self.memory.note_admin_token_use(id, at))
    }
}

impl Suppressions for Faulty {
    async fn suppress(
        &self,
        subjects: &[SubjectDigest],
        at: Timestamp,
        entry: Noted<'_>,
    ) -> Result<u64, StoreError> {
        planned!(self, self.memory.suppress(subjects, at, entry))
    }
    async fn unsuppress(&self, subjects: &[SubjectDigest], entry: Noted<'_>) -> Result<u64, StoreError> {
        planned!(self, self.memory.unsuppress(subjects, entry))
    }
    async fn find_suppression(&self, subjects: &[SubjectDigest]) -> Result<Option<Timestamp>, StoreError> {
        planned!(self, self.memory.find_suppression(subjects))
    }
    async fn list_suppressions(&self) -> Result<Vec<SubjectDigest>, StoreError> {
        planned!(self, self.memory.list_suppressions())
    }
}

impl Usage for Faulty {
    async fn record_usage(&self, usage: &[UsageDelta], at: Timestamp) -> Result<(), StoreError> {
        planned!(self, self.memory.record_usage(usage, at))
    }
    async fn hits_since(&self, family: &str, day: i64) -> Result<u64, StoreError> {
        planned!(self, self.memory.hits_since(family, day))
    }
    async fn hits_by_day(&self, since: i64) -> Result<Vec<DayHits>, StoreError> {
        planned!(self, self.memory.hits_by_day(since))
    }
    async fn raise_hits(&self, hits: &[DayHits]) -> Result<(), StoreError> {
        planned!(self, self.memory.raise_hits(hits))
    }
}

impl Details for Faulty {
    async fn list_details(&self, profile: &Profile) -> Result<Vec<Detail>, StoreError> {
        planned!(self, self.memory.list_details(profile))
    }
    async fn remove_details(
        &self,
        profile: &Profile,
        which: &DetailFilter,
        entry: Noted<'_>,
    ) -> Result<u64, StoreError> {
        written!(self, self.memory.remove_details(profile, which, entry))
    }
    async fn visit_all(
        &self,
        visit: impl FnMut(&Profile, Vec<Detail>) -> bool + Send,
    ) -> Result<(), StoreError> {
        planned!(self, self.memory.visit_all(visit))
    }
    async fn find_holders(
        &self,
        values: &[(Kind, ContactValue)],
    ) -> Result<Vec<(Profile, usize)>, StoreError> {
        planned!(self, self.memory.find_holders(values))
    }
    async fn are_held(&self, profiles: &[Profile]) -> Result<Vec<bool>, StoreError> {
        planned!(self, self.memory.are_held(profiles))
    }
    async fn sweep(&self, plan: SweepPlan<'_>, entry: Noted<'_>) -> Result<Swept, StoreError> {
        written!(self, self.memory.sweep(plan, entry))
    }
    async fn list_retention(&self, now: Timestamp) -> Result<Vec<SourceRetention>, StoreError> {
        planned!(self, self.memory.list_retention(now))
    }
    async fn totals(&self) -> Result<Totals, StoreError> {
        planned!(self, self.memory.totals())
    }
}

type MemoryImport<'a> = <Memory as Importing>::Import<'a>;

/// An import that fails as planned. While it exists, other writers are told that the store is busy.
pub(crate) struct FaultyImport<'a> {
    /// Gone once it is committed.
    inner: Option<MemoryImport<'a>>,
    store: &'a Faulty,
}

impl Drop for FaultyImport<'_> {
    fn drop(&mut self) {
        self.store.is_importing.store(false, Ordering::SeqCst);
    }
}

impl Importing for Faulty {
    type Import<'a> = FaultyImport<'a>;

    fn sort_key(&self, profile: &Profile) -> u64 {
        self.memory.sort_key(profile)
    }
    async fn begin_import(&self, plan: &ImportPlan) -> Result<FaultyImport<'_>, StoreError> {
        self.writing().await?;
        let inner = self.memory.begin_import(plan).await?;
        self.is_importing.store(true, Ordering::SeqCst);
        let import = FaultyImport { inner: Some(inner), store: self };
        self.plan.after().await?;
        Ok(import)
    }
    async fn list_imports(&self) -> Result<Vec<PastImport>, StoreError> {
        planned!(self, self.memory.list_imports())
    }
    async fn undo_import(&self, id: i64, at: Timestamp, entry: Noted<'_>) -> Result<Undo, StoreError> {
        written!(self, self.memory.undo_import(id, at, entry))
    }
    async fn list_former(&self, profile: &Profile) -> Result<Vec<FormerDetail>, StoreError> {
        planned!(self, self.memory.list_former(profile))
    }
    async fn former_total(&self) -> Result<FormerTotal, StoreError> {
        planned!(self, self.memory.former_total())
    }
}

impl Import for FaultyImport<'_> {
    async fn put(&mut self, batch: Vec<Record>) -> Result<(), StoreError> {
        self.store.plan.before().await?;
        self.inner_mut().put(batch).await
    }
    async fn finish(&mut self) -> Result<(), StoreError> {
        self.store.plan.before().await?;
        self.inner_mut().finish().await
    }
    async fn take_back(&mut self, values: &[ValueOfProfile]) -> Result<(), StoreError> {
        self.store.plan.before().await?;
        self.inner_mut().take_back(values).await
    }
    fn counts(&self) -> PutCounts {
        self.inner().counts()
    }
    fn crowds(&self) -> &[Crowd] {
        self.inner().crowds()
    }
    fn withdrawn(&self) -> Vec<WithdrawnFrom> {
        self.inner().withdrawn()
    }
    async fn commit(mut self, summary: &ImportSummary, entry: Noted<'_>) -> Result<i64, StoreError> {
        self.store.plan.before().await?;
        let inner = self.inner.take().expect("not committed yet");
        let committed = inner.commit(summary, entry).await;
        self.store.plan.after().await?;
        committed
    }
}

impl<'a> FaultyImport<'a> {
    fn inner(&self) -> &MemoryImport<'a> {
        self.inner.as_ref().expect("not committed yet")
    }

    fn inner_mut(&mut self) -> &mut MemoryImport<'a> {
        self.inner.as_mut().expect("not committed yet")
    }
}

impl Outbox for Faulty {
    async fn add_entry(&self, entry: &AdminEntry) -> Result<(), StoreError> {
        planned!(self, self.memory.add_entry(entry))
    }
    async fn list_entries(&self) -> Result<Vec<AdminEntry>, StoreError> {
        planned!(self, self.memory.list_entries())
    }
    async fn remove_entries(&self, ids: &[String]) -> Result<(), StoreError> {
        planned!(self, self.memory.remove_entries(ids))
    }
}

impl Facts for Faulty {
    async fn fact(&self, name: &str) -> Result<Option<String>, StoreError> {
        planned!(self, self.memory.fact(name))
    }
    async fn remember(&self, name: &str, value: &str) -> Result<String, StoreError> {
        planned!(self, self.memory.remember(name, value))
    }
    async fn replace_fact(&self, name: &str, value: &str, entry: Noted<'_>) -> Result<(), StoreError> {
        planned!(self, self.memory.replace_fact(name, value, entry))
    }
    async fn forget(&self, name: &str) -> Result<(), StoreError> {
        planned!(self, self.memory.forget(name))
    }
}

impl Changes for Faulty {
    async fn changes(&self) -> Result<ChangeNumbers, StoreError> {
        planned!(self, self.memory.changes())
    }
}

impl Maintenance for Faulty {
    async fn tidy(&self) -> Result<(), StoreError> {
        planned!(self, self.memory.tidy())
    }
    async fn flush_removed(&self) -> Result<bool, StoreError> {
        planned!(self, self.memory.flush_removed())
    }
    async fn wipe_removed(&self) -> Result<(), StoreError> {
        written!(self, self.memory.wipe_removed())
    }
    async fn check(&self) -> Result<Vec<String>, StoreError> {
        planned!(self, self.memory.check())
    }
    async fn sizes(&self) -> Result<Vec<PartSize>, StoreError> {
        planned!(self, self.memory.sizes())
    }
    async fn copy_to(&self, dir: &Path) -> Result<Vec<String>, StoreError> {
        planned!(self, self.memory.copy_to(dir))
    }
    async fn take_over(&self, withdrawals: &Withdrawals, at: Timestamp) -> Result<TakenOver, StoreError> {
        planned!(self, self.memory.take_over(withdrawals, at))
    }
}

impl JournalCopies for Faulty {}

impl AuditIndex for Faulty {
    async fn audit_position(&self, node: &str) -> Result<AuditPosition, StoreError> {
        planned!(self, self.memory.audit_position(node))
    }
    async fn index_audit(&self, step: IndexStep<'_>) -> Result<bool, StoreError> {
        planned!(self, self.memory.index_audit(step))
    }
    async fn reset_audit_index(&self, node: &str, first_day: i64) -> Result<(), StoreError> {
        planned!(self, self.memory.reset_audit_index(node, first_day))
    }
    async fn forget_audit(&self, node: &str, through: u64) -> Result<(), StoreError> {
        planned!(self, self.memory.forget_audit(node, through))
    }
    async fn find_entries(&self, ids: &[String]) -> Result<Vec<String>, StoreError> {
        planned!(self, self.memory.find_entries(ids))
    }
    async fn indexed(&self, node: &str, from: u64, through: u64) -> Result<Vec<IndexedLine>, StoreError> {
        planned!(self, self.memory.indexed(node, from, through))
    }
    async fn count_foreign(&self, node: &str) -> Result<u64, StoreError> {
        planned!(self, self.memory.count_foreign(node))
    }
    async fn remove_foreign(&self, node: &str) -> Result<(), StoreError> {
        planned!(self, self.memory.remove_foreign(node))
    }
    async fn check_index(&self) -> Result<Vec<String>, StoreError> {
        planned!(self, self.memory.check_index())
    }
    async fn audit_usage_of(&self, node: &str) -> Result<Vec<AuditUsage>, StoreError> {
        planned!(self, self.memory.audit_usage_of(node))
    }
    async fn visit_audit(
        &self,
        filter: &AuditFilter,
        visit: impl FnMut(IndexedLine) -> bool + Send,
    ) -> Result<(), StoreError> {
        planned!(self, self.memory.visit_audit(filter, visit))
    }
    async fn audit_usage(&self, since: i64) -> Result<Vec<AuditUsage>, StoreError> {
        planned!(self, self.memory.audit_usage(since))
    }
}
