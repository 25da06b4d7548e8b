//! Recognising callers. All tokens are in memory, so this needs no I/O.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::access::ByFirstBytes;
use crate::access::{Bucket, Meter};
use crate::{Allowance, Allowances, Kind, LimitExceeded, Period, Quota, Rate, Timestamp, Token, TokenHash};
use crate::{LeasedQuota, QuotaLeases};

/// A recognised token, with its limits. No detail is read without one.
#[derive(Clone, Debug)]
pub struct Caller(Arc<Known>);

/// Why a presented token is not accepted. Only who holds a token that was once accepted can learn that it expired or
/// was revoked: every other text is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotACaller {
    /// It is malformed, or there is no such token.
    #[error("unknown")]
    Unknown,
    /// It has expired.
    #[error("expired")]
    Expired,
    /// It was revoked.
    #[error("revoked")]
    Revoked,
}

/// A token with its counters and limits. These survive a reload of the table.
#[derive(Debug)]
struct Known {
    token: Token,
    live: Arc<Counters>,
    /// A changed rate begins with a full bucket.
    bucket: Arc<Bucket>,
    /// Shared by the tokens of a family. A changed limit goes on with what is used of it.
    meter: Arc<Meter>,
}

/// The counters of a token.
#[derive(Debug, Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    refused: AtomicU64,
    last_used_at: AtomicI64,
    /// A second, and in the lowest eight bits how many requests were refused in it.
    refusals: AtomicU64,
    /// Lookups in progress.
    in_progress: AtomicUsize,
}

/// Tells tokens apart while the process runs. It stays the same if the token is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenKey(usize);

/// Instead of the hits of a token: they are not known yet, so its quota cannot be used.
pub const UNCOUNTED: u64 = u64::MAX;

/// What is known of the hits before this process. If the last one was killed, they are counted while this one serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HitsBefore {
    /// Some may not be stored.
    Uncounted,
    /// All of them are stored.
    Stored,
    /// Quotas go on from them.
    #[default]
    InForce,
}

/// How many refused requests of a token get a line of their own in a second. The rest are counted.
const REFUSALS_RECORDED: u64 = 5;

/// What a token did since the last [`Callers::take_usage`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageDelta {
    /// The token's id.
    pub token: String,
    /// Details it received.
    pub hits: u64,
    /// Lookups that found nothing.
    pub misses: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// When it was last accepted; `None` if not since then.
    pub last_used_at: Option<Timestamp>,
}

impl Caller {
    /// The record of the token.
    pub fn token(&self) -> &Token {
        &self.0.token
    }

    /// The key of the token.
    pub fn key(&self) -> TokenKey {
        TokenKey(Arc::as_ptr(&self.0.live).addr())
    }

    /// How many lookups of the token are in progress. The server counts them.
    pub fn in_progress(&self) -> &AtomicUsize {
        &self.0.live.in_progress
    }

    /// Whether the sandbox answers it.
    pub fn is_sandbox(&self) -> bool {
        self.0.token.sandbox
    }

    /// Whether the token's scopes allow looking up `kind`.
    pub fn may_look_up(&self, kind: Kind) -> bool {
        self.0.token.scopes.allow(kind)
    }

    /// Whether the token is for agents. One that has lost its quota is not any more.
    pub fn may_use_mcp(&self) -> bool {
        self.0.token.scopes.mcp && self.0.token.check_scopes().is_ok()
    }

    /// Charges one request to the rate limit, and checks that the quota is not used up.
    pub fn take(&self, now: Timestamp) -> Result<(), LimitExceeded> {
        self.take_rate(now)?;
        self.check_quota(now)
    }

    /// Charges one request to the rate limit.
    pub fn take_rate(&self, now: Timestamp) -> Result<(), LimitExceeded> {
        self.0.token.rate.map_or(Ok(()), |rate| self.0.bucket.take(rate, now))
    }

