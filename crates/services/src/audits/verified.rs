//! What a verification found, and what the store remembers of the last one.

use contactd_core::{RootKey, Timestamp};
use contactd_journal::{JournalFault, Verification};
use serde::{Deserialize, Serialize};

use super::copies::{NodeName, of_others};
use super::indexing::lost_line;
use crate::{AuditError, Parts};

/// The result of checking the journals of all nodes.
#[derive(Clone, Debug, Serialize)]
pub struct VerifiedJournals {
    /// Whether everything was checked, and nothing is wrong.
    #[serde(rename = "isWhole")]
    pub is_whole: bool,
    /// The journal on this machine, from its files.
    #[serde(flatten)]
    pub files: Option<Verification>,
    /// The copies in the database, of all nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<VerifiedCopy>,
    /// Roots that were given, and that no journal has.
    #[serde(rename = "unknownRoots", skip_serializing_if = "Vec::is_empty")]
    pub unknown_roots: Vec<RootKey>,
    /// Nodes without a journal that had lines in the index. These were removed.
    #[serde(rename = "unknownNodes", skip_serializing_if = "Vec::is_empty")]
    pub unknown_nodes: Vec<String>,
    /// What is wrong with tokens, opt-outs and accounts, compared with what the journals say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<String>,
}

/// The result of checking the copy of a node's journal.
#[derive(Clone, Debug, Serialize)]
pub struct VerifiedCopy {
    /// The node.
    #[serde(flatten)]
    pub node: NodeName,
    /// Whether it was checked, and nothing is wrong.
    #[serde(rename = "isWhole")]
    pub is_whole: bool,
    /// Whether it was checked. If roots were given and this journal has none of them, its lines count as unverified.
    #[serde(rename = "isVerified")]
    pub is_verified: bool,
    /// The number of the last line that is copied.
    pub through: u64,
    /// The roots that it names, oldest first.
    #[serde(rename = "namedRoots")]
    pub named_roots: Vec<RootKey>,
    /// The result.
    #[serde(flatten)]
    pub verification: Option<Verification>,
}

/// The fact that says what the last verification of all journals found.
const VERIFIED: &str = "journal_verified";

/// What the last verification found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl VerifiedJournals {
    /// The result, before any copy is checked.
    pub(super) fn new(files: Option<Verification>) -> Self {
        let is_whole = files.as_ref().is_none_or(Verification::is_whole);
        Self {
            is_whole,
            files,
            copies: Vec::new(),
            unknown_roots: Vec::new(),
            unknown_nodes: Vec::new(),
            state: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, copy: VerifiedCopy) {
        self.is_whole &= copy.is_whole;
        self.copies.push(copy);
    }

    pub(super) fn add_state(&mut self, faults: Vec<String>) {
        self.is_whole &= faults.is_empty();
        self.state = faults;
    }

    /// The line that was noted down is of a node whose journal was not checked.
    pub(super) fn noted_is_elsewhere(&mut self) {
        let what = "the line that was noted down is of another node, and was not looked for";
        let checked = self.copies.iter_mut().filter_map(|copy| copy.verification.as_mut());
        checked.last().into_iter().for_each(|last| last.faults.push(wrong_copy(what.to_owned())));
        self.copies.iter_mut().for_each(|copy| copy.is_whole = false);
        self.is_whole = false;
    }

    /// Finds copies under the names of two nodes that begin with one root: somebody gave a node's lines to another one as well, and
    /// they count twice.
    pub(super) fn find_doubles(&mut self) {
        let begun: Vec<(String, Option<RootKey>)> = self
            .copies
            .iter()
            .map(|copy| (copy.node.node.clone(), copy.named_roots.last().copied()))
            .collect();
        for (at, copy) in self.copies.iter_mut().enumerate() {
            let (node, root) = &begun[at];
            let double =
                begun.iter().find(|(other, of_other)| other != node && root.is_some() && of_other == root);
            let Some((other, _)) = double else { continue };
            let what = format!("it is the journal of node {other} as well, and a journal is of one node");
            copy.verification.iter_mut().for_each(|found| found.faults.push(wrong_copy(what.clone())));
            copy.is_whole = false;
            self.is_whole = false;
        }
    }

    /// Finds out which of these roots no journal has.
    pub(super) fn find_unknown(&mut self, given: &[RootKey]) {
        let of_files = self.files.iter().flat_map(|files| &files.roots);
        let known: Vec<&RootKey> =
            self.copies.iter().flat_map(|copy| &copy.named_roots).chain(of_files).collect();
        self.unknown_roots = given.iter().filter(|root| !known.contains(root)).copied().collect();
        self.is_whole &= self.unknown_roots.is_empty();
    }

    /// Notes nodes without a journal that had lines in the index.
    pub(super) fn note_unknown_nodes(&mut self, nodes: Vec<String>) {
        self.is_whole &= nodes.is_empty();
        self.unknown_nodes = nodes;
    }

    /// The result of checking one journal.
    pub fn of_files(files: Verification) -> Self {
        Self::new(Some(files))
    }

    /// The result in words, line by line.
    pub fn words(&self) -> Vec<String> {
        let mut words = self.files.as_ref().map(Verification::words).unwrap_or_default();
        for copy in &self.copies {
            let NodeName { node, name } = &copy.node;
            match &copy.verification {
                Some(verification) => {
                    words.push(format!("node {node} ({name}), as shipped to the database:"));
                    words.extend(verification.words());
                }
                None => words.push(format!(
                    "UNVERIFIED node {node} ({name}), {} lines: its root was not given with --root; `contactd audit root` \
                     lists the roots of all nodes",
                    copy.through
                )),
            }
        }
        let unknown = self.unknown_roots.iter();
        words.extend(self.state.iter().map(|fault| format!("WRONG {fault}")));
        words.extend(unknown.map(|root| format!("WRONG no journal has the root {root}, which was given")));
        words.extend(self.unknown_nodes.iter().map(|node| format!("WRONG {}", unknown_node(node))));
        words
    }

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
        let nodes = self.unknown_nodes.iter().map(|node| unknown_node(node));
        of_files.chain(of_copies).chain(unknown).chain(nodes).chain(self.state.iter().cloned()).next()
    }
}

/// What is wrong if a node without a journal has lines in the index.
pub fn unknown_node(node: &str) -> String {
    format!(
        "the index had lines of node {node}, and there is no journal of that node; they were removed from the index"
    )
}

/// What is wrong if somebody has added this to the tables of the database.
pub fn hooks_found(hooks: &str) -> String {
    format!(
        "the database has what contactd did not make, and what can change or hide what it stores: {hooks}. Find out who made it, and \
         drop it"
    )
}

/// Something that is wrong with a copy.
pub(super) fn wrong_copy(what: String) -> JournalFault {
    JournalFault { file: "the copy".to_owned(), line: 0, seq: None, what }
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
    // It has no maps and no bytes, so writing it as JSON cannot fail.
    let last = serde_json::to_string(&last).unwrap_or_default();
    Ok(parts.store.replace_fact(VERIFIED, &last, None).await?)
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
        last: last.and_then(|last| serde_json::from_str(&last).ok()),
        is_lost: lost_line(parts).await?.is_some(),
        unreadable,
    })
}
