//! Checks the journals: this machine's own, and the copies of those of all nodes.

use contactd_core::store::ShippedJournal;
use contactd_core::{Actor, AuditPosition, Cancel, Chain, Observer, Progress, RootKey};
use contactd_journal::{JournalError, JournalFault, KnownLine, NotedHead, Roots, Verification};

use super::copies::{IndexedJournal, name_of, which};
use super::indexing::known_from_index;
use super::verified::{VerifiedCopy, VerifiedJournals, hooks_found, remember, wrong_copy};
use super::{AuditError, Audits, roots};

/// What is to be verified, and with what.
#[derive(Clone, Debug, Default)]
pub struct VerifyQuery {
    /// Only the copies of the journal of this node, by its id or name.
    pub node: Option<String>,
    /// The roots to trust. Without any: what the store remembers, or what a copy names itself.
    pub roots: Vec<RootKey>,
    /// A line that was noted down.
    pub noted: Option<NotedHead>,
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
        actor.note("audit verify");
        let watch = &mut Watching::new(observer, cancel);
        let is_own = self.parts.machine.is_some() && query.node.is_none();
        let files = if is_own { Some(self.verify_own(query, watch).await?) } else { None };
        let mut verified = VerifiedJournals::new(files);
        let copies = self.select(query.node.as_deref()).await?;
        let noted_in = self.noted_in(query.noted.as_ref(), is_own, &copies).await?;
        for (at, copy) in copies.iter().enumerate() {
            let noted = query.noted.as_ref().filter(|_| noted_in == Some(copy.copy));
            if noted.is_none() && self.is_empty(copy).await? {
                continue;
            }
            let mut checked = self.verify_copy(copy, &query.roots, noted, watch).await?;
            if let Some(next) = copies.get(at + 1).filter(|_| !copy.is_last) {
                self.check_continued(copy, next, &mut checked)?;
            }
            let is_here = self.parts.machine.is_some() && copy.node == self.parts.node();
            if copy.is_last && !is_here {
                let of = IndexedJournal::shipped(&self.parts, copy, trusted(&query.roots, Roots::default()));
                if let Some(verification) = &mut checked.verification {
                    self.verify_index(&of, copy.position.seq, verification, watch).await?;
                    checked.is_whole = verification.is_whole();
                }
            }
            verified.add(checked);
        }
        verified.find_doubles();
        if query.node.is_none() {
            verified.note_unknown_nodes(self.remove_unknown().await?);
        }
        if noted_in.is_some_and(|noted| copies.iter().all(|copy| copy.copy != noted)) {
            verified.noted_is_elsewhere();
        }
        if !copies.is_empty() && query.node.is_none() {
            verified.find_unknown(&query.roots);
        }
        if query.node.is_none() {
            let mut state = self.check_state().await?;
            state.extend(self.parts.store.find_hooks().await?.map(|hooks| hooks_found(&hooks)));
            verified.add_state(state);
        }
        let is_given = !query.roots.is_empty() || query.noted.is_some();
        if query.node.is_none() && (verified.is_whole || !is_given) {
            remember(&self.parts, &verified).await?;
        }
        Ok(verified)
    }

    /// Checks every line of this machine's journal, that it still contains the line that was noted down and the lines that the
    /// index knows, and that the index says what the journal says. An index that does not is rebuilt. Without given roots,
    /// those are trusted that the store remembered.
    async fn verify_own(
        &self,
        query: &VerifyQuery,
        watch: &mut Watching<'_>,
    ) -> Result<Verification, AuditError> {
        let parts = &*self.parts;
        let last = parts.store.audit_position(parts.node()).await?.seq;
        let first = parts.journal.first_line()?.unwrap_or(1);
        let all = (last > 0).then(|| (last + 1).saturating_sub(first));
        watch.begin("checking the lines", all)?;
        let is_here = |noted: &&NotedHead| noted.node.as_ref().is_none_or(|node| *node == parts.node());
        let mut known = known_from_index(parts).await?;
        known.extend(query.noted.as_ref().filter(is_here).map(NotedHead::known));
        let trusted = trusted(&query.roots, roots(parts).await?);
        let mut verification =
            parts.journal.verify_watched(&known, &trusted, &mut |lines| watch.seen(lines))?;
        if let Some(machine) = parts.machine.as_ref().filter(|_| verification.is_whole()) {
            // Lines that had been missing are there again.
            machine.accept_lost_line().await?;
        }
        let own = IndexedJournal::own(parts).await?;
        self.verify_index(&own, all.unwrap_or_default(), &mut verification, watch).await?;
        Ok(verification)
    }

    /// Checks that the index says what a journal says, if that is whole: an index is never made to say what a changed one says.
    async fn verify_index(
        &self,
        of: &IndexedJournal,
        all: u64,
        verification: &mut Verification,
        watch: &mut Watching<'_>,
    ) -> Result<(), AuditError> {
        if !verification.is_whole() {
            let note = "its index was not compared: it is left as it is until the journal is whole";
            verification.notes.push(note.to_owned());
            return Ok(());
        }
        if let Some(what) = self.check_index(of, Some(all).filter(|all| *all > 0), watch).await? {
            let file = if self.shares_index() { "the index in the database" } else { "audit-index.db" };
            verification.faults.push(JournalFault {
                file: file.to_owned(),
                line: 0,
                seq: None,
                what: format!("{what}; it was rebuilt from the journal"),
            });
        }
        Ok(())
    }

    /// The copy in which a line that was noted down has to be. `None` if that is this machine's journal.
    async fn noted_in(
        &self,
        noted: Option<&NotedHead>,
        is_own: bool,
        copies: &[ShippedJournal],
    ) -> Result<Option<i32>, AuditError> {
        match noted {
            Some(NotedHead { node: Some(node), seq, .. }) => {
                // What is not shipped yet can be in the files alone.
                let is_in_files = |through: u64| is_own && *node == self.parts.node() && through < *seq;
                match self.select(Some(node)).await {
                    Ok(of_node) => {
                        let last = of_node.last().filter(|last| !is_in_files(last.position.seq));
                        Ok(last.map(|last| last.copy))
                    }
                    Err(_) if is_in_files(0) => Ok(None),
                    Err(error) => Err(error),
                }
            }
            Some(_) if !is_own => {
                let last: Vec<ShippedJournal> = copies.iter().filter(|copy| copy.is_last).cloned().collect();
                let [only] = &last[..] else { return Err(which(&last)) };
                Ok(Some(only.copy))
            }
            _ => Ok(None),
        }
    }

    /// Whether nothing of a journal is shipped yet.
    async fn is_empty(&self, copy: &ShippedJournal) -> Result<bool, AuditError> {
        Ok(copy.position.seq == 0 && self.parts.store.copied_segments(copy.copy).await?.is_empty())
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
        let trusted = match copy.node == self.parts.node() {
            true => trusted(given, roots(&self.parts).await?),
            false => trusted(given, Roots::default()),
        };
        let AuditPosition { seq, chain, .. } = copy.position;
        let shipped = (seq > 0).then_some(KnownLine { seq, chain: Chain(chain), how: "was shipped" });
        let known: Vec<KnownLine> = shipped.into_iter().chain(noted.map(NotedHead::known)).collect();
        let mut verification = files.verify_watched(&known, &trusted, &mut |lines| watch.seen(lines))?;
        if verification.unsigned > 0 {
            verification.faults.push(wrong_copy(format!(
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
            verification.faults.push(wrong_copy(format!(
                "the node's journal is not the one that was shipped until {}: lines of it were changed or removed, or a disk lost \
                 them. This copy is kept, and another one follows; once this is explained, `contactd audit verify --accept-loss` on \
                 that node removes this one",
                copy.shipped_at
            )));
        }
        checked.is_whole = verification.is_whole();
        Ok(())
    }
}

/// The roots that were given or, if none were, the others.
fn trusted(given: &[RootKey], others: Roots) -> Roots {
    if given.is_empty() { others } else { Roots::given(given.to_vec()) }
}

/// Tells an observer which lines are checked, and whether to continue.
pub(super) struct Watching<'a> {
    observer: Observer<'a>,
    cancel: Cancel,
    step: &'static str,
    all: Option<u64>,
}

impl<'a> Watching<'a> {
    pub(super) fn new(observer: Observer<'a>, cancel: &Cancel) -> Self {
        Self { observer, cancel: cancel.clone(), step: "", all: None }
    }

    /// Begins with other lines: about `all`, if that is known.
    pub(super) fn begin(&mut self, step: &'static str, all: Option<u64>) -> Result<(), AuditError> {
        (self.step, self.all) = (step, all);
        match self.seen(0) {
            true => Ok(()),
            false => Err(JournalError::Cancelled.into()),
        }
    }

    /// So many lines of them are checked. Returns whether to continue.
    pub(super) fn seen(&mut self, lines: u64) -> bool {
        (self.observer)(Progress::Checking { step: self.step, lines, all: self.all });
        !self.cancel.is_cancelled()
    }
}
