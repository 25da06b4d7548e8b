//! The journals of all nodes, as they are copied in the database: also those of nodes that are gone.

use std::io::Write;
use std::sync::Arc;

use serde::Serialize;

use super::indexing::Batch;
use super::journals::of_others;
use super::verified::remember;
use super::watching::Watching;
use super::{AuditError, Audits, roots};
use crate::Parts;
use contactd_core::store::{ShippedJournal, Store};
use contactd_core::{Actor, AuditPosition, Cancel, Chain, Observer, RootKey, Timestamp};
use contactd_journal::{
    JournalError, JournalFault, JournalHead, JournalReader, KnownLine, NotedHead, ProofMade, Roots,
    Verification,
};

/// A node, by its id and its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeName {
    /// Its id.
    pub node: String,
    /// Its name.
    pub name: String,
}

/// What is to be verified, and with what.
#[derive(Clone, Debug, Default)]
pub struct VerifyQuery {
    /// Only the copies of the journal of this node, by its id or name.
    pub node: Option<String>,
    /// The roots to trust. Without any: what the store remembers, or what a copy names itself.
    pub roots: Vec<RootKey>,
    /// A line that was noted down.
    pub noted: Option<NotedHead>,
    /// Whether this machine has a journal of its own.
    pub has_files: bool,
}

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

impl VerifiedJournals {
    /// The result of checking one journal.
    pub fn of_files(files: Verification) -> Self {
        Self { is_whole: files.is_whole(), files: Some(files), copies: Vec::new(), unknown_roots: Vec::new() }
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
        words.extend(unknown.map(|root| format!("WRONG no journal has the root {root}, which was given")));
        words
    }
}

impl Audits {
    /// Checks the journal on this machine, if there is one, and the copies of the journals of all nodes. Copies are checked with
    /// public keys alone. The store remembers what was found, unless it is about one node, or something is wrong and roots or a
    /// line were given: these may be mistyped, and are the business of who gave them. If it is cancelled, this fails with
    /// [`JournalError::Cancelled`].
    pub async fn verify_all(
        &self,
        actor: &Actor,
        query: &VerifyQuery,
        observer: Observer<'_>,
        cancel: &Cancel,
    ) -> Result<VerifiedJournals, AuditError> {
        let watch = &mut Watching::new(observer, cancel);
        let noted = query.noted.as_ref();
        let files = match query.has_files && query.node.is_none() {
            true => {
                let is_own = |node: &String| *node == self.parts.node();
                let noted = noted.filter(|noted| noted.node.as_ref().is_none_or(is_own));
                Some(self.verify_files(actor, noted, query.roots.clone(), watch).await?)
            }
            false => None,
        };
        let copies = self.select(query.node.as_deref()).await?;
        let last: Vec<ShippedJournal> = copies.iter().filter(|copy| copy.is_last).cloned().collect();
        let noted_in = match noted {
            Some(NotedHead { node: Some(node), seq, .. }) => {
                // What is not shipped yet can be in the files alone.
                let is_in_files =
                    |through: u64| files.is_some() && *node == self.parts.node() && through < *seq;
                match self.select(Some(node)).await {
                    Ok(of_node) => {
                        of_node.last().filter(|last| !is_in_files(last.position.seq)).map(|last| last.copy)
                    }
                    Err(_) if is_in_files(0) => None,
                    Err(error) => return Err(error),
                }
            }
            Some(_) if files.is_none() && last.len() != 1 => return Err(which(&last)),
            Some(_) if files.is_none() => last.first().map(|copy| copy.copy),
            _ => None,
        };
        let is_whole = files.as_ref().is_none_or(Verification::is_whole);
        let mut verified =
            VerifiedJournals { is_whole, files, copies: Vec::new(), unknown_roots: Vec::new() };
        for (at, copy) in copies.iter().enumerate() {
            if copy.position.seq == 0
                && noted_in != Some(copy.copy)
                && self.parts.store.copied_segments(copy.copy).await?.is_empty()
            {
                // Nothing is shipped yet.
                continue;
            }
            let noted = noted.filter(|_| noted_in == Some(copy.copy));
            let mut checked = self.verify_copy(copy, &query.roots, noted, watch).await?;
            if let Some(next) = copies.get(at + 1).filter(|_| !copy.is_last) {
                self.check_continued(copy, next, &mut checked)?;
            }
            verified.is_whole &= checked.is_whole;
            verified.copies.push(checked);
        }
        if noted_in.is_some_and(|noted| copies.iter().all(|copy| copy.copy != noted)) {
            let what = "the line that was noted down is of another node, and was not looked for";
            let checked = verified.copies.iter_mut().filter_map(|copy| copy.verification.as_mut());
            checked.last().into_iter().for_each(|last| last.faults.push(wrong(what.to_owned())));
            verified.copies.iter_mut().for_each(|copy| copy.is_whole = false);
            verified.is_whole = false;
        }
        if !copies.is_empty() && query.node.is_none() {
            let of_files = verified.files.iter().flat_map(|files| &files.roots);
            let known: Vec<&RootKey> =
                verified.copies.iter().flat_map(|copy| &copy.named_roots).chain(of_files).collect();
            let unknown = query.roots.iter().filter(|root| !known.contains(root)).copied();
            verified.unknown_roots = unknown.collect();
            verified.is_whole &= verified.unknown_roots.is_empty();
        }
        let is_given = !query.roots.is_empty() || query.noted.is_some();
        if query.node.is_none() && (verified.is_whole || !is_given) {
            remember(&self.parts, &verified).await?;
        }
        Ok(verified)
    }

