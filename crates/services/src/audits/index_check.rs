//! Compares the index with the journals: this machine's own, and what the nodes of a cluster have shipped.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use contactd_core::store::{AuditUsage, IndexedLine, Machine, Store};
use contactd_core::{AuditOutcome, AuditPosition, AuditRecord, Timestamp, blocking};
use contactd_journal::{Entry, JournalError};

use super::Audits;
use super::copies::{IndexedJournal, of_others};
use super::indexing::{BATCH, reset_index};
use super::reading::{corrected, corrections};
use super::verify::Watching;
use crate::{AuditError, Parts};

/// How many times the comparison starts over because segments were removed meanwhile.
const TRIES: u32 = 5;
/// How long a node may take to ship what it has indexed: it signs every second.
const SHIPPED_TIMEOUT: Duration = Duration::from_secs(5);
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Requests of a token on a day, by outcome.
type Counts = HashMap<(String, i64), [u64; 3]>;

impl Audits {
    /// Compares every line that is indexed of a whole journal with the journal. If they differ, its index is rebuilt, and this
    /// returns what was wrong with it.
    pub(super) async fn check_index(
        &self,
        of: &IndexedJournal,
        all: Option<u64>,
        watch: &mut Watching<'_>,
    ) -> Result<Option<String>, AuditError> {
        let parts = &*self.parts;
        watch.begin("comparing the index with the journal", all)?;
        let (mut tries, mut before) = (0, None);
        let wrong = loop {
            tries += 1;
            match self.compare(of, watch).await {
                // A segment was removed after its retention period, before it could be read.
                Err(AuditError::Journal(JournalError::File { error, .. }))
                    if error.kind() == ErrorKind::NotFound && tries < TRIES => {}
                // Its node may have indexed, rebuilt or removed lines meanwhile: what is wrong is found twice.
                Ok(Some(wrong)) if before.is_none() => before = Some(wrong),
                compared => break compared?,
            }
        };
        if wrong.is_some() {
            reset_index(parts, &of.node, &of.journal).await?;
            of.index(parts).await?;
        }
        note_compared(parts, &of.node).await?;
        Ok(wrong)
    }

    /// The nodes of which lines are indexed although there is no journal of theirs. Their lines are removed from the index.
    pub(super) async fn remove_unknown(&self) -> Result<Vec<String>, AuditError> {
        let store = &self.parts.store;
        let until = Instant::now() + SHIPPED_TIMEOUT;
        loop {
            let copies = store.list_copies().await?;
            let mut unknown = store.indexed_nodes().await?;
            unknown.retain(|node| node != self.parts.node() && copies.iter().all(|copy| copy.node != *node));
            // A node that is new indexes its first lines before it ships them.
            if !unknown.is_empty() && self.shares_index() && Instant::now() < until {
                blocking(|| std::thread::sleep(LOOK_PAUSE));
                continue;
            }
            for node in &unknown {
                store.remove_node(node).await?;
            }
            return Ok(unknown);
        }
    }

    /// Whether other machines have lines in the index, too.
    pub(super) fn shares_index(&self) -> bool {
        self.parts.machine.as_ref().is_none_or(|machine| machine.files_of_node().is_some())
    }

    /// How far a journal is indexed, once its node has shipped that: what nobody has proven cannot be compared.
    async fn position_of(&self, of: &IndexedJournal) -> Result<Result<AuditPosition, String>, AuditError> {
        let store = &self.parts.store;
        let until = Instant::now() + SHIPPED_TIMEOUT;
        loop {
            // Whatever is not indexed yet is not wrong, and an index that is missing is made.
            of.index(&self.parts).await?;
            let position = store.audit_position(&of.node).await?;
            let Some(copy) = &of.copy else { return Ok(Ok(position)) };
            let copies = store.list_copies().await?;
            let shipped = copies.iter().find(|now| now.copy == copy.copy).map_or(0, |now| now.position.seq);
            if position.seq <= shipped {
                return Ok(Ok(position));
            }
            if Instant::now() > until {
                return Ok(Err(format!(
                    "it goes up to line {}, and the node has shipped its lines up to {shipped} only: it was killed before it \
                     shipped the others, or somebody added them",
                    position.seq
                )));
            }
            blocking(|| std::thread::sleep(LOOK_PAUSE));
        }
    }

