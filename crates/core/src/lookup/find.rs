//! Lookups: the only way for a caller to read a detail.

use std::cell::Cell;
use std::sync::Arc;

use super::sandbox::{self, SandboxTrouble};
use crate::access::ReservedHit;
use crate::store::{LocalRead, StoreError, Verdict};
use crate::{
    Asked, Audit, AuditEvent, AuditHealth, AuditOutcome, Caller, ContactValue, Kind, Lease, LimitExceeded,
    Profile, RefusedKind, RequestVia, ShortDigest, SuppressionList, Ticket, Timestamp,
};

/// Answers lookups. Handlers hold this, never a store, so that no detail can be read
/// without a [`Caller`], and none is disclosed without its audit line.
pub struct Lookups<D> {
    details: Arc<D>,
    suppressions: Arc<SuppressionList>,
    audit: Arc<dyn Audit>,
    lease: Lease,
}

/// Why a lookup disclosed nothing.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The person is unknown or has no such detail, or it is expired, suppressed or erased. The caller cannot tell
    /// which.
    #[error("no such detail")]
    NotFound,
    /// The hit would have exceeded the quota.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sandbox answers as a service would that is in trouble.
    #[error("made up by the sandbox")]
    Sandbox(SandboxTrouble),
    /// The lookup could not be recorded.
    #[error("the audit line could not be written")]
    Audit,
    /// The lease of this node has ended: others may have changed what it would answer. See [`Lease`].
    #[error("this node has not heard from the database for too long")]
    NoLease,
}

/// The request that a lookup belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its id, as it is recorded.
    pub id: &'a str,
    /// The digest of the id that the caller sent, if that is not recorded as it is.
    pub given_id: Option<ShortDigest>,
    /// The time of the request.
    pub at: Timestamp,
    /// How it came, if not as usual.
    pub via: Option<RequestVia>,
    /// The place of the lookup in its batch, from 1; `None` if it is not in a batch.
    pub place: Option<u32>,
}

/// The result of a lookup, hit or miss. It can be opened once its audit line is written.
#[derive(Debug)]
pub struct PendingAnswer {
    found: Option<ContactValue>,
    /// The digests of the profile and of what was found.
    profile: ShortDigest,
    value: Option<ShortDigest>,
    ticket: Ticket,
    /// A hit of the quota, which goes back if nothing is disclosed.
    reserved: Option<ReservedHit>,
}

impl PendingAnswer {
    /// The ticket of the audit line.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Returns what was found. If the audit line is not written yet, this fails as if writing had failed, and a
    /// hit is returned to the caller's quota.
    fn open(self, caller: &Caller, is_written: bool) -> Result<ContactValue, LookupError> {
        match self.found {
            Some(value) if is_written => {
                caller.count_hit();
                if let Some(reserved) = self.reserved {
                    reserved.keep();
                }
                Ok(value)
            }
            None if is_written => {
                caller.count_miss();
                Err(LookupError::NotFound)
            }
            _ => Err(LookupError::Audit),
        }
    }
}

impl<D: LocalRead> Lookups<D> {
    /// Creates lookups in `details` that leave out `suppressions` and are recorded in `audit`.
    pub fn new(details: Arc<D>, suppressions: Arc<SuppressionList>, audit: Arc<dyn Audit>) -> Self {
        Self { details, suppressions, audit, lease: Lease::none() }
    }

    /// Answers only while this lease holds.
    #[must_use]
    pub fn with_lease(self, lease: Lease) -> Self {
        Self { lease, ..self }
    }