    async fn verify_copy(
        &self,
        copy: &ShippedJournal,
        given: &[RootKey],
        noted: Option<&NotedHead>,
        watch: &mut Watching<'_>,
    ) -> Result<VerifiedCopy, AuditError> {
        watch.begin("checking the lines that another node shipped", Some(copy.position.seq))?;
        let files = self.files(copy);
        let named_roots = files.roots()?;
        let is_trusted = named_roots.iter().any(|root| given.contains(root));
        let mut checked = VerifiedCopy {
            node: name_of(copy),
            is_whole: false,
            is_verified: given.is_empty() || is_trusted,
            through: copy.position.seq,
            named_roots,
            verification: None,
        };
        if !checked.is_verified {
            return Ok(checked);
        }
        let trusted = match given.is_empty() {
            true if copy.node == self.parts.node() => roots(&self.parts).await?,
            true => Roots::default(),
            false => Roots::given(given.to_vec()),
        };
        let AuditPosition { seq, chain, .. } = copy.position;
        let shipped = (seq > 0).then_some(KnownLine { seq, chain: Chain(chain), how: "was shipped" });
        let known: Vec<KnownLine> = shipped.into_iter().chain(noted.map(NotedHead::known)).collect();
        let mut verification = files.verify_watched(&known, &trusted, &mut |lines| watch.seen(lines))?;
        if verification.unsigned > 0 {
            verification.faults.push(wrong(format!(
                "it ends with lines that nothing signs ({}), and a node ships only signed lines",
                verification.unsigned
            )));
        }
        checked.is_whole = verification.is_whole();
        checked.verification = Some(verification);
        Ok(checked)
    }

    /// Why the next copy of a node's journal does not continue this one.
    fn check_continued(
        &self,
        copy: &ShippedJournal,
        next: &ShippedJournal,
        checked: &mut VerifiedCopy,
    ) -> Result<(), AuditError> {
        let began_anew =
            self.files(next).roots()?.last().is_some_and(|root| !checked.named_roots.contains(root));
        let Some(verification) = &mut checked.verification else { return Ok(()) };
        if began_anew {
            verification.notes.push(format!(
                "shipped until {}; then the node's journal began anew, with a root of its own: after a restore, or because the \
                 keys were gone. Another copy follows",
                copy.shipped_at
            ));
        } else {
            verification.faults.push(wrong(format!(
                "the node's journal is not the one that was shipped until {}: lines of it were changed or removed, or a disk lost \
                 them. This copy is kept, and another one follows; once this is explained, `contactd audit verify --accept-loss` on \
                 that node removes this one",
                copy.shipped_at
            )));
        }
        checked.is_whole = verification.is_whole();
        Ok(())
    }

    /// The roots of the journals of all nodes; first that of this machine's journal, if it has one.
    pub async fn all_roots(
        &self,
        actor: &Actor,
        has_files: bool,
    ) -> Result<Vec<OfNode<RootList>>, AuditError> {
        let copies = self.last_copies(None).await?;
        let mut all = Vec::new();
        if has_files {
            let roots = self.roots(actor).await?;
            all.extend((!roots.is_empty()).then(|| self.here(&copies, RootList { roots })));
        }
        for copy in self.elsewhere(&copies, has_files) {
            let roots = self.files(copy).roots()?;
            all.push(OfNode { node: name_of(copy), is_here: false, of: RootList { roots } });
        }
        Ok(all)
    }

    /// The last signed line of all nodes: of this machine's journal, if it has one, that is on disk; of the others, that they
    /// have shipped.
    pub async fn all_heads(
        &self,
        actor: &Actor,
        has_files: bool,
    ) -> Result<Vec<OfNode<JournalHead>>, AuditError> {
        let copies = self.last_copies(None).await?;
        let mut all = Vec::new();
        if has_files {
            all.extend(self.head(actor).await?.map(|head| self.here(&copies, head)));
        }
        for copy in self.elsewhere(&copies, has_files) {
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
    fn elsewhere<'a>(
        &'a self,
        copies: &'a [ShippedJournal],
        has_files: bool,
    ) -> impl Iterator<Item = &'a ShippedJournal> {
        copies.iter().filter(move |copy| !has_files || copy.node != self.parts.node())
    }

    /// Writes what an auditor needs to verify the lines of a period of one node, from the copy of its journal. The node need
    /// not be named if there is only one.
    pub async fn prove_copy(
        &self,
        actor: &Actor,
        node: Option<&str>,
        since: Timestamp,
        until: Timestamp,
        out: &mut (dyn Write + Send),
    ) -> Result<ProofMade, AuditError> {
        actor.note("audit proof");
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
    async fn select(&self, node: Option<&str>) -> Result<Vec<ShippedJournal>, AuditError> {
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

    fn files(&self, copy: &ShippedJournal) -> JournalReader {
        copy_of(&self.parts, copy.copy, AuditPosition::default())
    }
}

/// The copy of a journal with this id. If reading begins at a position, the lines before it need not be read.
pub(super) fn copy_of(parts: &Parts, copy: i32, position: AuditPosition) -> JournalReader {
    JournalReader::of_copy(Arc::<dyn Store>::clone(&parts.store), copy, position)
}

fn name_of(copy: &ShippedJournal) -> NodeName {
    NodeName { node: copy.node.clone(), name: copy.name.clone() }
}

fn wrong(what: String) -> JournalFault {
    JournalFault { file: "the copy".to_owned(), line: 0, seq: None, what }
}

fn which(copies: &[ShippedJournal]) -> AuditError {
    AuditError::WhichNode { known: names(copies) }
}

/// The nodes, for a message.
fn names(copies: &[ShippedJournal]) -> String {
    let mut names: Vec<String> = copies.iter().map(|copy| format!("{} ({})", copy.node, copy.name)).collect();
    names.dedup();
    if names.is_empty() { "none has shipped anything yet".to_owned() } else { names.join(", ") }
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
