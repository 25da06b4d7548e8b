//! Following tokens and suppressions, and heartbeats.

use std::time::{Duration, Instant};

use contactd_core::RefreshError;
use contactd_core::store::copying::ChangePoint;
use contactd_core::store::{StoreError, Stored};
use contactd_store_postgres::{Heartbeat, HeartbeatAnswer, Listening, NewestChanges, PostgresStore};

use crate::settings::NodeSettings;
use crate::state::{Following, Shared};

/// The longest pause between two looks at the database: a connection to a frozen host hears nothing.
const LONGEST_LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Between two heartbeats.
const LONGEST_HEARTBEAT_PAUSE: Duration = Duration::from_secs(5);
const SHORTEST_HEARTBEAT_PAUSE: Duration = Duration::from_millis(100);

/// What this thread remembers between two looks.
struct Follower<'a> {
    shared: &'a Shared,
    is_registered: bool,
    next_heartbeat: Instant,
    /// When tokens and suppressions are counted next.
    next_count: Instant,
}

pub(crate) fn run(shared: &Shared) {
    shared.settings.runtime.block_on(async {
        let now = Instant::now();
        Follower { shared, is_registered: false, next_heartbeat: now, next_count: now }.run().await;
    });
}

/// Why a look at the database failed.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Refresh(#[from] RefreshError),
}

