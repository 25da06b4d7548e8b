//! Reads the lines of a journal in order and returns only those that are proven to be the journal's own.
//!
//! Lines are read until a checkpoint reveals their key and signs them; then they are checked and returned. The
//! lines after the last checkpoint are checked with the secret of the epoch, if the caller has it.
//!
//! A file is read only if it begins with a line that a checkpoint in it signs. So nobody without the key can end a
//! segment early or begin another one.

mod old;
mod opening;
mod order;
mod tail;

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use contactd_core::{AuditPosition as Position, Chain, JournalError, JournalFault, Roots};

use crate::ChainKey;
use crate::file::failed;
use crate::key_dir::KeyDir;
use crate::line::{Checkpoint, Entry, Line, Mark, is_linked};
use crate::seals::{Epoch, Trust};
use crate::segment::{self, Segment};
use old::OldLines;
use opening::Opening;

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

/// The file that is being read.
struct Reading {
    segment: Segment,
    reader: Box<dyn BufRead + Send>,
    /// How many bytes and lines were read.
    offset: u64,
    number: u64,
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

impl Pending {
    fn proven(self, is_signed: bool) -> Proven {
        Proven { line: self.line, text: self.text, is_signed, segment: self.segment, end: self.end }
    }
}
