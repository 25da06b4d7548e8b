//! How far journals were followed.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use contactd_core::{AuditPosition, hex};
use contactd_journal::Line;

/// More nodes than this are not a place.
const MOST_NODES: usize = 1_000;

/// The last line of a journal that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// Its number.
    pub(super) seq: u64,
    /// How its chain value begins, which tells it from another line with its number.
    pub(super) chain: [u8; 4],
}

impl Passed {
    pub(super) fn of(line: &Line) -> Self {
        Self { seq: line.seq, chain: beginning(&line.chain.0) }
    }

    /// The line before a position; `None` at the beginning.
    pub(super) fn at(position: AuditPosition) -> Option<Self> {
        let chain = beginning(&position.chain);
        (position.seq > 0).then_some(Self { seq: position.seq, chain })
    }
}

fn beginning(chain: &[u8; 16]) -> [u8; 4] {
    let mut first = [0; 4];
    first.copy_from_slice(&chain[..4]);
    first
}

/// How far the journals of all nodes were followed. Journals that it does not name were not followed yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowPlace {
    by_node: BTreeMap<String, Passed>,
}

impl FollowPlace {
    pub(super) fn passed(&self, node: &str) -> Option<Passed> {
        self.by_node.get(node).copied()
    }

    pub(super) fn pass(&mut self, node: &str, passed: Passed) {
        match self.by_node.get_mut(node) {
            Some(before) => *before = passed,
            None => drop(self.by_node.insert(node.to_owned(), passed)),
        }
    }

    /// Names a journal that is not read from its first line on.
    pub(super) fn begin(&mut self, node: &str, passed: Option<Passed>) {
        if let Some(passed) = passed.filter(|_| !self.by_node.contains_key(node)) {
            self.pass(node, passed);
        }
    }
}

/// As text without spaces and quotes: for each node the number of the line, how its chain value begins, and the node.
impl fmt::Display for FollowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        self.by_node.iter().try_for_each(|(node, Passed { seq, chain })| {
            write!(f, "{}{seq}-{}-{node}", std::mem::replace(&mut between, "."), hex::encode(chain))
        })
    }
}

impl FromStr for FollowPlace {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let passed = |word: &str| {
            let mut parts = word.splitn(3, '-');
            let (seq, chain, node) = (parts.next()?, parts.next()?, parts.next()?);
            let passed = Passed { seq: seq.parse().ok()?, chain: hex::decode(chain)? };
            (!node.is_empty()).then(|| (node.to_owned(), passed))
        };
        let by_node: Option<BTreeMap<String, Passed>> = text.trim().split('.').map(passed).collect();
        by_node.filter(|by_node| by_node.len() <= MOST_NODES).map(|by_node| Self { by_node }).ok_or(
            "it is not a place in the journals: give the `place` of a line of `audit show --follow --json`",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_same_after_it_was_written_and_read() {
        let mut place = FollowPlace::default();
        place.pass("0be1cb7b", Passed { seq: 48, chain: [0x9f, 0x86, 0xd0, 0x81] });
        place.pass("7c079a12", Passed { seq: 7, chain: [0; 4] });
        place.pass("7c079a12", Passed { seq: 8, chain: [1; 4] });
        assert_eq!(place.to_string(), "48-9f86d081-0be1cb7b.8-01010101-7c079a12");
        assert_eq!(place.to_string().parse(), Ok(place));
    }

    #[test]
    fn other_texts_are_no_places() {
        for text in
            ["", "x", "48", "48-9f86d081", "48-9f86d081-", "48-9f86d0-a", "x-9f86d081-a", "48-9f86d081-a."]
        {
            assert!(text.parse::<FollowPlace>().is_err(), "{text}");
        }
    }
}
