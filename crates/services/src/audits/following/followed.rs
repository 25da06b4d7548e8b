//! One journal that is followed.

use std::io::ErrorKind;

use contactd_core::store::ShippedJournal;
use contactd_core::{AuditPosition, Timestamp};
use contactd_journal::{JournalError, JournalReader, Line, Lines, Resumed, Roots};

use super::{FollowNote, Passed};
use crate::audits::copies::copy_of;
use crate::{AuditError, Parts};

/// Where a journal begins of which nothing was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// With its first line.
    First,
    /// With the lines of this time.
    Since(Timestamp),
    /// With the next line that is signed.
    Now,
}

/// A journal that is followed: this machine's own, or what a node ships.
pub(super) struct Followed {
    begin: Begin,
    /// The last line that was taken.
    passed: Option<Passed>,
    /// Where that line ends, if this is known.
    position: Option<AuditPosition>,
    lines: Option<Lines>,
    /// The next line, and whether there is none now.
    next: Option<Line>,
    is_at_end: bool,
    /// How many faults `lines` had found, and after which line it was opened again for one.
    faults: usize,
    opened_again_at: Option<u64>,
    from: From,
}

/// Where it is read.
enum From {
    /// In the files on this machine.
    Files(Roots),
    /// In the copy with this id.
    Copy(i32),
}

impl Followed {
    /// This machine's own journal.
    pub(super) fn own(
        parts: &Parts,
        roots: Roots,
        begin: Begin,
        passed: Option<Passed>,
    ) -> Result<Self, AuditError> {
        let mut own = Self::new(From::Files(roots), begin, passed);
        if let (Begin::Now, None, From::Files(roots)) = (begin, passed, &own.from) {
            let lines = parts.journal.signed_from_now(roots)?;
            own.passed = Passed::at(lines.position());
            own.lines = Some(lines);
            own.begin = Begin::First;
        }
        Ok(own)
    }

    /// What another node ships.
    pub(super) fn shipped(copy: &ShippedJournal, begin: Begin, passed: Option<Passed>) -> Self {
        let mut shipped = Self::new(From::Copy(copy.copy), begin, passed);
        if (begin, passed) == (Begin::Now, None) {
            (shipped.passed, shipped.begin) = (Passed::at(copy.position), Begin::First);
            shipped.position = Some(copy.position).filter(|position| position.seq > 0);
        }
        shipped.go_on_to(copy);
        shipped
    }

    fn new(from: From, begin: Begin, passed: Option<Passed>) -> Self {
        Self {
            begin,
            passed,
            position: None,
            lines: None,
            next: None,
            is_at_end: false,
            faults: 0,
            opened_again_at: None,
            from,
        }
    }

    /// Reads the files again, with these roots.
    pub(super) fn go_on_with(&mut self, roots: Roots) {
        self.is_at_end = false;
        let is_known = matches!(&self.from, From::Files(known) if known.keys == roots.keys);
        if !is_known {
            self.close();
            self.from = From::Files(roots);
        }
    }

    /// Reads the copy again, which goes as far as this now.
    pub(super) fn go_on_to(&mut self, copy: &ShippedJournal) {
        if !matches!(self.from, From::Copy(id) if id == copy.copy) {
            self.close();
            self.position = None;
            self.from = From::Copy(copy.copy);
        }
        // A database that was set back has fewer lines for a while.
        self.is_at_end = self.passed.is_some_and(|passed| passed.seq >= copy.position.seq);
    }

    /// The last line that was taken.
    pub(super) const fn passed(&self) -> Option<Passed> {
        self.passed
    }

    /// The time of the next line, if there is one.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.next.as_ref().map(|line| line.at)
    }

    /// Takes the next line.
    pub(super) fn take(&mut self) -> Option<Line> {
        let line = self.next.take()?;
        self.passed = Some(Passed::of(&line));
        Some(line)
    }

    /// Reads the next line, unless it was read already. If this fails, there is none until it goes on.
    pub(super) fn peek(
        &mut self,
        parts: &Parts,
        node: &str,
        notes: &mut Vec<FollowNote>,
    ) -> Result<(), AuditError> {
        let read = self.read(parts, node, notes);
        self.is_at_end |= read.is_err();
        read
    }

    fn read(&mut self, parts: &Parts, node: &str, notes: &mut Vec<FollowNote>) -> Result<(), AuditError> {
        while self.next.is_none() && !self.is_at_end {
            let lines = match &mut self.lines {
                Some(lines) => lines,
                None => {
                    let opened = self.open(parts, node, notes)?;
                    self.faults = opened.faults();
                    self.lines.insert(opened)
                }
            };
            let before = lines.position();
            let read = lines.read();
            let passed = self.passed.map(|passed| passed.seq);
            if lines.faults() > self.faults {
                self.faults = lines.faults();
                if self.opened_again_at != Some(passed.unwrap_or(0)) {
                    // What was not signed yet may have been written again: by a server that was killed, or on a full disk.
                    self.opened_again_at = Some(passed.unwrap_or(0));
                    (self.lines, self.position) = (None, None);
                    continue;
                }
                notes.push(FollowNote::LeftOut { node: node.to_owned() });
            }
            match read {
                Ok(line) => (self.is_at_end, self.next) = (line.is_none(), line),
                Err(JournalError::Changed { .. }) if self.position.take().is_some() => self.lines = None,
                Err(error) => {
                    self.lines = None;
                    // Files that are gone were removed, or moved away: that is found out by the number of the line.
                    let is_gone = matches!(&error, JournalError::File { error, .. } if error.kind() == ErrorKind::NotFound);
                    self.position = Some(before).filter(|before| !is_gone && Some(before.seq) == passed);
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Forgets what is open, and remembers where it was.
    fn close(&mut self) {
        let position = self.lines.take().map(|lines| lines.position());
        // If the next line is read already, this is behind it.
        self.position = position.filter(|at| Passed::at(*at) == self.passed && at.seq > 0);
        self.next = None;
    }

    /// The lines after the last one that was taken.
    fn open(&self, parts: &Parts, node: &str, notes: &mut Vec<FollowNote>) -> Result<Lines, JournalError> {
        let (journal, roots) = self.journal(parts, self.position.unwrap_or_default());
        if let Some(position) = self.position {
            return Ok(journal.signed_after(position, &roots));
        }
        let Some(Passed { seq, chain }) = self.passed else {
            return match self.begin {
                Begin::First => Ok(journal.signed_after(AuditPosition::default(), &roots)),
                Begin::Since(since) => journal.signed_since(since, &roots),
                Begin::Now => journal.signed_from_now(&roots),
            };
        };
        let node = node.to_owned();
        Ok(match journal.signed_after_line(seq, |found| found.0.starts_with(&chain), &roots)? {
            Resumed::After(lines) => lines,
            Resumed::Removed { first, lines } => {
                notes.push(FollowNote::Removed { node, from: seq + 1, through: first - 1 });
                lines
            }
            Resumed::Changed { first, lines } => {
                notes.push(FollowNote::Changed { node, seq, first });
                lines
            }
        })
    }

    fn journal(&self, parts: &Parts, position: AuditPosition) -> (JournalReader, Roots) {
        match &self.from {
            From::Files(roots) => (parts.journal.clone(), roots.clone()),
            From::Copy(id) => (copy_of(parts, *id, position), Roots::default()),
        }
    }
}
