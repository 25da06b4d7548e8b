//! Counting again, from the journal, what tokens used before a crash.
//!
//! A server stores usage every second, so a kill leaves counts that lack what was used since. Nothing is disclosed before its line is
//! in the journal: so the next server finds there what is missing, before it serves. What it stores is never less than what was used;
//! it is more by requests whose line was written and whose answer was not sent.

use std::collections::{BTreeMap, BTreeSet};

use contactd_core::store::{DayHits, JournalEnd};
use contactd_core::{AuditOutcome, AuditPosition, Chain, Period, Token};
use contactd_journal::Entry;

use super::indexing::{catch_up, lost_line};
use super::roots;
use crate::{AuditError, Audits};

/// Up to this many lines are indexed in a moment.
const FEW_LINES: u64 = 100_000;

/// Whether a journal that ends here continues the one whose end was noted.
fn continues(end: JournalEnd, noted: JournalEnd) -> bool {
    noted.root == end.root && noted.last <= end.last
}

/// Hits by token and day.
type Hits = BTreeMap<(String, i64), u64>;

impl Audits {
    /// Makes the stored hits of this month as many as the journal has, up to its end, unless the last server stored everything.
    /// To be called by a server before it serves. Returns false if nothing was counted, because there is no journal (`None`), or no
    /// token has a quota and counting would take long: then [`usage_is_stored`](Self::usage_is_stored) may not be called.
    pub async fn count_usage_again(
        &self,
        end: Option<JournalEnd>,
        has_quota: impl Fn(&Token) -> bool,
    ) -> Result<bool, AuditError> {
        let store = &self.parts.store;
        let Some(machine) = &self.parts.machine else { return Ok(false) };
        // From now on, hits may be in the journal only.
        let noted = machine.take_usage_stored().await?;
        let Some(end) = end else { return Ok(false) };
        if noted.is_some_and(|noted| continues(end, noted)) {
            return Ok(true);
        }
        if !store.list_tokens().await?.iter().any(|(_, token)| has_quota(token))
            && self.lag(end).await > FEW_LINES
        {
            return Ok(false);
        }
        let since = Period::Month.days(self.parts.clock.now()).0;
        // Also what was indexed of a journal that is not there any more.
        let indexed_before = match self.is_index_of_lost_journal().await? {
            true => Hits::new(),
            false => self.indexed_hits(since).await.unwrap_or_default(),
        };
        let in_journal = match self.indexed_through(end.last, since).await {
            Ok(Some(hits)) => hits,
            Ok(None) => self.hits_in_journal(since).await?,
            Err(error) => {
                tracing::warn!(%error, "the index of the audit journal cannot be used: the journal itself is read to count what tokens used");
                self.hits_in_journal(since).await?
            }
        };
        let gone = machine.usage_not_in_journal().await?;
        let counted = Counted {
            stored: by_day(machine.files().hits_by_day(since).await?),
            indexed_before,
            in_journal,
            gone: by_day(gone.into_iter().filter(|hits| hits.day >= since).collect()),
        };
        let settled = counted.settle();
        machine.files().raise_hits(&settled.raised).await?;
        machine.set_usage_not_in_journal(&settled.gone).await?;
        if settled.added > 0 {
            tracing::info!(
                hits = settled.added,
                "counted hits again that had not been stored before the last server ended"
            );
        }
        if settled.lost > 0 {
            tracing::warn!(
                hits = settled.lost,
                "the audit journal lacks hits that had been counted: it was moved aside or shortened. They still count, but what \
                 was used in the last seconds before that may not"
            );
        }
        Ok(true)
    }

    /// Notes that everything used up to this end of the journal is stored.
    pub async fn usage_is_stored(&self, end: JournalEnd) -> Result<(), AuditError> {
        match &self.parts.machine {
            Some(machine) => Ok(machine.note_usage_stored(end).await?),
            None => Ok(()),
        }
    }

    /// How many lines are not indexed yet.
    async fn lag(&self, end: JournalEnd) -> u64 {
        let position = self.parts.store.audit_position(self.parts.node()).await;
        position.map_or(u64::MAX, |position| end.last.saturating_sub(position.seq))
    }

    /// Whether the index still has the lines of a journal that was found to be gone before: these were counted then.
    async fn is_index_of_lost_journal(&self) -> Result<bool, AuditError> {
        let indexed = self.parts.store.audit_position(self.parts.node()).await?;
        Ok(lost_line(&self.parts).await? == Some((indexed.seq, Chain(indexed.chain))))
    }

    async fn indexed_hits(&self, since: i64) -> Result<Hits, AuditError> {
        // What other nodes disclosed is not in this journal.
        let usage = self.parts.store.audit_usage_of(self.parts.node()).await?;
        let recent = usage.into_iter().filter(|usage| usage.day >= since);
        Ok(recent.map(|usage| ((usage.token, usage.day), usage.hits)).collect())
    }

    /// What the index has once it is up to date; `None` if it does not get as far as the journal.
    async fn indexed_through(&self, last: u64, since: i64) -> Result<Option<Hits>, AuditError> {
        catch_up(&self.parts).await?;
        let indexed = self.parts.store.audit_position(self.parts.node()).await?.seq;
        Ok(if indexed < last { None } else { Some(self.indexed_hits(since).await?) })
    }

