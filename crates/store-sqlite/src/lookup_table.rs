//! The lookup table of this store: which one answers lookups, and keeping it right.
//!
//! Every transaction that changes details stores what it changed (`state.rs`). A server reads that before it confirms a change, and
//! keeps it in memory (`overlay.rs`). A table is used only if `details.db` names it, and everything that was changed since it was made
//! is known; else lookups read `details.db`. So it can be missing, never wrong.

mod beside;
mod files;
mod making;
mod overlay;
mod state;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use contactd_core::store::place::{first_id, place_of};
use contactd_core::store::{StoreError, Verdict};
use contactd_core::{ContactValue, Kind, Profile, Timestamp};
use contactd_lookup_table::{Table, Unsure, Values, order_of_place, wipe};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Result};

use crate::connection;

use overlay::Overlay;
use state::TableState;

pub(crate) use beside::MadeBeside;
pub(crate) use making::{Made, make};
pub(crate) use state::{ChangedPlaces, MOST_CHANGED};

/// From this many changed places on, the table is made anew.
const MANY_CHANGED: usize = 5_000;
/// What was changed or removed is in the memory of a server, as part of a table, for at most this long.
const LONGEST_OUTDATED: Duration = Duration::from_secs(45 * 60);
/// How long to wait after a table could not be made.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
/// After a table was made, the next one waits this many times as long as that took.
const REST_FACTOR: u32 = 10;

/// The table of a store.
pub(crate) struct LookupTable {
    dir: PathBuf,
    /// How much memory a table may take; `None` if this process answers no lookups.
    memory: Option<u64>,
    current: Mutex<Arc<Current>>,
    /// Held by whoever replaces `current`.
    following: Mutex<Following>,
    /// A lookup found the table damaged.
    is_damaged: AtomicBool,
}

/// What lookups read.
#[derive(Debug, Default)]
pub(crate) struct Current(Option<InUse>);

#[derive(Debug)]
struct InUse {
    table: Arc<Table>,
    overlay: Overlay,
    /// The change up to which `overlay` is complete.
    number: i64,
    /// When the first change after the table was made was noticed.
    changed_since: Option<Instant>,
}

#[derive(Default)]
struct Following {
    reader: Option<Connection>,
    /// A table in memory that is not used any more, until the last lookup has let go of it.
    last: Weak<Table>,
    /// When the next table may be made.
    rests_until: Option<Instant>,
    /// Why the last one could not be made, which is logged once.
    fault: Option<String>,
    /// Files were looked through.
    is_tidy: bool,
}

/// Where lookups are answered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredFrom {
    /// A table in memory.
    Memory,
    /// A table, with one read of its file.
    File,
    /// The details themselves.
    Store,
}

/// The table that answers lookups, for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableStatus {
    /// Where lookups are answered from.
    pub from: AnsweredFrom,
    /// The size of the table, in bytes.
    pub bytes: u64,
    /// Its records: what is held of one kind for one profile.
    pub records: u64,
    /// Places that were changed since it was made.
    pub changed: usize,
}