    /// Finds the best personal detail of this kind that has not expired at the time of the request.
    ///
    /// A suppressed person costs the same digests, the same read and the same audit line as an unknown one.
    pub fn find(
        &self,
        caller: &Caller,
        profile: &Profile,
        kind: Kind,
        request: Request<'_>,
    ) -> Result<PendingAnswer, LookupError> {
        if !self.lease.holds() {
            return Err(LookupError::NoLease);
        }
        if caller.is_sandbox() {
            return self.find_in_sandbox(caller, profile, kind, request);
        }
        // Before anything is read: with a quota that is used up, nobody learns who is on file.
        let reserved = caller.reserve_hit(request.at)?;
        let suppressions = self.suppressions.current();
        let person = suppressions.check_profile(profile);
        let offered = Cell::new(None);
        let judge = |value: &str| {
            let check = suppressions.check_value(kind, value);
            offered.set(Some(check.digest));
            match (person.is_out, check.is_out) {
                (true, _) => Verdict::Enough,
                (false, true) => Verdict::Next,
                (false, false) => Verdict::Take,
            }
        };
        let found = self.details.best_personal(profile, kind, request.at, judge)?;
        let reserved = reserved.filter(|_| found.is_some());
        if offered.get().is_none() {
            // An empty store offers no value: compute the digest that a value would have cost.
            std::hint::black_box(suppressions.check_value(kind, profile.key()));
        }
        // The value that was taken is the last one that was offered.
        let value = offered.get().filter(|_| found.is_some());
        let ticket = self.audit.append(&AuditEvent {
            profile: Some(person.digest),
            value,
            ..event(caller, Asked::Detail(kind), request, outcome(found.as_ref()))
        });
        Ok(PendingAnswer { found, profile: person.digest, value, ticket, reserved })
    }

    /// Finds what the sandbox says of a profile. Nothing is read and no quota is used; but it is recorded, and opened, as any lookup.
    #[cold]
    fn find_in_sandbox(
        &self,
        caller: &Caller,
        profile: &Profile,
        kind: Kind,
        request: Request<'_>,
    ) -> Result<PendingAnswer, LookupError> {
        let found = sandbox::find(profile, kind, request.at)?;
        let suppressions = self.suppressions.current();
        let profile = suppressions.check_profile(profile).digest;
        let value = found.as_ref().map(|value| suppressions.check_value(kind, value.expose()).digest);
        let ticket = self.audit.append(&AuditEvent {
            profile: Some(profile),
            value,
            ..event(caller, Asked::Detail(kind), request, outcome(found.as_ref()))
        });
        Ok(PendingAnswer { found, profile, value, ticket, reserved: None })
    }

    /// Records that the same batch asked for the same again, which does not count. See [`open_again`](Self::open_again).
    pub fn find_again(
        &self,
        before: &PendingAnswer,
        caller: &Caller,
        kind: Kind,
        request: Request<'_>,
    ) -> Ticket {
        self.audit.append(&AuditEvent {
            profile: Some(before.profile),
            value: before.value,
            is_repeat: true,
            ..event(caller, Asked::Detail(kind), request, outcome(before.found.as_ref()))
        })
    }

    /// Whether the answer to a lookup may be given again, for a line of [`find_again`](Self::find_again): the line is written, and
    /// the lookup was answered. If it was not, the journal says that nothing was disclosed for the line either.
    pub fn open_again(&self, ticket: &Ticket, is_answered: bool) -> bool {
        let is_written = ticket.is_written();
        if is_written && !is_answered {
            self.audit.take_back(ticket);
        }
        is_written && is_answered
    }

    /// Opens the result of a lookup. If its audit line is not written yet, this fails as if writing had failed. If the lease
    /// has ended since the lookup, nothing is disclosed, neither a hit nor a miss, and the journal says so. A hit that is not
    /// disclosed is returned to the caller's quota.
    pub fn open(&self, sealed: PendingAnswer, caller: &Caller) -> Result<ContactValue, LookupError> {
        let is_written = sealed.ticket.is_written();
        if is_written && !self.lease.holds() {
            self.audit.take_back(&sealed.ticket);
            return Err(LookupError::NoLease);
        }
        sealed.open(caller, is_written)
    }

    /// Whether the lease holds without which nothing is answered.
    pub fn has_lease(&self) -> bool {
        self.lease.holds()
    }

