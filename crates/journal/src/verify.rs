//! Verifies that a journal is complete and unchanged, or finds where it is not.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::Path;

use contactd_core::{Chain, Timestamp};

use crate::key_dir::{Anchor, KeyDir, Noted};
use crate::line::{Entry, FIRST_CHECKPOINT, Line, Mark};
use crate::lists::LISTS;
use crate::segment::SEALS;
use crate::source::Source;
use crate::walk::Walk;
use crate::{JournalError, JournalFault, JournalHead, KnownLine, Outage, Roots, Seen, Verification};

/// How many times verification starts over because segments were removed meanwhile.
const TRIES: u32 = 5;

/// How many lines are checked between two words about it.
const SAID_EVERY: u64 = 4_096;

/// What is needed to verify a journal, besides its files.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    /// The roots to trust.
    pub roots: Roots,
    /// Where the keys of the epoch are. With them, lines that are not signed yet can be checked too.
    pub keys: Option<KeyDir>,
}

impl Verifier {
    /// Checks that every line of a journal is unchanged and in its place, that none is missing, and that the
    /// journal still contains each line of `known`.
    pub fn verify(&self, dir: &Path, known: &[KnownLine]) -> Result<Verification, JournalError> {
        self.verify_source(&dir.into(), known, &mut |_| true)
    }