impl LookupTable {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            memory: None,
            current: Mutex::default(),
            following: Mutex::default(),
            is_damaged: AtomicBool::new(false),
        }
    }

    /// From now on this process answers lookups, from a table in memory if it is not larger than this.
    pub(crate) fn answer_lookups(&mut self, memory: u64) {
        self.memory = Some(memory);
    }

    /// What lookups read now.
    pub(crate) fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.lock())
    }

    pub(crate) fn status(&self) -> TableStatus {
        match &self.current().0 {
            None => TableStatus { from: AnsweredFrom::Store, bytes: 0, records: 0, changed: 0 },
            Some(InUse { table, overlay, .. }) => TableStatus {
                from: if table.is_in_memory() { AnsweredFrom::Memory } else { AnsweredFrom::File },
                bytes: table.bytes(),
                records: table.records(),
                changed: overlay.len(),
            },
        }
    }

    /// How much room tables take on disk: two while the next one is made.
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        let sizes = files::others(&self.dir, None).unwrap_or_default();
        sizes.iter().filter_map(|path| path.metadata().ok()).map(|table| table.len()).sum()
    }

    /// Notes why a lookup had to ask the store.
    pub(crate) fn note(&self, unsure: Unsure) {
        if unsure == Unsure::Damaged && !self.is_damaged.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the lookup table is damaged or cannot be read: lookups read details.db until it is made anew"
            );
        }
    }

    /// When this returns, lookups see everything that was committed before.
    pub(crate) fn follow(&self) {
        if self.memory.is_none() {
            return;
        }
        let mut following = self.following.lock();
        let current = self.current();
        let next = following.read(&self.dir, &current);
        let next = next.unwrap_or_else(|error| {
            let error = connection::error(error);
            tracing::warn!(%error, "cannot read what has changed since the lookup table was made: lookups read details.db");
            following.reader = None;
            Some(Current(None))
        });
        if let Some(next) = next {
            self.replace(&mut following, &current, next);
        }
    }

    fn replace(&self, following: &mut Following, old: &Current, next: Current) {
        let table = |current: &Current| current.0.as_ref().map(|used| Arc::clone(&used.table));
        let (old, new) = (table(old), table(&next));
        let goes = old.filter(|old| !new.is_some_and(|new| Arc::ptr_eq(old, &new)));
        if let Some(goes) = goes.filter(|goes| goes.is_in_memory()) {
            following.last = Arc::downgrade(&goes);
        }
        *self.current.lock() = Arc::new(next);
    }

    /// Makes the table if there is none that can be used, or if much has changed, and reads it into memory if there is room. Takes
    /// as long as reading all details.
    pub(crate) fn maintain(&self) -> Result<()> {
        let Some(memory) = self.memory else { return Ok(()) };
        if self.current().0.is_none() {
            self.follow();
        }
        if self.is_due() {
            let began = Instant::now();
            let made = self.make_next();
            let mut following = self.following.lock();
            following.is_tidy = false;
            let rest = match made {
                Ok(true) => {
                    following.fault = None;
                    began.elapsed() * REST_FACTOR
                }
                Ok(false) => Duration::from_secs(1),
                Err(error) => {
                    let error = connection::error(error).to_string();
                    if following.fault.as_ref() != Some(&error) {
                        tracing::warn!(
                            error,
                            "cannot make the lookup table: lookups read details.db; trying again"
                        );
                        following.fault = Some(error);
                    }
                    RETRY_PAUSE
                }
            };
            following.rests_until = Some(Instant::now() + rest);
        }
        self.read_into_memory(memory);
        self.remove_abandoned();
        Ok(())
    }

    fn is_due(&self) -> bool {
        if self.following.lock().rests_until.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        match &self.current().0 {
            None => true,
            Some(used) => {
                self.is_damaged.load(Ordering::Relaxed)
                    || used.overlay.len() > MANY_CHANGED
                    || used.changed_since.is_some_and(|since| since.elapsed() > LONGEST_OUTDATED)
            }
        }
    }

    /// Makes a table and puts it in use. False if the details are not all there yet.
    fn make_next(&self) -> Result<bool> {
        let details = self.dir.join("details.db");
        let reader = connection::reader(&details)?;
        reader.execute_batch("BEGIN")?;
        let loading = "SELECT loaded_through IS NOT NULL FROM copy";
        if reader.query_row(loading, (), |row| row.get(0)).optional()?.unwrap_or(false) {
            return Ok(false);
        }
        let seen = TableState::read(&reader)?;
        let made = make(&reader, &self.dir)?;
        drop(reader);
        let mut writer = connection::writer(&details)?;
        let transaction = connection::write(&mut writer)?;
        let is_named = TableState::name(&transaction, made.id, seen.number)?;
        transaction.commit()?;
        if is_named {
            made.keep();
            self.is_damaged.store(false, Ordering::Relaxed);
            self.follow();
        }
        Ok(is_named)
    }

    fn read_into_memory(&self, memory: u64) {
        let mut following = self.following.lock();
        let current = self.current();
        let Some(used) = &current.0 else { return };
        // Never two tables in memory: the last one has to be gone first.
        if used.table.is_in_memory() || used.table.bytes() > memory || following.last.strong_count() > 0 {
            return;
        }
        let id = used.table.id();
        let read = File::open(files::path(&self.dir, id)).and_then(|file| Table::in_memory(&file, id));
        match read {
            Ok(table) => {
                let next = InUse { table: Arc::new(table), overlay: used.overlay.clone(), ..*used };
                self.replace(&mut following, &current, Current(Some(next)));
            }
            // Lookups read the file, or find that they cannot.
            Err(error) => tracing::debug!(%error, "the lookup table is not read into memory"),
        }
    }

    fn remove_abandoned(&self) {
        let mut following = self.following.lock();
        if following.is_tidy {
            return;
        }
        let named = self.current().0.as_ref().map(|used| used.table.id());
        let removed = files::others(&self.dir, named)
            .and_then(|others| others.iter().try_for_each(|path| files::remove_abandoned(path)));
        match removed {
            Ok(()) => following.is_tidy = true,
            Err(error) => tracing::debug!(%error, "an old lookup table is not removed yet"),
        }
    }
}

