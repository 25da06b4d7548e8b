//! Lines of a journal without checkpoints.

use std::io::{BufRead, Read};

use contactd_core::Chain;

use crate::JournalError;

use super::{MAX_LINE, Proven, Walk, opening};
use crate::ChainKey;
use crate::faults::{CHANGED, expected, missing};
use crate::line::{Entry, Line, Mark, OldJournal, is_linked};
use crate::seals::Trust;
use crate::segment::Segment;
use crate::source::Source;

/// The lines of a journal without checkpoints: the key of its chain, and its last line.
pub(super) struct OldLines {
    key: ChainKey,
    pub(super) through: u64,
    /// Whether a later journal signs its end.
    is_sealed: bool,
}

impl Walk {
    pub(crate) fn is_old(&self, seq: u64) -> bool {
        self.old.as_ref().is_some_and(|old| seq <= old.through)
    }

    pub(crate) fn is_unsealed(&self) -> bool {
        self.old.as_ref().is_some_and(|old| !old.is_sealed)
    }

    pub(super) fn advance_old(&mut self, segment: Segment) -> Result<bool, JournalError> {
        if !self.is_closed && self.current.is_some() {
            self.is_closed = true;
            return Ok(true);
        }
        self.release_old(segment.first);
        self.begin(segment);
        Ok(true)
    }

    /// Lines before `next` belong to the journal. Later ones are what is left of a write that failed.
    pub(super) fn release_old(&mut self, next: u64) {
        let held = std::mem::take(&mut self.old_held);
        self.ready.extend(held.into_iter().filter(|held| held.line.seq < next));
    }

    pub(super) fn take_old(&mut self, segment: &Segment, text: Vec<u8>, line: Line) {
        let number = self.number;
        let (mut opened, mut suspect) = (None, None);
        if let Entry::Mark(Mark::Opened { previous, suspect_after, .. }) = &line.entry
            && number == 1
        {
            (opened, suspect) = (Some(*previous), *suspect_after);
        }
        if number == 1 && line.seq != segment.first {
            let what = format!("the file begins with line {}, not with the line in its name", line.seq);
            self.fault(segment, number, Some(line.seq), what);
        }
        let due = self.last.map_or(1, |(seq, _)| seq.saturating_add(1));
        let follows = self.last.filter(|_| line.seq == due).map(|(_, chain)| chain);
        match self.last {
            None => self.first = Some((line.seq.saturating_sub(1), opened.unwrap_or(Chain::START))),
            Some((last, _)) if line.seq > due => {
                if number == 1 && suspect.is_some_and(|synced| last >= synced) {
                    self.notes.push(format!(
                        "lines {due} to {} are missing: a disk failed, as line {} records",
                        line.seq - 1,
                        line.seq
                    ));
                } else {
                    self.fault(segment, number, Some(line.seq), missing(due, line.seq - 1));
                }
            }
            Some(_) if line.seq < due && number == 1 => {
                // What is left of a write that failed. The line before it must be the one that this one follows.
                let before = self.old_chains.get(&line.seq.saturating_sub(1)).copied();
                if before.is_some() && before == opened {
                    self.notes.push(format!(
                        "{} lines before line {} of {} were never acknowledged: writing them failed",
                        due - line.seq,
                        line.seq,
                        segment.name()
                    ));
                } else {
                    self.fault(segment, number, Some(line.seq), expected(line.seq, due));
                }
            }
            Some(_) if line.seq < due => {
                self.fault(segment, number, Some(line.seq), expected(line.seq, due));
            }
            Some(_) => {}
        }
        let before = follows.or(opened).or((line.seq == 1).then_some(Chain::START));
        let is_good = self
            .old
            .as_ref()
            .zip(before)
            .is_some_and(|(old, before)| is_linked(&old.key, before, &text, line.chain));
        if !is_good && before.is_some() {
            self.fault(segment, number, Some(line.seq), CHANGED.to_owned());
        }
        let is_new = self.last.is_none_or(|(last, _)| line.seq > last);
        if line.seq >= due || number == 1 {
            if number == 1 {
                self.old_chains.clear();
            }
            self.old_chains.insert(line.seq, line.chain);
            self.last = Some((line.seq, line.chain));
        }
        let is_signed = self.old.as_ref().is_some_and(|old| old.is_sealed);
        if is_new && is_good {
            let end = self.offset;
            let begins_segment = number == 1;
            let segment = segment.first;
            self.old_held.push(Proven { line, text, is_signed, segment, begins_segment, end });
        }
    }
}

/// Where old lines end, and their key: a later journal says so, or all lines are old.
pub(super) fn find_old(
    source: &Source,
    trust: &Trust,
    old_key: Option<ChainKey>,
) -> Result<Option<OldLines>, JournalError> {
    let segments = source.list()?;
    for segment in &segments {
        let Ok(opening) = opening(source, trust, segment)? else { continue };
        return Ok(match opening.line.entry {
            Entry::Mark(Mark::Begun { after, old: Some(OldJournal::Keyed(key)), .. }) => {
                Some(OldLines { key: ChainKey::new(&key), through: after, is_sealed: true })
            }
            _ => None,
        });
    }
    let is_old = match segments.first() {
        Some(first) => is_old_segment(source, first)?,
        None => false,
    };
    // A journal with a root was sealed before: what has no signature now is not it.
    match (is_old && trust.has_no_roots(), old_key) {
        (true, Some(key)) => Ok(Some(OldLines { key, through: u64::MAX, is_sealed: false })),
        (true, None) => Err(JournalError::Key(
            "the key of the journal is missing: restore keys/audit-001.key from a backup".to_owned(),
        )),
        (false, _) => Ok(None),
    }
}

/// Whether a segment begins as those of a journal without checkpoints do.
fn is_old_segment(source: &Source, segment: &Segment) -> Result<bool, JournalError> {
    let mut bytes = Vec::new();
    let _ = source.read_from(segment, 0)?.take(MAX_LINE).read_until(b'\n', &mut bytes);
    let line = bytes.strip_suffix(b"\n").and_then(Line::parse);
    Ok(line.is_some_and(|line| matches!(line.entry, Entry::Mark(Mark::Opened { after: None, .. }))))
}
