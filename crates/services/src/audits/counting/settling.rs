//! What the store has to say about hits, from what the store, the index and the journal say.

use std::collections::{BTreeMap, BTreeSet};

use contactd_core::store::DayHits;

/// Hits by token and day.
pub(super) type Hits = BTreeMap<(String, i64), u64>;

pub(super) fn by_day(hits: Vec<DayHits>) -> Hits {
    hits.into_iter().map(|DayHits { token, day, hits }| ((token, day), hits)).collect()
}

/// What each place says about the hits of a month.
pub(super) struct Counted<'a> {
    pub(super) stored: &'a Hits,
    /// The index, before this server added lines to it.
    pub(super) indexed: Hits,
    pub(super) in_journal: Hits,
    /// What was counted and is not in the journal any more, as far as it was known.
    pub(super) gone: Hits,
}

/// What the store has to say from now on.
pub(super) struct Settled {
    /// Hits that are not stored yet, in the order of days.
    pub(super) added: Vec<DayHits>,
    pub(super) gone: Vec<DayHits>,
    /// Hits that are gone from the journal since the last time.
    lost: u64,
}

impl Settled {
    pub(super) fn report(&self) {
        let hits: u64 = self.added.iter().map(|added| added.hits).sum();
        if hits > 0 {
            tracing::info!(hits, "counted hits again that had not been stored before the last server ended");
        }
        if self.lost > 0 {
            tracing::warn!(
                hits = self.lost,
                "the audit journal lacks hits that had been counted: it was moved aside or shortened. They still count, but what \
                 was used in the last seconds before that may not"
            );
        }
    }
}

impl Counted<'_> {
    /// Never less than any of them says.
    pub(super) fn settle(&self) -> Settled {
        let of = |hits: &Hits, key: &(String, i64)| hits.get(key).copied().unwrap_or(0);
        let all = [self.stored, &self.indexed, &self.in_journal, &self.gone];
        let keys: BTreeSet<&(String, i64)> = all.into_iter().flat_map(BTreeMap::keys).collect();
        let mut settled = Settled { added: Vec::new(), gone: Vec::new(), lost: 0 };
        // By token: counted before, and known now.
        let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for key in keys {
            let (stored, in_journal, gone) =
                (of(self.stored, key), of(&self.in_journal, key), of(&self.gone, key));
            let counted = stored.max(of(&self.indexed, key) + gone);
            let used = counted.max(in_journal + gone);
            let day = |hits| DayHits { token: key.0.clone(), day: key.1, hits };
            if used > stored {
                settled.added.push(day(used - stored));
            }
            if used > in_journal {
                settled.gone.push(day(used - in_journal));
            }
            let sum = sums.entry(&key.0).or_default();
            *sum = (sum.0 + counted, sum.1 + in_journal + gone);
        }
        settled.added.sort_by_key(|added| added.day);
        // Not by day: what was used just before midnight may be stored for the day after.
        settled.lost = sums.values().map(|(counted, known)| counted.saturating_sub(*known)).sum();
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(of: &[(&str, i64, u64)]) -> Hits {
        of.iter().map(|&(token, day, hits)| ((token.to_owned(), day), hits)).collect()
    }

    fn shown(hits: &[DayHits]) -> Vec<(&str, i64, u64)> {
        hits.iter().map(|hits| (hits.token.as_str(), hits.day, hits.hits)).collect()
    }

    #[test]
    fn what_is_only_in_the_journal_is_added_to_its_day() {
        let counted = Counted {
            stored: &hits(&[("a", 30, 5), ("a", 31, 2), ("b", 31, 4)]),
            indexed: hits(&[("a", 30, 5)]),
            in_journal: hits(&[("a", 30, 6), ("a", 31, 7), ("b", 31, 4), ("c", 30, 1)]),
            gone: Hits::new(),
        };
        let settled = counted.settle();
        assert_eq!(shown(&settled.added), [("a", 30, 1), ("c", 30, 1), ("a", 31, 5)]);
        assert_eq!((shown(&settled.gone), settled.lost), (vec![], 0));
    }

    #[test]
    fn what_the_journal_has_no_longer_counts_beside_what_it_has_since() {
        let stored = &hits(&[("a", 30, 100)]);
        let indexed = hits(&[("a", 30, 103)]);
        let moved = Counted { stored, indexed, in_journal: Hits::new(), gone: Hits::new() }.settle();
        assert_eq!(shown(&moved.added), [("a", 30, 3)]);
        assert_eq!((shown(&moved.gone), moved.lost), (vec![("a", 30, 103)], 103));
        // The new journal has 55 hits, of which 50 were stored.
        let later = Counted {
            stored: &hits(&[("a", 30, 153)]),
            indexed: hits(&[("a", 30, 50)]),
            in_journal: hits(&[("a", 30, 55)]),
            gone: by_day(moved.gone),
        };
        let settled = later.settle();
        assert_eq!(shown(&settled.added), [("a", 30, 5)]);
        assert_eq!((shown(&settled.gone), settled.lost), (vec![("a", 30, 103)], 0));
    }

    #[test]
    fn hits_of_the_last_second_of_a_day_are_never_too_few_and_raise_no_alarm() {
        // Two hits before midnight were stored for the day after.
        let counted = Counted {
            stored: &hits(&[("a", 30, 5), ("a", 31, 3)]),
            indexed: Hits::new(),
            in_journal: hits(&[("a", 30, 7), ("a", 31, 1)]),
            gone: Hits::new(),
        };
        let settled = counted.settle();
        assert_eq!((shown(&settled.added), settled.lost), (vec![("a", 30, 2)], 0));
        assert_eq!(shown(&settled.gone), [("a", 31, 2)]);
    }
}
