//! The SQLite engine, which fails, is busy or is slow as a seeded plan says.

use std::future::poll_fn;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use async_trait::async_trait;
use contactd_core::store::*;
use contactd_core::{
    AdminEntry, AuditPosition, ContactValue, Detail, Kind, Profile, Record, SlugParts, SubjectDigest,
    Timestamp, UsageDelta,
};
use contactd_store_sqlite::SqliteStore;
use contactd_testing::{Dice, InTempDir};

/// What goes wrong, and when. Everything follows from the seed.
pub(crate) struct Plan {
    dice: Mutex<Dice>,
    is_calm: AtomicBool,
    never_fails: AtomicBool,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Mutex::new(Dice::new(seed)),
            is_calm: AtomicBool::new(false),
            never_fails: AtomicBool::new(false),
        }
    }

    /// From now on, nothing fails or waits, or it does again.
    pub(crate) fn be_calm(&self, is_calm: bool) {
        self.is_calm.store(is_calm, Ordering::SeqCst);
    }

    /// From now on, it is slow at most.
    pub(crate) fn fail_no_more(&self) {
        self.never_fails.store(true, Ordering::SeqCst);
    }

    fn fails_one_in(&self, many: u64) -> bool {
        !self.never_fails.load(Ordering::SeqCst) && self.one_in(many)
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
    async fn before(&self) -> Stored<()> {
        self.pause().await;
        self.fail(14)
    }

    /// It was done, but the answer is lost.
    async fn after(&self) -> Stored<()> {
        self.pause().await;
        if self.fails_one_in(20) {
            Err(StoreError::Unavailable("the answer is lost".to_owned()))
        } else {
            Ok(())
        }
    }

    fn fail(&self, many: u64) -> Stored<()> {
        if !self.fails_one_in(many) {
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
    pub(crate) engine: InTempDir<SqliteStore>,
    plan: Arc<Plan>,
    is_importing: AtomicBool,
}

impl Faulty {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self { engine: InTempDir::open(SqliteStore::open), plan, is_importing: AtomicBool::new(false) }
    }

    /// A call that changes no details, with what the plan has before and after.
    async fn calling<T>(&self, call: impl Answer<T>) -> Stored<T> {
        self.plan.before().await?;
        let done = call.await;
        self.plan.after().await?;
        done
    }

    /// A call that changes details.
    async fn writing<T>(&self, call: impl Answer<T>) -> Stored<T> {
        self.may_write().await?;
        let done = call.await;
        self.plan.after().await?;
        done
    }

    /// The engine itself would sleep while another writer is active; here, the others go on.
    async fn may_write(&self) -> Stored<()> {
        self.plan.before().await?;
        if self.is_importing.load(Ordering::SeqCst) || self.plan.fails_one_in(20) {
            poll_once().await;
            return Err(StoreError::Busy);
        }
        Ok(())
    }
}

/// What a method of the engine returns.
trait Answer<T>: Future<Output = Stored<T>> + Send {}
impl<T, F: Future<Output = Stored<T>> + Send> Answer<T> for F {}

async fn poll_once() {
    let mut was_polled = false;
    poll_fn(|_| if std::mem::replace(&mut was_polled, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

impl Store for Faulty {}

impl LocalRead for Faulty {
    fn best_personal(
        &self,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> Stored<Option<ContactValue>> {
        self.plan.fail(12)?;
        let found = self.engine.best_personal(profile, kind, now, judge);
        // A thread that serves does so by itself in time. This one changes the store, too, and would wait for itself.
        self.engine.renew();
        self.plan.fail(20)?;
        found
    }

    fn renew(&self) {
        self.engine.renew();
    }

    fn renew_all(&self) {
        self.engine.renew_all();
    }
}

/// Implements traits by calls of the engine, each with how it is called.
macro_rules! faulty {
    ($($trait:ident { $($call:ident $name:ident($($arg:ident: $of:ty),*) -> $done:ty;)* })*) => {
        $(#[async_trait]
        impl $trait for Faulty {
            $(async fn $name(&self, $($arg: $of),*) -> Stored<$done> {
                self.$call(self.engine.$name($($arg),*)).await
            })*
        })*
    };
}

faulty! {
    Entities {
        calling list_rows(table: EntityTable) -> Vec<EntityRow>;
        calling change_rows(table: EntityTable, decide: Decide<'_>, entry: Noted<'_>) -> Vec<EntityRow>;
        calling note_use(table: EntityTable, id: &str, at: Timestamp) -> ();
    }
    Suppressions {
        calling suppress(subjects: &[SubjectDigest], at: Timestamp, entry: Noted<'_>) -> u64;
        calling unsuppress(subjects: &[SubjectDigest], entry: Noted<'_>) -> u64;
        calling find_suppression(subjects: &[SubjectDigest]) -> Option<Timestamp>;
        calling list_suppressions() -> Vec<SubjectDigest>;
    }
    Usage {
        calling record_usage(usage: &[UsageDelta], at: Timestamp) -> ();
        calling hits_since(family: &str, day: i64) -> u64;
        calling hits_by_day(since: i64) -> Vec<DayHits>;
    }
    Details {
        calling list_details(profile: &Profile) -> Vec<Detail>;
        writing remove_details(profile: &Profile, which: &DetailFilter, entry: Noted<'_>) -> u64;
        calling visit_all(visit: VisitDetails<'_>) -> ();
        calling find_holders(values: &[(Kind, ContactValue)]) -> Vec<(Profile, usize)>;
        calling find_by_slug(parts: &SlugParts, limits: ScanLimits) -> Vec<Profile>;
        calling are_held(profiles: &[Profile]) -> Vec<bool>;
        writing sweep(plan: SweepPlan<'_>, entry: Noted<'_>) -> Swept;
        calling list_retention(now: Timestamp) -> Vec<SourceRetention>;
        calling totals() -> Totals;
    }
    Outbox {
        calling add_entry(entry: &AdminEntry) -> ();
        calling list_entries() -> Vec<AdminEntry>;
        writing remove_entries(ids: &[String]) -> ();
    }
    Facts {
        calling fact(name: &str) -> Option<String>;
        calling remember(name: &str, value: &str) -> String;
        calling replace_fact(name: &str, value: &str, entry: Noted<'_>) -> ();
        calling forget(name: &str) -> ();
    }
    Changes {
        calling changes() -> ChangeNumbers;
    }
    Maintenance {
        calling tidy() -> ();
        calling flush_removed() -> bool;
        writing wipe_removed() -> ();
        calling check() -> Vec<String>;
        calling sizes() -> Vec<PartSize>;
        calling copy_to(dir: &Path) -> Vec<String>;
        calling take_over(withdrawals: &Withdrawals, at: Timestamp) -> TakenOver;
    }
    JournalCopies {}
    AuditIndex {
        calling audit_position(node: &str) -> AuditPosition;
        calling index_audit(step: IndexStep<'_>) -> bool;
        calling reset_audit_index(node: &str, first_day: i64) -> ();
        calling forget_audit(node: &str, through: u64) -> ();
        calling find_entries(ids: &[String]) -> Vec<EntryPlace>;
        calling indexed(node: &str, from: u64, through: u64) -> Vec<IndexedLine>;
        calling indexed_nodes() -> Vec<String>;
        calling count_after_position(node: &str) -> u64;
        calling remove_node(node: &str) -> ();
        calling check_index() -> Vec<String>;
        calling audit_usage_of(node: &str) -> Vec<AuditUsage>;
        calling visit_audit(filter: &AuditFilter, visit: VisitLines<'_>) -> ();
        calling audit_usage(since: i64) -> Vec<AuditUsage>;
    }
}

#[async_trait]
impl Importing for Faulty {
    async fn begin_import(&self, plan: &ImportPlan) -> Stored<Box<dyn Import + '_>> {
        self.may_write().await?;
        let engine = self.engine.begin_import(plan).await?;
        self.is_importing.store(true, Ordering::SeqCst);
        let import = FaultyImport { engine, plan: &self.plan, _others_wait: OthersWait(&self.is_importing) };
        self.plan.after().await?;
        Ok(Box::new(import))
    }
    async fn list_imports(&self) -> Stored<Vec<PastImport>> {
        self.calling(self.engine.list_imports()).await
    }
    async fn undo_import(&self, id: i64, at: Timestamp, entry: Noted<'_>) -> Stored<Undo> {
        self.writing(self.engine.undo_import(id, at, entry)).await
    }
    async fn list_former(&self, profile: &Profile) -> Stored<Vec<FormerDetail>> {
        self.calling(self.engine.list_former(profile)).await
    }
    async fn former_total(&self) -> Stored<FormerTotal> {
        self.calling(self.engine.former_total()).await
    }
}

/// An import that fails as planned.
struct FaultyImport<'a> {
    engine: Box<dyn Import + 'a>,
    plan: &'a Plan,
    _others_wait: OthersWait<'a>,
}

/// While this exists, other writers are told that the store is busy.
struct OthersWait<'a>(&'a AtomicBool);

impl Drop for OthersWait<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[async_trait]
impl Import for FaultyImport<'_> {
    async fn put(&mut self, batch: Vec<Record>) -> Stored<()> {
        self.plan.before().await?;
        self.engine.put(batch).await
    }
    async fn finish(&mut self) -> Stored<()> {
        self.plan.before().await?;
        self.engine.finish().await
    }
    async fn take_back(&mut self, values: &[ValueOfProfile]) -> Stored<()> {
        self.plan.before().await?;
        self.engine.take_back(values).await
    }
    fn merging(&self) -> &merge::Merging {
        self.engine.merging()
    }
    async fn commit(self: Box<Self>, summary: &ImportSummary, entry: Noted<'_>) -> Stored<i64> {
        let Self { engine, plan, _others_wait } = *self;
        plan.before().await?;
        let committed = engine.commit(summary, entry).await;
        plan.after().await?;
        committed
    }
}
