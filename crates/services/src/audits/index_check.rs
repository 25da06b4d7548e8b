//! Compares the index with the journal.

use std::collections::HashMap;
use std::io::ErrorKind;

use contactd_core::store::{AuditUsage, IndexedLine};
use contactd_core::{AuditOutcome, AuditPosition, AuditRecord, Timestamp};
use contactd_journal::{Entry, JournalError};

use super::indexing::{BATCH, catch_up, reset};
use super::reading::{corrected, corrections};
use super::verify::Watching;
use super::{Audits, roots};
use crate::AuditError;

/// How many times the comparison starts over because segments were removed meanwhile.
const TRIES: u32 = 5;

/// The highest number that a line can have in an engine.
const LAST_NUMBER: u64 = u64::MAX >> 1;

/// Requests of a token on a day, by outcome.
type Counts = HashMap<(String, i64), [u64; 3]>;

impl Audits {
    /// Compares every line of the index with the journal. If they differ, the index is rebuilt, and this returns what
    /// was wrong with it.
    pub(super) async fn check_index(
        &self,
        all: Option<u64>,
        watch: &mut Watching<'_>,
    ) -> Result<Option<String>, AuditError> {
        let parts = &*self.parts;
        watch.begin("comparing the index with the journal", all)?;
        let mut wrong = self.compare(watch).await;
        for _ in 0..TRIES {
            match &wrong {
                // A segment was removed after its retention period, before it could be read.
                Err(AuditError::Journal(JournalError::File { error, .. }))
                    if error.kind() == ErrorKind::NotFound =>
                {
                    wrong = self.compare(watch).await;
                }
                _ => break,
            }
        }
        let wrong = wrong?;
        if wrong.is_some() {
            if !self.shares_index() {
                parts.store.remove_foreign(parts.node()).await?;
            }
            reset(parts).await?;
            catch_up(parts).await?;
        }
        let now = Timestamp::from_seconds(parts.clock.now().seconds());
        if let Some(machine) = &parts.machine {
            machine.note_compared(now).await?;
        }
        Ok(wrong)
    }

    /// Whether the index has the lines of other nodes, too. Then only those after the position of this one are foreign.
    fn shares_index(&self) -> bool {
        self.parts.machine.as_ref().is_some_and(|machine| machine.files_of_node().is_some())
    }

    async fn compare(&self, watch: &mut Watching<'_>) -> Result<Option<String>, AuditError> {
        let parts = &*self.parts;
        // Whatever is not indexed yet is not wrong, and an index that is missing is made.
        catch_up(parts).await?;
        let through = parts.store.audit_position(parts.node()).await?.seq;
        if let Some(wrong) = parts.store.check_index().await?.into_iter().next() {
            return Ok(Some(wrong));
        }
        let roots = roots(parts).await?;
        let corrections = corrections(&parts.journal, &roots)?;
        let retired = corrections.retired_through;
        // A server may have been killed before it did this.
        parts.store.forget_audit(parts.node(), retired).await?;
        let foreign = match self.shares_index() {
            true => parts.store.indexed(parts.node(), through + 1, LAST_NUMBER).await?.len() as u64,
            false => parts.store.count_foreign(parts.node()).await?,
        };
        if foreign > 0 {
            return Ok(Some(format!("it has {foreign} lines that are not in the journal")));
        }
        let mut lines = parts.journal.lines_after(AuditPosition::default(), &roots);
        let (mut expected, mut counts, mut from, mut compared) = (Vec::new(), Counts::new(), 0, 0);
        let mut first_day = None;
        loop {
            let line = lines.read()?;
            let seq = lines.position().seq;
            let is_end = line.is_none() || seq > through;
            if !is_end && seq <= retired {
                continue;
            }
            if expected.len() == BATCH || is_end {
                let last = if is_end { through } else { expected.last().map_or(0, IndexedLine::seq) };
                let indexed = parts.store.indexed(parts.node(), from, last).await?;
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
                _ if is_end => break,
                Some(Entry::Request(record)) => {
                    let record = corrected(record, &corrections.undisclosed);
                    first_day.get_or_insert(record.at.day());
                    count(&mut counts, &record);
                    expected
                        .push(IndexedLine::Request(AuditRecord { node: parts.node().to_owned(), ..record }));
                }
                Some(Entry::Admin(mut record)) => {
                    parts.node().clone_into(&mut record.node);
                    expected.push(IndexedLine::Admin(*record));
                }
                _ => {}
            }
        }
        let usage = parts.store.audit_usage_of(parts.node()).await?;
        if parts.store.audit_position(parts.node()).await?.seq != through {
            // The counts went on while the lines were compared.
            return Ok(None);
        }
        // Lines of the first day may have been removed after their retention period. Their counts stay.
        let is_certain = |day: i64| retired == 0 || first_day.is_some_and(|first| day > first);
        Ok(wrong_count(&counts, &usage, is_certain))
    }
}

fn count(counts: &mut Counts, record: &AuditRecord) {
    if let Some(outcome) = AuditOutcome::number(&record.outcome) {
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
