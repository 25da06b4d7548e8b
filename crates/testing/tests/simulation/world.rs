//! A service, its operators and its callers; one step at a time.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use contactd_core::store::{Details, Importing, Machine, Store, Suppressions, Tokens, Usage};
use contactd_core::{
    AccessTables, Actor, AuditOutcome, Caller, Callers, Clock, DefaultLimits, Detail, DigestKey, DigestKeys,
    DiskBudget, Kind, LimitExceeded, LookupError, Lookups, ManualClock, Networks, NotACaller, OnRecord,
    OrNone, PendingAnswer, Request, SecondFactorKey, SuppressionList, Timestamp, TokenUpdate, Via,
};
use contactd_import::UploadedFiles;
use contactd_journal::{JournalReader, KeyDir};
use contactd_services::{Parts, Services};
use contactd_testing::Dice;

use crate::actions::{Action, Ended, Task};
use crate::faulty::{Faulty, Plan};
use crate::model::{self, Expected, Known, Model, PEOPLE, Who, profile};
use crate::surroundings::{Actions, Lines};

/// The details of everybody.
type Held = BTreeMap<usize, Vec<Detail>>;

pub(crate) struct World {
    dice: Dice,
    plan: Arc<Plan>,
    store: Arc<Faulty>,
    clock: Arc<ManualClock>,
    keys: DigestKeys,
    lines: Arc<Lines>,
    actions: Arc<Actions>,
    callers: Arc<Callers>,
    live: Arc<AccessTables<Faulty>>,
    lookups: Lookups<Faulty>,
    services: Arc<Services>,
    model: Model,
    tasks: Vec<Running>,
    asked: Vec<Asked>,
    requests: u64,
    /// How many changes of tokens and opt-outs have begun or ended.
    access_changes: u64,
    /// How many changes of each opt-out have begun.
    begun: HashMap<Who, u64>,
    /// The import that was the last change of details, and what was held before it.
    last_import: Option<(i64, Held)>,
    disclosed: u64,
}

/// An action that is under way.
struct Running {
    action: Action,
    task: Task,
    before: Held,
    access_changes: u64,
    begun: HashMap<Who, u64>,
    /// Who was known to be opted in when it began.
    opted_in: Vec<Who>,
}

/// A lookup whose answer is not sent yet.
struct Asked {
    sealed: PendingAnswer,
    caller: Caller,
    id: String,
    family: String,
    quota: u32,
    day: i64,
    expected: Expected,
}

fn start() -> Timestamp {
    Timestamp::parse("2026-05-01T10:00:00Z").expect("a time")
}

