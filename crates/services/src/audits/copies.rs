//! The journals of all nodes: this machine's own, and the copies in the database, also of nodes that are gone.

use std::io::Write;
use std::sync::Arc;

use contactd_core::store::{ShippedJournal, Store};
use contactd_core::{Actor, AuditPosition, Chain, RootKey, Timestamp};
use contactd_journal::{JournalError, JournalHead, JournalReader, Line, ProofMade, Roots};
use serde::Serialize;

use super::indexing::{Batch, catch_up};
use super::{AuditError, Audits, roots};
use crate::Parts;

/// A node, by its id and its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeName {
    /// Its id.
    pub node: String,
    /// Its name.
    pub name: String,
}

/// Something about the journal of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfNode<T> {
    /// The node.
    #[serde(flatten)]
    pub node: NodeName,
    /// Whether its journal is on this machine.
    #[serde(skip)]
    pub is_here: bool,
    /// What was asked for.
    #[serde(flatten)]
    pub of: T,
}

/// The roots of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RootList {
    /// The roots, oldest first.
    pub roots: Vec<RootKey>,
}

impl Audits {
    /// The roots of the journals of all nodes; first that of this machine's journal, if it has one.
    pub async fn all_roots(&self, actor: &Actor) -> Result<Vec<OfNode<RootList>>, AuditError> {
        let copies = self.last_copies(None).await?;
        let mut all = Vec::new();
        if self.parts.machine.is_some() {
            let roots = self.roots(actor).await?;
            all.extend((!roots.is_empty()).then(|| self.here(&copies, RootList { roots })));
        }
        for copy in self.elsewhere(&copies) {
            let roots = self.files(copy).roots()?;
            all.push(OfNode { node: name_of(copy), is_here: false, of: RootList { roots } });
        }
        Ok(all)
    }

    /// The last signed line of all nodes: of this machine's journal, if it has one, that is on disk; of the others, that they
    /// have shipped.
    pub async fn all_heads(&self, actor: &Actor) -> Result<Vec<OfNode<JournalHead>>, AuditError> {
        let copies = self.last_copies(None).await?;
        let mut all = Vec::new();
        if self.parts.machine.is_some() {
            all.extend(self.head(actor).await?.map(|head| self.here(&copies, head)));
        }
        for copy in self.elsewhere(&copies) {
            let head = self.files(copy).head(&Roots::default())?;
            all.extend(head.map(|of| OfNode { node: name_of(copy), is_here: false, of }));
        }
        Ok(all)
    }

    /// What is asked for, of the journal on this machine.
    fn here<T>(&self, copies: &[ShippedJournal], of: T) -> OfNode<T> {
        let node = self.parts.node().to_owned();
        let name = copies.iter().find(|copy| copy.node == node).map(|copy| copy.name.clone());
        OfNode { node: NodeName { node, name: name.unwrap_or_default() }, is_here: true, of }
    }

    /// The copies of the journals that are not on this machine.
    fn elsewhere<'a>(&'a self, copies: &'a [ShippedJournal]) -> impl Iterator<Item = &'a ShippedJournal> {
        copies.iter().filter(|copy| self.parts.machine.is_none() || copy.node != self.parts.node())
    }

    /// Writes what an auditor needs to verify the lines of a period: of this machine's journal or, if it has none or a node is
    /// named, of the copy of a node's journal. The node need not be named if there is only one.
    pub async fn prove(
        &self,
        actor: &Actor,
        node: Option<&str>,
        since: Timestamp,
        until: Timestamp,
        out: &mut (dyn Write + Send),
    ) -> Result<ProofMade, AuditError> {
        actor.note("audit proof");
        if node.is_none() && self.parts.machine.is_some() {
            return Ok(self.parts.journal.prove(since, until, &roots(&self.parts).await?, out)?);
        }
        let copies = self.last_copies(node).await?;
        let [copy] = &copies[..] else { return Err(which(&copies)) };
        Ok(self.files(copy).prove(since, until, &Roots::default(), out)?)
    }

