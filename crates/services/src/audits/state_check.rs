//! Compares what the store holds with what the journals say was done: opt-outs, and the seals of changes.

use std::collections::{BTreeMap, HashSet};
use std::thread;
use std::time::Duration;

use contactd_core::{AdminEntry, AdminOutcome, AuditPosition, Timestamp, blocking};
use contactd_journal::Entry;

use super::Audits;
use super::copies::{self, IndexedJournal};
use crate::{AuditError, Parts};

/// How long a line may take until it is in the copy of its journal.
const SHIPPING_TIMEOUT: Duration = Duration::from_secs(3);

/// What the newest lines say.
#[derive(Default)]
struct Said {
    /// The newest seal of each counter, and when it was made.
    seals: BTreeMap<String, (Timestamp, String)>,
    /// Whether a subject is opted out, and since when.
    opt_outs: BTreeMap<String, (Timestamp, bool)>,
}

impl Audits {
    /// What is wrong with tokens, opt-outs and accounts: rows that somebody changed, an older state, and opt-outs that are not what
    /// proven lines say.
    pub(super) async fn check_state(&self) -> Result<Vec<String>, AuditError> {
        let faults = self.find_state_faults().await?;
        if faults.is_empty() {
            return Ok(faults);
        }
        // A change may not be in the copy of a journal yet.
        blocking(|| thread::sleep(SHIPPING_TIMEOUT));
        self.find_state_faults().await
    }

    async fn find_state_faults(&self) -> Result<Vec<String>, AuditError> {
        let parts = &*self.parts;
        let mut said = Said::default();
        for IndexedJournal { journal, roots, .. } in copies::all(parts).await? {
            blocking(|| {
                let mut lines = journal.lines_after(AuditPosition::default(), &roots);
                // What cannot be read is a fault of the journal, which is reported as such.
                while let Ok(Some(line)) = lines.read() {
                    if let Entry::Admin(record) = line.entry {
                        said.note(&record.entry);
                    }
                }
            });
        }
        parts.store.list_entries().await?.iter().for_each(|entry| said.note(entry));
        let noted: Vec<String> = said.seals.values().map(|(_, seal)| seal.clone()).collect();
        let mut faults = parts.store.check_state(&noted).await?;
        faults.extend(said.wrong_opt_outs(parts).await?);
        Ok(faults)
    }
}

impl Said {
    fn note(&mut self, entry: &AdminEntry) {
        let counter = entry.state.as_ref().and_then(|state| Some((state.split_once(':')?.0, state)));
        if let Some((counter, state)) = counter
            && self.seals.get(counter).is_none_or(|(at, _)| *at <= entry.time)
        {
            self.seals.insert(counter.to_owned(), (entry.time, state.clone()));
        }
        let is_out = match (&*entry.operation, entry.outcome) {
            ("suppress" | "erase", AdminOutcome::Done) => true,
            ("unsuppress", AdminOutcome::Done) => false,
            _ => return,
        };
        for subject in &entry.subjects {
            if self.opt_outs.get(subject).is_none_or(|(at, _)| *at <= entry.time) {
                self.opt_outs.insert(subject.clone(), (entry.time, is_out));
            }
        }
    }

    /// Subjects that are opted out by their last line and not in the store, or the other way round. Only those under the newest key: a
    /// later line may name the others by another digest.
    async fn wrong_opt_outs(&self, parts: &Parts) -> Result<Vec<String>, AuditError> {
        let held: HashSet<String> =
            parts.store.list_suppressions().await?.iter().map(contactd_core::SubjectDigest::name).collect();
        let newest = parts.keys.newest_id().get(..8).unwrap_or_default();
        let of_newest = self.opt_outs.iter().filter(|(subject, _)| subject.starts_with(newest));
        let wrong = of_newest.filter(|(subject, (_, is_out))| held.contains(*subject) != *is_out);
        let fault = |(subject, (at, is_out)): (&String, &(Timestamp, bool))| match is_out {
            true => format!("the opt-out {subject} is on record since {at} and not in the store"),
            false => format!("the opt-out {subject} was taken back on record at {at} and is in the store"),
        };
        Ok(wrong.map(fault).collect())
    }
}
