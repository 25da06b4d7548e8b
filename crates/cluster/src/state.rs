//! What the threads of a node share.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contactd_core::ClockReading;
use contactd_core::store::copying::ChangePoint;
use contactd_core::store::{StoreError, Stored};
use contactd_store_postgres::{NodeClock, Registration, SLOW, Speaker, StoreUrl, slow_words};
use tokio::sync::Notify;

use crate::clock::ClockState;
use crate::node_claim::OtherProcess;
use crate::quota_book::Leasing;
use crate::settings::NodeSettings;

/// What the threads of a node share.
pub(crate) struct Shared {
    pub(crate) settings: NodeSettings,
    /// A random id of this process.
    process: Vec<u8>,
    /// The number of the last thing that this process said to the database.
    beats: AtomicI64,
    state: Mutex<State>,
    pub(crate) quotas: Leasing,
    /// For the threads that wait for something in the state.
    changed: Condvar,
    /// Held while removed values are wiped, and while a snapshot begins: so what was wiped is never noted for another history.
    wiping: Mutex<()>,
    /// For the thread of heartbeats.
    pub(crate) heartbeat_due: Notify,
    stopping: AtomicBool,
    stopped: Notify,
}

/// Between two looks at a lease that may end.
const LEASE_LOOK_PAUSE: Duration = Duration::from_millis(500);

/// A node looks at the database every second. Longer than this, it cannot.
const SILENCE: Duration = Duration::from_secs(3);

/// For how long later changes delay the next lease: a steady stream of them must not prevent it for ever.
const RAISING: Duration = Duration::from_secs(600);

/// What the threads of a node know.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Rises when the lease is ended: a heartbeat that was sent before does not renew it.
    pub(crate) epoch: u64,
    /// The last change of tokens and suppressions that is in force in this process.
    pub(crate) access: ChangePoint,
    /// Whether `access` is in force, not only in the files.
    pub(crate) access_is_in_force: bool,
    /// The last change of details in the copy; `None` before the first snapshot began.
    pub(crate) details: Option<ChangePoint>,
    /// Whether the snapshot of details is complete.
    pub(crate) is_loaded: bool,
    /// Up to where a snapshot that is not complete is loaded.
    pub(crate) loaded_through: Option<i64>,
    /// The newest change that the loaded details contain, until changes since loading began are applied.
    pub(crate) seen: Option<ChangePoint>,
    /// The last change of details whose removed values have left no traces.
    pub(crate) wiped: i64,
    /// The newest changes of the database, as far as is known.
    pub(crate) newest_access: i64,
    pub(crate) newest_details: i64,
    /// Without a lease: the change of details that has to be applied and wiped before the next one begins.
    pub(crate) required: Option<Required>,
    /// Since when the copy is behind.
    pub(crate) behind_since: Option<Instant>,
    /// How many opt-outs and limits of tokens are in force here that the database has lost.
    pub(crate) held: u64,
    /// How this machine's clock is, and by how many milliseconds it is ahead of the database's.
    pub(crate) clock: (ClockState, i64),
    /// How long it took for an answer, and how often in a row that was long.
    pub(crate) round_trip: (Duration, u32),
    /// Whether the lease held when that was looked at last.
    had_lease: bool,
    /// Whether a failover of the database can lose what it acknowledged.
    is_risky: bool,
    /// When the database answered last; `None` before the first time.
    pub(crate) heard_at: Option<Instant>,
    /// What the last heartbeat told: the last change of details, what is wiped, whether the node is ready, and what it holds.
    pub(crate) told: (i64, i64, bool, u64),
    /// Who has the place of this node, if this process does not get it.
    other_process: Option<OtherProcess>,
    /// What is wrong with the state that the database holds, if anything is.
    pub(crate) fault: Option<String>,
    /// What went wrong last on each thread, if it has not been overcome.
    trouble: [Option<String>; 3],
}

/// A change of details that is required.
#[derive(Debug)]
pub(crate) struct Required {
    number: i64,
    /// Since when this alone may keep the node from answering: its copy is complete.
    since: Option<Instant>,
}

/// The threads of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Following {
    Access,
    Details,
    Wiping,
}

