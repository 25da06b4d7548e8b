//! Following the journals: what is in them, oldest first, and then every line once it is signed.
//!
//! A follower reads this machine's own journal from its files, and those of other nodes as they are shipped. It remembers the last
//! line of each journal that it has passed, so no line is shown twice or left out, whatever happens to files, servers and the
//! database meanwhile. [`FollowPlace`] is that memory as text, with which another follower can go on.

mod followed;
mod place;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use contactd_core::store::{AuditFilter, IndexedLine};
use contactd_core::{Actor, AdminEntry, NOT_RECORDED, Timestamp, blocking, wait_for};
use contactd_journal::{Entry, Line, Mark};

use super::copies::{name_of, of_others};
use super::questions::{AuditQuery, filter_of};
use super::token_names;
use crate::views::{CorrectionView, EventView, FollowedView};
use crate::{AuditError, Audits, Parts};
use followed::{Begin, Followed};
pub use place::FollowPlace;
use place::Passed;

/// Something that whoever follows should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowNote {
    /// Lines were removed before they were shown.
    Removed {
        /// The node.
        node: String,
        /// The first of them.
        from: u64,
        /// The last of them.
        through: u64,
    },
    /// The journal does not continue what was shown.
    Changed {
        /// The node.
        node: String,
        /// The last line that was shown.
        seq: u64,
        /// The line from which it is shown now.
        first: u64,
    },
    /// Lines are not proven, and not shown.
    LeftOut {
        /// The node.
        node: String,
    },
}

impl fmt::Display for FollowNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed { node, from, through } => write!(
                f,
                "lines {from} to {through} of node {node} were removed after their retention period before they could be shown"
            ),
            Self::Changed { node, seq, first } => write!(
                f,
                "the journal of node {node} does not continue what was shown up to line {seq}; it is shown from line {first} on. Run \
                 `contactd audit verify` to see why"
            ),
            Self::LeftOut { node } => write!(
                f,
                "lines are missing from the journal of node {node} or were changed; run `contactd audit verify` to see which"
            ),
        }
    }
}

/// Reads journals as they grow.
pub struct Follower {
    parts: Arc<Parts>,
    query: AuditQuery,
    filter: AuditFilter,
    /// Only lines of this time or later.
    since: Option<Timestamp>,
    /// The names of tokens by id.
    names: HashMap<String, String>,
    /// Tokens that have no name.
    unnamed: HashSet<String>,
    /// By node.
    journals: BTreeMap<String, Followed>,
    /// Where journals begin that are not known yet.
    begin: Begin,
    place: FollowPlace,
    notes: Vec<FollowNote>,
}

impl Audits {
    /// Follows the journals: after a place; or from `query.since` on; or what is signed from now on.
    pub async fn follow(
        &self,
        actor: &Actor,
        query: AuditQuery,
        after: Option<FollowPlace>,
    ) -> Result<Follower, AuditError> {
        actor.note("audit show");
        // Changes whose entries are not in the journal yet belong there too. If that fails, they come later.
        let _ = self.parts.on_record.collect(&[]).await;
        let names = token_names(&*self.parts.store).await?;
        let filter = filter_of(&self.parts, &query, &names).await?;
        let begin = match (&after, filter.since) {
            (Some(_), _) => Begin::First,
            (None, Some(since)) => Begin::Since(since),
            (None, None) => Begin::Now,
        };
        let mut follower = Follower {
            parts: Arc::clone(&self.parts),
            since: filter.since,
            query,
            filter,
            names,
            unnamed: HashSet::new(),
            journals: BTreeMap::new(),
            begin,
            place: after.unwrap_or_default(),
            notes: Vec::new(),
        };
        follower.list().await?;
        // A node that joins later is shown from its first line on.
        follower.begin = match begin {
            Begin::Now => Begin::First,
            begin => begin,
        };
        Ok(follower)
    }
}

impl Follower {
    /// Visits what is signed by now and was not visited yet: in each journal in order, and of several journals the oldest first.
    /// `visit` returns whether to continue. If a journal cannot be read, the others are visited before this fails. It can be called
    /// again then, and goes on.
    pub async fn next(
        &mut self,
        mut visit: impl FnMut(&FollowedView) -> bool + Send,
    ) -> Result<(), AuditError> {
        let listed = self.list().await;
        blocking(|| self.visit_signed(&mut visit)).and(listed)
    }

