//! Reads the lines of a journal in order and returns only those that are proven to be the journal's own.
//!
//! Lines are read until a checkpoint reveals their key and signs them; then they are checked and returned. The
//! lines after the last checkpoint are checked with the secret of the epoch, if the caller has it.
//!
//! A file is read only if it begins with a line that a checkpoint in it signs. So nobody without the key can end a
//! segment early or begin another one.

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use contactd_core::{AuditPosition as Position, Chain, JournalError, JournalFault, Roots};

use crate::ChainKey;
use crate::file::failed;
use crate::key_dir::{Anchor, KeyDir};
use crate::line::{Checkpoint, Entry, Line, Mark, OldJournal, is_linked};
use crate::seals::{Epoch, Trust};
use crate::segment::{self, Segment};

/// How often the end of a file is read again before its last lines count as unproven.
const READ_AGAIN: u32 = 5;
/// How many lines at the beginning of a segment may come before its first checkpoint.
const OPENING_LINES: usize = 8;
/// Longer lines are not ours.
pub(crate) const MAX_LINE: u64 = 64 * 1024;

/// A line that is proven to be the journal's own.
pub(crate) struct Proven {
    pub(crate) line: Line,
    /// Its text, without the newline.
    pub(crate) text: Vec<u8>,
    /// Whether a checkpoint has signed it. Otherwise the secret of the epoch proves it.
    pub(crate) is_signed: bool,
    segment: u64,
    end: u64,
}

/// A line that waits for its checkpoint.
struct Pending {
    line: Line,
    text: Vec<u8>,
    /// The chain value before it, if that is known.
    before: Option<Chain>,
    segment: u64,
    number: u64,
    end: u64,
}

/// Something wrong, and where.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The first line of the file, by its name.
    pub(crate) segment: u64,
    pub(crate) fault: JournalFault,
}

/// The lines of a journal without checkpoints: the key of its chain, and its last line.
struct OldLines {
    key: ChainKey,
    through: u64,
    /// Whether a later journal signs its end.
    is_sealed: bool,
}

/// The file that is being read.
struct Reading {
    segment: Segment,
    reader: Box<dyn BufRead + Send>,
    /// How many bytes and lines were read.
    offset: u64,
    number: u64,
}

/// How a segment begins.
pub(crate) struct Opening {
    pub(crate) line: Line,
    /// The first checkpoint, which signs the beginning.
    pub(crate) signed: Checkpoint,
}

/// A reader of a journal.
pub(crate) struct Walk {
    dir: PathBuf,
    pub(crate) trust: Trust,
    keys: Option<KeyDir>,
    old: Option<OldLines>,
    /// The chain values of the old lines in the current segment, by number.
    old_chains: HashMap<u64, Chain>,
    /// The old lines of the current segment: the next one says which of them belong to the journal.
    old_held: Vec<Proven>,
    /// How many lines waited when the end was last read again, and how often it was.
    read_again: (usize, u32),
    reading: Option<Reading>,
    /// The segment that is read, also after its end was reached.
    current: Option<Segment>,
    /// The position in it, after the last whole line.
    offset: u64,
    number: u64,
    /// The segments when the directory was last listed.
    listed: Vec<Segment>,
    /// A later segment exists, so this one gets no more lines.
    is_closed: bool,
    /// Files that are not segments of this journal, and why.
    pub(crate) strays: Vec<(Segment, String)>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) notes: Vec<String>,
    /// The last line in order, by what it says.
    pub(crate) last: Option<(u64, Chain)>,
    /// The epoch whose checkpoint comes next.
    pub(crate) epoch: Option<Epoch>,
    /// The number of the next checkpoint, once it is known.
    pub(crate) next_number: Option<u64>,
    pending: Vec<Pending>,
    ready: VecDeque<Proven>,
    position: Position,
    /// How the first segment began that was read from its beginning.
    pub(crate) first: Option<(u64, Chain)>,
    /// Bytes after the last whole line of the last segment.
    pub(crate) torn: u64,
}

