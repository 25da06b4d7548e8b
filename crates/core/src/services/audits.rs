//! The journal: who received what, and the check that nothing was changed.

mod index_check;
mod indexing;
mod outbox;
mod reading;

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::{Arc, Mutex};

pub(super) use indexing::known_from_index;
pub use reading::ReadFrom;
pub(super) use reading::Reader;

use crate::services::Parts;
use crate::store::{AuditFilter, AuditIndex, AuditUsage, Facts, StoreError, Tokens};
use crate::{
    Actor, AdminRecord, AuditRecord, Chain, JournalError, JournalFault, JournalHead, Kind, KnownLine,
    Profile, ProofMade, RootKey, Roots, Subject, Timestamp, Verification,
};
use indexing::{LOST, catch_up, reset};

/// Queries and checks the journal.
pub struct Audits<S> {
    parts: Arc<Parts<S>>,
    /// The entries that this process has put into the journal, once it knows which were there before.
    recorded: Mutex<Option<HashSet<String>>>,
}

/// Why the journal could not be queried or checked.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// There is no token with this id or name.
    #[error("there is no token `{0}`; `contactd token list` shows their ids and names")]
    UnknownToken(String),
    /// The journal could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Selects requests of the journal, in an operator's terms.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// A token, by id or name.
    pub token: Option<String>,
    /// A person.
    pub profile: Option<Profile>,
    /// At or after this time.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    /// One of [`AuditOutcome::NAMES`], or of the names of [`AdminOutcome`](crate::AdminOutcome).
    pub outcome: Option<String>,
    /// The kind of detail that was asked for, or the name of an administrative action.
    pub operation: Option<String>,
    /// The id of a request, as the caller sent it or as it is recorded.
    pub request: Option<String>,
    /// Who performed an administrative action.
    pub actor: Option<String>,
}

/// Something in the journal.
#[derive(Clone, Debug)]
pub enum ShownEvent<'a> {
    /// A request.
    Request {
        /// The request.
        record: AuditRecord,
        /// The name of the token, if it is known.
        token_name: Option<&'a str>,
    },
    /// An administrative action.
    Admin(AdminRecord),
}

/// Usage of a token on one UTC day, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedUsage {
    /// The counts.
    pub usage: AuditUsage,
    /// The name of the token, if it is known.
    pub token_name: Option<String>,
}

/// Problems with the index that should be reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexState {
    /// Lines that had been indexed are missing from the journal, or changed.
    pub is_lost: bool,
    /// Why the index could not be used; the whole journal was read instead.
    pub unusable: Option<String>,
}

/// The fact that stores the roots of the journal, oldest first.
const ROOTS: &str = "journal_roots";
/// The fact that stores when the index was last compared with the journal.
const COMPARED: &str = "audit_index_compared";
impl<S: AuditIndex + Facts + Tokens> Audits<S> {
    pub(super) fn new(parts: Arc<Parts<S>>) -> Self {
        Self { parts, recorded: Mutex::default() }
    }

