//! Counting again, from the journal, what tokens used before a crash.
//!
//! A server stores usage every second, so a kill leaves counts that lack what was used since. Nothing is disclosed before its line is
//! in the journal: so the next server finds there what is missing. Meanwhile it serves tokens without a quota. What it stores is never
//! less than what was used; it is more by requests whose line was written and whose answer was not sent.

mod settling;

use std::io::ErrorKind;

use contactd_core::store::{DayHits, JournalEnd};
use contactd_core::{AuditOutcome, AuditPosition, Cancel, Chain, Period, Timestamp, UsageDelta, blocking};
use contactd_journal::{Entry, JournalError};

use settling::{Counted, Hits, by_day};

use super::indexing::lost_line;
use super::roots;
use crate::{AuditError, Audits};

/// What a server that was killed may not have stored.
pub struct Uncounted {
    /// Where the journal ended when this server began. What comes after it, this server stores itself.
    end: JournalEnd,
    /// The first day of the month.
    since: i64,
    /// What is stored of the lines up to the end.
    stored: Hits,
    /// What the index has, and up to where; `None` if it was counted before, or cannot be used.
    indexed: Option<(AuditPosition, Hits)>,
}

/// Whether a journal that ends here continues the one whose end was noted.
fn continues(end: JournalEnd, noted: JournalEnd) -> bool {
    noted.root == end.root && noted.last <= end.last
}

impl Audits {
    /// What the last server may not have stored; `None` if it stored everything, or there is no journal. To be called by a server
    /// before it stores usage.
    pub async fn uncounted(&self, end: Option<JournalEnd>) -> Result<Option<Uncounted>, AuditError> {
        let Some(machine) = &self.parts.machine else { return Ok(None) };
        // From now on, hits may be in the journal only.
        let noted = machine.take_usage_stored().await?;
        let Some(end) = end.filter(|end| !noted.is_some_and(|noted| continues(*end, noted))) else {
            return Ok(None);
        };
        let since = Period::Month.days(self.parts.clock.now()).0;
        let stored = by_day(machine.files().hits_by_day(since).await?);
        Ok(Some(Uncounted { end, since, stored, indexed: None }))
    }