    /// The nodes with copies in the database that are not current any more: what answers from the index does not show their lines.
    pub async fn superseded(&self) -> Result<Vec<NodeName>, AuditError> {
        let mut copies = self.select(None).await?;
        copies.retain(|copy| !copy.is_last && copy.position.seq > 0);
        let mut nodes: Vec<NodeName> = copies.iter().map(name_of).collect();
        nodes.dedup();
        Ok(nodes)
    }

    /// The last copy of each node, or of one.
    async fn last_copies(&self, node: Option<&str>) -> Result<Vec<ShippedJournal>, AuditError> {
        Ok(self.select(node).await?.into_iter().filter(|copy| copy.is_last).collect())
    }

    /// All copies, or those of one node.
    pub(super) async fn select(&self, node: Option<&str>) -> Result<Vec<ShippedJournal>, AuditError> {
        let copies = self.parts.store.list_copies().await?;
        let Some(wanted) = node else { return Ok(copies) };
        let is_meant = |copy: &ShippedJournal| copy.node == wanted || copy.name == wanted;
        let meant: Vec<ShippedJournal> = copies.iter().filter(|copy| is_meant(copy)).cloned().collect();
        match meant.first() {
            None => Err(AuditError::UnknownNode { node: wanted.to_owned(), known: names(&copies) }),
            // A name is not unique, an id is.
            Some(first) if meant.iter().any(|copy| copy.node != first.node) => Err(which(&meant)),
            Some(_) => Ok(meant),
        }
    }

    pub(super) fn files(&self, copy: &ShippedJournal) -> JournalReader {
        copy_of(&self.parts, copy.copy, AuditPosition::default())
    }
}

pub(super) fn name_of(copy: &ShippedJournal) -> NodeName {
    NodeName { node: copy.node.clone(), name: copy.name.clone() }
}

pub(super) fn which(copies: &[ShippedJournal]) -> AuditError {
    AuditError::WhichNode { known: names(copies) }
}

/// The nodes, for a message.
fn names(copies: &[ShippedJournal]) -> String {
    let mut names: Vec<String> = copies.iter().map(|copy| format!("{} ({})", copy.node, copy.name)).collect();
    names.dedup();
    if names.is_empty() { "none has shipped anything yet".to_owned() } else { names.join(", ") }
}

/// The copy of a journal with this id. If reading begins at a position, the lines before it need not be read.
pub(super) fn copy_of(parts: &Parts, copy: i32, position: AuditPosition) -> JournalReader {
    JournalReader::of_copy(Arc::<dyn Store>::clone(&parts.store), copy, position)
}

/// A journal that is indexed: this machine's own, or what a node has shipped of its own.
pub(super) struct IndexedJournal {
    /// The id of the node.
    pub(super) node: String,
    pub(super) journal: JournalReader,
    /// The roots that are trusted.
    pub(super) roots: Roots,
    /// Its copy, if it is not this machine's own.
    pub(super) copy: Option<ShippedJournal>,
}

impl IndexedJournal {
    /// This machine's own.
    pub(super) async fn own(parts: &Parts) -> Result<Self, AuditError> {
        let (node, journal) = (parts.node().to_owned(), parts.journal.clone());
        Ok(Self { node, journal, roots: roots(parts).await?, copy: None })
    }

    /// What a node has shipped.
    pub(super) fn shipped(parts: &Parts, copy: &ShippedJournal, roots: Roots) -> Self {
        let journal = copy_of(parts, copy.copy, AuditPosition::default());
        Self { node: copy.node.clone(), journal, roots, copy: Some(copy.clone()) }
    }

    /// Indexes everything that is in it now.
    pub(super) async fn index(&self, parts: &Parts) -> Result<(), AuditError> {
        match &self.copy {
            None => catch_up(parts).await.map(|_| ()),
            Some(copy) => {
                while index_some_of(parts, copy).await? {}
                Ok(())
            }
        }
    }
}