impl Following {
    /// What lookups have to read from now on; `None` if that is what they read already.
    fn read(&mut self, dir: &Path, current: &Current) -> Result<Option<Current>> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(connection::reader(&dir.join("details.db"))?),
        };
        let snapshot = reader.transaction()?;
        let state = TableState::read(&snapshot)?;
        let Some(id) = state.id else { return Ok(Some(Current(None))) };
        let mut next = match &current.0 {
            Some(used) if used.table.id() == id && used.number >= state.complete_from => {
                if used.number == state.number {
                    return Ok(None);
                }
                InUse { table: Arc::clone(&used.table), overlay: used.overlay.clone(), ..*used }
            }
            _ => {
                self.is_tidy = false;
                let opened = File::open(files::path(dir, id)).and_then(|file| Table::open(file, id));
                let Ok(table) = opened else { return Ok(Some(Current(None))) };
                InUse {
                    table: Arc::new(table),
                    overlay: Overlay::default(),
                    number: state.complete_from,
                    changed_since: None,
                }
            }
        };
        next.overlay.read_changed(&snapshot, next.number)?;
        next.number = state.number;
        if next.overlay.len() > 0 {
            next.changed_since = next.changed_since.or_else(|| Some(Instant::now()));
        }
        Ok(Some(Current(Some(next))))
    }
}

impl Current {
    /// What a lookup finds; `None` if it has to ask the store.
    ///
    /// Table and overlay are both read, whatever is in them, so that nobody can tell by the time who was removed.
    pub(crate) fn find(
        &self,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> Option<std::result::Result<Option<ContactValue>, Unsure>> {
        let used = self.0.as_ref()?;
        let id = first_id(profile, kind);
        let changed = used.overlay.find(place_of(id), profile.key(), kind);
        let choose = |held: Option<Values<'_>>| first_taken(held, kind, now, &judge);
        let found = used.table.find(id, profile.key(), kind, |held| match &changed {
            Some(changed) => choose(changed.clone()),
            None => choose(held),
        });
        match (found, changed) {
            (Ok(found), _) => Some(found.ok_or(Unsure::Wiped)),
            (Err(_), Some(changed)) => Some(choose(changed).ok_or(Unsure::Wiped)),
            (Err(unsure), None) => Some(Err(unsure)),
        }
    }
}

/// The first value that is taken. `None`: there are more in the store than in the table.
fn first_taken(
    held: Option<Values<'_>>,
    kind: Kind,
    now: Timestamp,
    judge: impl Fn(&str) -> Verdict,
) -> Option<Option<ContactValue>> {
    let mut is_judged = false;
    if let Some(mut held) = held {
        for value in held.by_ref() {
            if value.expires_at.is_some_and(|at| at.seconds() <= now.seconds()) {
                continue;
            }
            is_judged = true;
            match judge(value.text) {
                Verdict::Take => return Some(Some(ContactValue::from_store(value.text.to_owned()))),
                Verdict::Next => {}
                Verdict::Enough => return Some(None),
            }
        }
        if held.is_cut() {
            return None;
        }
    }
    if !is_judged {
        // So that whoever is not held costs as much.
        let _ = judge(match kind {
            Kind::Phone => "+14155550100",
            Kind::Email => "nobody@example.com",
        });
    }
    Some(None)
}

/// Overwrites, on disk, everything of tables in this directory that is not in the details any more.
pub(crate) fn wipe_removed(dir: &Path) -> Result<()> {
    let details = connection::reader(&dir.join("details.db"))?;
    details.execute_batch("BEGIN")?;
    let named = TableState::read(&details)?.id;
    let orders: Vec<u32> =
        state::changed_after(&details, i64::MIN)?.into_iter().map(order_of_place).collect();
    drop(details);
    let wiped = (|| {
        for path in files::others(dir, named)? {
            files::destroy(&path)?;
        }
        let Some(path) = named.map(|id| files::path(dir, id)) else { return Ok(()) };
        match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // If it is damaged, it is not known what is in it.
            opened => opened.and_then(|file| wipe(&file, &orders)).or_else(|_| files::destroy(&path)),
        }
    })();
    wiped.map_err(|error: io::Error| {
        connection::refused(StoreError::Unavailable(format!("a lookup table cannot be overwritten: {error}")))
    })
}

/// A time as it is stored in the details.
fn timestamp(seconds: Option<i64>) -> Option<Timestamp> {
    seconds.map(Timestamp::from_seconds)
}
