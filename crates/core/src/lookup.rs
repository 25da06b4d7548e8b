//! Lookups: the only way to a detail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::{Details, StoreError, Totals, Verdict};
use crate::{
    Audit, AuditEvent, AuditHealth, AuditOutcome, Caller, ContactValue, Kind, LimitExceeded, Profile,
    SuppressionList, Ticket, Timestamp,
};

/// Answers lookups. Handlers hold this, never a store, so that no detail can be read
/// without a [`Caller`], and none leaves without its audit line.
pub struct Lookups<D> {
    details: Arc<D>,
    suppressions: Arc<SuppressionList>,
    audit: Arc<dyn Audit>,
}

/// Why a lookup disclosed nothing.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// Unknown, without such a detail, expired, suppressed or erased: nobody can tell which.
    #[error("no such detail")]
    NotFound,
    /// The hit would have been one too many.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lookup could not be recorded.
    #[error("the audit line could not be written")]
    Audit,
}

/// The request that asks for a lookup.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its id.
    pub id: &'a str,
    /// When it was taken up.
    pub at: Timestamp,
}

/// What a lookup found, hit or miss. It opens once its audit line is written.
#[derive(Debug)]
pub struct Sealed {
    found: Option<ContactValue>,
    ticket: Ticket,
    at: Timestamp,
}

impl Sealed {
    /// Tells when the audit line is written.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// What was found. Whoever opens it before its line is written gets nothing, as if that had failed, and
    /// the caller's quota is as before.
    pub fn open(self, caller: &Caller) -> Result<ContactValue, LookupError> {
        let is_written = self.ticket.is_written();
        match self.found {
            Some(value) if is_written => {
                caller.count_hit();
                Ok(value)
            }
            None if is_written => {
                caller.count_miss();
                Err(LookupError::NotFound)
            }
            Some(_) => {
                caller.give_hit_back(self.at);
                Err(LookupError::Audit)
            }
            None => Err(LookupError::Audit),
        }
    }
}

impl<D: Details> Lookups<D> {
    /// Lookups in `details`, leaving out what is suppressed, recorded in `audit`.
    pub fn new(details: Arc<D>, suppressions: Arc<SuppressionList>, audit: Arc<dyn Audit>) -> Self {
        Self { details, suppressions, audit }
    }

    /// The best personal detail of that kind that has not expired when the request was taken up.
    ///
    /// A person who is suppressed costs the same digests, the same read and the same audit line as one
    /// who is unknown.
    pub async fn find(
        &self,
        caller: &Caller,
        profile: &Profile,
        kind: Kind,
        request: Request<'_>,
    ) -> Result<Sealed, LookupError> {
        let person = self.suppressions.check_profile(profile);
        let was_offered = AtomicBool::new(false);
        let judge = |value: &str| {
            was_offered.store(true, Ordering::Relaxed);
            let value_is_out = self.suppressions.contains_value(kind, value);
            match (person.is_out, value_is_out) {
                (true, _) => Verdict::Enough,
                (false, true) => Verdict::Next,
                (false, false) => Verdict::Take,
            }
        };
        #[cfg(feature = "conformance")]
        crate::conformance::READS.with(|count| count.set(count.get() + 1));
        let found = self.details.best_personal(profile, kind, request.at, judge).await?;
        if !was_offered.into_inner() {
            // An empty store offers nobody's value: the digest that one would have cost.
            std::hint::black_box(self.suppressions.contains_value(kind, profile.key()));
        }
        if found.is_some() {
            caller.charge_hit(request.at)?;
        }
        let ticket = self.audit.append(&AuditEvent {
            at: request.at,
            request_id: request.id,
            token: &caller.token().id,
            operation: kind,
            profile: Some(person.digest),
            outcome: if found.is_some() { AuditOutcome::Hit } else { AuditOutcome::Miss },
        });
        Ok(Sealed { found, ticket, at: request.at })
    }

    /// Records that a request was refused, with this code of the contract.
    pub fn refuse(&self, caller: &Caller, kind: Kind, request: Request<'_>, code: &'static str) -> Ticket {
        self.audit.append(&AuditEvent {
            at: request.at,
            request_id: request.id,
            token: &caller.token().id,
            operation: kind,
            profile: None,
            outcome: AuditOutcome::Refused(code),
        })
    }

    /// Has the audit lines written that were taken so far.
    pub fn flush_audit(&self) {
        self.audit.flush();
    }

    /// How the audit is going.
    pub fn audit_health(&self) -> AuditHealth {
        self.audit.health()
    }

    /// How much there is to look up.
    pub async fn totals(&self) -> Result<Totals, StoreError> {
        self.details.totals().await
    }

    /// Lets go of what this thread keeps between lookups; called on it every 100 ms.
    pub fn renew(&self) {
        self.details.renew();
    }
}
