//! An in-memory engine for tests only: plain maps behind one mutex, not optimised for speed.

mod access;
mod accounts;
mod audit;
mod details;
mod imports;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use contactd_core::store::{LocalRead, Outbox, PastImport, StoreError, Verdict};
use contactd_core::{
    AdminEntry, AdminToken, AuditPosition, ContactValue, Detail, Kind, Label, Profile, SubjectDigest,
    Timestamp, Token, TokenHash, User,
};

/// An in-memory store. It can be made unreachable, like a database on the network.
#[derive(Default)]
pub struct Memory {
    state: Mutex<State>,
    /// Whether an import is in progress.
    is_importing: AtomicBool,
    is_unreachable: AtomicBool,
}

#[derive(Default)]
struct State {
    /// By the profile's key.
    people: BTreeMap<String, Vec<Kept>>,
    imports: Vec<PastImport>,
    former: Vec<Former>,
    import_sources: BTreeMap<i64, BTreeSet<String>>,
    max_ages: HashMap<String, std::time::Duration>,
    tokens: Vec<(TokenHash, Token)>,
    users: BTreeMap<String, User>,
    admin_tokens: Vec<(TokenHash, AdminToken)>,
    suppressions: Vec<(SubjectDigest, Timestamp)>,
    usage: Vec<(String, i64, u64)>,
    facts: HashMap<String, String>,
    outbox: Vec<AdminEntry>,
    audit: audit::Index,
    access_changes: u64,
    detail_changes: u64,
}

/// A detail, the import that added it, and the last import that contained it.
#[derive(Clone)]
struct Kept {
    detail: Detail,
    added_by: i64,
    given_by: i64,
}

/// A detail as it was before an import changed or withdrew it.
#[derive(Clone)]
struct Former {
    import: i64,
    profile: String,
    kept: Kept,
    is_withdrawn: bool,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes every method fail with [`StoreError::Unavailable`], or work again.
    pub fn set_unreachable(&self, is_unreachable: bool) {
        self.is_unreachable.store(is_unreachable, Ordering::SeqCst);
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        if self.is_unreachable.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("it was switched off".to_owned()));
        }
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The state for changing details; [`StoreError::Busy`] while an import is in progress.
    fn writing(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.state()?;
        if self.is_importing.load(Ordering::SeqCst) {
            drop(state);
            // Callers retry at once, so an engine waits a moment before it returns `Busy`.
            std::thread::sleep(std::time::Duration::from_millis(5));
            return Err(StoreError::Busy);
        }
        Ok(state)
    }
}

/// Phone before e-mail, personal before work, then best first: highest confidence, newest, smallest value.
fn sort(kept: &mut [Kept]) {
    kept.sort_by(|a, b| {
        let order = |kept: &Kept| {
            let detail = &kept.detail;
            let observed = detail.observed_at.map_or(i64::MIN, Timestamp::seconds);
            (detail.kind, detail.label, std::cmp::Reverse((detail.confidence, observed)))
        };
        let smallest = |kept: &Kept| (kept.detail.value.clone(), kept.detail.source.clone());
        order(a).cmp(&order(b)).then_with(|| smallest(a).cmp(&smallest(b)))
    });
}

impl State {
    /// Stores the entry of a change.
    fn note(&mut self, entry: Option<&AdminEntry>, counts: &[(&str, u64)]) {
        self.outbox.extend(entry.map(|entry| entry.counted(counts)));
    }
}

impl Outbox for Memory {
    async fn add_entry(&self, entry: &AdminEntry) -> Result<(), StoreError> {
        self.state()?.note(Some(entry), &[]);
        Ok(())
    }

    async fn list_entries(&self) -> Result<Vec<AdminEntry>, StoreError> {
        Ok(self.state()?.outbox.clone())
    }

    async fn remove_entries(&self, ids: &[String]) -> Result<(), StoreError> {
        self.state()?.outbox.retain(|entry| !ids.contains(&entry.entry));
        Ok(())
    }
}

impl LocalRead for Memory {
    fn best_personal(
        &self,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> Result<Option<ContactValue>, StoreError> {
        let state = self.state()?;
        let held = state.people.get(profile.key()).map(Vec::as_slice).unwrap_or_default();
        let counts = |kept: &&Kept| {
            let detail = &kept.detail;
            detail.kind == kind
                && detail.label == Label::Personal
                && detail.expires_at.is_none_or(|end| end.seconds() > now.seconds())
        };
        let mut was_offered = false;
        for kept in held.iter().filter(counts) {
            was_offered = true;
            match judge(kept.detail.value.expose()) {
                Verdict::Take => return Ok(Some(kept.detail.value.clone())),
                Verdict::Next => {}
                Verdict::Enough => break,
            }
        }
        let anybody = state.people.values().flatten().next();
        if let Some(anybody) = anybody.filter(|_| !was_offered) {
            let _ = judge(anybody.detail.value.expose());
        }
        Ok(None)
    }

    fn renew(&self) {}

    fn renew_all(&self) {}
}

/// How far the journal of each node has been indexed.
type Positions = HashMap<String, AuditPosition>;
/// The indexed lines, by node and number.
type Lines<T> = BTreeMap<(String, u64), T>;
