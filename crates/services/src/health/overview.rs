//! How the service does, at a glance.

use std::collections::BTreeMap;

use contactd_core::Finding;
use contactd_core::store::PastImport;
use contactd_core::{Actor, Kind, Timestamp, Token};
use schemars::JsonSchema;
use serde::Serialize;

use crate::audits::{indexed_lookups, journal_state};
use crate::views::DayLookups;
use crate::{Days, Health, HealthError, JournalState};

/// How many days of lookups it shows.
const SHOWN_DAYS: i64 = 30;

/// How the service does, at a glance. Nothing in it is about a person.
#[derive(Debug)]
pub struct Overview {
    /// Lookups of the last 30 days, as far as they are indexed.
    pub lookups: Vec<DayLookups>,
    /// Profiles with at least one detail.
    pub profiles: u64,
    /// Details by source and kind.
    pub held: Vec<HeldBySource>,
    /// Tokens that are accepted and end within 14 days, the first to end first.
    pub tokens_ending: Vec<Token>,
    /// What is known about the journals.
    pub journal: JournalState,
    /// The newest import.
    pub last_import: Option<PastImport>,
    /// When the last backup was complete.
    pub last_backup: Option<Timestamp>,
    /// What a look without reading everything has found.
    pub findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "HeldOfSource")]
#[expect(missing_docs, reason = "details of a source; the fields are the words of the glossary")]
pub struct HeldBySource {
    pub source: String,
    /// `phone` or `email`.
    #[schemars(with = "String")]
    pub kind: Kind,
    pub count: u64,
}

impl Health {
    /// How the service does, at a glance. It reads counts, facts and the last day's actions, and neither details nor
    /// other lines of the journal, so it takes the same time however much there is.
    pub async fn overview(&self, actor: &Actor) -> Result<Overview, HealthError> {
        actor.note("overview");
        let (parts, now) = (&self.parts, self.parts.clock.now());
        let totals = parts.store.totals().await?;
        let mut held: BTreeMap<(String, Kind), u64> = BTreeMap::new();
        for total in totals.details {
            *held.entry((total.source, total.kind)).or_default() += total.count;
        }
        let held = held.into_iter().map(|((source, kind), count)| HeldBySource { source, kind, count });
        let tokens = parts.store.list_tokens().await?.into_iter().map(|(_, token)| token);
        let mut tokens_ending: Vec<Token> = tokens.filter(|token| token.ends_soon(now)).collect();
        tokens_ending.sort_by_key(|token| token.expires_at);
        let journal = journal_state(parts).await?;
        let mut findings = self.token_findings().await?;
        findings.extend(self.check_findings().await?);
        findings.extend(unreadable(&journal));
        findings.extend(known_fault(&journal));
        Ok(Overview {
            lookups: indexed_lookups(&*parts.store, &Days::last(SHOWN_DAYS, now)).await?,
            profiles: totals.profiles,
            held: held.collect(),
            tokens_ending,
            journal,
            last_import: totals.newest_import,
            last_backup: self.last_backup().await?,
            findings,
        })
    }
}

/// That the files of the journal cannot be read.
fn unreadable(journal: &JournalState) -> Option<Finding> {
    let message = format!("the journal cannot be read: {}", journal.unreadable.as_ref()?);
    let advice = "make audit/ and its files readable and writable for the user that runs the server";
    Some(Finding::fail("journal", message, advice))
}

/// What is known to be wrong with the journals.
fn known_fault(journal: &JournalState) -> Option<Finding> {
    let advice = "verify the journal: contactd audit verify lists everything";
    match &journal.last {
        Some(last) if !last.is_whole => {
            let what = last.what.as_deref().unwrap_or("it is not whole");
            Some(Finding::fail("journal", format!("the verification of {} found: {what}", last.at), advice))
        }
        _ if journal.is_lost => {
            let message = "lines are missing from the journal or were changed".to_owned();
            Some(Finding::fail("journal", message, advice))
        }
        _ => None,
    }
}
