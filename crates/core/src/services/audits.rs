//! The journal: who received what, and the check that nothing was changed.

mod index_check;

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use crate::services::Parts;
use crate::store::{AuditFilter, AuditIndex, AuditUsage, Facts, IndexStep, Outbox, StoreError, Tokens};
use crate::{
    Actor, AdminEntry, AdminRecord, AuditOutcome, AuditPosition, AuditRecord, Chain, JournalError,
    JournalFault, JournalFiles, JournalHead, JournalLine, JournalLines, Kind, KnownLine, NOT_RECORDED,
    NotRecorded, Profile, ProofMade, RootKey, Roots, Subject, Timestamp, Verification,
};

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

/// The fact that stores an indexed line which is missing from the journal.
const LOST: &str = "audit_lost";
/// The fact that stores the roots of the journal, oldest first.
const ROOTS: &str = "journal_roots";
/// The fact that stores when the index was last compared with the journal.
const COMPARED: &str = "audit_index_compared";
/// How many lines are indexed together.
const BATCH: usize = 5_000;

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

    /// Compares settings with those that the store remembered, and puts what has changed on record.
    pub async fn note_settings(&self, actor: &Actor, settings: &[(String, String)]) -> Result<(), AuditError>
    where
        S: Outbox,
    {
        const SETTINGS: &str = "settings";
        let text =
            settings.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n");
        let before = self.parts.store.remember(SETTINGS, &text).await?;
        if before == text {
            return Ok(());
        }
        let old: Vec<&str> = before.lines().collect();
        let new: Vec<&str> = text.lines().collect();
        let mut changed: Vec<&str> = Vec::new();
        for line in
            new.iter().filter(|line| !old.contains(line)).chain(old.iter().filter(|line| !new.contains(line)))
        {
            let name = line.split('=').next().unwrap_or_default();
            if !changed.contains(&name) {
                changed.push(name);
            }
        }
        let entry = self.parts.entry(actor, "configuration").about(&changed.join(" "));
        let entry = entry.counted(&[("changed", changed.len() as u64)]);
        Ok(self.parts.store.replace_fact(SETTINGS, &text, Some(&entry)).await?)
    }

    /// Moves the entries of committed changes to the journal.
    pub async fn collected(&self) -> Result<(), NotRecorded> {
        self.parts.on_record.collect().await
    }

    /// Whether entries wait in the outbox.
    pub async fn has_entries(&self) -> Result<bool, AuditError>
    where
        S: Outbox,
    {
        Ok(!self.parts.store.list_entries().await?.is_empty())
    }

    /// Moves entries from the outbox to the journal with `record`, which returns whether the entry's line is on disk.
    /// Returns whether the outbox is empty now.
    pub async fn collect(&self, record: impl Fn(&AdminEntry) -> bool + Send) -> Result<bool, AuditError>
    where
        S: Outbox,
    {
        let entries = self.parts.store.list_entries().await?;
        if entries.is_empty() {
            return Ok(true);
        }
        let known = self.recorded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut known = match known {
            Some(known) => known,
            // After a kill, an entry may be in both.
            None => {
                let ids: Vec<String> = entries.iter().map(|entry| entry.entry.clone()).collect();
                match catch_up(&self.parts).await {
                    Ok(_) => self.parts.store.find_entries(&ids).await?.into_iter().collect(),
                    Err(_) => HashSet::new(),
                }
            }
        };
        let mut done: Vec<String> = Vec::new();
        for entry in &entries {
            if !known.contains(&entry.entry) && !record(entry) {
                break;
            }
            known.insert(entry.entry.clone());
            done.push(entry.entry.clone());
        }
        *self.recorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        self.parts.store.remove_entries(&done).await?;
        // Those that are gone from the outbox need not be known any more.
        *self.recorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(HashSet::new());
        Ok(done.len() == entries.len())
    }

    /// Indexes some of the lines that are not indexed yet. `lines` keeps where the last call stopped; `None` at first.
    /// Returns whether there may be more.
    pub async fn index_some(&self, lines: &mut Option<Box<dyn JournalLines>>) -> Result<bool, AuditError> {
        Ok(index_some(&self.parts, lines).await? == BATCH)
    }

    /// Removes the lines up to this number from the index, because the journal no longer keeps them.
    pub async fn forget(&self, through: u64) -> Result<(), AuditError> {
        Ok(self.parts.store.forget_audit(&self.parts.node, through).await?)
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

/// Where requests are read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The index, which is fast.
    #[default]
    Index,
    /// The journal itself.
    Journal,
}