/// This node's journal, and those that other nodes have shipped.
pub(super) async fn all(parts: &Parts) -> Result<Vec<IndexedJournal>, AuditError> {
    let mut journals = vec![IndexedJournal::own(parts).await?];
    let shipped = of_others(parts).await?;
    journals.extend(shipped.iter().map(|copy| IndexedJournal::shipped(parts, copy, Roots::default())));
    Ok(journals)
}

/// Since when every disclosure is on record; `None` if nothing is. That is when the first journal begins. Where lines were removed
/// after their retention period, it is the time up to which that was done.
pub(crate) async fn known_since(parts: &Parts) -> Result<Option<Timestamp>, AuditError> {
    let mut journals = vec![(parts.journal.first_line()?, parts.journal.begins()?)];
    for copy in of_others(parts).await? {
        let first = parts.store.copied_segments(copy.copy).await?.first().copied();
        journals.push((first, copy_of(parts, copy.copy, AuditPosition::default()).begins()?));
    }
    let removed = journals.iter().filter(|(first, _)| first.is_some_and(|first| first > 1));
    let removed = removed.filter_map(|(_, begins)| *begins).max();
    Ok(removed.or_else(|| journals.iter().filter_map(|(_, begins)| *begins).min()))
}

/// The journals that other nodes have shipped.
pub(super) async fn of_others(parts: &Parts) -> Result<Vec<ShippedJournal>, AuditError> {
    let mut copies = parts.store.list_copies().await?;
    copies.retain(|copy| copy.is_last && copy.node != parts.node());
    Ok(copies)
}

/// Indexes what other nodes have shipped and not indexed: a node under load ships faster than it indexes, and one that is gone
/// indexes nothing any more.
pub(super) async fn index_copies(parts: &Parts) -> Result<(), AuditError> {
    for copy in of_others(parts).await? {
        while index_some_of(parts, &copy).await? {}
    }
    Ok(())
}

/// Indexes some lines of a copy. Returns whether there are more.
async fn index_some_of(parts: &Parts, copy: &ShippedJournal) -> Result<bool, AuditError> {
    let from = parts.store.audit_position(&copy.node).await?;
    if from.seq >= copy.position.seq {
        return Ok(false);
    }
    let mut lines = copy_of(parts, copy.copy, from).lines_after(from, &Roots::default());
    let batch = match Batch::read(&mut lines) {
        // The node itself finds out why, and rebuilds its index.
        Err(JournalError::Changed { .. }) => return Ok(false),
        batch => batch?,
    };
    let to = lines.position();
    // If somebody else has indexed them, there may still be more.
    if to != from {
        parts.store.index_audit(batch.step(&copy.node, from, to)).await?;
    }
    Ok(to != from)
}

/// A line that a node has shipped, if a signature in its copy proves it.
pub(super) async fn line_of_copy(parts: &Parts, node: &str, seq: u64) -> Result<Option<Line>, AuditError> {
    let (copies, before) = (parts.store.list_copies().await?, seq.saturating_sub(1));
    let Some(copy) = copies.iter().find(|copy| copy.is_last && copy.node == node) else { return Ok(None) };
    let segments = parts.store.copied_segments(copy.copy).await?;
    let read = parts.store.copied_lines(copy.copy, before, 1).await?.into_iter().next();
    let read = read.filter(|line| line.seq == before);
    let Some((read, segment)) = read.zip(segments.into_iter().rfind(|first| *first <= before)) else {
        return Ok(None);
    };
    // Reading begins after the line before it. Its chain value is its last field, and proven by the next signature.
    let chain = read.text.strip_suffix("\"}").and_then(|text| text.get(text.len().saturating_sub(32)..));
    let Some(Chain(chain)) = chain.and_then(Chain::parse) else { return Ok(None) };
    let position = AuditPosition { segment, offset: read.text.len() as u64 + 1, seq: before, chain };
    let line = copy_of(parts, copy.copy, position).signed_after(position, &Roots::default()).read()?;
    Ok(line.filter(|line| line.seq == seq))
}