    /// Records that something was refused with this error code of the contract: with a line of its own if
    /// [`Caller::refusal_is_recorded`] says so, otherwise it is only counted.
    pub fn refuse(
        &self,
        caller: &Caller,
        asked: Asked,
        request: Request<'_>,
        code: &'static str,
        profile: Option<&Profile>,
        is_recorded: bool,
    ) -> Ticket {
        if !is_recorded {
            let (token, via) = (caller.token().id.clone(), via(caller, request));
            self.audit.count_refused(RefusedKind { token, operation: asked, via, code });
            return Ticket::settled(true);
        }
        self.audit.append(&AuditEvent {
            profile: profile.map(|profile| self.suppressions.profile_digest(profile)),
            ..event(caller, asked, request, AuditOutcome::Refused(code))
        })
    }

    /// The digest under which the id of a request is recorded, if it may not be recorded as it is.
    pub fn id_digest(&self, id: &str) -> ShortDigest {
        self.suppressions.id_digest(id)
    }

    /// Starts writing the audit lines that were appended so far. Does not wait for it.
    pub fn flush_audit(&self) {
        self.audit.flush();
    }

    /// The state of the audit.
    pub fn audit_health(&self) -> AuditHealth {
        self.audit.health()
    }

    /// Releases what this thread keeps between lookups. A worker thread calls it every 100 ms.
    pub fn renew(&self) {
        self.details.renew();
    }
}

/// A line about nobody.
fn event<'a>(
    caller: &'a Caller,
    operation: Asked,
    request: Request<'a>,
    outcome: AuditOutcome,
) -> AuditEvent<'a> {
    let Request { id, given_id, at, place, .. } = request;
    let token = &caller.token().id;
    AuditEvent {
        at,
        request_id: id,
        given_id,
        token,
        operation,
        via: via(caller, request),
        place,
        is_repeat: false,
        profile: None,
        value: None,
        outcome,
    }
}

/// Of the sandbox however the request came.
fn via(caller: &Caller, request: Request<'_>) -> Option<RequestVia> {
    if caller.is_sandbox() { Some(RequestVia::Sandbox) } else { request.via }
}

