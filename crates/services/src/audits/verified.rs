//! What the last verification found, which the store remembers.

use std::fmt;
use std::str::FromStr;

use super::copies::VerifiedJournals;
use super::indexing::lost_line;
use super::journals::of_others;
use crate::{AuditError, Parts};
use contactd_core::Timestamp;

/// The fact that says what the last verification of all journals found.
const VERIFIED: &str = "journal_verified";

/// What the last verification found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastVerification {
    /// When it ended.
    pub at: Timestamp,
    /// Whether nothing was wrong.
    pub is_whole: bool,
    /// How many lines were checked.
    pub lines: u64,
    /// What was wrong first.
    pub what: Option<String>,
}

/// What is known about the journals without reading them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalState {
    /// About how many lines they have.
    pub lines: u64,
    /// What the last verification found; `None` if there was none.
    pub last: Option<LastVerification>,
    /// Whether lines that had been indexed are missing or changed since.
    pub is_lost: bool,
    /// Why the files of this machine's journal cannot be read, if they cannot.
    pub unreadable: Option<String>,
}

impl fmt::Display for LastVerification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_whole { "whole" } else { "broken" };
        write!(f, "{} {state} {} {}", self.at, self.lines, self.what.as_deref().unwrap_or_default())
    }
}

impl FromStr for LastVerification {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.splitn(4, ' ');
        let mut next = || words.next().ok_or(());
        Ok(Self {
            at: Timestamp::parse(next()?).ok_or(())?,
            is_whole: next()? == "whole",
            lines: next()?.parse().map_err(|_| ())?,
            what: Some(next()?.to_owned()).filter(|what| !what.is_empty()),
        })
    }
}

impl VerifiedJournals {
    /// How many lines were checked, in all journals.
    pub fn lines(&self) -> u64 {
        let of_copies = self.copies.iter().filter_map(|copy| copy.verification.as_ref());
        self.files.iter().chain(of_copies).map(|verification| verification.lines).sum()
    }

    /// What is wrong first.
    fn first_fault(&self) -> Option<String> {
        let of_files = self.files.iter().flat_map(|files| &files.faults).map(ToString::to_string);
        let of_copies = self.copies.iter().filter_map(|copy| {
            let name = &copy.node.name;
            match &copy.verification {
                Some(verification) => {
                    verification.faults.first().map(|fault| format!("node {name}: {fault}"))
                }
                None => Some(format!("node {name} could not be verified with the given roots")),
            }
        });
        let unknown =
            self.unknown_roots.iter().map(|root| format!("no journal has the root {root}, which was given"));
        of_files.chain(of_copies).chain(unknown).next()
    }
}

/// Remembers what a verification of all journals found.
pub(super) async fn remember(parts: &Parts, found: &VerifiedJournals) -> Result<(), AuditError> {
    if found.files.is_none() && found.copies.is_empty() {
        return Ok(());
    }
    let last = LastVerification {
        at: Timestamp::from_seconds(parts.clock.now().seconds()),
        is_whole: found.is_whole,
        lines: found.lines(),
        what: found.first_fault(),
    };
    Ok(parts.store.replace_fact(VERIFIED, &last.to_string(), None).await?)
}

/// What is known about the journals, without reading them.
pub(crate) async fn journal_state(parts: &Parts) -> Result<JournalState, AuditError> {
    let last = parts.store.fact(VERIFIED).await?;
    let held = |last: u64, first: Option<u64>| (last + 1).saturating_sub(first.unwrap_or(1).max(1));
    let own = parts.store.audit_position(parts.node()).await?.seq;
    let first = parts.journal.first_line();
    let unreadable = first.as_ref().err().map(ToString::to_string);
    let own = if own == 0 { 0 } else { held(own, first.ok().flatten()) };
    let elsewhere = of_others(parts).await?;
    Ok(JournalState {
        lines: own + elsewhere.iter().map(|copy| copy.position.seq).sum::<u64>(),
        last: last.and_then(|last| last.parse().ok()),
        is_lost: lost_line(parts).await?.is_some(),
        unreadable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_read_as_it_was_written() {
        for what in [None, Some("000000000001.jsonl, line 7: it was changed".to_owned())] {
            let last = LastVerification {
                at: Timestamp::from_seconds(1_800_000_000),
                is_whole: what.is_none(),
                lines: 12,
                what,
            };
            assert_eq!(last.to_string().parse(), Ok(last));
        }
        assert_eq!("whole".parse::<LastVerification>(), Err(()));
    }
}
