//! The lookups of a request: a single one, or those of a batch. Both go this way.

use std::time::{Duration, Instant};

use contactd_contract::Operation;
use contactd_core::store::LocalRead;
use contactd_core::{
    Caller, ContactValue, Kind, LimitExceeded, LookupError, NotACaller, PendingAnswer, Profile, Request,
    Ticket, Timestamp,
};

use crate::client_table::ReservedMiss;
use crate::clients::{Client, Misses};
use crate::head::Field;
use crate::places::Place;
use crate::refusal::{Refusal, Unauthorized};
use crate::turn::Turn;
use crate::{App, Settings};

/// Who asks, and what the lookups of one request share.
pub(crate) struct Asker<'a, D> {
    app: &'a App<D>,
    turn: &'a Turn,
    pub(crate) caller: &'a Caller,
    authorization: Field<'a>,
    max_in_flight: usize,
    misses: Option<Misses<'a>>,
    units: AwaitedUnits,
    /// The request. Its time is that of the last look at the token.
    pub(crate) request: Request<'a>,
    /// Something was waited for since then: the token may have been revoked, or a detail may have expired.
    is_late: bool,
    /// The lookups that are admitted had to wait for their turn.
    has_waited: bool,
}

/// A lookup whose audit line may not be written yet. Has its place until it is opened.
pub(crate) struct Sealed<'a> {
    pub(crate) answer: PendingAnswer,
    miss: Option<ReservedMiss>,
    _place: Place<'a>,
}

impl Sealed<'_> {
    pub(crate) fn ticket(&self) -> &Ticket {
        self.answer.ticket()
    }
}

impl<'a, D: LocalRead> Asker<'a, D> {
    /// Refuses a caller whose lookups would have to wait too long. Nothing has been done for them yet.
    pub(crate) fn new(
        app: &'a App<D>,
        turn: &'a Turn,
        settings: &Settings,
        client: Option<&Client<'a>>,
        caller: &'a Caller,
        authorization: Field<'a>,
        request: Request<'a>,
    ) -> Result<Self, Refusal> {
        turn.check(caller.key())?;
        Ok(Self {
            app,
            turn,
            caller,
            authorization,
            max_in_flight: settings.max_in_flight,
            // What the sandbox does not find tells nothing about anybody.
            misses: client.filter(|_| !caller.is_sandbox()).and_then(|client| client.misses(request.at)),
            units: AwaitedUnits::default(),
            request,
            is_late: false,
            has_waited: false,
        })
    }

    /// Charges one lookup to the rate, and checks that nothing else is used up.
    pub(crate) async fn charge(&mut self) -> Result<(), Refusal> {
        let now = self.request.at;
        self.misses.as_ref().map_or(Ok(()), |misses| misses.check(now))?;
        let mut taken = self.caller.take(now);
        while taken == Err(LimitExceeded::Unleased) && self.units_come().await {
            taken = self.caller.check_quota(self.app.clock.now());
        }
        taken.map_err(Refusal::Limit)
    }

    /// Waits for the token's turn. Returns how many of these lookups may be done in it: at least one. `has_begun` says that others of
    /// the same batch are done.
    pub(crate) async fn admit(
        &mut self,
        arrived: Instant,
        lookups: u32,
        has_begun: bool,
    ) -> Result<u32, Refusal> {
        let (admitted, has_waited) = self.turn.admit(self.caller.key(), arrived, lookups, has_begun).await?;
        self.has_waited = has_waited;
        self.is_late |= has_waited;
        Ok(admitted)
    }

    /// Something else was waited for.
    pub(crate) fn note_late(&mut self) {
        self.is_late = true;
    }

    /// Looks at the token again if something was waited for.
    pub(crate) fn go_on(&mut self) -> Result<(), Refusal> {
        if self.is_late {
            let now = self.app.clock.now();
            identify(self.app, self.authorization, now)?;
            self.request.at = now;
            self.is_late = false;
        }
        Ok(())
    }

