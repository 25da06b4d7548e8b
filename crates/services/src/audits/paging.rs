//! Reading the journal in pages, newest first.
//!
//! A page begins where the one before ended, which is said by the time of its last line and, because lines can have the same
//! time, by the numbers of the lines of that time that were shown. So no line is shown twice or left out, whatever is added
//! meanwhile.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use contactd_core::store::{AuditFilter, IndexedLine};
use contactd_core::{Actor, Timestamp};

use super::questions::{AuditQuery, filter_of};
use super::reading::{ReadFrom, Reader};
use super::token_names;
use crate::views::EventView;
use crate::{AuditError, Audits};

/// Where a page of events ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPlace {
    /// The time of its last line.
    at: Timestamp,
    /// How many lines of this time were shown.
    shown: u64,
    /// By node: the smallest number of the lines of this time that were shown.
    down_to: BTreeMap<String, u64>,
}

/// More lines than this with the same time, or more nodes, are not a place.
const MOST_SAME_TIME: u64 = 1 << 20;
const MOST_NODES: usize = 1_000;

impl Audits {
    /// The newest `most` events that match or, with `before`, those that follow after a page that ended there; and where the next
    /// page begins, if there is one. The first page has everything that is in the journal now.
    pub async fn page(
        &self,
        actor: &Actor,
        query: &AuditQuery,
        before: Option<&AuditPlace>,
        most: u64,
    ) -> Result<(Vec<EventView>, Option<AuditPlace>), AuditError> {
        let (names, reader) = match before {
            None => self.asked(actor).await?,
            // What is added meanwhile is newer.
            Some(_) => (token_names(&*self.parts.store).await?, Reader::as_it_is(&self.parts).await?),
        };
        let filter = filter_of(&self.parts, query, &names).await?;
        let after = before.map(|place| place.at.plus(std::time::Duration::from_millis(1)));
        let asked_for = most.saturating_add(before.map_or(0, |place| place.shown));
        let filter = AuditFilter {
            until: filter.until.into_iter().chain(after).min(),
            newest: Some(asked_for.saturating_add(1)),
            ..filter
        };
        let (mut events, mut visited, mut is_more) = (Vec::new(), 0_u64, false);
        let mut place = before.cloned();
        let visit = |line: IndexedLine| {
            visited += 1;
            if before.is_some_and(|before| before.has_shown(&line)) {
                return true;
            }
            if events.len() as u64 == most {
                is_more = true;
                return false;
            }
            AuditPlace::pass(&mut place, &line);
            events.push(EventView::of(line, &names));
            true
        };
        reader.newest(&filter, visit).await?;
        // If lines of the place were added meanwhile, a page can be short and not the last.
        Ok((events, place.filter(|_| is_more || visited > asked_for)))
    }
}

impl<'a> Reader<'a> {
    /// Reads what is indexed already, if the index can be used.
    async fn as_it_is(parts: &'a crate::Parts) -> Result<Self, AuditError> {
        match parts.store.audit_position(parts.node()).await {
            Ok(_) => Ok(Self::of_index(parts)),
            Err(_) => Self::ready(parts, ReadFrom::Index).await,
        }
    }
}

impl AuditPlace {
    /// Moves behind a line.
    fn pass(place: &mut Option<Self>, line: &IndexedLine) {
        let at = line.at();
        let here = match place {
            Some(here) if here.at == at => here,
            _ => place.insert(Self { at, shown: 0, down_to: BTreeMap::new() }),
        };
        here.shown += 1;
        here.down_to.insert(line.node().to_owned(), line.seq());
    }

    /// Whether a line is on one of the pages that end here.
    fn has_shown(&self, line: &IndexedLine) -> bool {
        line.at() == self.at && self.down_to.get(line.node()).is_some_and(|&last| line.seq() >= last)
    }
}

/// As text that a URL can have: the time in milliseconds, how many lines, and a number and a node for each.
impl fmt::Display for AuditPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.millis(), self.shown)?;
        self.down_to.iter().try_for_each(|(node, seq)| write!(f, ".{seq}-{node}"))
    }
}

impl FromStr for AuditPlace {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let mut words = text.split('.');
            let at = Timestamp::from_millis(words.next()?.parse().ok()?);
            let shown: u64 = words.next()?.parse().ok()?;
            let numbered = |word: &str| {
                let (seq, node) = word.split_once('-')?;
                (!node.is_empty()).then_some((node.to_owned(), seq.parse().ok()?))
            };
            let down_to: BTreeMap<String, u64> = words.map(numbered).collect::<Option<_>>()?;
            let is_place = shown <= MOST_SAME_TIME && (1..=MOST_NODES).contains(&down_to.len());
            is_place.then_some(Self { at, shown, down_to })
        };
        parse().ok_or("it is not a place in the journal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contactd_core::{AdminEntry, AdminRecord, Via};

    fn line(node: &str, seq: u64, millis: i64) -> IndexedLine {
        let actor = Actor::new("olga", Via::CommandLine);
        let entry = AdminEntry::new(&actor, "export", Timestamp::from_millis(millis));
        IndexedLine::Admin(AdminRecord { seq, node: node.to_owned(), entry })
    }

    #[test]
    fn a_place_remembers_the_lines_of_its_time_by_node() {
        let mut place = None;
        for passed in [line("n1", 9, 30), line("n1", 8, 20), line("n2", 4, 20), line("n1", 7, 20)] {
            AuditPlace::pass(&mut place, &passed);
        }
        let place = place.expect("a place");
        assert_eq!(place.to_string(), "20.3.7-n1.4-n2");
        assert_eq!(place.to_string().parse(), Ok(place.clone()));
        for (other, is_shown) in [
            (line("n1", 8, 20), true),
            (line("n1", 7, 20), true),
            (line("n1", 6, 20), false),
            (line("n2", 5, 20), true),
            (line("n2", 3, 20), false),
            (line("n3", 1, 20), false),
            (line("n1", 8, 19), false),
        ] {
            assert_eq!(place.has_shown(&other), is_shown, "{other:?}");
        }
    }

    #[test]
    fn other_texts_are_no_places() {
        for text in [
            "",
            "x",
            "20",
            "20.3",
            "20.3.",
            "20.3.7",
            "20.3.7-",
            "20.x.7-n1",
            "20.99999999999.7-n1",
            "20.3.7-n1.x",
        ] {
            assert!(text.parse::<AuditPlace>().is_err(), "{text}");
        }
    }
}