impl Walk {
    /// Reads what comes after a position. With `keys`, lines that are not signed yet can be proven too. `old_key`
    /// is the key of a journal without checkpoints that is not sealed yet.
    pub(crate) fn after(
        dir: &Path,
        position: Position,
        roots: &Roots,
        keys: Option<KeyDir>,
        old_key: Option<ChainKey>,
    ) -> Result<Self, JournalError> {
        let mut trust = Trust::of(dir, roots)?;
        if let Some(keys) = &keys {
            for epoch in keys.epochs().unwrap_or_default() {
                if trust.trusts(epoch.root) {
                    trust.add((epoch.root, epoch.epoch), epoch.public());
                }
            }
        }
        let mut walk = Self {
            dir: dir.to_owned(),
            trust,
            keys,
            old: None,
            old_chains: HashMap::new(),
            old_held: Vec::new(),
            read_again: (0, 0),
            reading: None,
            current: None,
            offset: 0,
            number: 0,
            listed: Vec::new(),
            is_closed: false,
            strays: Vec::new(),
            faults: Vec::new(),
            notes: Vec::new(),
            last: None,
            epoch: None,
            next_number: None,
            pending: Vec::new(),
            ready: VecDeque::new(),
            position,
            first: None,
            torn: 0,
        };
        walk.old = walk.find_old(old_key)?;
        if position.seq > 0 || position.offset > 0 {
            walk.go_to(position)?;
        }
        Ok(walk)
    }

    /// Reads from the beginning of a segment, which must be good, or from the first one.
    pub(crate) fn from_segment(
        dir: &Path,
        first: Option<u64>,
        roots: &Roots,
        keys: Option<KeyDir>,
        old_key: Option<ChainKey>,
    ) -> Result<Self, JournalError> {
        let mut walk = Self::after(dir, Position::default(), roots, keys, old_key)?;
        if let Some(first) = first {
            let segment = segment::list(dir)?.into_iter().find(|segment| segment.first == first);
            if let Some(segment) = segment {
                walk.enter(segment)?;
            }
        }
        Ok(walk)
    }

    /// The end of the last line that was returned.
    pub(crate) const fn position(&self) -> Position {
        self.position
    }

    /// How many lines wait for a checkpoint that is not there yet.
    pub(crate) fn unproven(&self) -> u64 {
        self.pending.len() as u64
    }

    /// The segment that is read, and the end of its last whole line.
    pub(crate) fn end(&self) -> Option<(&Segment, u64)> {
        self.current.as_ref().map(|segment| (segment, self.offset))
    }

    /// The next line that is proven; none if there is none yet.
    pub(crate) fn next(&mut self) -> Result<Option<Proven>, JournalError> {
        loop {
            if let Some(proven) = self.ready.pop_front() {
                self.position = Position {
                    segment: proven.segment,
                    offset: proven.end,
                    seq: proven.line.seq,
                    chain: proven.line.chain.0,
                };
                return Ok(Some(proven));
            }
            if !self.read_line()? && !self.advance()? && !self.prove_tail()? {
                if self.is_unsealed() && !self.old_held.is_empty() {
                    self.release_old(u64::MAX);
                    continue;
                }
                return Ok(None);
            }
        }
    }

    /// Reads one whole line, if there is one.
    fn read_line(&mut self) -> Result<bool, JournalError> {
        if self.reading.is_none() {
            let Some(segment) = self.current.clone() else { return Ok(false) };
            let reader = segment.read_from(self.offset)?;
            self.reading = Some(Reading { segment, reader, offset: self.offset, number: self.number });
        }
        let Some(reading) = &mut self.reading else { return Ok(false) };
        let mut bytes = Vec::new();
        let read = reading.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
        if let Err(error) = read {
            let what = format!("the rest of the file cannot be read: {error}");
            let (segment, number) = (reading.segment.clone(), reading.number + 1);
            if !segment.is_compressed {
                return Err(failed("cannot read", &segment.path)(error));
            }
            self.reading = None;
            self.fault(&segment, number, None, what);
            return Ok(false);
        }
        let Some(text) = bytes.strip_suffix(b"\n") else {
            self.torn = bytes.len() as u64;
            if bytes.len() as u64 == MAX_LINE {
                // Not a line of ours. Skip it.
                let (segment, number) = (reading.segment.clone(), reading.number + 1);
                let Some(more) = skip_line(&mut reading.reader) else {
                    self.reading = None;
                    return Ok(false);
                };
                reading.offset += MAX_LINE + more;
                reading.number += 1;
                (self.offset, self.number) = (reading.offset, reading.number);
                self.fault(&segment, number, None, NOT_A_LINE.to_owned());
                return Ok(true);
            }
            self.reading = None;
            return Ok(false);
        };
        reading.offset += bytes.len() as u64;
        reading.number += 1;
        (self.offset, self.number, self.torn) = (reading.offset, reading.number, 0);
        let text = text.to_vec();
        self.take(text);
        Ok(true)
    }