    /// Looks up one profile. The result can be opened once its line is written.
    pub(crate) async fn find(
        &mut self,
        profile: &Profile,
        kind: Kind,
        place: Option<u32>,
    ) -> Result<Sealed<'a>, Refusal> {
        let taken = self.app.places.take(self.caller, self.max_in_flight).ok_or(Refusal::Overloaded)?;
        // Before anything is read, like a unit of the quota. What is not a miss goes back.
        let miss = self.misses.as_ref().map(|misses| misses.reserve(self.request.at)).transpose()?;
        loop {
            let began = self.has_waited.then(Instant::now);
            let sealed = self.app.lookups.find(self.caller, profile, kind, Request { place, ..self.request });
            if let Some(began) = began {
                self.turn.took(began.elapsed());
            }
            match sealed {
                Ok(answer) => return Ok(Sealed { answer, miss, _place: taken }),
                Err(LookupError::Limit(LimitExceeded::Unleased)) if self.units_come().await => {
                    self.go_on()?;
                }
                Err(error) => return Err(Refusal::of_lookup(error, operation(kind), profile.clone())),
            }
        }
    }

    /// Opens the result of a lookup of this profile.
    pub(crate) fn open(
        &self,
        sealed: Sealed<'_>,
        profile: &Profile,
        kind: Kind,
    ) -> Result<ContactValue, Refusal> {
        self.app.lookups.open(sealed.answer, self.caller).map_err(|error| {
            if let (LookupError::NotFound, Some(miss)) = (&error, sealed.miss) {
                miss.keep();
            }
            Refusal::of_lookup(error, operation(kind), profile.clone())
        })
    }

    async fn units_come(&mut self) -> bool {
        self.is_late = true;
        self.units.come(self.app, self.caller).await
    }
}

pub(crate) const fn kind(operation: Operation) -> Kind {
    match operation {
        Operation::FetchPhoneNumber => Kind::Phone,
        Operation::FetchPersonalEmail => Kind::Email,
    }
}

const fn operation(kind: Kind) -> Operation {
    match kind {
        Kind::Phone => Operation::FetchPhoneNumber,
        Kind::Email => Operation::FetchPersonalEmail,
    }
}

/// How long a request waits for units of its quota.
const UNITS_TIMEOUT: Duration = Duration::from_secs(1);

/// Waiting for units of a quota: in a cluster, if this node has none left; after a crash, until it is counted what was used.
#[derive(Default)]
struct AwaitedUnits {
    since: Option<Instant>,
}

impl AwaitedUnits {
    /// Waits until there may be units. False if that takes too long, or waiting does not help.
    async fn come<D: LocalRead>(&mut self, app: &App<D>, caller: &Caller) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let left = UNITS_TIMEOUT.saturating_sub(since.elapsed());
        !left.is_zero()
            && tokio::time::timeout(left, app.callers.units_answered(caller)).await.unwrap_or(false)
    }
}

/// Identifies the caller. Its scopes are not checked here. A node without a lease may not have heard of a token yet, so an unknown
/// one is not refused as that of nobody.
pub(crate) fn identify<D: LocalRead>(
    app: &App<D>,
    authorization: Field<'_>,
    now: Timestamp,
) -> Result<Caller, Refusal> {
    let token = bearer_token(authorization).ok_or(Refusal::Unauthorized(Unauthorized::NoToken))?;
    app.callers.find(token, now).map_err(|why| match why {
        NotACaller::Unknown if !app.lookups.has_lease() => Refusal::NoLease,
        why => Refusal::Unauthorized(Unauthorized::InvalidToken(why)),
    })
}

/// The token after the scheme `Bearer`, which is case-insensitive. `None` unless there is exactly one
/// such header with a token.
fn bearer_token(authorization: Field<'_>) -> Option<&[u8]> {
    let Field::Once(value) = authorization else {
        return None;
    };
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    let token = token.trim_ascii();
    // Nearly all are written like this, and comparing them is faster.
    let is_bearer = scheme == b"Bearer " || scheme.eq_ignore_ascii_case(b"bearer ");
    (is_bearer && !token.is_empty()).then_some(token)
}