    /// Checks that the quota is not used up. Charges nothing.
    pub fn check_quota(&self, now: Timestamp) -> Result<(), LimitExceeded> {
        self.0.token.quota.map_or(Ok(()), |quota| self.0.meter.check(quota, now))
    }

    /// The token's limits and what is left of them; empty for an unlimited token.
    pub fn allowances(&self, now: Timestamp) -> Allowances {
        let Known { token, bucket, meter, .. } = &*self.0;
        Allowances {
            rate: token.rate.map(|rate| bucket.allowance(rate, now)),
            quota: token.quota.map(|quota| meter.allowance(quota, now)),
        }
    }

    /// Reserves one hit of the quota; fails if the quota is used up. There is nothing to reserve without a quota.
    pub(crate) fn reserve_hit(&self, now: Timestamp) -> Result<Option<ReservedHit>, LimitExceeded> {
        let Some(quota) = self.0.token.quota else { return Ok(None) };
        self.0.meter.reserve(quota, now)?;
        Ok(Some(ReservedHit { caller: Some(self.clone()), quota, at: now }))
    }

    pub(crate) fn count_hit(&self) {
        self.0.live.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a refused request gets a line of its own: the first few in every second do.
    pub fn refusal_is_recorded(&self, now: Timestamp) -> bool {
        let second = u64::try_from(now.seconds()).unwrap_or(0);
        let before = self.0.live.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |packed| {
            let count = if packed >> 8 == second { (packed & 255).saturating_add(1).min(255) } else { 1 };
            Some(second << 8 | count)
        });
        before.is_ok_and(|packed| packed >> 8 != second || packed & 255 < REFUSALS_RECORDED)
    }

    pub(crate) fn count_miss(&self) {
        self.0.live.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that was refused after the token had been recognised.
    pub fn count_refused(&self) {
        self.0.live.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// A hit of a quota, reserved for a request. If it is dropped, it goes back to the quota.
#[derive(Debug)]
pub(crate) struct ReservedHit {
    caller: Option<Caller>,
    quota: Quota,
    at: Timestamp,
}

impl ReservedHit {
    /// The detail was disclosed: the hit is used.
    pub(crate) fn keep(mut self) {
        if let Some(caller) = self.caller.take() {
            caller.0.meter.keep();
        }
    }
}

impl Drop for ReservedHit {
    fn drop(&mut self) {
        if let Some(caller) = &self.caller {
            caller.0.meter.give_back(self.quota, self.at);
        }
    }
}

type Table = HashMap<TokenHash, Arc<Known>, ByFirstBytes>;

/// Limits of tokens that have none of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultLimits {
    /// The rate.
    pub rate: Option<Rate>,
    /// The quota.
    pub quota: Option<Quota>,
}

impl DefaultLimits {
    /// The limits that apply to a token. The sandbox has limits of its own.
    fn limits_of(&self, token: &Token) -> (Option<Rate>, Option<Quota>) {
        match token.sandbox {
            true => (token.rate.or(Some(Rate::OF_SANDBOX)), None),
            false => (token.rate.or(self.rate), token.quota.or(self.quota)),
        }
    }
}

/// All tokens by hash, with those that have ended, so that their holders are told.
#[derive(Debug, Default)]
pub struct Callers {
    table: ArcSwap<Table>,
    defaults: ArcSwap<DefaultLimits>,
    /// What tokens in the table did from the start to the last [`Callers::take_usage`], by id.
    taken: Mutex<HashMap<String, Counts>>,
    /// In a cluster: who leases the units of quotas.
    leases: Option<Arc<QuotaLeases>>,
    before: watch::Sender<HitsBefore>,
}

/// Requests by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) refused: u64,
}

impl Counts {
    const fn of(delta: &UsageDelta) -> Self {
        Self { hits: delta.hits, misses: delta.misses, refused: delta.refused }
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.hits += more.hits;
        self.misses += more.misses;
        self.refused += more.refused;
    }

