//! The index of the journals.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use contactd_core::store::{
    AuditFilter, AuditIndex, AuditUsage, IndexStep, IndexedLine, JournalCopies, StoreError,
};
use contactd_core::{AdminRecord, AuditPosition, AuditRecord, NOT_RECORDED};

use super::{Lines, Memory, Positions};

/// Lines and positions, and usage by node, day and token, which stays when lines are removed.
#[derive(Default)]
pub(super) struct Index {
    lines: Lines<AuditRecord>,
    admin: Lines<AdminRecord>,
    positions: Positions,
    usage: BTreeMap<(String, i64, String), [i64; 3]>,
}

fn column(outcome: &str) -> usize {
    match outcome {
        "hit" => 0,
        "miss" => 1,
        _ => 2,
    }
}

impl Index {
    fn count(&mut self, record: &AuditRecord, by: i64) {
        let key = (record.node.clone(), record.at.day(), record.token.clone());
        self.usage.entry(key).or_default()[column(&record.outcome)] += by;
    }
}

/// One process uses it, so it keeps no copies.
impl JournalCopies for Memory {}

impl AuditIndex for Memory {
    async fn audit_position(&self, node: &str) -> Result<AuditPosition, StoreError> {
        Ok(self.state()?.audit.positions.get(node).copied().unwrap_or_default())
    }

    async fn index_audit(&self, step: IndexStep<'_>) -> Result<bool, StoreError> {
        let index = &mut self.state()?.audit;
        if index.positions.get(step.node).copied().unwrap_or_default() != step.from {
            return Ok(false);
        }
        for record in step.records {
            index.count(record, i64::try_from(record.count).unwrap_or(0));
            index.lines.insert((record.node.clone(), record.seq), record.clone());
        }
        for record in step.admin {
            index.admin.insert((record.node.clone(), record.seq), record.clone());
        }
        for &(from, through) in step.undisclosed {
            let wrong: Vec<AuditRecord> = index
                .lines
                .values()
                .filter(|record| record.node == step.node && (from..=through).contains(&record.seq))
                .filter(|record| record.outcome != "refused")
                .cloned()
                .collect();
            for record in wrong {
                index.count(&record, -1);
                let (outcome, reason) = ("refused".to_owned(), Some(NOT_RECORDED.to_owned()));
                let corrected = AuditRecord { outcome, reason, ..record };
                index.count(&corrected, 1);
                index.lines.insert((corrected.node.clone(), corrected.seq), corrected);
            }
        }
        index.positions.insert(step.node.to_owned(), step.to);
        Ok(true)
    }

    async fn reset_audit_index(&self, node: &str, first_day: i64) -> Result<(), StoreError> {
        let index = &mut self.state()?.audit;
        index.lines.retain(|(of, _), _| of != node);
        index.admin.retain(|(of, _), _| of != node);
        index.usage.retain(|(of, day, _), _| of != node || *day < first_day);
        index.positions.remove(node);
        Ok(())
    }

    async fn forget_audit(&self, node: &str, through: u64) -> Result<(), StoreError> {
        let index = &mut self.state()?.audit;
        index.lines.retain(|(of, seq), _| of != node || *seq > through);
        index.admin.retain(|(of, seq), _| of != node || *seq > through);
        Ok(())
    }

    async fn visit_audit(
        &self,
        filter: &AuditFilter,
        mut visit: impl FnMut(IndexedLine) -> bool + Send,
    ) -> Result<(), StoreError> {
        let mut matching: Vec<IndexedLine> = {
            let index = &self.state()?.audit;
            let requests = index.lines.values().cloned().map(IndexedLine::Request);
            let actions = index.admin.values().cloned().map(IndexedLine::Admin);
            requests.chain(actions).filter(|line| filter.matches(line)).collect()
        };
        matching.sort_by_key(|line| Reverse((line.at(), line.seq())));
        matching.truncate(filter.newest.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX));
        let _ = matching.into_iter().all(&mut visit);
        Ok(())
    }

    async fn find_entries(&self, ids: &[String]) -> Result<Vec<String>, StoreError> {
        let state = self.state()?;
        let known = state.audit.admin.values().map(|record| record.entry.entry.clone());
        Ok(known.filter(|id| ids.contains(id)).collect())
    }

    async fn indexed(&self, node: &str, from: u64, through: u64) -> Result<Vec<IndexedLine>, StoreError> {
        let state = self.state()?;
        let is_meant = |(of, seq): &(String, u64)| of == node && (from..=through).contains(seq);
        let requests = state.audit.lines.iter().filter(|(key, _)| is_meant(key));
        let admin = state.audit.admin.iter().filter(|(key, _)| is_meant(key));
        let mut lines: Vec<IndexedLine> = requests
            .map(|(_, record)| IndexedLine::Request(record.clone()))
            .chain(admin.map(|(_, record)| IndexedLine::Admin(record.clone())))
            .collect();
        lines.sort_by_key(IndexedLine::seq);
        Ok(lines)
    }

    async fn count_foreign(&self, node: &str) -> Result<u64, StoreError> {
        let state = self.state()?;
        let last = state.audit.positions.get(node).map_or(0, |position| position.seq);
        let is_foreign = |(of, seq): &&(String, u64)| of != node || *seq > last;
        let (lines, admin) = (state.audit.lines.keys(), state.audit.admin.keys());
        let usage = state.audit.usage.keys().filter(|(of, ..)| of != node).count();
        let positions = state.audit.positions.keys().filter(|of| *of != node).count();
        Ok((lines.filter(is_foreign).count() + admin.filter(is_foreign).count() + usage + positions) as u64)
    }

    async fn remove_foreign(&self, node: &str) -> Result<(), StoreError> {
        let index = &mut self.state()?.audit;
        index.lines.retain(|(of, _), _| of == node);
        index.admin.retain(|(of, _), _| of == node);
        index.positions.retain(|of, _| of == node);
        index.usage.retain(|(of, ..), _| of == node);
        Ok(())
    }

    async fn check_index(&self) -> Result<Vec<String>, StoreError> {
        self.state().map(|_| Vec::new())
    }

    async fn audit_usage_of(&self, node: &str) -> Result<Vec<AuditUsage>, StoreError> {
        let state = self.state()?;
        let of_node = state.audit.usage.iter().filter(|((of, ..), _)| of == node);
        let usage = |((_, day, token), counts): (&(String, i64, String), &[i64; 3])| {
            let [hits, misses, refused] = counts.map(|count| u64::try_from(count).unwrap_or(0));
            AuditUsage { token: token.clone(), day: *day, hits, misses, refused }
        };
        Ok(of_node.map(usage).collect())
    }

    async fn audit_usage(&self, since: i64) -> Result<Vec<AuditUsage>, StoreError> {
        let state = self.state()?;
        let mut by_day: BTreeMap<(i64, &str), [i64; 3]> = BTreeMap::new();
        for ((_, day, token), counts) in state.audit.usage.iter().filter(|((_, day, _), _)| *day >= since) {
            for (sum, count) in by_day.entry((*day, token)).or_default().iter_mut().zip(counts) {
                *sum += count;
            }
        }
        let usage = |((day, token), counts): ((i64, &str), [i64; 3])| {
            let [hits, misses, refused] = counts.map(|count| u64::try_from(count).unwrap_or(0));
            AuditUsage { token: token.to_owned(), day, hits, misses, refused }
        };
        Ok(by_day.into_iter().map(usage).collect())
    }
}
