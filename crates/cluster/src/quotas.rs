//! Leasing units of quotas, so that all nodes together never exceed one.
//!
//! A thread asks the database for units before they are used up: enough for one to two minutes at the recent rate. What is not used for
//! a while goes back, and at once if another node wants some and nothing is left.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use contactd_core::QuotaLeases;
use contactd_core::store::{StoreError, Stored, Usage};
use contactd_store_postgres::UnitsAsked;

use crate::quota_book::{Before, LOOK_PAUSE, Leasing, Question};
use crate::state::Shared;

/// Between two questions for the same quota, while requests wait.
const QUESTION_PAUSE: Duration = Duration::from_millis(50);
/// After this time without an answer, the database counts as away: no request waits for it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait for an answer when the node stops.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// What became of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Done,
    /// This process is not registered as a node, or not any more.
    NotRegistered,
}

pub(crate) fn run(shared: &Shared) {
    let Some(leases) = shared.settings.callers.leases().cloned() else { return };
    shared.settings.runtime.block_on(async {
        while !shared.is_stopping() {
            let needed = async {
                tokio::select! {
                    () = leases.needed() => {}
                    () = shared.settings.database.sleep(LOOK_PAUSE) => {}
                }
                Ok(())
            };
            let _ = shared.unless_stopped(needed).await;
            let worked = shared.unless_stopped(shared.quotas.work(shared, &leases)).await;
            if let Err(error) = &worked {
                tracing::debug!(%error, "units of quotas are leased later");
                leases.set_away(true);
                shared.quotas.nobody_waits();
            }
            if !matches!(worked, Ok(Told::Done)) {
                let pause = async {
                    shared.settings.database.sleep(4 * QUESTION_PAUSE).await;
                    Ok(())
                };
                let _ = shared.unless_stopped(pause).await;
            }
        }
    });
}

impl Leasing {
    /// Gives back everything that is unused. Lookups have ended.
    pub(crate) async fn give_back_all(&self, shared: &Shared) -> Stored<()> {
        for tracked in self.0.lock().tracked.values() {
            tracked.quota.give_up_all();
        }
        // Also where the last question was not answered.
        let questions =
            self.0.lock().to_tell(|tracked, _| tracked.told.is_some() || tracked.asked_at.is_some());
        let told = self.tell(shared, questions);
        tokio::select! {
            told = told => told.map(|_| ()),
            () = shared.settings.database.sleep(LAST_ANSWER_TIMEOUT) => {
                Err(StoreError::Unavailable("the database does not answer".to_owned()))
            }
        }
    }

    /// Asks for what is needed, and gives back what is not, as long as requests wait.
    async fn work(&self, shared: &Shared, leases: &QuotaLeases) -> Stored<Told> {
        let database = &shared.settings.database;
        let is_settled = self.0.lock().before.is_some();
        if !is_settled {
            shared.settings.callers.hits_before_are_in_force().await;
            if self.settle(shared).await? == Told::NotRegistered {
                return Ok(Told::NotRegistered);
            }
        }
        loop {
            let now = leases.time(shared.settings.clock.now());
            let quotas = shared.settings.callers.leased_quotas(now);
            let questions = {
                let mut book = self.0.lock();
                book.track(quotas, now);
                book.questions(Instant::now())
            };
            let mut telling = std::pin::pin!(self.tell(shared, questions));
            let told = tokio::select! {
                biased;
                told = &mut telling => told?,
                () = database.sleep(ANSWER_TIMEOUT) => {
                    leases.set_away(true);
                    self.nobody_waits();
                    telling.await?
                }
            };
            leases.set_away(false);
            if told == Told::NotRegistered {
                return Ok(told);
            }
            if self.0.lock().tracked.values().any(|tracked| tracked.told.is_some()) {
                let wanted = database.wanted_quotas(&shared.settings.node).await?;
                let questions = self.0.lock().give_back(&wanted, Instant::now());
                self.tell(shared, questions).await?;
            }
            if !self.0.lock().is_waited_for() {
                return Ok(Told::Done);
            }
            database.sleep(QUESTION_PAUSE).await;
        }
    }

    /// Tells the database what was used of what was leased before this process. If that is not known, everything counts as used.
    async fn settle(&self, shared: &Shared) -> Stored<Told> {
        let settings = &shared.settings;
        let (now, mut used_before) = (settings.database_time(), BTreeMap::new());
        // What was counted meanwhile counts also where nothing was leased.
        for quota in settings.callers.leased_quotas(now) {
            let first = quota.period.days(now).0;
            quota.start_at(first, settings.local.hits_since(&quota.family, first).await?);
        }
        let mut questions = Vec::new();
        for (key, units) in settings.database.leases_of(&settings.node).await? {
            let (first_day, next_day) = key.period.days(now);
            if first_day != key.first_day {
                continue;
            }
            let used = if settings.usage_is_counted {
                settings.local.hits_since(&key.family, key.first_day).await?
            } else {
                units
            };
            let asked = UnitsAsked {
                key: key.clone(),
                next_day,
                limit: 0,
                holds: used,
                used,
                reserved: 0,
                wants: 0,
                is_first: true,
            };
            questions.push(Question { asked, about: None });
            used_before.insert(key, used);
        }
        let told = self.tell(shared, questions).await?;
        if told == Told::Done {
            self.0.lock().before = Some(Before { used: used_before, until: now });
        }
        Ok(told)
    }

    /// Puts questions to the database, and applies the answers.
    async fn tell(&self, shared: &Shared, mut questions: Vec<Question>) -> Stored<Told> {
        if questions.is_empty() {
            return Ok(Told::Done);
        }
        questions.sort_by(|a, b| a.asked.key.cmp(&b.asked.key));
        let asked: Vec<UnitsAsked> = questions.iter().map(|question| question.asked.clone()).collect();
        let settings = &shared.settings;
        let answered = settings.database.lease_units(&settings.node, shared.process(), &asked).await;
        let mut book = self.0.lock();
        let Ok(Some(answers)) = answered else {
            for question in &questions {
                book.forget_told(&question.asked.key);
            }
            return answered.map(|_| Told::NotRegistered);
        };
        for (question, answer) in questions.iter().zip(answers) {
            book.note(question, answer);
        }
        Ok(Told::Done)
    }
}