    /// Counters only go back by what was added before.
    fn take_back(&mut self, less: Self) {
        self.hits = self.hits.saturating_sub(less.hits);
        self.misses = self.misses.saturating_sub(less.misses);
        self.refused = self.refused.saturating_sub(less.refused);
    }
}

impl Callers {
    /// Creates an empty table.
    pub fn new(defaults: DefaultLimits) -> Self {
        Self { defaults: ArcSwap::from_pointee(defaults), ..Self::default() }
    }

    /// Quotas can be used only as far as their units are leased.
    #[must_use]
    pub fn with_leases(self, leases: Option<Arc<QuotaLeases>>) -> Self {
        Self { leases, ..self }
    }

    /// In a cluster: who leases the units of quotas.
    pub fn leases(&self) -> Option<&Arc<QuotaLeases>> {
        self.leases.as_ref()
    }

    /// Says what is known of the hits before this process. While they are [`HitsBefore::Uncounted`], tokens with a quota receive
    /// nothing. Once they are stored, and the table is replaced, they can be in force.
    pub fn set_hits_before(&self, before: HitsBefore) {
        self.before.send_replace(before);
    }

    /// What is known of the hits before this process. Ask this before reading the hits that are stored.
    pub fn hits_before(&self) -> HitsBefore {
        *self.before.borrow()
    }

    /// Waits until quotas go on from the hits before this process.
    pub async fn hits_before_are_in_force(&self) {
        // It fails only if there is no sender any more.
        let _ = self.before.subscribe().wait_for(|before| *before == HitsBefore::InForce).await;
    }

    /// After [`LimitExceeded::Unleased`]: waits until the database has been asked for units, or until it is known what was used. False
    /// if waiting does not help.
    pub async fn units_answered(&self, caller: &Caller) -> bool {
        match &caller.0.meter.leased {
            Some(leased) => leased.answer().await,
            None if self.hits_before() == HitsBefore::InForce => false,
            None => {
                self.hits_before_are_in_force().await;
                true
            }
        }
    }

    /// The quotas of accepted tokens whose units are leased.
    pub fn leased_quotas(&self, now: Timestamp) -> Vec<LeasedQuota> {
        let table = self.table.load();
        let live = table.values().filter(|known| known.token.is_live(now) && known.meter.leased.is_some());
        let leased = live.filter_map(|known| {
            let (period, family) = (known.token.quota?.period, known.token.family.clone());
            Some(LeasedQuota { family, period, meter: Arc::clone(&known.meter) })
        });
        let mut leased: Vec<LeasedQuota> = leased.collect();
        let key = |quota: &LeasedQuota| (quota.family.clone(), quota.period);
        leased.sort_by_cached_key(key);
        leased.dedup_by(|a, b| a.is_same(b));
        leased
    }

    /// Sets the limits of tokens that have none of their own, from the next [`replace`](Self::replace) on.
    pub fn set_defaults(&self, defaults: DefaultLimits) {
        self.defaults.store(Arc::new(defaults));
    }

    /// Finds the caller who presented this token.
    pub fn find(&self, presented: impl AsRef<[u8]>, now: Timestamp) -> Result<Caller, NotACaller> {
        let Some(hash) = TokenHash::of(&presented) else { return self.find_sandbox(presented.as_ref(), now) };
        self.find_hash(hash, now)
    }

    /// A token of this form is accepted only if its record says that it is of the sandbox. An older version that changes the record
    /// loses that, and nothing real may be disclosed then.
    #[cold]
    fn find_sandbox(&self, presented: &[u8], now: Timestamp) -> Result<Caller, NotACaller> {
        let hash = TokenHash::of_sandbox(presented).ok_or(NotACaller::Unknown)?;
        self.find_hash(hash, now).and_then(|caller| match caller.is_sandbox() {
            true => Ok(caller),
            false => Err(NotACaller::Unknown),
        })
    }

    fn find_hash(&self, hash: TokenHash, now: Timestamp) -> Result<Caller, NotACaller> {
        let table = self.table.load();
        let known = table.get(&hash).ok_or(NotACaller::Unknown)?;
        if !known.token.is_live(now) {
            let is_revoked = known.token.revoked_at.is_some();
            return Err(if is_revoked { NotACaller::Revoked } else { NotACaller::Expired });
        }
        known.live.last_used_at.store(now.millis(), Ordering::Relaxed);
        Ok(Caller(Arc::clone(known)))
    }