    /// Reads what the index has, before this server adds lines to it.
    pub async fn read_indexed(&self, uncounted: &mut Uncounted) -> Result<(), AuditError> {
        match self.indexed_since(uncounted.since).await {
            Ok(indexed) => uncounted.indexed = indexed,
            Err(error) if error.may_pass() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "the index of the audit journal cannot be used: the journal itself is read to count what tokens used");
            }
        }
        Ok(())
    }

    /// Makes the stored hits of this month as many as the journal has. If this fails, it can be tried again.
    pub async fn count(&self, uncounted: &mut Uncounted, cancel: &Cancel) -> Result<(), AuditError> {
        let Some(machine) = &self.parts.machine else { return Ok(()) };
        let mut gone = by_day(machine.usage_not_in_journal().await?);
        gone.retain(|(_, day), _| *day >= uncounted.since);
        let in_journal = self.hits_in_journal(uncounted, cancel).await?;
        let indexed = uncounted.indexed.as_ref().map(|(_, hits)| hits.clone()).unwrap_or_default();
        let settled = Counted { stored: &uncounted.stored, indexed, in_journal, gone }.settle();
        for added in settled.added.chunk_by(|a, b| a.day == b.day) {
            let delta = |hits: &DayHits| UsageDelta {
                token: hits.token.clone(),
                hits: hits.hits,
                ..UsageDelta::default()
            };
            let usage: Vec<UsageDelta> = added.iter().map(delta).collect();
            // Added, because this server has stored its own hits meanwhile.
            machine.files().record_usage(&usage, Timestamp::start_of_day(added[0].day)).await?;
            for DayHits { token, day, hits } in added {
                *uncounted.stored.entry((token.clone(), *day)).or_default() += hits;
            }
        }
        machine.set_usage_not_in_journal(&settled.gone).await?;
        settled.report();
        Ok(())
    }

    /// Notes that everything used up to this end of the journal is stored.
    pub async fn usage_is_stored(&self, end: JournalEnd) -> Result<(), AuditError> {
        match &self.parts.machine {
            Some(machine) => Ok(machine.note_usage_stored(end).await?),
            None => Ok(()),
        }
    }

    /// What the index has, and up to where; `None` if the line there is missing from the journal, and this was found before: then its
    /// hits were counted, too.
    async fn indexed_since(&self, since: i64) -> Result<Option<(AuditPosition, Hits)>, AuditError> {
        let (store, node) = (&self.parts.store, self.parts.node());
        loop {
            let position = store.audit_position(node).await?;
            if lost_line(&self.parts).await? == Some((position.seq, Chain(position.chain))) {
                return Ok(None);
            }
            // What other nodes disclosed is not in this journal.
            let usage = store.audit_usage_of(node).await?.into_iter().filter(|usage| usage.day >= since);
            let hits = usage.map(|usage| ((usage.token, usage.day), usage.hits)).collect();
            // A command may have added lines between the two.
            if store.audit_position(node).await? == position {
                return Ok(Some((position, hits)));
            }
        }
    }

    /// What the journal has: what the index has of it, and the lines after that.
    async fn hits_in_journal(&self, uncounted: &mut Uncounted, cancel: &Cancel) -> Result<Hits, AuditError> {
        if let Some((position, indexed)) = &uncounted.indexed {
            match self.hits_after(*position, uncounted, cancel).await {
                // A command has added lines of this server.
                Ok(_) if position.seq > uncounted.end.last => uncounted.indexed = None,
                Ok(mut hits) => {
                    for (key, count) in indexed {
                        *hits.entry(key.clone()).or_default() += count;
                    }
                    return Ok(hits);
                }
                Err(AuditError::Journal(error @ JournalError::Changed { .. })) => {
                    tracing::warn!(
                        %error,
                        "the index of the audit journal cannot be used: the journal itself is read to count what tokens used"
                    );
                }
                Err(error) => return Err(error),
            }
        }
        self.hits_after(AuditPosition::default(), uncounted, cancel).await
    }

    /// What the journal has after a position, up to the end. Lines that say hit although nothing was disclosed count too.
    async fn hits_after(
        &self,
        position: AuditPosition,
        Uncounted { end, since, .. }: &Uncounted,
        cancel: &Cancel,
    ) -> Result<Hits, AuditError> {
        let mut lines = self.parts.journal.lines_after(position, &roots(&self.parts).await?);
        blocking(|| {
            let mut hits = Hits::new();
            while let Some(line) = lines.read()? {
                if cancel.is_cancelled() {
                    return Err(JournalError::Cancelled.into());
                }
                if line.seq > end.last {
                    break;
                }
                if let Entry::Request(record) = line.entry
                    && record.at.day() >= *since
                    && record.outcome == AuditOutcome::Hit.name()
                    && !record.is_sandbox()
                {
                    *hits.entry((record.token, record.at.day())).or_default() += record.count;
                }
            }
            if lines.position().seq < end.last {
                // What is not signed cannot be read.
                let (what, error) = ("cannot read the last lines of", ErrorKind::UnexpectedEof.into());
                return Err(JournalError::File { what, file: "audit".to_owned(), error }.into());
            }
            Ok(hits)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contactd_core::RootKey;

    #[test]
    fn only_the_same_journal_continues_one() {
        let end = |root, last| JournalEnd { root: RootKey([root; 32]), last };
        let noted = end(1, 7);
        assert!(continues(end(1, 7), noted) && continues(end(1, 9), noted));
        assert!(!continues(end(1, 6), noted), "it is shorter");
        assert!(!continues(end(2, 9), noted), "it is another one");
    }
}