impl Follower<'_> {
    async fn run(&mut self) {
        let shared = self.shared;
        let database = &*shared.settings.database;
        let mut listening: Option<Listening<'_>> = None;
        while !shared.is_stopping() {
            if listening.is_none() {
                // It listens before it looks, so that it misses nothing.
                listening = shared.unless_stopped(database.listen()).await.ok();
            }
            let looked = shared.unless_stopped(async { Ok(self.look().await) }).await;
            match looked.map_err(LookError::from).flatten() {
                Ok(()) => self.shared.note_no_trouble(Following::Access),
                Err(error) => {
                    self.shared.note_trouble(Following::Access, &error);
                    listening = None;
                }
            }
            let waited = shared.unless_stopped(async { Ok(self.wait(database, listening.as_ref()).await) });
            if !waited.await.unwrap_or(false) {
                listening = None;
            }
        }
    }

    /// Waits for a change, for a heartbeat that is due, or for the thread of details.
    async fn wait(&self, database: &PostgresStore, listening: Option<&Listening<'_>>) -> bool {
        let shared = self.shared;
        let Some(listening) = listening else {
            tokio::select! {
                () = database.sleep(RETRY_PAUSE) => {}
                () = shared.heartbeat_due.notified() => {}
            }
            return false;
        };
        let most = LONGEST_LOOK_PAUSE.min(self.next_heartbeat.saturating_duration_since(Instant::now()));
        tokio::select! {
            is_open = listening.wait(most) => is_open,
            () = shared.heartbeat_due.notified() => true,
        }
    }

    /// Looks at the database once: applies what is new, and sends a heartbeat if it is due.
    async fn look(&mut self) -> Result<(), LookError> {
        let shared = self.shared;
        let NodeSettings { database, local, put_in_force, .. } = &shared.settings;
        if !self.is_registered {
            let lineage = self.check_database().await?;
            let is_registered = database.has_node(&shared.settings.node).await?;
            self.check_copy(&lineage, is_registered)?;
            let (details, wiped) = {
                let state = shared.state();
                (state.details_number(), state.wiped)
            };
            shared.register(details, wiped).await?;
            self.is_registered = true;
        }
        let newest = database.numbers().await?;
        let mine = shared.state().access.clone();
        let mut is_known = mine.number == 0 || database.knows_access(&mine).await?;
        if !is_known || newest.access.number != mine.number || !shared.state().access_is_in_force {
            let mut since = mine.number;
            let mut changes = database.read_access_since(since).await?;
            // What was needed may have been removed before it was read, so this is checked afterwards.
            is_known = is_known && (mine.number == 0 || database.knows_access(&mine).await?);
            if !is_known {
                self.check_database().await?;
                tracing::warn!("the database has another history than this node: everything is copied anew");
                shared.forget_copy();
                since = -1;
                changes = database.read_access_since(since).await?;
            }
            let is_whole = since <= 0;
            local.apply_access(&changes, is_whole)?;
            put_in_force().await?;
            let mut state = shared.state();
            state.access = changes.at;
            state.access_is_in_force = true;
            drop(state);
            self.next_heartbeat = Instant::now();
        }
        self.count_if_due().await?;
        let mine = shared.state().details.clone();
        if let Some(mine) = mine
            && !database.knows_details(&mine).await?
        {
            self.check_database().await?;
            tracing::warn!("the database does not know the details of this node: they are copied anew");
            shared.forget_copy();
        }
        let NewestChanges { access, details } = newest;
        shared.note_newest(access.number, details.number);
        // Another node may want units of quotas, or have given some back.
        if let Some(leases) = shared.settings.callers.leases() {
            leases.poke();
        }
        Ok(self.beat_if_due().await?)
    }

    /// Compares how many tokens and suppressions there are, once in a lease: rows that came into the database without a change, as
    /// when its tables are filled one after another by another program, are in no number.
    async fn count_if_due(&mut self) -> Stored<()> {
        let shared = self.shared;
        let NodeSettings { database, local, lease_length, .. } = &shared.settings;
        if Instant::now() < self.next_count {
            return Ok(());
        }
        self.next_count = Instant::now() + *lease_length;
        let ((at, there), here) = (database.count_access().await?, local.count_access()?);
        if at != shared.state().access || there == here {
            return Ok(());
        }
        if there.suppressions < here.suppressions {
            // They may have been removed by mistake, and are kept in force here.
            tracing::error!(
                database = there.suppressions,
                copy = here.suppressions,
                "the database has fewer opt-outs than this node, although none was withdrawn: `contactd node verify`"
            );
        }
        if there.suppressions > here.suppressions || there.tokens > here.tokens {
            tracing::warn!("the database has more tokens or opt-outs than this node: they are copied anew");
            let mut state = shared.state();
            state.end_lease(&shared.settings);
            state.access = ChangePoint::default();
            state.access_is_in_force = false;
            drop(state);
            shared.heartbeat_due.notify_one();
        }
        Ok(())
    }

    /// Makes sure, before anything is copied anew, that the database is whole, and the one that this node has a copy of: its copy may
    /// be the only place that has what it holds. If not, nothing is answered from it. Gives the id of the database.
    async fn check_database(&self) -> Stored<String> {
        let settings = &self.shared.settings;
        let checked = async {
            let lineage = settings.database.lineage().await?;
            match settings.local.copy_state()? {
                Some(copied) if copied.lineage != lineage => Err(StoreError::Unavailable(
                    "this is another database than the one that this node has a copy of: check where it should be, or restore \
                     it; to begin a new cluster, start the node with an empty data directory"
                        .to_owned(),
                )),
                _ => Ok(lineage),
            }
        };
        let checked = checked.await;
        if checked.is_err() {
            // A command that changes this database does not know that this node may answer.
            self.shared.state().end_lease(settings);
        }
        checked
    }

    /// The copy of a node which was forgotten is replaced: nothing was kept for it.
    fn check_copy(&self, lineage: &str, is_registered: bool) -> Stored<()> {
        let shared = self.shared;
        let local = &shared.settings.local;
        let is_forgotten = !is_registered && shared.state().details.is_some();
        if is_forgotten {
            tracing::warn!("the database has forgotten this node: everything is copied anew");
        }
        if is_forgotten || local.copy_state()?.is_none() {
            local.begin_copy(lineage)?;
            shared.forget_copy();
            shared.state().access = ChangePoint::default();
        }
        Ok(())
    }

    async fn beat_if_due(&mut self) -> Stored<()> {
        let shared = self.shared;
        let settings = &shared.settings;
        let can_record = (settings.can_record)();
        let (speaker, access, told, may_answer, epoch) = {
            let mut state = shared.state();
            if !settings.lease.holds() {
                state.note_no_lease();
            }
            let told = (state.details_number(), state.wiped, state.is_loaded && can_record);
            if Instant::now() < self.next_heartbeat && state.told == told {
                return Ok(());
            }
            let may_answer = state.may_answer();
            if !may_answer {
                // Whoever sees the heartbeat does not wait for this node any more.
                settings.lease.end();
            }
            (shared.speaker(), state.access.clone(), told, may_answer, state.epoch)
        };
        // The lease runs from here on.
        let from = shared.clocks();
        let lease = if may_answer { settings.lease_length } else { Duration::ZERO };
        let (details_number, wiped_number, is_ready) = told;
        let heartbeat = Heartbeat { speaker, lease, is_ready, access: &access, details_number, wiped_number };
        let answer = settings.database.heartbeat(&heartbeat).await?;
        shared.state().told = told;
        let pause = (settings.lease_length / 6).clamp(SHORTEST_HEARTBEAT_PAUSE, LONGEST_HEARTBEAT_PAUSE);
        match answer {
            HeartbeatAnswer::Renewed if may_answer => {
                let mut state = shared.state();
                if state.epoch == epoch {
                    settings.lease.renew(from, settings.lease_length);
                    state.required = None;
                    self.next_heartbeat = Instant::now() + pause;
                } else {
                    // The copy was forgotten meanwhile. The next heartbeat gives the lease back.
                    self.next_heartbeat = Instant::now();
                }
            }
            HeartbeatAnswer::Renewed => self.next_heartbeat = Instant::now() + pause.min(LONGEST_LOOK_PAUSE),
            // The next look finds what is newer.
            HeartbeatAnswer::Behind => self.next_heartbeat = Instant::now(),
            HeartbeatAnswer::Unknown => {
                shared.state().end_lease(settings);
                self.is_registered = false;
                self.next_heartbeat = Instant::now();
            }
        }
        Ok(())
    }
}