    /// Visits what matches, that of each node oldest first. `visit` returns whether to continue.
    pub async fn show(
        &self,
        actor: &Actor,
        query: AuditQuery,
        mut visit: impl FnMut(ShownEvent<'_>) -> bool + Send,
    ) -> Result<IndexState, AuditError> {
        actor.note("audit show");
        // Changes whose entries are not in the journal yet belong here too. If that fails, they come later.
        let _ = self.parts.on_record.collect().await;
        let names = token_names(&*self.parts.store).await?;
        let tokens = query.token.as_deref().map(|wanted| named_tokens(&names, wanted)).transpose()?;
        let reader = Reader::ready(&self.parts, ReadFrom::Index).await?;
        let subject_names =
            query.profile.as_ref().map(|profile| self.parts.keys.all_named(Subject::Profile(profile)));
        let mut admin = reader.list_admin(query.since, query.until).await?;
        admin.retain(|record| is_meant(&query, subject_names.as_deref(), record));
        // Both are sorted by node and number: put them together.
        let mut admin = admin.into_iter().peekable();
        let mut goes_on = true;
        let is_of_requests = |operation: &str| Kind::ALL.iter().any(|kind| kind.name() == operation);
        if query.actor.is_none() && query.operation.as_deref().is_none_or(is_of_requests) {
            let wanted = |record: &AuditRecord| {
                query.operation.as_deref().is_none_or(|operation| operation == record.operation.name())
            };
            let filter = self.filter(&query, tokens);
            let each = |record: AuditRecord| {
                while goes_on
                    && let Some(earlier) =
                        admin.next_if(|admin| (&admin.node, admin.seq) < (&record.node, record.seq))
                {
                    goes_on = visit(ShownEvent::Admin(earlier));
                }
                if goes_on && wanted(&record) {
                    let token_name = names.get(&record.token).map(String::as_str);
                    goes_on = visit(ShownEvent::Request { token_name, record });
                }
                goes_on
            };
            reader.visit(&filter, each).await?;
        }
        while goes_on && let Some(record) = admin.next() {
            goes_on = visit(ShownEvent::Admin(record));
        }
        Ok(reader.state)
    }

    fn filter(&self, query: &AuditQuery, tokens: Option<Vec<String>>) -> AuditFilter {
        AuditFilter {
            tokens,
            profiles: query.profile.as_ref().map(|profile| self.parts.keys.profile_digests(profile)),
            since: query.since,
            until: query.until,
            outcome: query.outcome.clone(),
            values: None,
            request: query.request.as_ref().map(|id| (id.clone(), self.parts.keys.id_digests(id))),
        }
    }

    /// Usage by token and day; only of one token, by id or name, if one is given.
    pub async fn usage(
        &self,
        actor: &Actor,
        token: Option<&str>,
    ) -> Result<(Vec<NamedUsage>, IndexState), AuditError> {
        actor.note("usage");
        let state = catch_up(&self.parts).await?;
        let names = token_names(&*self.parts.store).await?;
        let wanted = token.map(|wanted| named_tokens(&names, wanted)).transpose()?;
        let usage = self.parts.store.audit_usage().await?;
        let usage = usage
            .into_iter()
            .filter(|usage| wanted.as_ref().is_none_or(|tokens| tokens.contains(&usage.token)))
            .map(|usage| NamedUsage { token_name: names.get(&usage.token).cloned(), usage })
            .collect();
        Ok((usage, state))
    }

    /// Checks every line of the journal, that it still contains the `noted` line and the lines that the index
    /// knows, and that the index says what the journal says. An index that does not is rebuilt. Without `given`
    /// roots, those are trusted that the store remembered.
    pub async fn verify(
        &self,
        actor: &Actor,
        noted: Option<(u64, Chain)>,
        given: Vec<RootKey>,
    ) -> Result<Verification, AuditError> {
        actor.note("audit verify");
        let mut known = known_from_index(&self.parts).await?;
        known.extend(noted.map(|(seq, chain)| KnownLine { seq, chain, how: "was noted down" }));
        let roots = match given.is_empty() {
            true => roots(&self.parts).await?,
            false => Roots::given(given),
        };
        let mut verification = self.parts.journal.verify(&known, &roots)?;
        if let Some(what) = self.check_index().await? {
            verification.faults.push(JournalFault {
                file: "audit-index.db".to_owned(),
                line: 0,
                seq: None,
                what: format!("{what}; it was rebuilt from the journal"),
            });
        }
        Ok(verification)
    }

    /// Accepts that indexed lines are missing: forgets them and resets the index.
    pub async fn accept_loss(&self, actor: &Actor) -> Result<(), AuditError> {
        actor.note("audit verify --accept-loss");
        self.parts.store.forget(LOST).await?;
        reset(&self.parts).await
    }

    /// The last checkpoint that is on disk; `None` if there is none.
    pub async fn head(&self, actor: &Actor) -> Result<Option<JournalHead>, AuditError> {
        actor.note("audit head");
        Ok(self.parts.journal.head(&roots(&self.parts).await?)?)
    }

    /// The roots of the journal, oldest first: those that the store remembered or, if it remembered none, those that
    /// the journal names.
    pub async fn roots(&self, actor: &Actor) -> Result<Vec<RootKey>, AuditError> {
        actor.note("audit root");
        let known = roots(&self.parts).await?;
        if known.keys.is_empty() { Ok(self.parts.journal.roots()?) } else { Ok(known.keys) }
    }

    /// The roots that the store remembered.
    pub async fn trusted(&self) -> Result<Roots, AuditError> {
        roots(&self.parts).await
    }

    /// Remembers the root of the journal, so that a later verification can trust it.
    pub async fn remember_root(&self, root: RootKey) -> Result<(), AuditError> {
        Ok(remember_roots(&*self.parts.store, &[root]).await?)
    }

    /// Writes what an auditor needs to verify the lines of a period.
    pub async fn prove(
        &self,
        actor: &Actor,
        since: Timestamp,
        until: Timestamp,
        out: &mut (dyn Write + Send),
    ) -> Result<ProofMade, AuditError> {
        actor.note("audit proof");
        let roots = roots(&self.parts).await?;
        Ok(self.parts.journal.prove(since, until, &roots, out)?)
    }
}

/// Remembers roots beside those that the store remembered.
pub async fn remember_roots(store: &impl Facts, more: &[RootKey]) -> Result<(), StoreError> {
    let mut known = known_roots(store).await?;
    let before = known.len();
    known.extend(more.iter().filter(|root| !known.contains(root)).copied().collect::<Vec<_>>());
    if known.len() == before {
        return Ok(());
    }
    let text = known.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    store.replace_fact(ROOTS, &text, None).await
}

/// The roots that the store remembered.
pub(super) async fn roots<S: Facts>(parts: &Parts<S>) -> Result<Roots, AuditError> {
    Ok(Roots::remembered(known_roots(&*parts.store).await?))
}

async fn known_roots(store: &impl Facts) -> Result<Vec<RootKey>, StoreError> {
    let known = store.fact(ROOTS).await?.unwrap_or_default();
    Ok(known.split(',').filter_map(|root| root.parse().ok()).collect())
}

/// When the index was last compared with the journal.
pub(super) async fn compared_at<S: Facts>(parts: &Parts<S>) -> Result<Option<Timestamp>, AuditError> {
    Ok(parts.store.fact(COMPARED).await?.and_then(|at| Timestamp::parse(&at)))
}

/// The names of all tokens by id, including expired and revoked ones.
pub(super) async fn token_names(store: &impl Tokens) -> Result<HashMap<String, String>, AuditError> {
    let tokens = store.list_tokens().await?;
    Ok(tokens.into_iter().map(|(_, token)| (token.id, token.name)).collect())
}

/// Whether an administrative action matches. `names` are the ways in which an entry may name the query's profile.
fn is_meant(query: &AuditQuery, names: Option<&[String]>, record: &AdminRecord) -> bool {
    let entry = &record.entry;
    query.token.is_none()
        && query.request.is_none()
        && names.is_none_or(|names| entry.subjects.iter().any(|subject| names.contains(subject)))
        && query.since.is_none_or(|since| entry.time >= since)
        && query.until.is_none_or(|until| entry.time < until)
        && query.outcome.as_deref().is_none_or(|outcome| outcome == entry.outcome.name())
        && query.operation.as_deref().is_none_or(|operation| operation == entry.operation)
        && query.actor.as_deref().is_none_or(|actor| actor == entry.actor)
}

/// The ids of the tokens with this id or name.
fn named_tokens(names: &HashMap<String, String>, wanted: &str) -> Result<Vec<String>, AuditError> {
    let is_meant = |(id, name): &(&String, &String)| *id == wanted || *name == wanted;
    let found: Vec<String> = names.iter().filter(is_meant).map(|(id, _)| id.clone()).collect();
    if found.is_empty() { Err(AuditError::UnknownToken(wanted.to_owned())) } else { Ok(found) }
}