fn outcome(found: Option<&ContactValue>) -> AuditOutcome {
    if found.is_some() { AuditOutcome::Hit } else { AuditOutcome::Miss }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::people::suppression::tests::DIGESTS;
    use crate::{Callers, DigestKey, DigestKeys, Networks, NoAudit, Subject, Token, TokenSecret};

    /// Offers the values of one profile, and another person's value for any other profile, as the trait requires.
    struct Held {
        profile: Profile,
        values: Vec<&'static str>,
        offered: AtomicU64,
    }

    impl LocalRead for Held {
        fn best_personal(
            &self,
            profile: &Profile,
            _: Kind,
            _: Timestamp,
            judge: impl Fn(&str) -> Verdict,
        ) -> Result<Option<ContactValue>, StoreError> {
            let is_held = *profile == self.profile;
            let values: &[&str] = if is_held { &self.values } else { &["+14155550199"] };
            for value in values {
                self.offered.fetch_add(1, Ordering::SeqCst);
                match judge(value) {
                    _ if !is_held => {}
                    Verdict::Take => return Ok(Some(ContactValue::from_store((*value).to_owned()))),
                    Verdict::Next => {}
                    Verdict::Enough => break,
                }
            }
            Ok(None)
        }

        fn renew(&self) {}

        fn renew_all(&self) {}
    }

    fn profile(slug: &str) -> Profile {
        Networks::built_in().canonicalize(&format!("linkedin.com/in/{slug}-quell")).expect("a profile")
    }

    fn held(values: Vec<&'static str>) -> Arc<Held> {
        Arc::new(Held { profile: profile("ada"), values, offered: AtomicU64::new(0) })
    }

    fn caller(at: Timestamp) -> Caller {
        let secret = TokenSecret::generate().expect("random");
        let callers = Callers::default();
        callers.replace(vec![(secret.hash(), Token::new("crm", at).expect("random"), 0)], at);
        callers.find(secret.expose(), at).expect("known")
    }

    #[test]
    fn every_miss_costs_the_same_digests_and_one_value_unless_the_store_is_empty() {
        let at = Timestamp::from_seconds(1_000);
        let keys = DigestKeys::new(vec![DigestKey::new(&[1; 32]), DigestKey::new(&[2; 32])]).expect("keys");
        let caller = caller(at);
        let number = ContactValue::from_store("+14155550101".to_owned());
        let (ada, erased) = (profile("ada"), profile("erased"));
        let work = |values, asked: &Profile, suppressed: &[Subject<'_>]| {
            let suppressions = Arc::new(SuppressionList::new(keys.clone()));
            let digests = suppressed.iter().filter_map(|subject| keys.digest(*subject));
            suppressions.replace(digests).expect("known keys");
            let store = held(values);
            let lookups = Lookups::new(Arc::clone(&store), suppressions, Arc::new(NoAudit));
            let before = DIGESTS.get();
            let sealed = lookups
                .find(
                    &caller,
                    asked,
                    Kind::Phone,
                    Request { id: "r", given_id: None, at, via: None, place: None },
                )
                .expect("looks up");
            let is_found = lookups.open(sealed, &caller).is_ok();
            (is_found, DIGESTS.get() - before, store.offered.load(Ordering::SeqCst))
        };
        // Two keys: two digests of the person and two of one value.
        assert_eq!(work(vec!["+14155550101"], &ada, &[]), (true, 4, 1), "held");
        assert_eq!(work(vec!["+14155550101"], &profile("unknown"), &[]), (false, 4, 1), "unknown");
        assert_eq!(
            work(vec!["+14155550101"], &erased, &[Subject::Profile(&erased)]),
            (false, 4, 1),
            "erased"
        );
        let person = [Subject::Profile(&ada)];
        assert_eq!(work(vec!["+14155550101", "+14155550102"], &ada, &person), (false, 4, 1), "suppressed");
        let value = [Subject::Value(Kind::Phone, &number)];
        assert_eq!(work(vec!["+14155550101"], &ada, &value), (false, 4, 1), "the number is suppressed");
        assert_eq!(work(vec![], &ada, &[]), (false, 4, 0), "the store is empty");
    }

    /// Counts the lines that are taken back.
    #[derive(Default)]
    struct Lines(AtomicU64);

    impl Audit for Lines {
        fn append(&self, _: &AuditEvent<'_>) -> Ticket {
            Ticket::settled(true)
        }

        fn take_back(&self, _: &Ticket) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        fn count_refused(&self, _: RefusedKind) {}

        fn flush(&self) {}

        fn health(&self) -> AuditHealth {
            AuditHealth { is_up: true, ..AuditHealth::default() }
        }
    }

    #[test]
    fn without_a_lease_nothing_is_looked_up_and_nothing_is_opened() {
        let at = Timestamp::from_seconds(1_000);
        let clock = Arc::new(crate::ManualClock::at(at));
        let lease = Lease::of_node(Arc::<crate::ManualClock>::clone(&clock));
        let (caller, ada, store) = (caller(at), profile("ada"), held(vec!["+14155550101"]));
        let keys = DigestKeys::new(vec![DigestKey::new(&[1; 32])]).expect("keys");
        let (suppressions, lines) = (Arc::new(SuppressionList::new(keys)), Arc::new(Lines::default()));
        let audit = Arc::<Lines>::clone(&lines);
        let lookups = Lookups::new(Arc::clone(&store), suppressions, audit).with_lease(lease.clone());
        let find = |who: &Profile| {
            lookups.find(
                &caller,
                who,
                Kind::Phone,
                Request { id: "r", given_id: None, at, via: None, place: None },
            )
        };
        assert!(matches!(find(&ada), Err(LookupError::NoLease)));
        assert_eq!(store.offered.load(Ordering::SeqCst), 0, "nothing is read");
        let length = std::time::Duration::from_secs(60);
        for who in [&ada, &profile("unknown")] {
            lease.renew(crate::ClockReading::of(&*clock), length);
            let sealed = find(who).expect("looks up");
            clock.advance(length);
            assert!(matches!(lookups.open(sealed, &caller), Err(LookupError::NoLease)), "hit and miss alike");
        }
        assert_eq!(lines.0.load(Ordering::SeqCst), 2, "the journal says so");
        lease.renew(crate::ClockReading::of(&*clock), length);
        assert!(lookups.open(find(&ada).expect("looks up"), &caller).is_ok());
    }
}