    /// Takes the next line of the current segment.
    fn take(&mut self, text: Vec<u8>) {
        let Some(segment) = self.current.clone() else { return };
        let number = self.number;
        let Some(line) = Line::parse(&text) else {
            self.fault(&segment, number, None, NOT_A_LINE.to_owned());
            return;
        };
        if number > 1 && matches!(line.entry, Entry::Mark(Mark::Begun { .. } | Mark::Opened { .. })) {
            self.fault(
                &segment,
                number,
                Some(line.seq),
                "a file begins in the middle of another one".to_owned(),
            );
            return;
        }
        if self.is_old(line.seq) && self.epoch.is_none() {
            self.take_old(&segment, text, line);
            return;
        }
        let due = self.last.map_or(1, |(seq, _)| seq.saturating_add(1));
        let mut before = self.last.map(|(_, chain)| chain);
        if number == 1 {
            // The beginning of a segment was checked before it was entered.
            before = line.opening().map(|(_, previous)| previous);
        } else if line.seq > due {
            self.fault(&segment, number, Some(line.seq), missing(due, line.seq - 1));
            before = None;
        } else if line.seq < due {
            let what = format!("this is line {}, but line {due} was expected here", line.seq);
            self.fault(&segment, number, Some(line.seq), what);
            return;
        }
        self.last = Some((line.seq, line.chain));
        let checkpoint = line.checkpoint().cloned();
        self.pending.push(Pending { line, text, before, segment: segment.first, number, end: self.offset });
        if let Some(signed) = checkpoint {
            self.take_checkpoint(&segment, &signed);
        }
    }

    /// Checks the lines that wait, the last of which is this checkpoint.
    fn take_checkpoint(&mut self, segment: &Segment, signed: &Checkpoint) {
        let Some(last) = self.pending.last() else { return };
        let (number, seq) = (last.number, last.line.seq);
        let is_begin = signed.epoch == 1
            && self.pending.iter().any(|pending| {
                matches!(&pending.line.entry, Entry::Mark(Mark::Begun { root, .. }) if *root == signed.root)
            });
        let is_due = is_begin || self.epoch == Some((signed.root, signed.epoch));
        if !is_due || !self.trust.signs(&last.text, signed) {
            let what = match is_due {
                true => "the signature of this checkpoint is wrong".to_owned(),
                false => "this checkpoint is not signed with the key of its epoch".to_owned(),
            };
            self.pending.pop();
            self.fault(segment, number, Some(seq), what);
            return;
        }
        let key = ChainKey::new(&signed.key);
        let waiting = std::mem::take(&mut self.pending);
        let links: Vec<bool> = waiting
            .iter()
            .map(|pending| {
                pending
                    .before
                    .is_some_and(|before| is_linked(&key, before, &pending.text, pending.line.chain))
            })
            .collect();
        let agrees = waiting.last().is_some_and(|last| last.before == Some(signed.previous));
        // The signature proves the chain value before the checkpoint, that proves the line before, and so on.
        let proven_from = match agrees {
            true => links.iter().rposition(|is_linked| !is_linked).map_or(0, |at| at + 1),
            false => waiting.len() - 1,
        };
        if let Some(at) = links.iter().position(|is_linked| !is_linked) {
            let wrong = &waiting[at];
            // A gap before it was reported already.
            if wrong.before.is_some() {
                let (segment, number, seq) = (wrong.segment, wrong.number, wrong.line.seq);
                self.fault_at(segment, number, Some(seq), CHANGED.to_owned());
            }
        } else if !agrees {
            let what = match &waiting[..] {
                [.., before, _] => {
                    format!(
                        "lines {} to {} are not the ones that were signed",
                        waiting[0].line.seq, before.line.seq
                    )
                }
                _ => CHANGED.to_owned(),
            };
            let (segment, number, seq) = (waiting[0].segment, waiting[0].number, waiting[0].line.seq);
            self.fault_at(segment, number, Some(seq), what);
        }
        self.ready.extend(waiting.into_iter().skip(proven_from).map(|pending| pending.proven(true)));
        self.trust.follow(signed);
        self.epoch = Some((signed.root, signed.epoch.saturating_add(u64::from(signed.next.is_some()))));
        self.next_number = Some(signed.number.saturating_add(1));
    }

