//! The journal: who received what, and the check that nothing was changed.

use std::collections::HashMap;
use std::sync::Arc;

use crate::services::Parts;
use crate::store::{AuditFilter, AuditIndex, AuditUsage, Facts, IndexStep, StoreError, Tokens};
use crate::{
    Actor, AuditOutcome, AuditPosition, AuditRecord, Chain, JournalError, JournalFiles, JournalHead,
    JournalLine, JournalLines, KnownLine, NOT_RECORDED, Profile, Timestamp, Verification,
};

/// Queries and checks the journal.
pub struct Audits<S> {
    parts: Arc<Parts<S>>,
}

/// Why the journal could not be queried or checked.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// There is no token with this id or name.
    #[error("there is no token `{0}`; `contactd token list` shows their ids and names")]
    UnknownToken(String),
    /// The key of the journal is not the one it was started with.
    #[error("the key of the journal is not the one it was begun with: put back the one with fingerprint {0}")]
    OtherKey(String),
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
    /// One of [`AuditOutcome::NAMES`].
    pub outcome: Option<String>,
}

/// A request in the journal, with the name of its token.
#[derive(Clone, Debug)]
pub struct NamedRecord<'a> {
    /// The request.
    pub record: AuditRecord,
    /// The name of the token, if it is known.
    pub token_name: Option<&'a str>,
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
/// The fact that stores the fingerprint of the journal's key.
const KEY: &str = "audit_key";
/// How many lines are indexed together.
const BATCH: usize = 5_000;

impl<S: AuditIndex + Facts + Tokens> Audits<S> {
    pub(super) fn new(parts: Arc<Parts<S>>) -> Self {
        Self { parts }
    }

