//! Following tokens and suppressions, and heartbeats.

use std::time::{Duration, Instant};

use contactd_core::RefreshError;
use contactd_core::store::copying::{AccessChanges, ChangePoint};
use contactd_core::store::sealing::{RowSum, SealFault, StateKey, do_continue, open_newest};
use contactd_core::store::{Facts, StoreError, Stored};
use contactd_store_postgres::{Heartbeat, HeartbeatAnswer, Listening, NewestChanges, PostgresStore};

use crate::details::tell_unknown;
use crate::settings::NodeSettings;
use crate::state::{Following, Shared};

/// The longest pause between two looks at the database: a connection to a frozen host hears nothing.
const LONGEST_LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Between two heartbeats.
const LONGEST_HEARTBEAT_PAUSE: Duration = Duration::from_secs(5);
const SHORTEST_HEARTBEAT_PAUSE: Duration = Duration::from_millis(100);

/// How long a database whose rows are not what contactd stored is not looked at again, unless something is changed there.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

/// The fact of this node that it has followed a sealed database: it does not follow one without seals any more.
const SEALED: &str = "follows_seals";

/// What this thread remembers between two looks.
struct Follower<'a> {
    shared: &'a Shared,
    is_registered: bool,
    next_heartbeat: Instant,
    /// Whether the database had forgotten this node: its copy is replaced.
    is_forgotten: bool,
    /// The sum of the rows that this node holds, if they were sealed.
    sum: Option<(StateKey, RowSum)>,
    /// The newest change of a database whose rows are not taken over, and until when it is not looked at again.
    refused: Option<(ChangePoint, Instant)>,
}

