//! What a node holds of quotas, and what it asks for or gives back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use contactd_core::{HeldUnits, LeasedQuota, LeasedUnits, Timestamp};
use contactd_store_postgres::{QuotaKey, UnitsAsked};
use parking_lot::Mutex;

use crate::settings::NodeSettings;

/// Between two looks at what is held.
pub(crate) const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Units are leased for this many seconds, and again when they last for half of that: so they last as long as a lease of the
/// default length while the database is away.
const LEASE_AHEAD_SECONDS: f64 = 120.0;
/// The least number of units to ask for.
const LEAST_ASKED: u64 = 5;
/// A quota that was not used for so long is idle.
const IDLE_AFTER: Duration = Duration::from_secs(60);
/// The same, if another node wants units of it.
const IDLE_AFTER_IF_WANTED: Duration = Duration::from_secs(2);
/// Of an idle quota, one part in this many is kept, and no more than a few units, so that it can be used while the database is away.
const SPARE_PART: u64 = 20;
const MOST_SPARE_UNITS: u64 = 10;
/// Over this many seconds a rate is averaged; fewer if it rises, so that a caller who begins soon has enough.
const AVERAGED_SECONDS: f64 = 10.0;
const AVERAGED_SECONDS_IF_RISING: f64 = 2.0;

/// What the database knows, if that is not known: something else than is held, so that it is told again.
const UNKNOWN: (u64, u64) = (u64::MAX, 0);

/// What this node holds of quotas.
#[derive(Default)]
pub(crate) struct Leasing(pub(crate) Mutex<Book>);

#[derive(Default)]
pub(crate) struct Book {
    /// What was used, or may have been used, before this process; `None` until it is known.
    pub(crate) before: Option<Before>,
    pub(crate) tracked: BTreeMap<QuotaKey, Tracked>,
}

pub(crate) struct Before {
    pub(crate) used: BTreeMap<QuotaKey, u64>,
    /// Periods that began later were not used before.
    pub(crate) until: Timestamp,
}

/// A quota, and how it is used.
pub(crate) struct Tracked {
    pub(crate) quota: LeasedQuota,
    next_day: i64,
    /// What the database knows: units, and what is used of them; `None` if nothing was said.
    pub(crate) told: Option<(u64, u64)>,
    /// Whether the database may know more about this node than this process does.
    is_first: bool,
    /// How many units were used or reserved at the last look.
    spent: u64,
    looked_at: Instant,
    /// Units per second.
    rate: f64,
    used_at: Instant,
    /// The last question, and what came of it.
    pub(crate) asked_at: Option<Instant>,
    granted: u64,
    free: u64,
}

/// A question, with what was held when it was asked.
pub(crate) struct Question {
    pub(crate) asked: UnitsAsked,
    /// `None` for what is left from before this process.
    pub(crate) about: Option<(LeasedQuota, HeldUnits)>,
}

impl Leasing {
    /// Gives up what is unused, because the database may have given it to others: this node was forgotten, or the database was
    /// restored.
    pub(crate) fn reset(&self, settings: &NodeSettings) {
        for quota in settings.callers.leased_quotas(settings.database_time()) {
            quota.give_up_all();
        }
        for tracked in self.0.lock().tracked.values_mut() {
            tracked.is_first = true;
            tracked.told = tracked.told.map(|_| UNKNOWN);
        }
    }

    /// Nobody waits for an answer any longer.
    pub(crate) fn nobody_waits(&self) {
        self.0.lock().tracked.values().for_each(|tracked| tracked.quota.not_answered());
    }
}

impl Book {
    /// Takes up new quotas and periods, and leaves those that are over.
    pub(crate) fn track(&mut self, quotas: Vec<LeasedQuota>, now: Timestamp) {
        let mut before = std::mem::take(&mut self.tracked);
        for quota in quotas {
            let (first, next_day) = quota.period.days(now);
            let key = QuotaKey::new(&quota.family, quota.period, first);
            let known = before.remove(&key).filter(|tracked| tracked.quota.is_same(&quota));
            let tracked = known.unwrap_or_else(|| {
                let used = self.before.as_ref().and_then(|before| before.used.get(&key));
                used.into_iter().for_each(|used| quota.start_at(first, *used));
                let began_before =
                    self.before.as_ref().is_none_or(|before| Timestamp::start_of_day(first) <= before.until);
                Tracked::new(quota, (first, next_day), began_before)
            });
            self.tracked.insert(key, tracked);
        }
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        self.tracked.iter().any(|(key, tracked)| tracked.quota.held(key.first_day).waiting > 0)
    }