    /// Visits the requests that match, those of each node oldest first. `visit` returns whether to continue.
    pub async fn show(
        &self,
        actor: &Actor,
        query: AuditQuery,
        mut visit: impl FnMut(NamedRecord<'_>) -> bool + Send,
    ) -> Result<IndexState, AuditError> {
        actor.note("audit show");
        let names = token_names(&*self.parts.store).await?;
        let digests = |profile: &Profile| {
            let digests = self.parts.keys.profile_digests(profile);
            digests.into_iter().map(|(_, digest)| digest).collect()
        };
        let filter = AuditFilter {
            tokens: query.token.as_deref().map(|wanted| named_tokens(&names, wanted)).transpose()?,
            profiles: query.profile.as_ref().map(digests),
            since: query.since,
            until: query.until,
            outcome: query.outcome,
        };
        let named = |record: AuditRecord| {
            let token_name = names.get(&record.token).map(String::as_str);
            visit(NamedRecord { token_name, record })
        };
        self::visit(&self.parts, &filter, named).await
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

    /// Checks every line of the journal, and that it still contains the `noted` line and the lines that the index
    /// knows.
    pub async fn verify(
        &self,
        actor: &Actor,
        noted: Option<(u64, Chain)>,
    ) -> Result<Verification, AuditError> {
        actor.note("audit verify");
        self.check_key().await?;
        let mut known = known_from_index(&self.parts).await?;
        known.extend(noted.map(|(seq, chain)| KnownLine { seq, chain, how: "was noted down" }));
        Ok(self.parts.journal.verify(&known)?)
    }

    /// Accepts that indexed lines are missing: forgets them and resets the index.
    pub async fn accept_loss(&self, actor: &Actor) -> Result<(), AuditError> {
        actor.note("audit verify --accept-loss");
        self.parts.store.forget(LOST).await?;
        reset(&self.parts).await
    }

    /// The last line; `None` if the journal is empty.
    pub fn head(&self, actor: &Actor) -> Result<Option<JournalHead>, AuditError> {
        actor.note("audit head");
        Ok(self.parts.journal.head()?)
    }

    /// Checks that the journal's key is the one it was started with. Remembers the key the first time.
    pub async fn check_key(&self) -> Result<(), AuditError> {
        let id = self.parts.journal.key_id()?;
        let expected = self.parts.store.remember(KEY, &id).await?;
        if expected == id { Ok(()) } else { Err(AuditError::OtherKey(expected)) }
    }

    /// Indexes some of the lines that are not indexed yet. `lines` is where the last call stopped. Returns whether
    /// there may be more.
    pub async fn index_some(&self, lines: &mut Box<dyn JournalLines>) -> Result<bool, AuditError> {
        Ok(index_some(&self.parts, lines).await? == BATCH)
    }

    /// A reader for [`index_some`](Self::index_some), which moves it to the right position.
    pub fn lines(&self) -> Box<dyn JournalLines> {
        self.parts.journal.lines_after(AuditPosition::default())
    }

    /// Removes the lines up to this number from the index, because the journal no longer keeps them.
    pub async fn forget(&self, through: u64) -> Result<(), AuditError> {
        Ok(self.parts.store.forget_audit(&self.parts.node, through).await?)
    }
}

/// Whether the journal's key is the one it was begun with, if that is known. Remembers nothing.
pub(super) async fn compare_key<S: Facts>(parts: &Parts<S>) -> Result<(), AuditError> {
    let id = parts.journal.key_id()?;
    match parts.store.fact(KEY).await? {
        Some(expected) if expected != id => Err(AuditError::OtherKey(expected)),
        _ => Ok(()),
    }
}

/// The names of all tokens by id, including expired and revoked ones.
pub(super) async fn token_names(store: &impl Tokens) -> Result<HashMap<String, String>, AuditError> {
    let tokens = store.list_tokens().await?;
    Ok(tokens.into_iter().map(|(_, token)| (token.id, token.name)).collect())
}

/// The ids of the tokens with this id or name.
fn named_tokens(names: &HashMap<String, String>, wanted: &str) -> Result<Vec<String>, AuditError> {
    let is_meant = |(id, name): &(&String, &String)| *id == wanted || *name == wanted;
    let found: Vec<String> = names.iter().filter(is_meant).map(|(id, _)| id.clone()).collect();
    if found.is_empty() { Err(AuditError::UnknownToken(wanted.to_owned())) } else { Ok(found) }
}

/// Visits every request that matches, those of each node oldest first: from the index or, if that cannot be
/// updated, from this node's journal.
pub(super) async fn visit<S: AuditIndex + Facts>(
    parts: &Parts<S>,
    filter: &AuditFilter,
    mut visit: impl FnMut(AuditRecord) -> bool + Send,
) -> Result<IndexState, AuditError> {
    let error = match catch_up(parts).await {
        Ok(state) => {
            parts.store.visit_audit(filter, visit).await?;
            return Ok(state);
        }
        Err(error) => error,
    };
    let undisclosed = undisclosed(&*parts.journal)?;
    let mut lines = parts.journal.lines_after(AuditPosition::default());
    while let Some(line) = lines.read()? {
        let JournalLine::Request(mut record) = line else { continue };
        if undisclosed.iter().any(|&(from, through)| (from..=through).contains(&record.seq)) {
            record.outcome = AuditOutcome::Refused(NOT_RECORDED).name().to_owned();
            record.reason = Some(NOT_RECORDED.to_owned());
        }
        if filter.matches(&record) && !visit(record) {
            break;
        }
    }
    Ok(IndexState { is_lost: false, unusable: Some(error.to_string()) })
}

/// The ranges (first, last) of lines that say hit or miss although nothing was disclosed.
fn undisclosed(journal: &dyn JournalFiles) -> Result<Vec<(u64, u64)>, AuditError> {
    let mut lines = journal.lines_after(AuditPosition::default());
    let mut found = Vec::new();
    while let Some(line) = lines.read()? {
        if let JournalLine::Undisclosed { from, through } = line {
            found.push((from, through));
        }
    }
    Ok(found)
}

/// Indexes everything that is in the journal now.
async fn catch_up<S: AuditIndex + Facts>(parts: &Parts<S>) -> Result<IndexState, AuditError> {
    let mut lines = parts.journal.lines_after(parts.store.audit_position(&parts.node).await?);
    while index_some(parts, &mut lines).await? == BATCH {}
    Ok(IndexState { is_lost: parts.store.fact(LOST).await?.is_some(), unusable: None })
}

/// Indexes up to [`BATCH`] lines; returns how many.
async fn index_some<S: AuditIndex + Facts>(
    parts: &Parts<S>,
    lines: &mut Box<dyn JournalLines>,
) -> Result<usize, AuditError> {
    loop {
        let from = parts.store.audit_position(&parts.node).await?;
        if lines.position() != from {
            *lines = parts.journal.lines_after(from);
        }
        let (mut records, mut undisclosed) = (Vec::new(), Vec::new());
        let (mut count, mut is_changed) = (0, false);
        while count < BATCH {
            match lines.read() {
                Ok(Some(line)) => {
                    count += 1;
                    match line {
                        JournalLine::Request(record) => records.push(record),
                        JournalLine::Undisclosed { from, through } => undisclosed.push((from, through)),
                        JournalLine::Mark => {}
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
        let step = IndexStep { node: &parts.node, records: &records, undisclosed: &undisclosed, from, to };
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