    /// What the whole journal has. Lines that say hit although nothing was disclosed count too.
    async fn hits_in_journal(&self, since: i64) -> Result<Hits, AuditError> {
        let mut lines = self.parts.journal.lines_after(AuditPosition::default(), &roots(&self.parts).await?);
        let mut hits = Hits::new();
        while let Some(line) = lines.read()? {
            if let Entry::Request(record) = line.entry
                && record.at.day() >= since
                && record.outcome == AuditOutcome::Hit.name()
            {
                *hits.entry((record.token, record.at.day())).or_default() += record.count;
            }
        }
        Ok(hits)
    }
}

fn by_day(hits: Vec<DayHits>) -> Hits {
    hits.into_iter().map(|DayHits { token, day, hits }| ((token, day), hits)).collect()
}

/// What each place says about the hits of a month.
struct Counted {
    stored: Hits,
    /// The index, before it was brought up to date.
    indexed_before: Hits,
    in_journal: Hits,
    /// What was counted and is not in the journal any more, as far as it was known.
    gone: Hits,
}

/// What the store has to say from now on.
struct Settled {
    raised: Vec<DayHits>,
    gone: Vec<DayHits>,
    /// Hits that were not stored yet.
    added: u64,
    /// Hits that are gone from the journal since the last time.
    lost: u64,
}

impl Counted {
    /// Never less than any of them says.
    fn settle(&self) -> Settled {
        let of = |hits: &Hits, key: &(String, i64)| hits.get(key).copied().unwrap_or(0);
        let all = [&self.stored, &self.indexed_before, &self.in_journal, &self.gone];
        let keys: BTreeSet<&(String, i64)> = all.into_iter().flat_map(BTreeMap::keys).collect();
        let mut settled = Settled { raised: Vec::new(), gone: Vec::new(), added: 0, lost: 0 };
        // By token: counted before, and known now.
        let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for key in keys {
            let (stored, in_journal, gone) =
                (of(&self.stored, key), of(&self.in_journal, key), of(&self.gone, key));
            let counted = stored.max(of(&self.indexed_before, key) + gone);
            let used = counted.max(in_journal + gone);
            let day = |hits| DayHits { token: key.0.clone(), day: key.1, hits };
            if used > stored {
                settled.raised.push(day(used));
                settled.added += used - stored;
            }
            if used > in_journal {
                settled.gone.push(day(used - in_journal));
            }
            let sum = sums.entry(&key.0).or_default();
            *sum = (sum.0 + counted, sum.1 + in_journal + gone);
        }
        // Not by day: what was used just before midnight may be stored for the day after.
        settled.lost = sums.values().map(|(counted, known)| counted.saturating_sub(*known)).sum();
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contactd_core::RootKey;

    fn hits(of: &[(&str, i64, u64)]) -> Hits {
        of.iter().map(|&(token, day, hits)| ((token.to_owned(), day), hits)).collect()
    }

    fn shown(hits: &[DayHits]) -> Vec<(&str, i64, u64)> {
        hits.iter().map(|hits| (hits.token.as_str(), hits.day, hits.hits)).collect()
    }

    #[test]
    fn what_is_only_in_the_journal_is_added_to_its_day() {
        let counted = Counted {
            stored: hits(&[("a", 30, 5), ("a", 31, 2), ("b", 31, 4)]),
            indexed_before: hits(&[("a", 30, 5)]),
            in_journal: hits(&[("a", 30, 6), ("a", 31, 7), ("b", 31, 4), ("c", 31, 1)]),
            gone: Hits::new(),
        };
        let settled = counted.settle();
        assert_eq!(shown(&settled.raised), [("a", 30, 6), ("a", 31, 7), ("c", 31, 1)]);
        assert_eq!((shown(&settled.gone), settled.added, settled.lost), (vec![], 7, 0));
    }

    #[test]
    fn what_the_journal_has_no_longer_counts_beside_what_it_has_since() {
        let stored = hits(&[("a", 30, 100)]);
        let indexed_before = hits(&[("a", 30, 103)]);
        let moved = Counted { stored, indexed_before, in_journal: Hits::new(), gone: Hits::new() }.settle();
        assert_eq!(shown(&moved.raised), [("a", 30, 103)]);
        assert_eq!((shown(&moved.gone), moved.lost), (vec![("a", 30, 103)], 103));
        // The new journal has 55 hits, of which 50 were stored.
        let later = Counted {
            stored: hits(&[("a", 30, 153)]),
            indexed_before: hits(&[("a", 30, 50)]),
            in_journal: hits(&[("a", 30, 55)]),
            gone: by_day(moved.gone),
        };
        let settled = later.settle();
        assert_eq!(shown(&settled.raised), [("a", 30, 158)]);
        assert_eq!((shown(&settled.gone), settled.lost), (vec![("a", 30, 103)], 0));
    }

    #[test]
    fn hits_of_the_last_second_of_a_day_are_never_too_few_and_raise_no_alarm() {
        // Two hits before midnight were stored for the day after.
        let counted = Counted {
            stored: hits(&[("a", 30, 5), ("a", 31, 3)]),
            indexed_before: Hits::new(),
            in_journal: hits(&[("a", 30, 7), ("a", 31, 1)]),
            gone: Hits::new(),
        };
        let settled = counted.settle();
        assert_eq!((shown(&settled.raised), settled.lost), (vec![("a", 30, 7)], 0));
        assert_eq!(shown(&settled.gone), [("a", 31, 2)]);
    }

    #[test]
    fn only_the_same_journal_continues_one() {
        let end = |root, last| JournalEnd { root: RootKey([root; 32]), last };
        let noted = end(1, 7);
        assert!(continues(end(1, 7), noted) && continues(end(1, 9), noted));
        assert!(!continues(end(1, 6), noted), "it is shorter");
        assert!(!continues(end(2, 9), noted), "it is another one");
    }
}