    /// What there is to say since the last call.
    pub fn notes(&mut self) -> Vec<FollowNote> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.dedup();
        notes
    }

    /// Finds out which journals there are, and how far they go.
    async fn list(&mut self) -> Result<(), AuditError> {
        let parts = &self.parts;
        let place = &self.place;
        if parts.machine.is_some() {
            let roots = super::roots(parts).await?;
            match self.journals.get_mut(parts.node()) {
                Some(own) => own.go_on_with(roots),
                None => {
                    let node = parts.node().to_owned();
                    let own = Followed::own(parts, roots, self.begin, place.passed(&node))?;
                    self.journals.insert(node, own);
                }
            }
        }
        for copy in of_others(parts).await? {
            match self.journals.get_mut(&copy.node) {
                Some(known) => known.go_on_to(&copy),
                None => {
                    let shipped = Followed::shipped(&copy, self.begin, place.passed(&copy.node));
                    self.journals.insert(name_of(&copy).node, shipped);
                }
            }
        }
        for (node, journal) in &self.journals {
            self.place.begin(node, journal.passed());
        }
        Ok(())
    }

    fn visit_signed(
        &mut self,
        visit: &mut (dyn FnMut(&FollowedView) -> bool + Send),
    ) -> Result<(), AuditError> {
        let mut unread = Ok(());
        loop {
            for (node, journal) in &mut self.journals {
                if let Err(error) = journal.peek(&self.parts, node, &mut self.notes) {
                    unread = unread.and(Err(error));
                }
            }
            let times = self.journals.iter().filter_map(|(node, journal)| Some((journal.next_at()?, node)));
            let Some((_, node)) = times.min() else { return unread };
            let node = node.clone();
            let journal = self.journals.get_mut(&node);
            let Some(line) = journal.and_then(Followed::take) else { return Ok(()) };
            self.place.pass(&node, Passed::of(&line));
            if let Some(view) = self.shown(&node, line)?
                && !visit(&view)
            {
                return Ok(());
            }
        }
    }

    /// A line as it is shown, if it is.
    fn shown(&mut self, node: &str, line: Line) -> Result<Option<FollowedView>, AuditError> {
        let Line { seq, at, entry, .. } = line;
        let line = match entry {
            Entry::Request(record) => {
                if !self.names.contains_key(&record.token) && self.unnamed.insert(record.token.clone()) {
                    self.ask_again()?;
                }
                IndexedLine::Request(record)
            }
            Entry::Admin(record) => {
                // A list that was made meanwhile may have the person who is asked about.
                if self.is_renewed_by(&record.entry) {
                    self.ask_again()?;
                }
                IndexedLine::Admin(*record)
            }
            Entry::Mark(Mark::Undisclosed { from, through }) => {
                let is_wanted = self.filter.requests.is_some() && self.since.is_none_or(|since| at >= since);
                let correction = CorrectionView {
                    seq,
                    time: at,
                    from,
                    through,
                    outcome: "refused",
                    reason: NOT_RECORDED,
                    node: node.to_owned(),
                };
                return Ok(is_wanted.then(|| FollowedView::correction(correction, self.place.to_string())));
            }
            Entry::Mark(_) => return Ok(None),
        };
        let is_shown = self.filter.matches(&line);
        Ok(is_shown.then(|| FollowedView::event(EventView::of(line, &self.names), self.place.to_string())))
    }

    /// Whether an action changes what the filter means.
    fn is_renewed_by(&self, entry: &AdminEntry) -> bool {
        (self.query.profile.is_some() && entry.list().is_some()) || entry.operation.starts_with("token ")
    }

    /// Finds out again what tokens are called, and what the filter means.
    fn ask_again(&mut self) -> Result<(), AuditError> {
        let names = wait_for(token_names(&*self.parts.store))?;
        let filter = wait_for(filter_of(&self.parts, &self.query, &names))?;
        (self.names, self.filter) = (names, AuditFilter { since: self.since, ..filter });
        Ok(())
    }
}
