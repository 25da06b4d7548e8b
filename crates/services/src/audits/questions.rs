//! Questions about the journal: who asked for what, who did what, who received how much.

use std::cmp::Reverse;
use std::collections::HashMap;

use contactd_core::store::{ActionFilter, AuditFilter, IndexedLine, RequestFilter};
use contactd_core::{Actor, Asked, AuditOutcome, AuditRecord, ContactValue, Kind, Moment, Profile, Subject};

use super::reading::{ReadFrom, Reader};
use super::{named_tokens, token_names};
use crate::views::{EventView, Recipient};
use crate::{AuditError, Audits, IndexState, Parts};

/// Selects requests and administrative actions, in an operator's terms. All conditions that are given must match.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// Requests of a token, by id or name.
    pub token: Option<String>,
    /// About a person.
    pub profile: Option<Profile>,
    /// Disclosures of a number or an address, and actions about it.
    pub value: Option<(Kind, ContactValue)>,
    /// At or after this time.
    pub since: Option<Moment>,
    /// Before this time.
    pub until: Option<Moment>,
    /// One of [`AuditOutcome::NAMES`], or of the names of [`AdminOutcome`](contactd_core::AdminOutcome).
    pub outcome: Option<String>,
    /// What requests asked for, or the name of an administrative action.
    pub operation: Option<String>,
    /// The id of a request, as the caller sent it or as it is recorded.
    pub request: Option<String>,
    /// Who performed an administrative action.
    pub actor: Option<String>,
    /// At most this many, the newest.
    pub limit: Option<u64>,
}

impl Audits {
    /// Visits what matches, newest first. `visit` returns whether to continue.
    pub async fn show(
        &self,
        actor: &Actor,
        query: &AuditQuery,
        mut visit: impl FnMut(EventView) -> bool + Send,
    ) -> Result<IndexState, AuditError> {
        let (names, reader) = self.asked(actor).await?;
        let filter = filter_of(&self.parts, query, &names).await?;
        reader.newest(&filter, |line| visit(EventView::of(line, &names))).await?;
        Ok(reader.state)
    }

    /// Sums up the requests that match by token, the one that asked last first.
    pub async fn recipients(
        &self,
        actor: &Actor,
        query: &AuditQuery,
    ) -> Result<(Vec<Recipient>, IndexState), AuditError> {
        let (names, reader) = self.asked(actor).await?;
        let filter =
            AuditFilter { actions: None, newest: None, ..filter_of(&self.parts, query, &names).await? };
        // With the number of the last line, which decides if two have the same time.
        let mut sums: HashMap<String, (Recipient, u64)> = HashMap::new();
        let add = |line| {
            if let IndexedLine::Request(record) = line
                && !record.is_sandbox()
            {
                match sums.get_mut(&record.token) {
                    Some((sum, last)) => {
                        if (record.at, record.seq) > (sum.last_at, *last) {
                            *last = record.seq;
                        }
                        sum.add(&record);
                    }
                    None => {
                        let sum = Recipient::first(&record, names.get(&record.token).cloned());
                        sums.insert(record.token, (sum, record.seq));
                    }
                }
            }
        };
        reader.each(&filter, add).await?;
        let mut sums: Vec<(Recipient, u64)> = sums.into_values().collect();
        sums.sort_by_key(|(sum, last)| Reverse((sum.last_at, *last)));
        let most = query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        Ok((sums.into_iter().map(|(sum, _)| sum).take(most).collect(), reader.state))
    }

    /// The names of the tokens, and a reader of everything that is in the journal now.
    pub(super) async fn asked(
        &self,
        actor: &Actor,
    ) -> Result<(HashMap<String, String>, Reader<'_>), AuditError> {
        actor.note("audit show");
        // Changes whose entries are not in the journal yet belong here too. If that fails, they come later.
        let _ = self.parts.on_record.collect(&[]).await;
        let names = token_names(&*self.parts.store).await?;
        Ok((names, Reader::ready(&self.parts, ReadFrom::Index).await?))
    }
}

/// Selects what a query selects now.
pub(super) async fn filter_of(
    parts: &Parts,
    query: &AuditQuery,
    names: &HashMap<String, String>,
) -> Result<AuditFilter, AuditError> {
    let now = parts.clock.now();
    let keys = &parts.keys;
    let tokens = query.token.as_deref().map(|wanted| named_tokens(names, wanted)).transpose()?;
    let operation = query.operation.as_deref();
    let asked = operation.and_then(Asked::named);
    let is_outcome_of_requests = query.outcome.as_deref().map(|name| AuditOutcome::number(name).is_some());
    let requests = RequestFilter {
        tokens,
        profiles: query.profile.as_ref().map(|profile| keys.short_digests(Subject::Profile(profile))),
        values: query.value.as_ref().map(|(kind, value)| keys.short_digests(Subject::Value(*kind, value))),
        operation: asked,
        outcome: query.outcome.clone(),
        request: query.request.as_ref().map(|id| (id.clone(), keys.id_digests(id))),
    };
    let mut subjects = Vec::new();
    if let Some(profile) = &query.profile {
        subjects.push(parts.all_names(profile).await?);
    }
    let value = query.value.as_ref().map(|(kind, value)| Subject::Value(*kind, value));
    subjects.extend(value.map(|value| keys.all_named(value)));
    let actions = ActionFilter {
        actor: query.actor.clone(),
        operation: query.operation.clone(),
        outcome: query.outcome.clone(),
        subjects,
    };
    // What cannot match is not read.
    let has_requests = query.actor.is_none()
        && (operation.is_none() || asked.is_some())
        && is_outcome_of_requests != Some(false);
    let has_actions = query.token.is_none()
        && query.request.is_none()
        && asked.is_none()
        && is_outcome_of_requests != Some(true);
    Ok(AuditFilter {
        since: query.since.map(|since| since.when(now)),
        until: query.until.map(|until| until.when(now)),
        requests: has_requests.then_some(requests),
        actions: has_actions.then_some(actions),
        newest: query.limit,
    })
}

impl Recipient {
    fn first(record: &AuditRecord, token_name: Option<String>) -> Self {
        let mut sum = Self {
            token: record.token.clone(),
            token_name,
            requests: 0,
            hits: 0,
            misses: 0,
            refused: 0,
            first_at: record.at,
            last_at: record.at,
        };
        sum.add(record);
        sum
    }

    fn add(&mut self, record: &AuditRecord) {
        let by_outcome = [&mut self.hits, &mut self.misses, &mut self.refused];
        if let Some(number) = AuditOutcome::number(&record.outcome) {
            *by_outcome[number] += record.count;
        }
        self.requests += record.count;
        self.first_at = self.first_at.min(record.at);
        self.last_at = self.last_at.max(record.at);
    }
}
