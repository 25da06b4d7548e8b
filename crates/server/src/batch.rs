//! `POST /api/batch`: many lookups in one request, each answered as the operation would.

mod reading;
mod results;

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Instant;

use contactd_contract::Operation;
use contactd_core::store::LocalRead;
use contactd_core::{Asked, Kind, Networks, Profile, Request, Ticket};
use reading::Submission;
use results::Results;

use crate::answer::Answer;
use crate::app::Reloadable;
use crate::body::Body;
use crate::fetch::{Recorder, check_declared_length, check_type, profile};
use crate::head::Head;
use crate::lookup::{Asker, Sealed, identify, kind};
use crate::metrics::Outcome;
use crate::refusal::{Refusal, Unauthorized};
use crate::stream::Stream;
use crate::{App, router};

/// `POST /api/batch`
///
/// The checks have the order of the operations. What is refused for one lookup is that lookup's result.
pub(crate) async fn batch<D: LocalRead>(
    app: &App<D>,
    head: &Head<'_>,
    body: &mut Body<'_, impl Stream>,
    request: Request<'_>,
    recorder: &mut Recorder<'_>,
) -> Result<Answer, Refusal> {
    let configured = recorder.configured;
    let settings = &configured.settings;
    check_declared_length(body, settings.max_batch_body)?;
    let caller = identify(app, head.authorization, request.at)?;
    let caller = &*recorder.caller.insert(caller);
    if !Kind::ALL.into_iter().any(|kind| caller.may_look_up(kind)) {
        return Err(Refusal::Unauthorized(Unauthorized::InsufficientScope));
    }
    let mut asker = Asker::new(
        app,
        recorder.turn,
        settings,
        recorder.client.as_ref(),
        caller,
        head.authorization,
        request,
    )?;
    if !body.has_arrived() {
        asker.note_late();
    }
    let lookups = match read(configured, head, body).await {
        Ok(lookups) => lookups,
        Err(refusal) => {
            // It counts as one, and what comes first in the order of the checks is the answer.
            asker.charge().await?;
            return Err(refusal);
        }
    };
    let mut answering = Answering { app, asker, started: recorder.started, is_refusal_recorded: None };
    let pending = answering.answer(lookups).await?;
    recorder.is_recorded = true;
    if let Some(last) = pending.last() {
        recorder.turn.recorded(last.state.ticket()).await;
    }
    Ok(answering.open(pending))
}

/// A lookup that was read.
struct Lookup<'b> {
    operation: Operation,
    reference: Option<Cow<'b, str>>,
    profile: Result<Profile, Refusal>,
    /// The index of the first lookup of this batch that asks for the same.
    first: usize,
}

async fn read<'b>(
    configured: &Reloadable,
    head: &Head<'_>,
    body: &'b mut Body<'_, impl Stream>,
) -> Result<Vec<Lookup<'b>>, Refusal> {
    let Reloadable { settings, networks, .. } = configured;
    check_type(head)?;
    let body = body.read(settings.max_batch_body, settings.body_timeout).await?;
    let submissions = reading::lookups(body, settings.max_batch)
        .map_err(|fault| Refusal::InvalidBatch { message: fault.to_string() })?;
    let mut lookups: Vec<Lookup<'_>> =
        submissions.into_iter().map(|submission| lookup(networks, submission)).collect();
    let firsts = firsts(&lookups);
    lookups.iter_mut().zip(firsts).for_each(|(lookup, first)| lookup.first = first);
    Ok(lookups)
}

fn lookup<'b>(networks: &Networks, submission: Submission<'b>) -> Lookup<'b> {
    let Submission { operation, reference, url } = submission;
    Lookup { operation, reference, profile: profile(networks, operation, url), first: 0 }
}

/// For each lookup, the index of the first one that asks for the same.
fn firsts(lookups: &[Lookup<'_>]) -> Vec<usize> {
    let mut known = HashMap::with_capacity(lookups.len());
    let mut firsts = Vec::with_capacity(lookups.len());
    for (index, lookup) in lookups.iter().enumerate() {
        firsts.push(match &lookup.profile {
            Ok(profile) => *known.entry((lookup.operation, profile.as_str())).or_insert(index),
            Err(_) => index,
        });
    }
    firsts
}

/// A lookup whose line may not be written yet.
struct Pending<'a, 'b> {
    operation: Operation,
    reference: Option<Cow<'b, str>>,
    state: State<'a>,
}

enum State<'a> {
    Sealed(Sealed<'a>, Profile),
    /// The one with this index asked for the same and is not refused.
    Again(usize, Ticket),
    Refused(Refusal, Ticket),
}

impl State<'_> {
    fn ticket(&self) -> &Ticket {
        match self {
            Self::Sealed(sealed, _) => sealed.ticket(),
            Self::Again(_, ticket) | Self::Refused(_, ticket) => ticket,
        }
    }
}

/// Answers the lookups of a batch, one after the other.
struct Answering<'a, D> {
    app: &'a App<D>,
    asker: Asker<'a, D>,
    started: Instant,
    /// Whether its refused lookups have lines of their own, once one is refused. They count as one request.
    is_refusal_recorded: Option<bool>,
}