/// Reads requests and actions: from the index or, if that cannot be brought up to date, from this node's journal.
pub(super) struct Reader<'a, S> {
    parts: &'a Parts<S>,
    /// Problems with the index.
    pub(super) state: IndexState,
    /// What is needed to read the journal itself.
    journal: Option<(Roots, Corrections)>,
}

impl<'a, S: AuditIndex + Facts> Reader<'a, S> {
    /// Indexes everything that is in the journal now, or gets ready to read the journal itself.
    pub(super) async fn ready(parts: &'a Parts<S>, source: ReadFrom) -> Result<Self, AuditError> {
        let unusable = match source {
            ReadFrom::Index => match catch_up(parts).await {
                Ok(state) => return Ok(Self { parts, state, journal: None }),
                Err(error) => Some(error.to_string()),
            },
            ReadFrom::Journal => None,
        };
        let roots = roots(parts).await?;
        let corrections = corrections(&*parts.journal, &roots)?;
        let state = IndexState { is_lost: false, unusable };
        Ok(Self { parts, state, journal: Some((roots, corrections)) })
    }

    /// Visits every request that matches, those of each node oldest first. `visit` returns whether to continue.
    pub(super) async fn visit(
        &self,
        filter: &AuditFilter,
        mut visit: impl FnMut(AuditRecord) -> bool + Send,
    ) -> Result<(), AuditError> {
        let Some((roots, corrections)) = &self.journal else {
            return Ok(self.parts.store.visit_audit(filter, visit).await?);
        };
        let mut lines = self.parts.journal.lines_after(AuditPosition::default(), roots);
        while let Some(line) = lines.read()? {
            let JournalLine::Request(record) = line else { continue };
            let record = corrected(record, &corrections.undisclosed);
            if filter.matches(&record) && !visit(record) {
                break;
            }
        }
        Ok(())
    }