    /// The quota that applies to a token: its own, or the default.
    pub fn quota_of(&self, token: &Token) -> Option<Quota> {
        self.defaults.load().limits_of(token).1
    }

    /// Replaces the table. Each token comes with the hits already stored for its family and the current period of its
    /// quota, or with [`UNCOUNTED`]. A family that is in the table and counted goes on with its own count instead.
    pub fn replace(&self, tokens: Vec<(TokenHash, Token, u64)>, now: Timestamp) {
        let old = self.table.load();
        let (defaults, mut meters) = (self.defaults.load(), Meters::of(&old, self.leases.as_ref()));
        let table: Table = tokens
            .into_iter()
            .map(|(hash, mut token, used)| {
                (token.rate, token.quota) = defaults.limits_of(&token);
                let meter = meters.take(&token, used, now);
                let known = old.get(&hash);
                let live = known.map(|known| Arc::clone(&known.live)).unwrap_or_default();
                let bucket = known.filter(|known| known.token.rate == token.rate);
                let bucket = bucket.map(|known| Arc::clone(&known.bucket)).unwrap_or_default();
                (hash, Arc::new(Known { token, live, bucket, meter }))
            })
            .collect();
        meters.set_limits();
        let ids: HashSet<&str> = table.values().map(|known| known.token.id.as_str()).collect();
        self.taken.lock().retain(|id, _| ids.contains(id.as_str()));
        drop(ids);
        self.table.store(Arc::new(table));
    }

    /// What every accepted token did since the start of this process.
    pub(crate) fn counts(&self) -> Vec<(Token, Counts)> {
        // Locked first, so that no request is between the two counts.
        let taken = self.taken.lock();
        let table = self.table.load();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = table.values().map(|known| {
            let live = &known.live;
            let mut counts = taken.get(&known.token.id).copied().unwrap_or_default();
            let (hits, misses, refused) = (count(&live.hits), count(&live.misses), count(&live.refused));
            counts.add(Counts { hits, misses, refused });
            (known.token.clone(), counts)
        });
        counts.collect()
    }

    /// The accepted tokens that have a quota, with what is left of it. Tokens of a family share one.
    pub(crate) fn quotas(&self, now: Timestamp) -> Vec<(Token, Allowance)> {
        let table = self.table.load();
        let live = table.values().filter(|known| known.token.is_live(now));
        let metered = live.filter_map(|known| {
            let quota = known.token.quota?;
            Some((known.token.clone(), known.meter.allowance(quota, now)))
        });
        metered.collect()
    }

    /// How many tokens are accepted at `now`, and how many of them end soon.
    pub fn count(&self, now: Timestamp) -> (usize, usize) {
        let table = self.table.load();
        let live = table.values().filter(|known| known.token.is_live(now)).count();
        let ending = table.values().filter(|known| known.token.ends_soon(now)).count();
        (live, ending)
    }

    /// Puts back usage that could not be stored, for the next [`take_usage`](Self::take_usage).
    pub fn return_usage(&self, usage: &[UsageDelta]) {
        let mut taken = self.taken.lock();
        let table = self.table.load();
        for delta in usage {
            if let Some(counts) = taken.get_mut(&delta.token) {
                counts.take_back(Counts::of(delta));
            }
            if let Some(known) = table.values().find(|known| known.token.id == delta.token) {
                let live = &known.live;
                live.hits.fetch_add(delta.hits, Ordering::Relaxed);
                live.misses.fetch_add(delta.misses, Ordering::Relaxed);
                live.refused.fetch_add(delta.refused, Ordering::Relaxed);
                live.last_used_at
                    .fetch_max(delta.last_used_at.map_or(0, Timestamp::millis), Ordering::Relaxed);
            }
        }
    }