    /// Goes to the next segment, if there is one.
    fn advance(&mut self) -> Result<bool, JournalError> {
        // The directory is listed again only if nothing in the last listing is next.
        if self.advance_in_listing()? {
            return Ok(true);
        }
        self.listed = segment::list(&self.dir)?;
        self.advance_in_listing()
    }

    fn advance_in_listing(&mut self) -> Result<bool, JournalError> {
        let current = self.current.as_ref().map(|segment| segment.first);
        let after =
            self.listed.partition_point(|segment| current.is_some_and(|first| segment.first <= first));
        for at in after..self.listed.len() {
            let segment = self.listed[at].clone();
            if self.is_old(segment.first) && self.epoch.is_none() {
                return self.advance_old(segment);
            }
            match self.opening(&segment)? {
                Ok(opening) => {
                    self.strays.retain(|(stray, _)| stray.first != segment.first);
                    if !self.is_closed && self.current.is_some() {
                        // Lines may have been added before it was closed: read once more.
                        self.is_closed = true;
                        return Ok(true);
                    }
                    if self.torn > 0 {
                        let torn = std::mem::take(&mut self.torn);
                        self.notes.push(format!("{torn} bytes before {} are not a line", segment.name()));
                    }
                    self.check_order(&segment, &opening);
                    self.enter_checked(segment, &opening);
                    return Ok(true);
                }
                Err(reason) if reason == GONE => {}
                Err(reason) => {
                    self.strays.retain(|(stray, _)| stray.first != segment.first);
                    self.strays.push((segment, reason));
                }
            }
        }
        Ok(false)
    }