pub(crate) fn run(shared: &Shared) {
    shared.settings.runtime.block_on(async {
        let now = Instant::now();
        let (is_registered, is_forgotten, sum, refused) = (false, false, None, None);
        let mut follower =
            Follower { shared, is_registered, next_heartbeat: now, is_forgotten, sum, refused };
        follower.run().await;
    });
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
            let looked = tokio::select! {
                looked = shared.unless_stopped(async { Ok(self.look().await) }) => looked,
                never = shared.name_delay() => match never {},
            };
            match looked.map_err(RefreshError::from).flatten() {
                Ok(()) => self.shared.note_no_trouble(Following::Access),
                Err(error) => {
                    self.shared.note_trouble(Following::Access, &error);
                    listening = None;
                }
            }
            shared.note_end_of_lease();
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
    async fn look(&mut self) -> Result<(), RefreshError> {
        let shared = self.shared;
        let database = &*shared.settings.database;
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
        let is_known = mine.number == 0 || database.knows_access(&mine).await?;
        let is_due = !is_known
            || self.is_forgotten
            || newest.access.number != mine.number
            || !shared.state().access_is_in_force;
        let was_refused =
            self.refused.as_ref().is_some_and(|(at, until)| *at == newest.access && Instant::now() < *until);
        if is_due && !was_refused {
            self.follow(&mine, is_known).await?;
        }
        let mine = shared.state().details.clone();
        if let Some(mine) = mine
            && !database.knows_details(&mine).await?
        {
            self.check_database().await?;
            tell_unknown();
            shared.forget_copy();
        }
        // A command may have given it up.
        if shared.state().held > 0 {
            self.note_held()?;
        }
        let NewestChanges { access, details } = newest;
        shared.note_newest(access.number, details.number);
        // Another node may want units of quotas, or have given some back.
        if let Some(leases) = shared.settings.callers.leases() {
            leases.poke();
        }
        Ok(self.beat_if_due().await?)
    }

    /// Applies what is new after `mine`, if the seals of the database say that this is what contactd stored. Otherwise this node goes on
    /// with what it holds.
    async fn follow(&mut self, mine: &ChangePoint, is_known: bool) -> Result<(), RefreshError> {
        let shared = self.shared;
        let NodeSettings { database, local, put_in_force, .. } = &shared.settings;
        let mut since = if self.is_forgotten { -1 } else { mine.number };
        let mut changes = database.read_access_since(since).await?;
        // What was needed may have been removed before it was read, so this is checked afterwards.
        let is_known = is_known && (mine.number == 0 || database.knows_access(mine).await?);
        if !is_known {
            self.check_database().await?;
        }
        let continues = is_known && (since < 0 || self.continues(&changes, mine.number));
        let mut judged = self.judge(&changes, since).await?;
        if !continues || since > 0 && matches!(judged, Err(SealFault::Rows)) {
            // Another history; or this copy itself is wrong.
            since = -1;
            changes = database.read_access_since(since).await?;
            judged = self.judge(&changes, since).await?;
        }
        let sum = match judged {
            Ok(sum) => sum,
            Err(fault) => {
                if !is_known {
                    // A command that changes this database does not know that this node may answer.
                    shared.state().end_lease(&shared.settings);
                }
                return self.refuse(mine, changes.at, &fault).await;
            }
        };
        if !continues {
            tracing::warn!(
                "the database was set back, by a restore or by a failover that lost changes: this node answers 503 until it has copied \
                 everything; contactd doctor says whether opt-outs or tokens are concerned"
            );
            shared.forget_copy();
        }
        if continues {
            local.apply_access(&changes, since <= 0)?;
        } else {
            local.apply_other_history(&changes)?;
        }
        if sum.is_some() && self.sum.is_none() {
            local.remember(SEALED, "yes").await?;
        }
        (self.sum, self.refused, self.is_forgotten) = (sum, None, false);
        put_in_force().await?;
        self.note_held()?;
        let mut state = shared.state();
        state.access = changes.at;
        state.access_is_in_force = true;
        drop(state);
        self.next_heartbeat = Instant::now();
        Ok(())
    }

    /// Notes how much is held that the database has lost, and says so when that changes.
    fn note_held(&self) -> Stored<()> {
        let held = self.shared.settings.local.count_held()?;
        let before = std::mem::replace(&mut self.shared.state().held, held);
        if held > 0 && held != before {
            tracing::error!(
                held,
                "the database has lost opt-outs, or revocations or limits of tokens, that this node holds: they stay in force here, and nowhere else. Keep its \
                 data directory; `contactd node reconcile` on this machine shows them, and with --yes puts them back"
            );
        }
        if held == 0 && before > 0 {
            tracing::info!("the database has everything that this node holds");
        }
        Ok(())
    }

    /// Whether the changes that were read continue what this node holds.
    fn continues(&self, changes: &AccessChanges, number: i64) -> bool {
        let is_sealed = changes.changes.last().is_some_and(|newest| newest.seal.is_some());
        let keys = self.shared.settings.database.keys().filter(|_| is_sealed);
        keys.is_none_or(|keys| do_continue(&changes.changes, number, keys))
    }

    /// The sum of all rows once these changes after a number are applied, or why they must not be. `None` if the database was never
    /// sealed, as far as this node knows: what it has is followed as it is, but not by a new node.
    async fn judge(
        &self,
        changes: &AccessChanges,
        since: i64,
    ) -> Stored<Result<Option<(StateKey, RowSum)>, SealFault>> {
        let NodeSettings { database, local, .. } = &self.shared.settings;
        let Some(keys) = database.keys() else { return Ok(Ok(None)) };
        let (key, sealed) = match open_newest(&changes.changes, changes.at.number, keys) {
            Ok(opened) => opened,
            Err(SealFault::Unsealed) if since > 0 && local.fact(SEALED).await?.is_none() => {
                return Ok(Ok(None));
            }
            Err(fault) => return Ok(Err(fault)),
        };
        let mut sum = key.sum(changes.rows());
        if since > 0 {
            let held = match &self.sum {
                Some((of, sum)) if of.id() == key.id() => *sum,
                _ => key.sum(local.read_access()?.rows()),
            };
            sum = held.minus(key.sum(local.replaced_by(changes)?.rows())).plus(sum);
        }
        Ok(if sum == sealed { Ok(Some((key, sum))) } else { Err(SealFault::Rows) })
    }

    /// Goes on with what is held, if anything is.
    async fn refuse(
        &mut self,
        mine: &ChangePoint,
        at: ChangePoint,
        fault: &SealFault,
    ) -> Result<(), RefreshError> {
        let shared = self.shared;
        self.refused = Some((at, Instant::now() + REFUSED_PAUSE));
        if mine.number > 0 && !shared.state().access_is_in_force {
            (shared.settings.put_in_force)().await?;
            shared.state().access_is_in_force = true;
        }
        shared.note_fault(Some(PostgresStore::access_fault(fault)));
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
    fn check_copy(&mut self, lineage: &str, is_registered: bool) -> Stored<()> {
        let shared = self.shared;
        let local = &shared.settings.local;
        let is_forgotten = !is_registered && shared.state().details.is_some();
        if is_forgotten {
            tracing::warn!(
                "the database has forgotten this node: this node answers 503 until it has copied everything"
            );
            self.is_forgotten = true;
            shared.forget_copy();
        }
        if local.copy_state()?.is_none() {
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
        if Instant::now() >= self.next_heartbeat {
            shared.note_clock(&settings.database.compare_clock(&settings.node).await?);
        }
        let (speaker, access, told, may_answer, epoch, clock_ahead_ms) = {
            let mut state = shared.state();
            if !settings.lease.holds() {
                state.note_no_lease();
            }
            let told = (state.details_number(), state.wiped, state.is_loaded && can_record, state.held);
            if Instant::now() < self.next_heartbeat && state.told == told {
                return Ok(());
            }
            let may_answer = state.may_answer();
            if !may_answer {
                // Whoever sees the heartbeat does not wait for this node any more.
                settings.lease.end();
            }
            (shared.speaker(), state.access.clone(), told, may_answer, state.epoch, state.clock.1)
        };
        // The lease runs from here on.
        let from = shared.clocks();
        let lease = if may_answer { settings.lease_length } else { Duration::ZERO };
        let (details_number, wiped_number, is_ready, held) = told;
        let access = &access;
        let heartbeat = Heartbeat {
            speaker,
            lease,
            is_ready,
            access,
            details_number,
            wiped_number,
            held,
            clock_ahead_ms,
        };
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
            HeartbeatAnswer::Behind if self.refused.is_some() => self.next_heartbeat = Instant::now() + pause,
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