    /// What has to be asked for or given back now.
    pub(crate) fn questions(&mut self, now: Instant) -> Vec<Question> {
        let ask = |(key, tracked): (&QuotaKey, &mut Tracked)| {
            tracked.look(tracked.quota.held(key.first_day), now);
            let held = tracked.quota.held(key.first_day);
            if held.waiting > 0 && held.unused > 0 {
                // Who waits came too late for the last answer.
                tracked.quota.not_answered();
            }
            let wants = tracked.wants(held, tracked.quota.take_need(), now);
            if wants == 0
                && let Some(keep) = tracked.keeps(held, now)
            {
                tracked.quota.give_up(key.first_day, keep);
            }
            let held = tracked.quota.held(key.first_day);
            if wants > 0 {
                tracked.asked_at = Some(now);
            }
            (wants > 0 || tracked.is_told_else(held)).then(|| tracked.question(key, held, wants))
        };
        self.tracked.iter_mut().filter_map(ask).collect()
    }

    /// Gives back units that another node wants, and says what is used.
    pub(crate) fn give_back(&self, wanted: &[QuotaKey], now: Instant) -> Vec<Question> {
        for key in wanted {
            if let Some(tracked) = self.tracked.get(key) {
                let unused = tracked.quota.held(key.first_day).unused;
                let is_idle = now.saturating_duration_since(tracked.used_at) > IDLE_AFTER_IF_WANTED;
                tracked.quota.give_up(key.first_day, if is_idle { 0 } else { unused / 2 });
            }
        }
        let changed = self.to_tell(|tracked, held| tracked.told != Some((held.units, held.used())));
        changed.into_iter().filter(|question| wanted.contains(&question.asked.key)).collect()
    }

    pub(crate) fn to_tell(&self, is_due: impl Fn(&Tracked, HeldUnits) -> bool) -> Vec<Question> {
        let tell = |(key, tracked): (&QuotaKey, &Tracked)| {
            let held = tracked.quota.held(key.first_day);
            is_due(tracked, held).then(|| tracked.question(key, held, 0))
        };
        self.tracked.iter().filter_map(tell).collect()
    }

    pub(crate) fn note(&mut self, question: &Question, answer: LeasedUnits) {
        let (Some((quota, held)), asked) = (&question.about, &question.asked) else { return };
        quota.answered(asked.key.first_day, *held, answer);
        let tracked = self.tracked.get_mut(&asked.key).filter(|tracked| tracked.quota.is_same(quota));
        if let Some(tracked) = tracked {
            tracked.told = Some((answer.units, asked.used));
            tracked.is_first = false;
            tracked.free = answer.free;
            if asked.wants > 0 {
                tracked.granted = answer.granted;
            }
        }
    }

    /// It is not known what the database knows.
    pub(crate) fn forget_told(&mut self, key: &QuotaKey) {
        if let Some(tracked) = self.tracked.get_mut(key) {
            tracked.told = Some(UNKNOWN);
            tracked.asked_at = None;
        }
    }
}

impl Tracked {
    fn new(quota: LeasedQuota, (first, next_day): (i64, i64), is_first: bool) -> Self {
        let (now, held) = (Instant::now(), quota.held(first));
        Self {
            quota,
            next_day,
            told: None,
            is_first,
            spent: held.units.saturating_sub(held.unused),
            looked_at: now,
            rate: 0.0,
            used_at: now,
            asked_at: None,
            granted: 0,
            free: u64::MAX,
        }
    }

    fn question(&self, key: &QuotaKey, held: HeldUnits, wants: u64) -> Question {
        let asked = UnitsAsked {
            key: key.clone(),
            next_day: self.next_day,
            limit: u64::from(held.limit),
            holds: held.units,
            used: held.used(),
            reserved: held.reserved,
            wants,
            is_first: self.is_first,
        };
        Question { asked, about: Some((self.quota.clone(), held)) }
    }