    /// The same, of a directory or a copy.
    pub(crate) fn verify_source(
        &self,
        source: &Source,
        known: &[KnownLine],
        seen: Seen<'_>,
    ) -> Result<Verification, JournalError> {
        for _ in 0..TRIES {
            match self.verify_once(source, known, seen) {
                // A segment was removed after its retention period, before it could be read.
                Err(JournalError::File { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
                verified => return verified,
            }
        }
        self.verify_once(source, known, seen)
    }

    fn verify_once(
        &self,
        source: &Source,
        known: &[KnownLine],
        seen: Seen<'_>,
    ) -> Result<Verification, JournalError> {
        let mut known = known.to_vec();
        // Read before the lines: whatever was signed by now is in the journal.
        let noted = self.noted();
        if let Some(Anchor { seq, chain, .. }) = noted.anchor {
            known.push(KnownLine { seq, chain, how: "was signed, as keys/ shows" });
        }
        if let Some((seq, chain)) = noted.last {
            known.push(KnownLine { seq, chain, how: "was written, as keys/ shows" });
        }
        let has_keys =
            self.keys.as_ref().is_some_and(|keys| keys.epochs().is_ok_and(|epochs| !epochs.is_empty()));
        let walk = self.walk(source)?;
        let mut check = Check::new(walk, known);
        while let Some(proven) = check.walk.next()? {
            check.line(&proven.line, proven.is_signed);
            if check.result.lines.is_multiple_of(SAID_EVERY) && !seen(check.result.lines) {
                return Err(JournalError::Cancelled);
            }
        }
        // A new journal is noted a moment after its first lines are written. It may have begun since this was read.
        let is_new = check.result.lines <= FIRST_CHECKPOINT;
        if has_keys && !is_new && noted.anchor.is_none() && self.noted().anchor.is_none() {
            check.wrong(
                None,
                "keys/journal-signed, which notes what was signed last, is missing or damaged".to_owned(),
            );
        }
        check.finish(source, &self.roots)
    }

    /// Reads a journal from its first line.
    pub(crate) fn walk(&self, source: &Source) -> Result<Walk, JournalError> {
        Walk::new(source.clone(), &self.roots, self.keys.clone())
    }

    /// Fails if there is no journal, although `keys/` shows that there was one.
    pub(crate) fn check_there(&self, source: &Source) -> Result<(), JournalError> {
        if self.noted().anchor.is_some() && source.list()?.is_empty() {
            return Err(source.gone());
        }
        Ok(())
    }

    /// What is noted in `keys/` about the end of the journal.
    fn noted(&self) -> Noted {
        self.keys.as_ref().map(KeyDir::noted).unwrap_or_default()
    }
}

struct Check {
    walk: Walk,
    /// Known lines that have not been found yet.
    known: Vec<KnownLine>,
    result: Verification,
    /// The lists that lines name, each with the last of these lines.
    lists: BTreeMap<String, u64>,
    /// The seals that were read.
    seals: HashSet<(u64, Chain)>,
    last_seal: u64,
    retired: Vec<(u64, Chain)>,
    removed: u64,
    is_running: bool,
    stopped_at: Option<Timestamp>,
    last_at: Option<Timestamp>,
}

impl Check {
    fn new(walk: Walk, known: Vec<KnownLine>) -> Self {
        Self {
            walk,
            known,
            lists: BTreeMap::new(),
            result: Verification::default(),
            seals: HashSet::new(),
            last_seal: 0,
            retired: Vec::new(),
            removed: 0,
            is_running: false,
            stopped_at: None,
            last_at: None,
        }
    }

    fn line(&mut self, line: &Line, is_signed: bool) {
        self.result.lines += 1;
        self.result.first.get_or_insert(line.seq);
        for known in self.known.extract_if(.., |known| known.seq == line.seq).collect::<Vec<_>>() {
            if known.chain != line.chain {
                let what = format!("line {} is not the one that {}", known.seq, known.how);
                self.wrong(Some(known.seq), what);
            }
        }
        let head = JournalHead { seq: line.seq, chain: line.chain, at: line.at };
        self.result.head = Some(head);
        if is_signed {
            self.result.signed = Some(head);
        } else {
            self.result.unsigned += 1;
            self.result.confirmed += 1;
        }
        match &line.entry {
            Entry::Mark(mark) => self.mark(line, mark),
            Entry::Admin(record) => {
                if let Some(list) = record.entry.list() {
                    self.lists.entry(list.to_owned()).and_modify(|seq| *seq = line.seq).or_insert(line.seq);
                }
            }
            Entry::Request(_) => {}
        }
        self.last_at = Some(line.at);
    }

    fn mark(&mut self, line: &Line, mark: &Mark) {
        match mark {
            Mark::Checkpoint(signed) | Mark::Seal(signed) if signed.is_copied() => {
                self.seals.insert((line.seq, line.chain));
                self.last_seal = line.seq;
            }
            Mark::Begun { root, .. } => self.result.roots.push(*root),
            Mark::Retired { through, chain } => self.retired.push((*through, *chain)),
            Mark::Removed { through } => self.removed = self.removed.max(*through),
            Mark::Recovered { torn_bytes } => self.result.notes.push(format!(
                "before line {}: {torn_bytes} bytes of an unfinished line were cut off after a crash",
                line.seq
            )),
            Mark::Started => {
                let outage = match self.stopped_at {
                    Some(from) => Some(Outage { from, until: line.at, was_stopped: true }),
                    // It was killed, some time after its last line.
                    None if self.is_running => {
                        self.last_at.map(|from| Outage { from, until: line.at, was_stopped: false })
                    }
                    None => None,
                };
                self.result.outages.extend(outage);
                (self.is_running, self.stopped_at) = (true, None);
            }
            Mark::Stopped => (self.is_running, self.stopped_at) = (false, Some(line.at)),
            _ => {}
        }
    }

    fn finish(mut self, source: &Source, roots: &Roots) -> Result<Verification, JournalError> {
        let unproven = self.walk.unproven();
        self.result.unsigned += unproven;
        if unproven > 0
            && let Some((seq, chain)) = self.walk.last
        {
            // Not proven, but there.
            let at = self.last_at.unwrap_or(Timestamp::from_millis(0));
            self.result.head = Some(JournalHead { seq, chain, at });
            self.result.lines += unproven;
        }
        if self.walk.torn > 0 {
            self.result.notes.push(format!(
                "the last line is not complete: it is being written, or a server was killed ({} bytes)",
                self.walk.torn
            ));
        }
        self.check_beginning();
        self.check_seals();
        self.check_known();
        self.check_lists(source)?;
        for (segment, reason) in std::mem::take(&mut self.walk.strays) {
            self.walk.fault(&segment, 0, None, format!("this is not a file of this journal: {reason}"));
        }
        for name in source.strange()? {
            let what = "this file does not belong here".to_owned();
            self.result.faults.push(JournalFault { file: name, line: 0, seq: None, what });
        }
        let mut found = std::mem::take(&mut self.walk.faults);
        found.sort_by_key(|fault| (fault.segment, fault.fault.line));
        let mut faults: Vec<JournalFault> = found.into_iter().map(|found| found.fault).collect();
        faults.append(&mut self.result.faults);
        self.result.faults = faults;
        self.result.notes.append(&mut self.walk.notes);
        self.result.root_source = roots.source;
        if self.result.roots.is_empty()
            && let Some((root, _)) = self.walk.epoch
        {
            // Its first line was removed after its retention period.
            self.result.roots.push(root);
        }
        Ok(self.result)
    }

    /// Whether the lines before the first one were removed after their retention period.
    fn check_beginning(&mut self) {
        let Some((after, previous)) = self.walk.first.filter(|(after, _)| *after > 0) else {
            self.check_put_back();
            return;
        };
        // A kill may have come when only some of the segments were removed.
        let is_explained = self
            .retired
            .iter()
            .any(|(through, chain)| *through > after || (*through, *chain) == (after, previous));
        if is_explained {
            self.result.notes.push(format!("lines 1 to {after} were removed after their retention period"));
        } else {
            let what = match after {
                1 => "line 1 is missing".to_owned(),
                _ => format!(
                    "lines 1 to {after} are missing, and nothing says that they were removed in order"
                ),
            };
            self.wrong(self.result.first, what);
        }
        self.check_put_back();
    }

    /// Whether lines that were removed are there again.
    fn check_put_back(&mut self) {
        let Some(first) = self.result.first else { return };
        if first <= self.removed {
            let what = format!("lines {first} to {} had been removed and are there again", self.removed);
            self.wrong(Some(first), what);
        } else if let Some((through, _)) = self.retired.iter().find(|(through, _)| first <= *through) {
            self.result.notes.push(format!("lines {first} to {through} are about to be removed"));
        }
    }

    /// Whether the seals and their copies agree.
    fn check_seals(&mut self) {
        let first = self.result.first.unwrap_or(u64::MAX);
        let trust = &self.walk.trust;
        let fault =
            |line, seq, what: &str| JournalFault { file: SEALS.to_owned(), line, seq, what: what.to_owned() };
        let mut faults: Vec<JournalFault> =
            trust.bad_lines.iter().map(|&line| fault(line, None, "this is not a valid seal")).collect();
        let copies: HashSet<(u64, Chain)> = trust.seals.iter().map(|copy| (copy.seq, copy.chain)).collect();
        for copy in trust.seals.iter().filter(|copy| copy.seq >= first || first == u64::MAX) {
            if !self.seals.contains(&(copy.seq, copy.chain)) {
                faults.push(fault(
                    copy.line,
                    Some(copy.seq),
                    "the journal does not contain the line of this seal",
                ));
            }
        }
        for (seq, _) in self.seals.iter().filter(|seal| !copies.contains(seal) && seal.0 != self.last_seal) {
            faults.push(fault(0, Some(*seq), "the copy of a seal is missing"));
        }
        self.result.faults.append(&mut faults);
    }

    fn check_known(&mut self) {
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
            self.wrong(Some(seq), what);
        }
    }

    /// Whether the lists are there and unchanged.
    fn check_lists(&mut self, source: &Source) -> Result<(), JournalError> {
        for (name, seq) in std::mem::take(&mut self.lists) {
            if source.has_list(&name)? {
                continue;
            }
            // It may have been removed with its line meanwhile.
            if source.list()?.first().is_some_and(|segment| segment.first <= seq) {
                let what = format!("the list of people that line {seq} names is missing or changed");
                let file = format!("{LISTS}/{name}");
                self.result.faults.push(JournalFault { file, line: 0, seq: Some(seq), what });
            }
        }
        Ok(())
    }

    fn wrong(&mut self, seq: Option<u64>, what: String) {
        self.result.faults.push(JournalFault { file: "the journal".to_owned(), line: 0, seq, what });
    }
}
