//! The index of the journals.

use std::collections::BTreeMap;

use contactd_core::store::{AuditFilter, AuditIndex, AuditUsage, IndexStep, StoreError};
use contactd_core::{AuditPosition, AuditRecord, NOT_RECORDED};

use super::{Lines, Memory, Positions};

/// Lines and positions, and usage by node, day and token, which stays when lines are removed.
#[derive(Default)]
pub(super) struct Index {
    lines: Lines,
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
            index.count(record, 1);
            index.lines.insert((record.node.clone(), record.seq), record.clone());
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
        index.usage.retain(|(of, day, _), _| of != node || *day < first_day);
        index.positions.remove(node);
        Ok(())
    }

    async fn forget_audit(&self, node: &str, through: u64) -> Result<(), StoreError> {
        self.state()?.audit.lines.retain(|(of, seq), _| of != node || *seq > through);
        Ok(())
    }

    async fn visit_audit(
        &self,
        filter: &AuditFilter,
        mut visit: impl FnMut(AuditRecord) -> bool + Send,
    ) -> Result<(), StoreError> {
        let matching: Vec<AuditRecord> =
            self.state()?.audit.lines.values().filter(|record| filter.matches(record)).cloned().collect();
        let _ = matching.into_iter().all(&mut visit);
        Ok(())
    }

    async fn audit_usage(&self) -> Result<Vec<AuditUsage>, StoreError> {
        let state = self.state()?;
        let mut by_day: BTreeMap<(i64, &str), [i64; 3]> = BTreeMap::new();
        for ((_, day, token), counts) in &state.audit.usage {
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