    /// Whether the database does not know what this node holds.
    fn is_told_else(&self, held: HeldUnits) -> bool {
        self.told.is_some_and(|(units, _)| units != held.units)
    }

    /// Measures how fast it is used.
    fn look(&mut self, held: HeldUnits, now: Instant) {
        let spent = held.units.saturating_sub(held.unused);
        let more = spent.saturating_sub(self.spent);
        if more > 0 {
            self.used_at = now;
        }
        let seconds = now.saturating_duration_since(self.looked_at).as_secs_f64();
        if seconds >= LOOK_PAUSE.as_secs_f64() / 2.0 {
            let rate = more as f64 / seconds;
            let averaged = if rate > self.rate { AVERAGED_SECONDS_IF_RISING } else { AVERAGED_SECONDS };
            self.rate += (rate - self.rate) * (seconds / averaged).min(1.0);
            (self.spent, self.looked_at) = (spent, now);
        }
    }

    /// How many units to ask for.
    fn wants(&self, held: HeldUnits, is_needed: bool, now: Instant) -> u64 {
        let is_needed = (is_needed || held.waiting > 0) && held.unused == 0;
        let is_low = self.free > 0
            && self.told.is_some()
            && (held.unused as f64) < self.rate * LEASE_AHEAD_SECONDS / 2.0;
        let since = self.asked_at.map(|at| now.saturating_duration_since(at));
        let is_asked_lately = |time: Duration| since.is_some_and(|since| since < time);
        // While everything is used up, only now and then: something may come back.
        let pause = if held.is_used_up { 2 * LOOK_PAUSE } else { LOOK_PAUSE };
        let is_early = held.waiting == 0 && (held.is_used_up || !is_needed) && is_asked_lately(pause);
        if !(is_needed || is_low) || is_early {
            return 0;
        }
        let enough = ahead(self.rate) + LEAST_ASKED + held.waiting;
        let most = if is_asked_lately(LOOK_PAUSE) { enough.max(2 * self.granted) } else { enough };
        most.saturating_sub(held.unused).max(1)
    }

    /// How many unused units to keep, if some are to be given back.
    fn keeps(&self, held: HeldUnits, now: Instant) -> Option<u64> {
        let spare = (u64::from(held.limit) / SPARE_PART).min(MOST_SPARE_UNITS);
        let is_idle = now.saturating_duration_since(self.used_at) > IDLE_AFTER;
        let keep = if is_idle { spare } else { ahead(self.rate) + LEAST_ASKED };
        // Not a few at a time.
        let most = if is_idle { keep } else { 4 * keep };
        (held.unused > most).then_some(keep)
    }
}