impl Following {
    fn tell_trouble(self, error: &str, database: &StoreUrl) {
        match self {
            Self::Access => tracing::warn!(
                error,
                %database,
                "this node cannot renew its lease now; it answers lookups until the lease ends, and goes on trying"
            ),
            Self::Details => tracing::warn!(
                error,
                %database,
                "this node cannot copy changes of details now; it goes on trying. Opt-outs and tokens do not wait for that"
            ),
            Self::Wiping => tracing::warn!(
                error,
                "this node cannot overwrite removed details in its own files now; it goes on trying. An erasure waits for it"
            ),
        }
    }

    fn tell_end(self) {
        match self {
            Self::Access => tracing::info!("this node follows the database again"),
            Self::Details => tracing::info!("this node copies changes of details again"),
            Self::Wiping => tracing::info!("this node has overwritten what was removed"),
        }
    }
}

impl Shared {
    pub(crate) fn new(settings: NodeSettings, process: Vec<u8>, state: State) -> Self {
        Self {
            settings,
            process,
            beats: AtomicI64::new(0),
            state: Mutex::new(state),
            quotas: Leasing::default(),
            changed: Condvar::new(),
            wiping: Mutex::default(),
            heartbeat_due: Notify::new(),
            stopping: AtomicBool::new(false),
            stopped: Notify::new(),
        }
    }