    /// What every token did since the last call. Resets the counters.
    pub fn take_usage(&self) -> Vec<UsageDelta> {
        let mut taken = self.taken.lock();
        let table = self.table.load();
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        let usage: Vec<UsageDelta> = table.values().filter_map(|known| known.take_usage(take)).collect();
        for delta in &usage {
            taken.entry(delta.token.clone()).or_default().add(Counts::of(delta));
        }
        usage
    }
}

impl Known {
    /// A request that was recognised before the last call and counted after it is included. Of the sandbox, only the time counts.
    fn take_usage(&self, take: impl Fn(&AtomicU64) -> u64) -> Option<UsageDelta> {
        let live = &self.live;
        let counted = (take(&live.hits), take(&live.misses), take(&live.refused));
        let (hits, misses, refused) = if self.token.sandbox { (0, 0, 0) } else { counted };
        let last_used_at = live.last_used_at.swap(0, Ordering::Relaxed);
        (last_used_at != 0 || hits + misses + refused > 0).then(|| UsageDelta {
            token: self.token.id.clone(),
            hits,
            misses,
            refused,
            last_used_at: (last_used_at != 0).then_some(Timestamp::from_millis(last_used_at)),
        })
    }
}

/// The meters of a table, by family and period.
struct Meters<'a> {
    meters: HashMap<(String, Period), Arc<Meter>>,
    /// The lowest quota of the accepted tokens of each.
    limits: HashMap<(String, Period), u32>,
    /// Hits that are not stored yet, by family.
    unstored: HashMap<&'a str, u64>,
    leases: Option<&'a Arc<QuotaLeases>>,
}

impl<'a> Meters<'a> {
    fn of(table: &'a Table, leases: Option<&'a Arc<QuotaLeases>>) -> Self {
        let metered = table.values().filter_map(|known| {
            let period = known.token.quota?.period;
            Some(((known.token.family.clone(), period), Arc::clone(&known.meter)))
        });
        let mut unstored = HashMap::new();
        for known in table.values() {
            let hits = known.live.hits.load(Ordering::Relaxed);
            if hits > 0 {
                *unstored.entry(known.token.family.as_str()).or_default() += hits;
            }
        }
        Self { meters: metered.collect(), limits: HashMap::new(), unstored, leases }
    }

    /// Puts the quotas in force whose units are leased.
    fn set_limits(&self) {
        for (key, limit) in &self.limits {
            self.meters.get(key).into_iter().for_each(|meter| meter.set_limit(*limit));
        }
    }

