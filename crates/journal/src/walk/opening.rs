//! The beginning of a segment: a file counts only if a checkpoint in it signs how it begins. Then, whether it continues what came
//! before it.

use std::io::{BufRead, ErrorKind, Read};

use contactd_core::Chain;

use super::{MAX_LINE, Walk};
use crate::faults::missing;
use crate::line::{Checkpoint, Entry, Line, Mark, is_linked};
use crate::seals::Trust;
use crate::segment::Segment;
use crate::source::Source;
use crate::{ChainKey, JournalError};

/// How many lines at the beginning of a segment may come before its first checkpoint.
const OPENING_LINES: usize = 8;

/// How a segment begins.
pub(crate) struct Opening {
    pub(crate) line: Line,
    /// The first checkpoint, which signs the beginning.
    pub(crate) signed: Checkpoint,
}

/// Why a file is not read.
pub(crate) enum NotOpened {
    /// It is not there any more. It was removed after its retention period since it was listed, or the directory was
    /// moved.
    Gone,
    /// It is not a segment of this journal, for this reason.
    Foreign(String),
}

/// How a segment begins, if a checkpoint in it signs that.
pub(crate) fn opening(
    source: &Source,
    trust: &Trust,
    segment: &Segment,
) -> Result<Result<Opening, NotOpened>, JournalError> {
    let foreign = |reason: &str| Ok(Err(NotOpened::Foreign(reason.to_owned())));
    let mut reader = match source.read_from(segment, 0) {
        Ok(reader) => reader,
        Err(JournalError::File { error, .. }) if error.kind() == ErrorKind::NotFound => {
            return match segment.path.is_symlink() {
                true => foreign("it is a link to a file that does not exist"),
                false => Ok(Err(NotOpened::Gone)),
            };
        }
        Err(JournalError::File { error, .. }) if segment.is_compressed => {
            return foreign(&format!("it cannot be decompressed: {error}"));
        }
        Err(error) => return Err(error),
    };
    let mut before: Option<Chain> = None;
    let mut lines: Vec<(Vec<u8>, Line, Chain)> = Vec::new();
    for _ in 0..OPENING_LINES {
        let mut bytes = Vec::new();
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
        if read.is_err() || bytes.pop() != Some(b'\n') {
            break;
        }
        let Some(line) = Line::parse(&bytes) else { break };
        let previous = match before {
            Some(before) => before,
            None => match line.opening().filter(|_| line.seq == segment.first) {
                Some((after, previous)) if after.checked_add(1) == Some(line.seq) => previous,
                _ => return foreign("it does not begin with the line in its name"),
            },
        };
        before = Some(line.chain);
        let signed = line.checkpoint().cloned();
        lines.push((bytes, line, previous));
        if let Some(signed) = signed {
            return Ok(judge(trust, &lines, signed).map_err(NotOpened::Foreign));
        }
    }
    foreign("nothing signs how it begins")
}

fn judge(trust: &Trust, lines: &[(Vec<u8>, Line, Chain)], signed: Checkpoint) -> Result<Opening, String> {
    let (Some((_, first, _)), Some((text, _, previous))) = (lines.first(), lines.last()) else {
        return Err("it is empty".to_owned());
    };
    if let Entry::Mark(Mark::Begun { root, .. }) = &first.entry
        && !trust.trusts(*root)
    {
        return Err(format!("it begins a journal with the root {root}, which is not trusted"));
    }
    let key = ChainKey::new(&signed.key);
    let follows = *previous == signed.previous;
    let is_linked = lines.iter().all(|(text, line, previous)| is_linked(&key, *previous, text, line.chain));
    if !follows || !is_linked || !trust.signs(text, &signed) {
        return Err("the signature of its beginning is wrong".to_owned());
    }
    Ok(Opening { line: first.clone(), signed })
}

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