    pub(crate) fn wiping(&self) -> MutexGuard<'_, ()> {
        self.wiping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the next thing that this process says to the database.
    pub(crate) fn speaker(&self) -> Speaker<'_> {
        let beat = self.beats.fetch_add(1, Ordering::SeqCst) + 1;
        Speaker { node: &self.settings.node, process: &self.process, beat }
    }

    pub(crate) fn process(&self) -> &[u8] {
        &self.process
    }

    /// Registers this process as the node. It has no lease then.
    pub(crate) async fn register(&self, details_number: i64, wiped_number: i64) -> Stored<()> {
        self.state().end_lease(&self.settings);
        self.quotas.reset(&self.settings);
        let registration = Registration {
            speaker: self.speaker(),
            name: &self.settings.name,
            version: env!("CARGO_PKG_VERSION"),
            data_dir: self.settings.data_dir.as_deref(),
            details_number,
            wiped_number,
        };
        let NodeSettings { database, node, .. } = &self.settings;
        if database.register_node(&registration).await? {
            self.state().other_process = None;
            return Ok(());
        }
        if let Some(held) = database.list_nodes().await?.iter().find(|held| held.id == *node) {
            OtherProcess::note(&mut self.state().other_process, held.seen_at, node);
        }
        Err(StoreError::Unavailable(
            "another process runs as this node, or was killed and its lease has not ended. If it was killed, wait; if it runs, \
             give each node its own data directory"
                .to_owned(),
        ))
    }

    /// Gives the lease back.
    pub(crate) async fn leave(&self) -> Stored<()> {
        self.settings.database.leave(&self.settings.node, &self.process).await
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Lets all threads end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Whoever is about to wait holds the lock until it waits.
        drop(self.state());
        self.changed.notify_all();
        self.stopped.notify_waiters();
    }

    /// Waits for the database on this thread, unless the node stops.
    pub(crate) fn wait_for<T>(&self, asking: impl Future<Output = Stored<T>>) -> Stored<T> {
        self.settings.runtime.block_on(self.unless_stopped(asking))
    }

    /// Waits for something of the database, unless the node stops.
    pub(crate) async fn unless_stopped<T>(&self, waited_for: impl Future<Output = Stored<T>>) -> Stored<T> {
        let mut stopped = std::pin::pin!(self.stopped.notified());
        stopped.as_mut().enable();
        if self.is_stopping() {
            return Err(StoreError::Unavailable("this node is stopping".to_owned()));
        }
        tokio::select! {
            done = waited_for => done,
            () = stopped => Err(StoreError::Unavailable("this node is stopping".to_owned())),
        }
    }

    /// Both clocks at this moment.
    pub(crate) fn clocks(&self) -> ClockReading {
        ClockReading::of(&*self.settings.clock)
    }

    /// Notes the newest changes of the database, and wakes the thread of details if it is behind.
    pub(crate) fn note_newest(&self, access: i64, details: i64) {
        let mut state = self.state();
        (state.newest_access, state.newest_details) = (access, details);
        state.heard_at = Some(Instant::now());
        state.note_whether_behind();
        if state.details_are_due() {
            self.changed.notify_all();
        }
    }

    /// Forgets what the copy contains: everything is copied again.
    pub(crate) fn forget_copy(&self) {
        self.quotas.reset(&self.settings);
        let mut state = self.state();
        state.end_lease(&self.settings);
        state.details = None;
        state.is_loaded = false;
        state.loaded_through = None;
        state.seen = None;
        // These are numbers of another history.
        state.wiped = -1;
        state.newest_details = 0;
        state.required = None;
        self.changed.notify_all();
    }

    /// Wakes the threads that wait for something in the state.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Waits until there is something to do, or for this time, or until the node stops.
    pub(crate) fn wait(&self, most: Duration, is_due: impl Fn(&State) -> bool) {
        let state = self.state();
        let waits = |state: &mut State| !self.is_stopping() && !is_due(state);
        drop(self.changed.wait_timeout_while(state, most, waits).unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes what went wrong, and logs it when it is new.
    pub(crate) fn note_trouble(&self, following: Following, what: &dyn std::fmt::Display) {
        if self.is_stopping() {
            return;
        }
        let what = what.to_string();
        let mut state = self.state();
        let trouble = &mut state.trouble[following as usize];
        // How long it has lasted is nothing new.
        let words = |what: &String| what.replace(|letter: char| letter.is_ascii_digit(), "");
        if trouble.as_ref().map(words) != Some(words(&what)) {
            following.tell_trouble(&what, self.settings.database.url());
            *trouble = Some(what);
        }
    }

    /// Says what keeps the database from answering, when it has not for some time. The wait for it goes on.
    pub(crate) async fn name_delay(&self) -> Infallible {
        let database = &self.settings.database;
        let silence = self.state().silence();
        database.sleep(silence).await;
        match database.own_condition().await.map(|condition| condition.obstacle()) {
            Ok(Some(obstacle)) => {
                let obstacle = StoreError::Unavailable(format!("PostgreSQL: {obstacle}"));
                self.note_trouble(Following::Access, &obstacle);
            }
            Ok(None) => {}
            Err(error) => self.note_trouble(Following::Access, &error),
        }
        loop {
            self.note_end_of_lease();
            database.sleep(LEASE_LOOK_PAUSE).await;
        }
    }

    /// Says that this node answers no lookups any more, because it cannot follow the database.
    pub(crate) fn note_end_of_lease(&self) {
        let holds = self.settings.lease.holds();
        let mut state = self.state();
        let had_lease = std::mem::replace(&mut state.had_lease, holds);
        if let Some(what) = state.trouble[Following::Access as usize].as_ref().filter(|_| had_lease && !holds)
        {
            tracing::error!(
                error = what,
                database = %self.settings.database.url(),
                "the lease of this node has ended, so it answers no lookups until it follows the database again"
            );
        }
    }

    /// Notes what is wrong with the state that the database holds, and logs it when it is new.
    pub(crate) fn note_fault(&self, fault: Option<String>) {
        let mut state = self.state();
        if state.fault == fault {
            return;
        }
        match &fault {
            None => tracing::info!("the database holds what contactd stored again"),
            Some(fault) if state.access_is_in_force => {
                tracing::error!(
                    "{fault}; this node goes on with the tokens and opt-outs that it holds: keep its data directory"
                );
            }
            Some(fault) => {
                tracing::error!(
                    "{fault}; this node holds nothing yet and takes nothing over, so it answers no lookups"
                );
            }
        }
        state.fault = fault;
    }

    /// Notes how this machine's clock is.
    pub(crate) fn note_clock(&self, clock: &NodeClock) {
        let now = ClockState::of(clock);
        if let Some(leases) = self.settings.callers.leases() {
            leases.set_ahead(clock.ahead_ms);
        }
        let (before, _) = std::mem::replace(&mut self.state().clock, (now, clock.ahead_ms));
        now.tell(before, clock.ahead_ms);
        self.note_round_trip(clock.round_trip);
    }

    /// Says that answers are slow, when a second one is.
    fn note_round_trip(&self, round_trip: Duration) {
        let mut state = self.state();
        let times = if round_trip > SLOW { state.round_trip.1 + 1 } else { 0 };
        state.round_trip = (round_trip, times);
        if times == 2 {
            tracing::warn!("the database is slow: {}", slow_words(round_trip));
        }
    }

    /// Says that a failover can lose changes, when it is new.
    pub(crate) fn note_risk(&self, risk: Option<&str>) {
        let before = std::mem::replace(&mut self.state().is_risky, risk.is_some());
        if let Some(risk) = risk.filter(|_| !before) {
            tracing::warn!(
                "look at the database: {risk}. Set synchronous_standby_names, or synchronous_mode of Patroni"
            );
        }
    }

    /// Whether this node hears from the database, and can renew its lease there.
    pub(crate) fn does_follow(&self) -> bool {
        let state = self.state();
        let is_heard = state.heard_at.is_some_and(|heard| heard.elapsed() <= state.silence());
        is_heard && state.trouble[Following::Access as usize].is_none()
    }

    pub(crate) fn note_no_trouble(&self, following: Following) {
        if self.state().trouble[following as usize].take().is_some() {
            following.tell_end();
        }
    }
}

impl State {
    /// Without an answer for longer than this, something is wrong.
    pub(crate) fn silence(&self) -> Duration {
        // A look takes several round trips.
        SILENCE + 10 * self.round_trip.0
    }

    pub(crate) fn details_number(&self) -> i64 {
        self.details.as_ref().map_or(0, |details| details.number)
    }

    /// Whether there is something to do for the thread of details.
    pub(crate) fn details_are_due(&self) -> bool {
        !self.is_loaded || self.newest_details > self.details_number()
    }

    /// Whether there is something to wipe.
    pub(crate) fn wiping_is_due(&self) -> bool {
        self.is_loaded && self.wiped < self.details_number()
    }

    /// Ends the lease, also for a heartbeat that was sent already.
    pub(crate) fn end_lease(&mut self, settings: &NodeSettings) {
        self.epoch += 1;
        settings.lease.end();
    }

    /// Without a lease, everything that is removed has to be gone from the files before the next one begins: an erasure has not
    /// waited for it.
    pub(crate) fn note_no_lease(&mut self) {
        let (newest, is_loaded) = (self.newest_details, self.is_loaded);
        let required = self.required.get_or_insert(Required { number: newest, since: None });
        let since = is_loaded.then(|| *required.since.get_or_insert_with(Instant::now));
        if since.is_none_or(|since| since.elapsed() < RAISING) {
            required.number = required.number.max(newest);
        }
    }

    /// Whether the node may answer lookups, if it has the newest change of tokens and suppressions.
    pub(crate) fn may_answer(&self) -> bool {
        let done = self.details_number().min(self.wiped);
        let has_required = self.required.as_ref().is_none_or(|required| done >= required.number);
        self.is_loaded && self.access_is_in_force && has_required && self.clock.0.may_serve()
    }

    pub(crate) fn note_whether_behind(&mut self) {
        let is_behind = !self.is_loaded
            || self.newest_access > self.access.number
            || self.newest_details > self.details_number();
        self.behind_since = is_behind.then(|| self.behind_since.unwrap_or_else(Instant::now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_while_there_is_no_lease_is_wiped_before_the_next_one() {
        let clock = (ClockState::Right, 0);
        let mut state = State { is_loaded: true, access_is_in_force: true, clock, ..State::default() };
        let at = |number: i64| Some(ChangePoint { number, id: vec![1] });
        (state.newest_details, state.details, state.wiped) = (1, at(1), 0);
        state.note_no_lease();
        assert!(!state.may_answer());
        (state.newest_details, state.details, state.wiped) = (2, at(2), 1);
        state.note_no_lease();
        assert!(!state.may_answer(), "change 2 is not wiped");
        state.wiped = 2;
        assert!(state.may_answer());
    }
}