    /// Whether a segment continues what was read.
    fn check_order(&mut self, segment: &Segment, opening: &Opening) {
        let Some((after, previous)) = opening.line.opening() else { return };
        let (mut suspect, mut broken) = (None, None);
        if let Entry::Mark(Mark::Opened { suspect_after, broken: found, .. }) = &opening.line.entry {
            (suspect, broken) = (*suspect_after, found.clone());
        }
        let seq = Some(opening.line.seq);
        if let Some(found) = broken {
            let what = format!("when the server started, the journal was not as it had been left: {found}");
            self.fault(segment, 1, seq, what);
        }
        let (old, epoch) = (self.old.as_ref().map(|old| old.through), self.epoch);
        if let Entry::Mark(Mark::Begun { old: Some(OldJournal::Restored(root)), .. }) = &opening.line.entry {
            self.notes.push(format!(
                "line {} begins a new journal, with a root of its own: after a restore, or because the keys were gone",
                opening.line.seq
            ));
            if old.is_none() && *root != epoch.map(|(root, _)| root) {
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

    fn enter(&mut self, segment: Segment) -> Result<(), JournalError> {
        if let Ok(opening) = self.opening(&segment)? {
            self.first = opening.line.opening();
            self.epoch = None;
            self.enter_checked(segment, &opening);
        }
        Ok(())
    }

    fn enter_checked(&mut self, segment: Segment, opening: &Opening) {
        self.release_old(opening.line.seq);
        let begins = (opening.signed.root, opening.signed.epoch);
        let is_new = self.epoch.is_none() || matches!(opening.line.entry, Entry::Mark(Mark::Begun { .. }));
        if let Some((root, epoch)) = self.epoch.filter(|_| !is_new)
            && root == begins.0
            && epoch < begins.1
        {
            let what = format!(
                "the seals of epochs {epoch} to {} are missing before this line",
                begins.1.saturating_sub(1)
            );
            self.fault(&segment, 1, Some(opening.line.seq), what);
            self.epoch = Some(begins);
        }
        if is_new {
            self.epoch = Some(begins);
        }
        if let Some((after, previous)) = opening.line.opening() {
            self.last = Some((after, previous));
        }
        self.begin(segment);
    }

    fn begin(&mut self, segment: Segment) {
        (self.reading, self.offset, self.number, self.is_closed) = (None, 0, 0, false);
        self.current = Some(segment);
    }

    /// How a segment begins, if a checkpoint in it signs that; otherwise why it is not a segment of this journal.
    pub(crate) fn opening(&self, segment: &Segment) -> Result<Result<Opening, String>, JournalError> {
        let mut reader = match segment.read() {
            Ok(reader) => reader,
            // It was removed after its retention period since it was listed.
            Err(JournalError::File { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Err(GONE.to_owned()));
            }
            Err(JournalError::File { error, .. }) if segment.is_compressed => {
                return Ok(Err(format!("it cannot be decompressed: {error}")));
            }
            Err(error) => return Err(error),
        };
        let mut before: Option<Chain> = None;
        let mut lines: Vec<(Vec<u8>, Line, Chain)> = Vec::new();
        for _ in 0..OPENING_LINES {
            let mut bytes = Vec::new();
            let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
            let Some((text, line)) = read
                .ok()
                .and_then(|_| bytes.strip_suffix(b"\n"))
                .and_then(|text| Some((text.to_vec(), Line::parse(text)?)))
            else {
                break;
            };
            let previous = match before {
                Some(before) => before,
                None => match line.opening().filter(|_| line.seq == segment.first) {
                    Some((after, previous)) if after.checked_add(1) == Some(line.seq) => previous,
                    _ => return Ok(Err("it does not begin with the line in its name".to_owned())),
                },
            };
            before = Some(line.chain);
            let signed = line.checkpoint().cloned();
            lines.push((text, line, previous));
            if let Some(signed) = signed {
                return Ok(self.judge(&lines, signed));
            }
        }
        Ok(Err("nothing signs how it begins".to_owned()))
    }

    fn judge(&self, lines: &[(Vec<u8>, Line, Chain)], signed: Checkpoint) -> Result<Opening, String> {
        let (Some((_, first, _)), Some((text, _, _))) = (lines.first(), lines.last()) else {
            return Err("it is empty".to_owned());
        };
        if let Entry::Mark(Mark::Begun { root, .. }) = &first.entry
            && !self.trust.trusts(*root)
        {
            return Err(format!("it begins a journal with the root {root}, which is not trusted"));
        }
        let key = ChainKey::new(&signed.key);
        let follows = lines.last().is_some_and(|(_, _, previous)| *previous == signed.previous);
        let is_linked =
            lines.iter().all(|(text, line, previous)| is_linked(&key, *previous, text, line.chain));
        if !follows || !is_linked || !self.trust.signs(text, &signed) {
            return Err("the signature of its beginning is wrong".to_owned());
        }
        Ok(Opening { line: first.clone(), signed })
    }

    /// Checks lines that are not signed yet with the secret of the epoch. Returns whether there is something new.
    fn prove_tail(&mut self) -> Result<bool, JournalError> {
        let (Some(keys), Some((root, epoch))) = (&self.keys, self.epoch) else { return Ok(false) };
        let Some(first) = self.pending.first() else { return Ok(false) };
        let epochs = keys.epochs()?;
        let Some(secret) = epochs.iter().find(|keys| (keys.root, keys.epoch) == (root, epoch)) else {
            return Ok(self.read_again());
        };
        let anchor = keys.anchor().filter(|anchor| anchor.root == root.to_string());
        // Once a checkpoint was signed, or is about to be, its key proves nothing but the lines it signs.
        let is_last_signed = |anchor: &Anchor| {
            self.last.is_some_and(|(seq, chain)| seq == anchor.seq && Some(chain) == anchor.chain())
        };
        if let (Some(number), Some(anchor)) = (self.next_number, &anchor)
            && (number < anchor.number || (number == anchor.number && !is_last_signed(anchor)))
        {
            return Ok(self.read_again());
        }
        // The number is not known after a start in the middle; the last anchor is near it.
        let mut numbers = match (self.next_number, anchor) {
            (Some(number), _) => number..=number,
            (None, Some(anchor)) => anchor.number..=anchor.number + 2,
            (None, None) => 1..=1,
        };
        let fits = |number: &u64| {
            let key = secret.interval(*number);
            let fits = |pending: &Pending| {
                pending
                    .before
                    .is_some_and(|before| is_linked(&key, before, &pending.text, pending.line.chain))
            };
            fits(first) || self.pending.iter().any(fits)
        };
        let Some(number) = numbers.find(fits) else {
            if self.next_number.is_some() {
                for pending in std::mem::take(&mut self.pending) {
                    self.fault_at(
                        pending.segment,
                        pending.number,
                        Some(pending.line.seq),
                        CHANGED.to_owned(),
                    );
                }
            }
            return Ok(false);
        };
        let key = secret.interval(number);
        for pending in std::mem::take(&mut self.pending) {
            let is_linked = pending
                .before
                .is_some_and(|before| is_linked(&key, before, &pending.text, pending.line.chain));
            if is_linked {
                self.ready.push_back(pending.proven(false));
            } else if pending.before.is_some() {
                self.fault_at(pending.segment, pending.number, Some(pending.line.seq), CHANGED.to_owned());
            }
        }
        Ok(!self.ready.is_empty())
    }

    /// The server may have gone on since the end of the file was read: whether to read on from there.
    fn read_again(&mut self) -> bool {
        let waiting = self.pending.len();
        if self.read_again != (waiting, READ_AGAIN) {
            let tries = if self.read_again.0 == waiting { self.read_again.1 + 1 } else { 1 };
            self.read_again = (waiting, tries);
            std::thread::sleep(std::time::Duration::from_millis(2));
            return true;
        }
        false
    }

    /// Goes to a position, if the line before it is still the one that was read.
    fn go_to(&mut self, position: Position) -> Result<(), JournalError> {
        let segments = segment::list(&self.dir)?;
        let last = segments.last().map(Segment::name).unwrap_or_default();
        let Some(segment) = segments.iter().find(|segment| segment.first == position.segment).cloned() else {
            // It was removed after its retention period, once all of it had been read: the next one continues it.
            for segment in segments {
                if let Ok(opening) = self.opening(&segment)?
                    && opening.line.opening() == Some((position.seq, Chain(position.chain)))
                {
                    self.enter_checked(segment, &opening);
                    return Ok(());
                }
            }
            return Err(JournalError::Changed { file: last });
        };
        let changed = || JournalError::Changed { file: segment.name() };
        let expected = format!("{}\"}}\n", Chain(position.chain));
        let before = position.offset.checked_sub(expected.len() as u64).ok_or_else(changed)?;
        let mut reader = segment.read_from(before)?;
        let mut end = vec![0; expected.len()];
        if reader.read_exact(&mut end).is_err() || end != expected.as_bytes() {
            return Err(changed());
        }
        self.last = Some((position.seq, Chain(position.chain)));
        if !self.is_old(position.seq) {
            self.epoch = self.trust.epoch_after(position.seq);
            if self.epoch.is_none()
                && let Ok(opening) = self.opening(&segment)?
            {
                self.epoch = Some((opening.signed.root, opening.signed.epoch));
            }
        }
        let offset = position.offset;
        self.begin(segment);
        // The number of the line in the file is not known, and not the first.
        (self.offset, self.number) = (offset, 1);
        Ok(())
    }

    pub(crate) fn fault(&mut self, segment: &Segment, line: u64, seq: Option<u64>, what: String) {
        let fault = JournalFault { file: segment.name(), line, seq, what };
        self.faults.push(Fault { segment: segment.first, fault });
    }

    fn fault_at(&mut self, first: u64, line: u64, seq: Option<u64>, what: String) {
        let path = segment::path(&self.dir, first);
        let is_compressed = !path.exists();
        let mut segment = Segment { first, path, is_compressed };
        if is_compressed {
            segment.path = segment.compressed_path();
        }
        self.fault(&segment, line, seq, what);
    }
}

/// Lines of a journal without checkpoints.
impl Walk {
    pub(crate) fn is_old(&self, seq: u64) -> bool {
        self.old.as_ref().is_some_and(|old| seq <= old.through)
    }

    pub(crate) fn is_unsealed(&self) -> bool {
        self.old.as_ref().is_some_and(|old| !old.is_sealed)
    }

    /// Where old lines end, and their key: a later journal says so, or all lines are old.
    fn find_old(&self, old_key: Option<ChainKey>) -> Result<Option<OldLines>, JournalError> {
        let segments = segment::list(&self.dir)?;
        for segment in &segments {
            let Ok(opening) = self.opening(segment)? else { continue };
            match opening.line.entry {
                Entry::Mark(Mark::Begun { after, old: Some(OldJournal::Keyed(key)), .. }) => {
                    return Ok(Some(OldLines { key: ChainKey::new(&key), through: after, is_sealed: true }));
                }
                _ => return Ok(None),
            }
        }
        let is_old = match segments.first() {
            Some(first) => is_old_segment(first)?,
            None => false,
        };
        // A journal with a root was sealed before: what has no signature now is not it.
        let is_old = is_old && self.trust.has_no_roots();
        match (is_old, old_key) {
            (true, Some(key)) => Ok(Some(OldLines { key, through: u64::MAX, is_sealed: false })),
            (true, None) => Err(JournalError::Key(
                "the key of the journal is missing: restore keys/audit-001.key from a backup".to_owned(),
            )),
            (false, _) => Ok(None),
        }
    }

    fn advance_old(&mut self, segment: Segment) -> Result<bool, JournalError> {
        if !self.is_closed && self.current.is_some() {
            self.is_closed = true;
            return Ok(true);
        }
        self.release_old(segment.first);
        self.begin(segment);
        Ok(true)
    }

    /// Lines before `next` belong to the journal. Later ones are what is left of a write that failed.
    fn release_old(&mut self, next: u64) {
        let held = std::mem::take(&mut self.old_held);
        self.ready.extend(held.into_iter().filter(|held| held.line.seq < next));
    }

    fn take_old(&mut self, segment: &Segment, text: Vec<u8>, line: Line) {
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
                    let what = format!("this is line {}, but line {due} was expected here", line.seq);
                    self.fault(segment, number, Some(line.seq), what);
                }
            }
            Some(_) if line.seq < due => {
                let what = format!("this is line {}, but line {due} was expected here", line.seq);
                self.fault(segment, number, Some(line.seq), what);
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
            self.old_held.push(Proven { line, text, is_signed, segment: segment.first, end });
        }
    }
}

const GONE: &str = "it is gone";
const NOT_A_LINE: &str = "this is not a valid journal line";
const CHANGED: &str = "this line, or the chain value of the line before it, was changed";

/// Skips the rest of a line. Returns its length; none if it does not end.
fn skip_line(reader: &mut impl BufRead) -> Option<u64> {
    let mut skipped = 0;
    loop {
        let bytes = reader.fill_buf().ok().filter(|bytes| !bytes.is_empty())?;
        let (count, is_end) = match bytes.iter().position(|&b| b == b'\n') {
            Some(at) => (at + 1, true),
            None => (bytes.len(), false),
        };
        reader.consume(count);
        skipped += count as u64;
        if is_end {
            return Some(skipped);
        }
    }
}

fn missing(first: u64, last: u64) -> String {
    match last.saturating_sub(first) {
        0 => format!("line {first} is missing before this one"),
        _ => format!("lines {first} to {last} are missing before this one"),
    }
}

/// Whether a segment begins as those of a journal without checkpoints do.
fn is_old_segment(segment: &Segment) -> Result<bool, JournalError> {
    let mut bytes = Vec::new();
    let _ = segment.read()?.take(MAX_LINE).read_until(b'\n', &mut bytes);
    let line = bytes.strip_suffix(b"\n").and_then(Line::parse);
    Ok(line.is_some_and(|line| matches!(line.entry, Entry::Mark(Mark::Opened { after: None, .. }))))
}

impl Pending {
    fn proven(self, is_signed: bool) -> Proven {
        Proven { line: self.line, text: self.text, is_signed, segment: self.segment, end: self.end }
    }
}
