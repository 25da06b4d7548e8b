//! Verifies that a journal is complete and unchanged, or finds where it is not.

use std::io::{self, BufRead};
use std::path::Path;

use contactd_core::{
    AuditPosition, Chain, JournalError, JournalFault, JournalHead, KnownLine, Timestamp, Verification,
};

use crate::Lines;
use crate::chain::ChainKey;
use crate::file::failed;
use crate::line::{Entry, Line, Mark, is_linked};
use crate::segment::{self, Segment};

/// How many times verification starts over because segments were removed meanwhile.
const TRIES: u32 = 5;

/// Checks that every line of a journal is unchanged and in its place, that none is missing, and that the journal
/// still contains each line of `known`. Set `is_served` if a server may be writing the last line at the moment.
pub fn verify(
    dir: &Path,
    key: &ChainKey,
    known: &[KnownLine],
    is_served: bool,
) -> Result<Verification, JournalError> {
    for _ in 0..TRIES {
        match verify_once(dir, key, known, is_served) {
            // A segment was removed after its retention period, before it could be read.
            Err(JournalError::File { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
            verified => return verified,
        }
    }
    verify_once(dir, key, known, is_served)
}

fn verify_once(
    dir: &Path,
    key: &ChainKey,
    known: &[KnownLine],
    is_served: bool,
) -> Result<Verification, JournalError> {
    let segments = segment::list_all(dir)?;
    let mut check = Check {
        key,
        known: known.to_vec(),
        result: Verification::default(),
        before: None,
        suspect: None,
        unexplained: None,
    };
    let count = segments.len();
    for (number, segment) in segments.iter().enumerate() {
        check.segment(segment, number + 1 == count, is_served)?;
    }
    check.finish();
    Ok(check.result)
}

struct Check<'a> {
    key: &'a ChainKey,
    /// Known lines that have not been found yet.
    known: Vec<KnownLine>,
    result: Verification,
    /// The number and chain value of the previous line.
    before: Option<(u64, Chain)>,
    /// Lines after this one may be missing because a disk failed.
    suspect: Option<u64>,
    /// The fault that the first lines are missing, unless a later line explains it.
    unexplained: Option<JournalFault>,
}

impl Check<'_> {
    fn segment(&mut self, segment: &Segment, is_last: bool, is_served: bool) -> Result<(), JournalError> {
        let mut reader = segment.read()?;
        let mut bytes = Vec::new();
        let mut number = 0;
        loop {
            bytes.clear();
            let read = reader.read_until(b'\n', &mut bytes);
            if let Err(error) = read {
                self.wrong(
                    segment,
                    number + 1,
                    None,
                    format!("the rest of the file cannot be read: {error}"),
                );
                return Ok(());
            }
            if bytes.is_empty() {
                if number == 0 {
                    self.wrong(segment, 0, None, "the file contains no lines".to_owned());
                }
                return Ok(());
            }
            number += 1;
            let Some(text) = bytes.strip_suffix(b"\n") else {
                // A segment gets its name only when its first line is complete.
                if !(is_last && is_served && number > 1) {
                    self.wrong(segment, number, None, "the line is cut off".to_owned());
                }
                return Ok(());
            };
            match Line::parse(text) {
                Some(line) => self.line(segment, number, text, &line),
                None => self.wrong(segment, number, None, "this is not a valid journal line".to_owned()),
            }
        }
    }

    fn line(&mut self, segment: &Segment, number: u64, text: &[u8], line: &Line) {
        let opened = match &line.entry {
            Entry::Mark(Mark::Opened { previous, suspect_after }) if number == 1 => {
                self.suspect = *suspect_after;
                Some(*previous)
            }
            Entry::Mark(Mark::Retired { through }) => {
                if self.result.first.is_some_and(|first| first <= through.saturating_add(1)) {
                    self.unexplained = None;
                }
                None
            }
            Entry::Mark(Mark::Recovered { torn_bytes }) => {
                self.result.notes.push(format!(
                    "before line {}: {torn_bytes} bytes of an unfinished line were cut off after a crash",
                    line.seq
                ));
                None
            }
            _ => None,
        };
        if number == 1 && line.seq != segment.first {
            let what = format!("the file begins with line {}, not with the line in its name", line.seq);
            self.wrong(segment, number, Some(line.seq), what);
        }
        let is_first = self.result.first.is_none();
        if is_first {
            self.result.first = Some(line.seq);
            if line.seq > 1 {
                self.unexplained = Some(JournalFault {
                    file: segment.name(),
                    line: number,
                    seq: Some(line.seq),
                    what: format!("lines 1 to {} are missing before this one", line.seq - 1),
                });
            }
        }
        if !is_first || line.seq <= 1 {
            self.order(segment, number, line);
        }
        // After a gap, use the previous chain value that the line itself states.
        let follows =
            self.before.filter(|(seq, _)| seq.checked_add(1) == Some(line.seq)).map(|(_, chain)| chain);
        let before = match (follows, opened) {
            (Some(chain), _) => Some(chain),
            (None, Some(previous)) => Some(previous),
            (None, None) if line.seq == 1 => Some(Chain::START),
            (None, None) => None,
        };
        if before.is_some_and(|before| !is_linked(self.key, before, text, line.chain)) {
            self.wrong(
                segment,
                number,
                Some(line.seq),
                "this line, or the chain value of the line before it, was changed".to_owned(),
            );
        }
        for known in self.known.extract_if(.., |known| known.seq == line.seq).collect::<Vec<_>>() {
            if known.chain != line.chain {
                let what = format!("line {} is not the one that {}", known.seq, known.how);
                self.wrong(segment, number, Some(known.seq), what);
            }
        }
        self.result.lines += 1;
        self.before = Some((line.seq, line.chain));
        if self.result.head.is_none_or(|head| head.seq <= line.seq) {
            self.result.head = Some(JournalHead { seq: line.seq, chain: line.chain, at: line.at });
        }
    }

    /// Checks that the line has the expected number.
    fn order(&mut self, segment: &Segment, number: u64, line: &Line) {
        let due = self.before.map_or(1, |(seq, _)| seq.saturating_add(1));
        if line.seq == due {
            return;
        }
        if line.seq > due {
            let (first, last) = (due, line.seq - 1);
            if number == 1 && self.suspect.is_some_and(|synced| first > synced) {
                self.result.notes.push(format!(
                    "lines {first} to {last} are missing: a disk failed, as line {} records",
                    line.seq
                ));
                return;
            }
            let what = match last - first {
                0 => format!("line {first} is missing before this one"),
                _ => format!("lines {first} to {last} are missing before this one"),
            };
            self.wrong(segment, number, Some(line.seq), what);
        } else if number == 1 {
            let unused = due - line.seq;
            self.result.notes.push(format!(
                "{unused} lines before line {} of {} were never acknowledged: writing them failed",
                line.seq,
                segment.name()
            ));
        } else {
            self.wrong(
                segment,
                number,
                Some(line.seq),
                format!("this is line {}, but line {due} was expected here", line.seq),
            );
        }
    }

    fn finish(&mut self) {
        if let Some(finding) = self.unexplained.take() {
            self.result.faults.insert(0, finding);
        } else if let Some(first) = self.result.first.filter(|first| *first > 1) {
            self.result
                .notes
                .push(format!("lines 1 to {} were removed after their retention period", first - 1));
        }
        let last = self.result.head.map_or(0, |head| head.seq);
        let first = self.result.first.unwrap_or(1);
        for KnownLine { seq, how, .. } in std::mem::take(&mut self.known) {
            let what = if seq > last {
                format!(
                    "the journal ends with line {last}; lines {} to {seq} were removed: line {seq} {how}",
                    last + 1
                )
            } else if seq >= first {
                format!("line {seq}, which {how}, is missing")
            } else {
                continue;
            };
            self.result.faults.push(JournalFault {
                file: "the journal".to_owned(),
                line: 0,
                seq: Some(seq),
                what,
            });
        }
    }

    fn wrong(&mut self, segment: &Segment, line: u64, seq: Option<u64>, what: String) {
        self.result.faults.push(JournalFault { file: segment.name(), line, seq, what });
    }
}

/// The time of the first line that still exists.
pub fn begins(dir: &Path) -> Result<Option<Timestamp>, JournalError> {
    let line = Lines::after(dir, AuditPosition::default()).read()?;
    Ok(line.map(|line| line.at))
}

/// The last line of a journal; none if it is empty.
pub fn head(dir: &Path) -> Result<Option<JournalHead>, JournalError> {
    for segment in segment::list(dir)?.iter().rev() {
        if let Some(line) = last_line(segment)? {
            return Ok(Some(JournalHead { seq: line.seq, chain: line.chain, at: line.at }));
        }
    }
    Ok(None)
}

/// The last complete line of a segment; none if it cannot be parsed.
pub(crate) fn last_line(segment: &Segment) -> Result<Option<Line>, JournalError> {
    let mut reader = segment.read()?;
    let (mut bytes, mut last) = (Vec::new(), Vec::new());
    loop {
        bytes.clear();
        reader.read_until(b'\n', &mut bytes).map_err(failed("cannot read", &segment.path))?;
        if !bytes.ends_with(b"\n") {
            return Ok(Line::parse(last.trim_ascii_end()));
        }
        std::mem::swap(&mut bytes, &mut last);
    }
}