impl<'a, D: LocalRead> Answering<'a, D> {
    /// Answers them in slices, between which others have their turns. Fails only if nothing was done.
    async fn answer<'b>(&mut self, lookups: Vec<Lookup<'b>>) -> Result<Vec<Pending<'a, 'b>>, Refusal> {
        let mut pending: Vec<Pending<'a, 'b>> = Vec::with_capacity(lookups.len());
        // The lookups that were not refused, by the first one that asks for the same.
        let mut sealed: Vec<Option<usize>> = vec![None; lookups.len()];
        let (mut slice, mut is_overloaded) = (0, false);
        let mut lookups = lookups.into_iter();
        while let Some(Lookup { operation, reference, profile, first }) = lookups.next() {
            let index = pending.len();
            if slice == 0 && !is_overloaded {
                let left = u32::try_from(lookups.len() + 1).unwrap_or(u32::MAX);
                match self.asker.admit(Instant::now(), left, index > 0).await {
                    Ok(admitted) => slice = admitted,
                    Err(refusal) if index == 0 => return Err(refusal),
                    Err(_) => is_overloaded = true,
                }
            }
            slice = slice.saturating_sub(1);
            let before = sealed[first].map(|before| (before, &pending[before].state));
            let found = match is_overloaded {
                true => Err((Refusal::Overloaded, None)),
                false => self.find(profile, operation, index, before).await,
            };
            let state = found.unwrap_or_else(|(refusal, profile)| {
                self.refuse(refusal, operation, index, profile.as_ref())
            });
            if matches!(state, State::Sealed(..)) {
                sealed[first] = Some(index);
            }
            pending.push(Pending { operation, reference, state });
        }
        Ok(pending)
    }

    /// Answers one lookup, `before` if that asked for the same. If it is refused, also returns the profile if that goes on record.
    async fn find(
        &mut self,
        profile: Result<Profile, Refusal>,
        operation: Operation,
        index: usize,
        before: Option<(usize, &State<'a>)>,
    ) -> Result<State<'a>, (Refusal, Option<Profile>)> {
        let unknown = |refusal| (refusal, None);
        let kind = kind(operation);
        if !self.asker.caller.may_look_up(kind) {
            return Err(unknown(Refusal::Unauthorized(Unauthorized::InsufficientScope)));
        }
        self.asker.go_on().map_err(unknown)?;
        if let Some((before, State::Sealed(sealed, _))) = before {
            let Asker { caller, .. } = self.asker;
            caller.take_rate(self.asker.request.at).map_err(|limit| unknown(Refusal::Limit(limit)))?;
            let request = self.request(index);
            return Ok(State::Again(
                before,
                self.app.lookups.find_again(&sealed.answer, caller, kind, request),
            ));
        }
        self.asker.charge().await.map_err(unknown)?;
        let profile = profile.map_err(unknown)?;
        match self.asker.find(&profile, kind, self.request(index).place).await {
            Ok(sealed) => Ok(State::Sealed(sealed, profile)),
            Err(refusal) => Err((refusal, Some(profile))),
        }
    }

    fn refuse(
        &mut self,
        refusal: Refusal,
        operation: Operation,
        index: usize,
        profile: Option<&Profile>,
    ) -> State<'a> {
        let (caller, request) = (self.asker.caller, self.request(index));
        let is_recorded =
            *self.is_refusal_recorded.get_or_insert_with(|| caller.refusal_is_recorded(request.at));
        let (asked, code) = (Asked::Detail(kind(operation)), refusal.code().recorded());
        let ticket = self.app.lookups.refuse(caller, asked, request, code, profile, is_recorded);
        State::Refused(refusal, ticket)
    }

    /// The request, for the lookup with this index.
    fn request(&self, index: usize) -> Request<'a> {
        Request { place: u32::try_from(index + 1).ok(), ..self.asker.request }
    }

    /// Builds the answer, after the lines were waited for.
    fn open(self, pending: Vec<Pending<'a, '_>>) -> Answer {
        let mut results = Results::with_capacity(pending.len());
        for Pending { operation, reference, state } in pending {
            let reference = reference.as_deref();
            let refused = match state {
                State::Sealed(sealed, profile) => match self.asker.open(sealed, &profile, kind(operation)) {
                    Ok(value) => {
                        results.push_found(reference, operation, &value, &profile);
                        None
                    }
                    Err(refusal) => Some(refusal),
                },
                State::Again(before, ticket) => {
                    let is_answered = results.is_answered(before);
                    match self.app.lookups.open_again(&ticket, is_answered) {
                        true => {
                            let code = results.push_again(reference, before);
                            let outcome = Outcome::of_answer(Some(self.asker.caller), code);
                            self.app.metrics.record_inside(operation, outcome);
                            continue;
                        }
                        false => Some(Refusal::Unrecorded),
                    }
                }
                State::Refused(refusal, _) => Some(refusal),
            };
            let outcome = Outcome::of(Some(self.asker.caller), refused.as_ref());
            self.app.metrics.record_inside(operation, outcome);
            if outcome.is_refusal() {
                self.asker.caller.count_refused();
            }
            if let Some(refusal) = refused {
                router::log_fault(self.app, self.asker.request.id, &refusal, self.started);
                results.push_refused(reference, &refusal);
            }
        }
        results.into_answer()
    }
}