    async fn compare(
        &self,
        of: &IndexedJournal,
        watch: &mut Watching<'_>,
    ) -> Result<Option<String>, AuditError> {
        let store = &self.parts.store;
        let position = match self.position_of(of).await? {
            Ok(position) => position,
            Err(wrong) => return Ok(Some(wrong)),
        };
        let through = position.seq;
        if let Some(wrong) = store.check_index().await?.into_iter().next() {
            return Ok(Some(wrong));
        }
        let corrections = corrections(&of.journal, &of.roots)?;
        let retired = corrections.retired_through;
        // A server may have been killed before it did this.
        store.forget_audit(&of.node, retired).await?;
        let foreign = store.count_after_position(&of.node).await?;
        if foreign > 0 {
            return Ok(Some(format!("it has {foreign} lines that are not in the journal")));
        }
        let mut lines = of.journal.lines_after(AuditPosition::default(), &of.roots);
        let (mut expected, mut counts, mut from, mut compared) = (Vec::new(), Counts::new(), 0, 0);
        let (mut first_day, mut last) = (None, None);
        loop {
            let line = lines.read()?.filter(|line| line.seq <= through);
            let is_end = line.is_none();
            let seq = line.as_ref().map_or(through, |line| line.seq);
            let is_next = last.map_or(!is_end || through == 0, |last| seq == last + u64::from(!is_end));
            if !is_next {
                // It was whole a moment ago.
                return Err(JournalError::Changed { file: "the journal".to_owned() }.into());
            }
            last = Some(seq);
            if line.as_ref().is_some_and(|line| seq == through && line.chain.0 != position.chain) {
                return Ok(Some(format!(
                    "what it says about the end, line {seq}, is not what the journal says"
                )));
            }
            if !is_end && seq <= retired {
                continue;
            }
            if expected.len() == BATCH || is_end {
                let last = if is_end { through } else { expected.last().map_or(0, IndexedLine::seq) };
                let indexed = store.indexed(&of.node, from, last).await?;
                if let Some(seq) = first_difference(&expected, &indexed) {
                    return Ok(Some(format!("what it says about line {seq} is not what the journal says")));
                }
                compared += expected.len() as u64;
                expected.clear();
                from = last + 1;
                if !watch.seen(compared) {
                    return Err(JournalError::Cancelled.into());
                }
            }
            match line.map(|line| line.entry) {
                None => break,
                Some(Entry::Request(record)) => {
                    let record = corrected(record, &corrections.undisclosed);
                    first_day.get_or_insert(record.at.day());
                    count(&mut counts, &record);
                    expected.push(IndexedLine::Request(AuditRecord { node: of.node.clone(), ..record }));
                }
                Some(Entry::Admin(mut record)) => {
                    record.node.clone_from(&of.node);
                    expected.push(IndexedLine::Admin(*record));
                }
                Some(Entry::Mark(_)) => {}
            }
        }
        let usage = store.audit_usage_of(&of.node).await?;
        if store.audit_position(&of.node).await?.seq != through {
            // The counts went on while the lines were compared.
            return Ok(None);
        }
        // Lines of the first day may have been removed after their retention period. Their counts stay.
        let is_certain = |day: i64| retired == 0 || first_day.is_some_and(|first| day > first);
        Ok(wrong_count(&counts, &usage, is_certain))
    }
}

fn count(counts: &mut Counts, record: &AuditRecord) {
    if let Some(outcome) = AuditOutcome::number(&record.outcome).filter(|_| !record.is_sandbox()) {
        counts.entry((record.token.clone(), record.at.day())).or_default()[outcome] += record.count;
    }
}

/// The number of the first line that differs.
fn first_difference(expected: &[IndexedLine], indexed: &[IndexedLine]) -> Option<u64> {
    let pairs = expected.iter().zip(indexed).find(|(expected, indexed)| expected != indexed);
    match pairs {
        Some((expected, indexed)) => Some(expected.seq().min(indexed.seq())),
        None => {
            let shorter = expected.len().min(indexed.len());
            expected.get(shorter).or(indexed.get(shorter)).map(IndexedLine::seq)
        }
    }
}

fn wrong_count(counts: &Counts, usage: &[AuditUsage], is_certain: impl Fn(i64) -> bool) -> Option<String> {
    let indexed: Counts = usage
        .iter()
        .map(|usage| ((usage.token.clone(), usage.day), [usage.hits, usage.misses, usage.refused]))
        .collect();
    let differs = |key: &(String, i64)| {
        let of = |counts: &Counts| counts.get(key).copied().unwrap_or_default();
        is_certain(key.1) && of(counts) != of(&indexed)
    };
    let wrong = counts.keys().chain(indexed.keys()).any(differs);
    // On the first day, there may be more than the journal still has, but not less.
    let is_short = |(key, counted): (&(String, i64), &[u64; 3])| {
        let kept = indexed.get(key).copied().unwrap_or_default();
        kept.iter().zip(counted).any(|(kept, counted)| kept < counted)
    };
    (wrong || counts.iter().any(is_short))
        .then(|| "its counts of requests are not those of the journal".to_owned())
}

/// A machine with a journal notes times of comparison in its own files, where nobody can change them who can only write to the
/// database of a cluster.
fn facts(parts: &Parts) -> &dyn Store {
    parts.machine.as_ref().map_or(&*parts.store, Machine::files)
}

fn time_of(node: &str) -> String {
    format!("audit_index_compared {node}")
}

/// Notes that the index of a node's journal was compared with it now.
async fn note_compared(parts: &Parts, node: &str) -> Result<(), AuditError> {
    let now = Timestamp::from_seconds(parts.clock.now().seconds());
    Ok(facts(parts).replace_fact(&time_of(node), &now.to_string(), None).await?)
}

/// Since when everything that is indexed was compared: the oldest time of all journals. `None` if one of them never was.
pub(crate) async fn compared_at(parts: &Parts) -> Result<Option<Timestamp>, AuditError> {
    let mut nodes: Vec<String> = parts.machine.iter().map(|machine| machine.node().to_owned()).collect();
    let others = of_others(parts).await?;
    nodes.extend(others.into_iter().filter(|copy| copy.position.seq > 0).map(|copy| copy.node));
    let mut oldest = None;
    for node in nodes {
        let noted = facts(parts).fact(&time_of(&node)).await?;
        let Some(at) = noted.as_deref().and_then(Timestamp::parse) else { return Ok(None) };
        oldest = Some(oldest.map_or(at, |oldest: Timestamp| oldest.min(at)));
    }
    Ok(oldest)
}