    /// The administrative actions between two times, those of each node in order.
    pub(super) async fn list_admin(
        &self,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<Vec<AdminRecord>, AuditError> {
        let Some((roots, _)) = &self.journal else {
            return Ok(self.parts.store.list_admin(since, until).await?);
        };
        let mut lines = self.parts.journal.lines_after(AuditPosition::default(), roots);
        let mut found = Vec::new();
        while let Some(line) = lines.read()? {
            if let JournalLine::Admin(record) = line
                && since.is_none_or(|since| record.entry.time >= since)
                && until.is_none_or(|until| record.entry.time < until)
            {
                found.push(record);
            }
        }
        Ok(found)
    }
}

/// A request as it counts: if nothing was disclosed after all, it was refused.
fn corrected(mut record: AuditRecord, undisclosed: &[(u64, u64)]) -> AuditRecord {
    let is_undisclosed = undisclosed.iter().any(|&(from, through)| (from..=through).contains(&record.seq));
    let refused = AuditOutcome::Refused(NOT_RECORDED).name();
    if is_undisclosed && record.outcome != refused {
        record.outcome = refused.to_owned();
        record.reason = Some(NOT_RECORDED.to_owned());
    }
    record
}

/// What later lines say about earlier ones.
#[derive(Debug, Default)]
struct Corrections {
    /// The ranges (first, last) of lines that say hit or miss although nothing was disclosed.
    undisclosed: Vec<(u64, u64)>,
    /// Lines up to this one are removed, or about to be.
    retired_through: u64,
}

fn corrections(journal: &dyn JournalFiles, roots: &Roots) -> Result<Corrections, AuditError> {
    let mut lines = journal.lines_after(AuditPosition::default(), roots);
    let mut found = Corrections::default();
    while let Some(line) = lines.read()? {
        match line {
            JournalLine::Undisclosed { from, through } => found.undisclosed.push((from, through)),
            JournalLine::Retired { through } => found.retired_through = found.retired_through.max(through),
            _ => {}
        }
    }
    Ok(found)
}

/// Indexes everything that is in the journal now.
async fn catch_up<S: AuditIndex + Facts>(parts: &Parts<S>) -> Result<IndexState, AuditError> {
    let mut lines = None;
    while index_some(parts, &mut lines).await? == BATCH {}
    Ok(IndexState { is_lost: parts.store.fact(LOST).await?.is_some(), unusable: None })
}

/// Indexes up to [`BATCH`] lines; returns how many.
async fn index_some<S: AuditIndex + Facts>(
    parts: &Parts<S>,
    kept: &mut Option<Box<dyn JournalLines>>,
) -> Result<usize, AuditError> {
    loop {
        let from = parts.store.audit_position(&parts.node).await?;
        let lines = match kept.take() {
            Some(lines) if lines.position() == from => lines,
            _ => parts.journal.lines_after(from, &roots(parts).await?),
        };
        let lines = kept.insert(lines);
        let (mut records, mut admin, mut undisclosed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut count, mut is_changed) = (0, false);
        while count < BATCH {
            match lines.read() {
                Ok(Some(line)) => {
                    count += 1;
                    match line {
                        JournalLine::Request(record) => records.push(record),
                        JournalLine::Admin(record) => admin.push(record),
                        JournalLine::Undisclosed { from, through } => undisclosed.push((from, through)),
                        JournalLine::Retired { .. } | JournalLine::Mark => {}
                    }
                }
                Ok(None) => break,
                Err(JournalError::Changed { .. }) => {
                    is_changed = true;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if is_changed {
            tracing::error!(
                "the audit journal is not as it was when it was indexed: lines were changed or removed, or a disk lost \
                 them. The index is rebuilt; `contactd audit verify` says more"
            );
            // Remember the last indexed line, so that `verify` reports it as missing.
            parts.store.remember(LOST, &format!("{}:{}", from.seq, Chain(from.chain))).await?;
            reset(parts).await?;
            continue;
        }
        let to = lines.position();
        let (records, admin, undisclosed) = (&records, &admin, &undisclosed);
        let step = IndexStep { node: &parts.node, records, admin, undisclosed, from, to };
        // If another process has indexed these lines, continue from its position.
        if to == from || parts.store.index_audit(step).await? {
            return Ok(count);
        }
    }
}

async fn reset<S: AuditIndex>(parts: &Parts<S>) -> Result<(), AuditError> {
    let first_day = parts.journal.begins()?.map_or(i64::MIN, Timestamp::day);
    Ok(parts.store.reset_audit_index(&parts.node, first_day).await?)
}

/// Lines that the index knows and the journal must contain.
pub(super) async fn known_from_index<S: AuditIndex + Facts>(
    parts: &Parts<S>,
) -> Result<Vec<KnownLine>, AuditError> {
    let mut known = Vec::new();
    let indexed = parts.store.audit_position(&parts.node).await?;
    if indexed.seq > 0 {
        known.push(KnownLine { seq: indexed.seq, chain: Chain(indexed.chain), how: "had been indexed" });
    }
    let lost = parts.store.fact(LOST).await?;
    let lost = lost.as_deref().and_then(|text| text.split_once(':'));
    if let Some((seq, chain)) = lost.and_then(|(seq, chain)| seq.parse().ok().zip(Chain::parse(chain))) {
        known.push(KnownLine { seq, chain, how: "had been indexed, before the index was rebuilt" });
    }
    Ok(known)
}