/// How many units are leased at a rate.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is not negative")]
fn ahead(rate: f64) -> u64 {
    (rate * LEASE_AHEAD_SECONDS).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use contactd_core::{Callers, DefaultLimits, Period, Token, TokenSecret};
    use std::sync::Arc;

    /// A quota of 1,000 a day in a book, of which nothing is leased.
    fn book(now: Timestamp) -> (Book, Callers, QuotaKey) {
        let callers = Callers::new(DefaultLimits::default()).with_leases(Some(Arc::default()));
        let secret = TokenSecret::generate().expect("random");
        let quota = "1000/day".parse().ok();
        let token = Token { quota, ..Token::new("crm", now).expect("random") };
        let key = QuotaKey::new(&token.family, Period::Day, now.day());
        callers.replace(vec![(secret.hash(), token, 0)], now);
        let mut book =
            Book { before: Some(Before { used: BTreeMap::new(), until: now }), tracked: BTreeMap::new() };
        book.track(callers.leased_quotas(now), now);
        (book, callers, key)
    }

    fn held(unused: u64, used: u64, waiting: u64) -> HeldUnits {
        HeldUnits { limit: 1_000, units: unused + used, unused, reserved: 0, waiting, is_used_up: false }
    }

    fn now() -> Timestamp {
        Timestamp::parse("2026-05-01T12:00:00Z").expect("a time")
    }

    #[test]
    fn units_are_leased_ahead_when_they_last_for_less_than_half_of_one() {
        let (mut book, _callers, key) = book(now());
        let tracked = book.tracked.get_mut(&key).expect("it is tracked");
        let began = Instant::now();
        assert_eq!(tracked.wants(held(0, 0, 0), false, began), 0, "nobody asks");
        assert_eq!(tracked.wants(held(0, 0, 3), true, began), LEAST_ASKED + 3);
        tracked.told = Some((100, 0));
        tracked.looked_at = began;
        for second in 1..=60 {
            tracked.look(held(700 - 10 * second, 10 * second, 0), began + Duration::from_secs(second));
        }
        assert!((9.0..=10.0).contains(&tracked.rate), "{}", tracked.rate);
        let later = began + Duration::from_secs(61);
        assert_eq!(tracked.wants(held(601, 600, 0), false, later), 0);
        let wants = tracked.wants(held(500, 600, 0), false, later);
        assert!((600..=710).contains(&wants), "{wants}");
        tracked.free = 0;
        assert_eq!(tracked.wants(held(500, 600, 0), false, later), 0, "there is nothing to be had");
        assert!(tracked.wants(held(0, 850, 0), true, later) > 0, "but others may give some back");
    }

    #[test]
    fn who_begins_has_enough_for_a_minute_after_three_seconds() {
        let (mut book, _callers, key) = book(now());
        let tracked = book.tracked.get_mut(&key).expect("it is tracked");
        let began = tracked.looked_at;
        for second in 1..=3_u32 {
            tracked.look(held(0, 100 * u64::from(second), 0), began + second * LOOK_PAUSE);
        }
        assert!(ahead(tracked.rate) >= 60 * 100, "{}", tracked.rate);
    }

    #[test]
    fn what_is_not_used_is_given_back_except_a_few() {
        let (mut book, _callers, key) = book(now());
        let tracked = book.tracked.get_mut(&key).expect("it is tracked");
        let began = tracked.used_at;
        let idle = began + IDLE_AFTER + Duration::from_secs(1);
        assert_eq!(tracked.keeps(held(12, 5, 0), began), None);
        assert_eq!(tracked.keeps(held(12, 5, 0), idle), Some(10));
        assert_eq!(tracked.keeps(held(10, 5, 0), idle), None);
        assert_eq!(
            tracked.keeps(HeldUnits { limit: 3, ..held(1, 0, 0) }, idle),
            Some(0),
            "of a small one nothing"
        );
        assert_eq!(tracked.keeps(held(500, 5, 0), began), Some(LEAST_ASKED), "it was used faster before");
    }

    #[test]
    fn units_that_another_node_wants_go_back_by_halves_or_all_at_once_if_they_are_idle() {
        let (mut book, _callers, key) = book(now());
        let (quota, began) = {
            let tracked = book.tracked.get(&key).expect("it is tracked");
            (tracked.quota.clone(), tracked.used_at)
        };
        let ask = book.tracked[&key].question(&key, quota.held(key.first_day), 9);
        book.note(&ask, LeasedUnits { units: 9, granted: 9, free: 0, is_used_up: false });
        let gives = |book: &Book, at| {
            let questions = book.give_back(std::slice::from_ref(&key), at);
            questions.first().map(|question| (question.asked.holds, question.asked.used))
        };
        assert_eq!(gives(&book, began), Some((4, 0)));
        assert_eq!(gives(&book, began + 2 * IDLE_AFTER_IF_WANTED), Some((0, 0)));
        let told = book.to_tell(|_, _| true).remove(0);
        book.note(&told, LeasedUnits { units: 0, granted: 0, free: 9, is_used_up: false });
        assert_eq!(gives(&book, began), None, "the database knows");
        book.forget_told(&key);
        assert_eq!(gives(&book, began), Some((0, 0)), "it may not know");
    }

    #[test]
    fn a_new_day_and_a_quota_that_was_set_again_are_tracked_anew() {
        let (mut book, callers, key) = book(now());
        assert!(book.tracked[&key].is_first, "it may have been used before this process");
        let tomorrow = Timestamp::parse("2026-05-02").expect("a time");
        book.track(callers.leased_quotas(tomorrow), tomorrow);
        let next = QuotaKey { first_day: key.first_day + 1, ..key };
        assert_eq!(book.tracked.keys().collect::<Vec<_>>(), [&next]);
        assert!(!book.tracked[&next].is_first);
        callers.replace(Vec::new(), tomorrow);
        book.track(callers.leased_quotas(tomorrow), tomorrow);
        assert!(book.tracked.is_empty());
    }
}