    /// The meter of a token's family. A new one starts with the hits that are stored and those that are not yet.
    fn take(&mut self, token: &Token, stored: u64, now: Timestamp) -> Arc<Meter> {
        let Some(quota) = token.quota else { return Arc::default() };
        let key = (token.family.clone(), quota.period);
        if token.is_live(now) {
            let limit = self.limits.entry(key.clone()).or_insert(quota.limit);
            *limit = quota.limit.min(*limit);
        }
        let unstored = self.unstored.get(token.family.as_str()).copied().unwrap_or(0);
        let used = stored.saturating_add(unstored);
        let meter = self.meters.entry(key).or_insert_with(|| {
            Arc::new(match self.leases {
                Some(leases) => Meter::leased(quota, used, now, Arc::clone(leases)),
                None => Meter::starting_at(quota, used, now),
            })
        });
        if stored != UNCOUNTED {
            meter.go_on(quota, used, now);
        }
        Arc::clone(meter)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::TokenSecret;

    fn now() -> Timestamp {
        Timestamp::parse("2026-05-01").expect("a date")
    }

    #[test]
    fn who_holds_a_token_that_has_ended_learns_why_and_nobody_else_does() {
        let [expired, revoked, both, never] = [(); 4].map(|()| TokenSecret::generate().expect("random"));
        let soon = now().plus(std::time::Duration::from_secs(1));
        let token = Token { expires_at: Some(soon), ..Token::new("crm", now()).expect("random") };
        let callers = Callers::new(DefaultLimits::default());
        callers.replace(
            vec![
                (expired.hash(), token.clone(), 0),
                (revoked.hash(), Token { expires_at: None, revoked_at: Some(now()), ..token.clone() }, 0),
                (both.hash(), Token { revoked_at: Some(now()), ..token }, 0),
            ],
            now(),
        );
        let refused = |presented: &str, at: Timestamp| callers.find(presented, at).err();
        assert_eq!(refused(expired.expose(), now()), None);
        assert_eq!(refused(expired.expose(), soon), Some(NotACaller::Expired));
        assert_eq!(refused(revoked.expose(), now()), Some(NotACaller::Revoked));
        assert_eq!(refused(both.expose(), soon), Some(NotACaller::Revoked));
        assert_eq!(refused(never.expose(), soon), Some(NotACaller::Unknown));
        let mistyped = format!("{}_", &revoked.expose()[..41]);
        assert_eq!(refused(&mistyped, soon), Some(NotACaller::Unknown));
        assert!(
            callers.take_usage().iter().all(|usage| usage.last_used_at == Some(now())),
            "refused is not used"
        );
    }

    #[test]
    fn a_token_of_the_sandbox_whose_record_has_lost_that_is_not_accepted() {
        let secret = TokenSecret::generate_sandbox().expect("random");
        let lost = Token::new("crm", now()).expect("random");
        let callers = Callers::default();
        let found = |token: &Token| {
            callers.replace(vec![(secret.hash(), token.clone(), 0)], now());
            callers.find(secret.expose(), now()).map(|caller| caller.is_sandbox())
        };
        assert_eq!(found(&Token { sandbox: true, ..lost.clone() }), Ok(true));
        assert_eq!(found(&lost), Err(NotACaller::Unknown));
    }

    #[test]
    fn the_sandbox_has_a_rate_and_no_quota_whatever_the_defaults_are_and_only_its_last_use_counts() {
        let (rate, quota) = ("1000/s".parse().ok(), "1/day".parse().ok());
        let secret = TokenSecret::generate_sandbox().expect("random");
        let token = Token { sandbox: true, quota, ..Token::new("crm", now()).expect("random") };
        let callers = Callers::new(DefaultLimits { rate, quota });
        callers.replace(vec![(secret.hash(), token, 0)], now());
        let caller = callers.find(secret.expose(), now()).expect("known");
        assert_eq!((caller.token().rate, caller.token().quota), (Some(Rate::OF_SANDBOX), None));
        caller.count_hit();
        caller.count_refused();
        let used = UsageDelta {
            token: caller.token().id.clone(),
            last_used_at: Some(now()),
            ..UsageDelta::default()
        };
        assert_eq!(callers.take_usage(), [used]);
    }

    #[test]
    fn a_hit_counted_after_take_usage_is_returned_by_the_next_call() {
        let secret = TokenSecret::generate().expect("random");
        let callers = Callers::default();
        callers.replace(vec![(secret.hash(), Token::new("crm", now()).expect("random"), 0)], now());
        let caller = callers.find(secret.expose(), now()).expect("known");
        assert_eq!(callers.take_usage().len(), 1);
        caller.count_hit();
        let taken = callers.take_usage();
        assert_eq!((taken[0].hits, taken[0].last_used_at), (1, None));
        assert!(callers.take_usage().is_empty());
    }

    #[test]
    fn a_family_shares_one_quota_through_rotations_and_changes_of_it() {
        let secrets: Vec<TokenSecret> = (0..3).map(|_| TokenSecret::generate().expect("random")).collect();
        let mut token = Token::new("crm", now()).expect("random");
        let callers = Callers::new(DefaultLimits::default());
        let use_one = |at: usize| {
            let caller = callers.find(secrets[at].expose(), now()).expect("known");
            caller.reserve_hit(now()).map(|hit| hit.expect("a quota").keep())
        };
        let with = |token: &Token, quota: &str| Token { quota: quota.parse().ok(), ..token.clone() };
        let next = |token: &Token| Token {
            family: token.family.clone(),
            ..Token::new("crm", now()).expect("random")
        };
        // Hits without a quota, not stored yet, count when it gets one.
        callers.replace(vec![(secrets[0].hash(), token.clone(), 0)], now());
        callers.find(secrets[0].expose(), now()).expect("known").count_hit();
        token = with(&token, "4/day");
        let (second, third) = (with(&next(&token), "4/day"), with(&next(&token), "4/day"));
        callers.replace(vec![(secrets[0].hash(), token.clone(), 0)], now());
        use_one(0).expect("the second hit");
        let row = |at: usize, token: &Token| (secrets[at].hash(), token.clone(), 0);
        callers.replace(vec![row(0, &token), row(1, &second)], now());
        use_one(1).expect("the third");
        callers.replace(vec![row(0, &token), row(1, &second), row(2, &third)], now());
        use_one(2).expect("the fourth");
        assert!((0..3).all(|at| use_one(at).is_err()), "all of them have used it up");
        // The last goes on alone, with a new limit, and with what is used.
        let third = with(&third, "5/day");
        callers.replace(vec![row(2, &third)], now());
        use_one(2).expect("the fifth");
        assert!(use_one(2).is_err());
        callers.replace(vec![(secrets[2].hash(), with(&third, "6/month"), 5)], now());
        use_one(2).expect("the sixth");
        assert!(use_one(2).is_err());
    }

    #[test]
    fn a_quota_cannot_be_used_until_it_is_counted_what_was_used() {
        let [limited, free] = [(); 2].map(|()| TokenSecret::generate().expect("random"));
        let token = Token::new("crm", now()).expect("random");
        let quota = Token { quota: "3/day".parse().ok(), ..token.clone() };
        let callers = Callers::default();
        let with = |used| vec![(limited.hash(), quota.clone(), used), (free.hash(), token.clone(), used)];
        callers.replace(with(UNCOUNTED), now());
        callers.replace(with(UNCOUNTED), now());
        let before = callers.find(limited.expose(), now()).expect("known");
        assert_eq!(before.take(now()), Err(LimitExceeded::Unleased));
        assert_eq!(before.reserve_hit(now()).err(), Some(LimitExceeded::Unleased));
        assert_eq!(callers.find(free.expose(), now()).expect("known").take(now()), Ok(()));
        callers.set_hits_before(HitsBefore::Uncounted);
        let mut waiting = Box::pin(callers.units_answered(&before));
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Pending);
        callers.set_hits_before(HitsBefore::Stored);
        assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Pending, "they are not in force");
        callers.replace(with(2), now());
        callers.set_hits_before(HitsBefore::InForce);
        assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Ready(true));
        assert_eq!(before.take(now()), Ok(()), "also for who was found before");
        let after = callers.find(limited.expose(), now()).expect("known");
        after.reserve_hit(now()).expect("the third").expect("a quota").keep();
        assert!(matches!(after.take(now()), Err(LimitExceeded::Quota { .. })));
        assert!(matches!(before.take(now()), Err(LimitExceeded::Quota { .. })));
        callers.replace(with(UNCOUNTED), now());
        assert!(
            matches!(after.take(now()), Err(LimitExceeded::Quota { .. })),
            "it goes on with its own count"
        );
    }

    #[test]
    fn a_changed_rate_is_in_force_at_once_and_an_unchanged_one_goes_on() {
        let secret = TokenSecret::generate().expect("random");
        let token = Token::new("crm", now()).expect("random");
        let callers = Callers::new(DefaultLimits::default());
        let with = |rate: &str| vec![(secret.hash(), Token { rate: rate.parse().ok(), ..token.clone() }, 0)];
        let take = || callers.find(secret.expose(), now()).expect("known").take(now());
        callers.replace(with("1/h"), now());
        take().expect("the burst");
        callers.replace(with("1/h"), now());
        assert!(take().is_err(), "it was taken before");
        callers.replace(with("50/s"), now());
        take().expect("the new rate");
    }
}