/// The result of a future of the engine, which blocks and is then ready.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("the engine waits for nothing"),
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let plan = Arc::new(Plan::new(seed.wrapping_mul(2).wrapping_add(1)));
        let store = Arc::new(Faulty::new(Arc::clone(&plan)));
        let clock = Arc::new(ManualClock::at(start()));
        let keys = DigestKeys::new(vec![DigestKey::new(&[7; 32])]).expect("a key");
        let suppressions = Arc::new(SuppressionList::new(keys.clone()));
        let callers = Arc::new(Callers::new(DefaultLimits::default()));
        let live = Arc::new(AccessTables::new(
            Arc::clone(&store),
            Arc::clone(&callers),
            Arc::clone(&suppressions),
            Arc::<ManualClock>::clone(&clock),
        ));
        let lines = Arc::new(Lines::default());
        let lookups = Lookups::new(Arc::clone(&store), suppressions, Arc::<Lines>::clone(&lines));
        let actions = Arc::new(Actions {
            store: Arc::clone(&store),
            plan: Arc::clone(&plan),
            recorded: Mutex::default(),
        });
        let files: Arc<dyn Store> = Arc::<Faulty>::clone(&store);
        let services = Arc::new(Services::new(Parts {
            store: Arc::clone(&files),
            machine: Some(Machine::embedded("simulated".to_owned(), files)),
            keys: keys.clone(),
            second_factor_key: Box::new(|_| Ok(Some(SecondFactorKey::new(&[8; 32])))),
            networks: Networks::built_in(),
            clock: Arc::<ManualClock>::clone(&clock),
            in_force: Arc::<AccessTables<Faulty>>::clone(&live),
            on_record: Arc::<Actions>::clone(&actions),
            journal: JournalReader::of_dir(Path::new("no journal"), KeyDir::new(Path::new("no keys"))),
            remove_abandoned_backups: Box::new(|| Ok(true)),
            files: UploadedFiles::new(DiskBudget::new(PathBuf::new())),
            undo_for: Duration::from_secs(30 * 86_400),
        }));
        Self {
            dice: Dice::new(seed),
            plan,
            store,
            clock,
            keys,
            lines,
            actions,
            callers,
            live,
            lookups,
            services,
            model: Model::default(),
            tasks: Vec::new(),
            asked: Vec::new(),
            requests: 0,
            access_changes: 0,
            begun: HashMap::new(),
            last_import: None,
            disclosed: 0,
        }
    }

    /// Something happens, and everything that was promised holds.
    pub(crate) fn step(&mut self) {
        self.clock.advance(Duration::from_millis(400));
        match self.dice.below(20) {
            0..6 => self.ask(),
            6..8 => self.lines.settle(!self.dice.one_in(4)),
            8..10 => self.answer(),
            10 => self.set_clock(),
            11 if !self.tasks.is_empty() => self.give_up(),
            _ => self.act(),
        }
        for _ in 0..self.dice.below(6) {
            self.poll_one();
        }
        self.check_quotas();
    }

    /// Nothing fails any more: everything ends, and nothing that was promised is missing. Returns how many details were
    /// disclosed.
    pub(crate) fn end(mut self) -> u64 {
        self.plan.be_calm(true);
        while !self.tasks.is_empty() {
            self.poll_one();
        }
        self.lines.settle(true);
        while !self.asked.is_empty() {
            self.answer();
        }
        ready(self.live.refresh()).expect("nothing fails");
        self.take_over_the_truth();
        for _ in 0..10 {
            self.clock.advance(Duration::from_secs(1));
            self.ask();
            self.lines.settle(true);
            self.answer();
        }
        self.check_quotas();
        ready(self.actions.collect(&[])).expect("nothing fails");
        for (operation, times) in &self.model.done {
            assert!(self.actions.count(operation) >= *times, "{operation} is not on record every time");
        }
        ready(self.live.flush_usage()).expect("nothing fails");
        let mut used: HashMap<&String, u64> = HashMap::new();
        for ((family, _), hits) in &self.model.hits {
            *used.entry(family).or_default() += u64::from(*hits);
        }
        for (family, used) in used {
            let stored = ready(self.store.engine.hits_since(family, 0)).expect("nothing fails");
            assert!(stored >= used, "{used} were disclosed, {stored} are stored");
        }
        self.disclosed
    }

    /// A token uses one of two hits of a day. While that is being stored, its quota becomes two of a month. Returns how many are left.
    pub(crate) fn change_a_period(mut self) -> u64 {
        let actor = Actor::new("olga", Via::Console);
        self.plan.be_calm(true);
        let done = |action: Action| {
            let task = action.start(Arc::clone(&self.services), Arc::clone(&self.live), None);
            ready(task)
        };
        done(Action::Put(0, Kind::Phone, 0));
        let Ended::Created(token) = done(Action::Create(2)) else { panic!("nothing fails") };
        let now = self.clock.now();
        let caller = self.callers.find(&token.secret, now).expect("it is in force");
        let request = Request { id: "request", given_id: None, at: now, via: None, place: None };
        let sealed = self.lookups.find(&caller, &profile(0), Kind::Phone, request).expect("reads");
        self.lines.settle(true);
        self.lookups.open(sealed, &caller).expect("a hit");

        self.plan.fail_no_more();
        self.plan.be_calm(false);
        let quota = Some(OrNone(Some("2/month".parse().expect("a quota"))));
        let update = TokenUpdate { quota, ..TokenUpdate::default() };
        let mut change: Vec<Pin<Box<dyn Future<Output = bool> + '_>>> = vec![
            Box::pin(async { self.live.flush_usage().await.is_ok() }),
            Box::pin(async { self.services.tokens.update(&actor, &token.id, &update).await.is_ok() }),
        ];
        while !change.is_empty() {
            let at = self.dice.index(change.len());
            if change[at].as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                drop(change.swap_remove(at));
            }
        }
        drop(change);
        self.plan.be_calm(true);
        let changed = ready(self.services.tokens.update(&actor, &token.id, &update)).expect("nothing fails");
        assert!(changed.confirmed.is_ok());
        let caller = self.callers.find(&token.secret, now).expect("it is in force");
        caller.allowances(now).quota.expect("a quota").remaining
    }

    // Callers.

    fn ask(&mut self) {
        if self.model.tokens.is_empty() {
            return;
        }
        let number = self.dice.index(self.model.tokens.len());
        let (person, kind) = (self.dice.index(PEOPLE), *self.dice.pick(&Kind::ALL));
        let now = self.clock.now();
        let token = &self.model.tokens[number];
        let (family, quota) = (token.family.clone(), token.quota);
        let found = self.callers.find(&token.secret, now);
        if !token.is_unknown {
            let expected = match token.expires_at {
                _ if token.is_revoked => Some(NotACaller::Revoked),
                Some(end) if end <= now => Some(NotACaller::Expired),
                _ => None,
            };
            assert_eq!(found.as_ref().err(), expected.as_ref(), "token {}", token.id);
        }
        let Ok(caller) = found else { return };
        if let Err(limit) = caller.take(now) {
            return self.check_limit(limit, &family, quota, now);
        }
        self.requests += 1;
        let id = format!("request-{}", self.requests);
        let held = ready(self.store.engine.list_details(&profile(person))).expect("reads");
        let expected = self.model.expected(person, kind, &held, now);
        let request = Request { id: &id, given_id: None, at: now, via: None, place: None };
        match self.lookups.find(&caller, &profile(person), kind, request) {
            Ok(sealed) => {
                let day = now.day();
                self.asked.push(Asked { sealed, caller, id, family, quota, day, expected });
            }
            Err(LookupError::Limit(limit)) => self.check_limit(limit, &family, quota, now),
            Err(LookupError::Store(_)) => {}
            Err(error) => panic!("{error:?} before the line could be written"),
        }
    }

    fn check_limit(&self, limit: LimitExceeded, family: &str, quota: u32, now: Timestamp) {
        match limit {
            // Two a second, whatever the clock does.
            LimitExceeded::Rate { retry_after } => assert_eq!(retry_after, 1),
            LimitExceeded::Quota { .. } => {
                let is_same = |asked: &&Asked| asked.family == family && asked.day == now.day();
                let reserved = self.asked.iter().filter(is_same).count();
                let used = self.used(family, now.day());
                assert!(
                    used as usize + reserved >= quota as usize,
                    "{used} used and {reserved} reserved of {quota}"
                );
            }
            LimitExceeded::Unleased => panic!("nothing is leased on one machine"),
        }
    }

    fn used(&self, family: &str, day: i64) -> u32 {
        self.model.hits.get(&(family.to_owned(), day)).copied().unwrap_or(0)
    }

    /// Answers a request, or its client has given up.
    fn answer(&mut self) {
        if self.asked.is_empty() {
            return;
        }
        let at = self.dice.index(self.asked.len());
        let asked = self.asked.swap_remove(at);
        if self.dice.one_in(5) {
            return;
        }
        let line = self.lines.written(&asked.id);
        match self.lookups.open(asked.sealed, &asked.caller) {
            Ok(value) => {
                assert_eq!(line, Some(AuditOutcome::Hit), "disclosed without its line");
                match &asked.expected {
                    Expected::Exactly(expected) => {
                        assert_eq!(expected.as_ref(), Some(&value), "not disclosable");
                    }
                    Expected::OneOf(values) => assert!(values.contains(value.expose()), "not disclosable"),
                }
                let used = self.model.hits.entry((asked.family, asked.day)).or_default();
                *used += 1;
                assert!(*used <= asked.quota, "{used} of {}", asked.quota);
                self.disclosed += 1;
            }
            Err(LookupError::NotFound) => {
                assert_eq!(line, Some(AuditOutcome::Miss));
                assert!(!matches!(asked.expected, Expected::Exactly(Some(_))), "it is on file");
            }
            Err(LookupError::Audit) => assert_eq!(line, None),
            Err(error) => panic!("{error:?} after the line was written"),
        }
    }

    /// What is left of every quota, while no request is under way.
    fn check_quotas(&self) {
        if !self.asked.is_empty() {
            return;
        }
        let now = self.clock.now();
        for token in &self.model.tokens {
            if let Ok(caller) = self.callers.find(&token.secret, now) {
                let left = caller.allowances(now).quota.expect("a quota").remaining;
                let used = self.used(&token.family, now.day());
                assert_eq!(left, u64::from(token.quota - used), "{used} of {} are used", token.quota);
            }
        }
    }

    fn set_clock(&mut self) {
        let (day, hour) = (self.dice.below(3), self.dice.below(24));
        self.clock.set(start().plus(Duration::from_secs(day * 86_400 + hour * 3_600)));
    }

    // Operators.

    fn act(&mut self) {
        if self.tasks.len() >= 3 {
            return;
        }
        let action = self.choose();
        let is_free = |running: &Running| {
            let other = &running.action;
            !(action.changes_details() && other.changes_details())
                && (action.opts_out().is_none() || action.opts_out() != other.opts_out())
                && (action.token().is_none() || action.token() != other.token())
        };
        if !self.tasks.iter().all(is_free) {
            return;
        }
        let opted_in = Who::all().filter(|who| self.model.state(*who) == Known::In).collect();
        let (before, begun) = (self.held(), self.begun.clone());
        if let Some(who) = action.opts_out() {
            self.model.begin(who, !matches!(action, Action::Unsuppress(_)));
            *self.begun.entry(who).or_default() += 1;
        }
        if let Some(token) = action.token() {
            let token = &mut self.model.tokens[token];
            token.is_unknown |= !token.is_revoked;
        }
        self.access_changes += u64::from(action.changes_access());
        let id = action.token().map(|token| self.model.tokens[token].id.clone());
        let task = action.clone().start(Arc::clone(&self.services), Arc::clone(&self.live), id);
        let access_changes = self.access_changes;
        self.tasks.push(Running { action, task, before, access_changes, begun, opted_in });
    }

    fn choose(&mut self) -> Action {
        let all: Vec<Who> = Who::all().collect();
        let (who, person) = (*self.dice.pick(&all), self.dice.index(PEOPLE));
        let (kind, number) = (*self.dice.pick(&Kind::ALL), self.dice.index(4));
        let tokens = self.model.tokens.len();
        match self.dice.below(16) {
            0 | 1 => Action::Suppress(who),
            2 | 3 => Action::Unsuppress(who),
            4 => Action::Erase(person),
            5 => Action::Remove(person),
            6 => Action::Put(person, kind, number),
            7..10 => {
                let row = |dice: &mut Dice| {
                    let (person, number) = (dice.index(PEOPLE), dice.index(4));
                    (person, *dice.pick(&Kind::ALL), number)
                };
                let rows = (0..=self.dice.below(6)).map(|_| row(&mut self.dice)).collect();
                let source = *self.dice.pick(&["crm", "ats"]);
                Action::Import { rows, source, replaces: self.dice.one_in(3) }
            }
            10 => match &self.last_import {
                Some((id, _)) => Action::Undo(*id),
                None => Action::Undo(1),
            },
            11 => Action::Sweep,
            12 if tokens > 2 => Action::Revoke(self.dice.index(tokens)),
            13 if tokens > 0 => {
                let overlap = Duration::from_secs(3_600 * self.dice.below(2));
                Action::Rotate(self.dice.index(tokens), overlap)
            }
            14 if tokens > 0 => Action::Refresh,
            15 if tokens > 0 => Action::Flush,
            _ if tokens < 6 => Action::Create(*self.dice.pick(&[1, 2, 3, 4])),
            _ => Action::Refresh,
        }
    }

    fn poll_one(&mut self) {
        if self.tasks.is_empty() {
            return;
        }
        let at = self.dice.index(self.tasks.len());
        let polled = self.tasks[at].task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(ended) = polled {
            self.end_task(at, ended);
        }
    }

    /// Whoever asked for it has gone: it is dropped where it is.
    fn give_up(&mut self) {
        let at = self.dice.index(self.tasks.len());
        self.end_task(at, Ended::Failed);
    }

    fn end_task(&mut self, at: usize, ended: Ended) {
        let Running { action, task, before, access_changes, begun, opted_in } = self.tasks.swap_remove(at);
        drop(task);
        let is_sure = |who: &Who| opted_in.contains(who) && self.begun.get(who) == begun.get(who);
        let sure: Vec<Who> = Who::all().filter(is_sure).collect();
        self.ended(&action, ended, &before, access_changes, &sure);
    }

    fn ended(&mut self, action: &Action, ended: Ended, before: &Held, access_changes: u64, sure: &[Who]) {
        let is_done = !matches!(ended, Ended::Failed | Ended::Refused);
        if is_done && let Some(operation) = action.operation() {
            *self.model.done.entry(operation).or_default() += 1;
        }
        if action.changes_details() {
            self.check_details(action, &ended, before, sure);
        }
        match (action, ended) {
            (Action::Suppress(who), Ended::Done) => self.model.set(*who, Known::Out),
            (Action::Erase(person), Ended::Done) => self.model.set(Who::Person(*person), Known::Out),
            (Action::Unsuppress(who), Ended::Done) => self.model.set(*who, Known::In),
            (Action::Create(_), Ended::Created(token)) => self.model.tokens.push(*token),
            (Action::Revoke(token), Ended::Done) => {
                let token = &mut self.model.tokens[*token];
                (token.is_revoked, token.is_unknown) = (true, false);
            }
            (Action::Rotate(old, _), Ended::Rotated(token, ends)) => {
                let old = &mut self.model.tokens[*old];
                (old.expires_at, old.is_unknown) = (ends, token.is_unknown);
                self.model.tokens.push(*token);
            }
            (Action::Refresh, Ended::Done) => {
                let is_alone = !self.tasks.iter().any(|running| running.action.changes_access());
                if is_alone && access_changes == self.access_changes {
                    self.take_over_the_truth();
                }
            }
            _ => {}
        }
        self.access_changes += u64::from(action.changes_access());
    }

    fn held(&self) -> Held {
        let held = |person| ready(self.store.engine.list_details(&profile(person))).expect("reads");
        (0..PEOPLE).map(|person| (person, held(person))).collect()
    }

    /// What returned is there; what failed is there whole or not at all.
    fn check_details(&mut self, action: &Action, ended: &Ended, before: &Held, sure: &[Who]) {
        let after = self.held();
        let is_done = !matches!(ended, Ended::Failed | Ended::Refused);
        let is_refused = matches!(ended, Ended::Refused);
        let last_import = self.last_import.take();
        let is_whole = match action {
            Action::Erase(person) | Action::Remove(person) => {
                let is_other =
                    |(other, held): (&usize, &Vec<Detail>)| other == person || held == &before[other];
                assert!(after.iter().all(is_other), "{action:?} changed somebody else");
                let kept = ready(self.store.engine.list_former(&profile(*person))).expect("reads");
                after[person].is_empty() && kept.is_empty()
            }
            Action::Put(person, kind, number) => is_there(&after, (*person, *kind, *number), "manual", sure),
            Action::Import { rows, source, replaces } => {
                let is_row = |person: usize, detail: &Detail| {
                    rows.iter().any(|row| row.0 == person && detail.value == model::value(row.1, row.2))
                };
                let is_left = |(person, held): (&usize, &Vec<Detail>)| {
                    held.iter().any(|detail| detail.source == *source && !is_row(*person, detail))
                };
                rows.iter().all(|row| is_there(&after, *row, source, sure))
                    && !(*replaces && after.iter().any(is_left))
            }
            Action::Undo(id) => match &last_import {
                Some((last, held)) if last == id => unexpiring(&after) == unexpiring(held),
                _ => true,
            },
            _ => unexpiring(&after) == unexpiring(before),
        };
        let is_unchanged = after == *before;
        assert!(is_whole || !is_done, "{action:?} returned, and is not there: {before:?} {after:?}");
        assert!(is_whole || is_unchanged, "{action:?} failed, and is there in part: {before:?} {after:?}");
        assert!(!is_refused || is_unchanged, "{action:?} was refused, and changed something");
        if is_done && matches!(action, Action::Import { .. } | Action::Put(..)) {
            let last = ready(self.store.engine.list_imports()).expect("reads").pop().expect("an import");
            self.last_import = Some((last.id, before.clone()));
        } else if is_unchanged && !matches!(action, Action::Erase(_) | Action::Remove(_) | Action::Sweep) {
            // These may have removed what is kept for undo.
            self.last_import = last_import;
        }
    }

    /// What is in the store is in force, so nothing is unknown any more; and it is what was promised.
    fn take_over_the_truth(&mut self) {
        for who in Who::all() {
            let digests = self.keys.all_digests(who.name().subject());
            let is_out = ready(self.store.engine.find_suppression(&digests)).expect("reads").is_some();
            let truth = if is_out { Known::Out } else { Known::In };
            if self.model.is_known(who) {
                assert_eq!(self.model.state(who), truth, "{who:?}");
            }
            self.model.set(who, truth);
        }
        let stored = ready(self.store.engine.list_tokens()).expect("reads");
        for token in &mut self.model.tokens {
            let (_, truth) = stored.iter().find(|(_, stored)| stored.id == token.id).expect("it was created");
            if !token.is_unknown {
                assert_eq!(token.is_revoked, truth.revoked_at.is_some());
                // A rotation that failed before may have changed the end of one that is revoked now.
                assert!(token.is_revoked || token.expires_at == truth.expires_at);
            }
            (token.is_revoked, token.expires_at) = (truth.revoked_at.is_some(), truth.expires_at);
            token.is_unknown = false;
        }
    }
}

/// Whether a row was put, unless its person or value may have been opted out.
fn is_there(held: &Held, (person, kind, number): (usize, Kind, usize), source: &str, sure: &[Who]) -> bool {
    let is_it = |detail: &Detail| {
        detail.kind == kind && detail.source == source && detail.value == model::value(kind, number)
    };
    let is_sure = sure.contains(&Who::Person(person)) && sure.contains(&Who::Value(kind, number));
    !is_sure || held[&person].iter().any(is_it)
}

/// The details that never expire.
fn unexpiring(held: &Held) -> Held {
    let lasting =
        |held: &Vec<Detail>| held.iter().filter(|detail| detail.expires_at.is_none()).cloned().collect();
    held.iter().map(|(person, held)| (*person, lasting(held))).collect()
}
