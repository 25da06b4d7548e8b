//! The order of segments: whether each continues what came before it.

use super::Walk;
use super::opening::Opening;
use crate::faults::missing;
use crate::line::{Entry, Mark};
use crate::segment::Segment;

impl Walk {
    /// Whether a segment continues what was read.
    pub(super) fn check_order(&mut self, segment: &Segment, opening: &Opening) {
        let Some((after, previous)) = opening.line.opening() else { return };
        let (mut suspect, mut broken) = (None, None);
        if let Entry::Mark(Mark::Opened { suspect_after, broken: found, .. }) = &opening.line.entry {
            (suspect, broken) = (*suspect_after, found.clone());
        }
        let seq = Some(opening.line.seq);
        if let Some(found) = broken {
            let what = format!("when the server started, the journal was not as it had been left: {found}");
            self.fault(segment, 1, seq, what);
            self.next_number = None;
        }
        if let Entry::Mark(Mark::Begun { old_root: Some(root), .. }) = &opening.line.entry {
            self.notes.push(format!(
                "line {} begins a new journal, with a root of its own: after a restore, or because the keys were gone",
                opening.line.seq
            ));
            if self.epoch.is_none_or(|(before, _)| before != *root) {
                self.fault(segment, 1, seq, "it does not name the root of the journal before it".to_owned());
            }
        } else if matches!(opening.line.entry, Entry::Mark(Mark::Begun { .. })) && self.epoch.is_some() {
            self.fault(segment, 1, seq, "a second journal begins here".to_owned());
        }
        let Some((last, chain)) = self.last else {
            self.first = Some((after, previous));
            if after > 0 {
                self.epoch = self.trust.epoch_after(after);
            }
            return;
        };
        if after > last {
            // There may have been checkpoints among them.
            self.next_number = None;
            if suspect.is_some_and(|synced| last >= synced) {
                let what = format!(
                    "lines {} to {after} are missing: a disk failed, as line {} records",
                    last + 1,
                    opening.line.seq
                );
                self.notes.push(what);
            } else {
                self.fault(segment, 1, seq, missing(last + 1, after));
            }
        } else if after < last {
            // What is left of a write that failed. It was never acknowledged, and nothing signs it.
            let kept = self
                .pending
                .iter()
                .rposition(|pending| pending.line.seq == after && pending.line.chain == previous)
                .map(|at| at + 1);
            let none = self.pending.first().filter(|first| {
                Some(first.line.seq) == after.checked_add(1) && first.before == Some(previous)
            });
            let unproven = self.pending.len();
            match kept.or(none.map(|_| 0)) {
                Some(keep) => {
                    self.notes.push(format!(
                        "{} lines before line {} were never acknowledged: writing them failed",
                        unproven - keep,
                        opening.line.seq
                    ));
                    self.pending.truncate(keep);
                }
                None => {
                    let what = format!("it continues after line {after}, but line {last} was read before it");
                    self.fault(segment, 1, seq, what);
                }
            }
        } else if chain != previous {
            let what = format!("it continues after another line {after} than the one before it");
            self.fault(segment, 1, seq, what);
        }
    }
}
