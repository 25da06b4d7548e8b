//! Reads the lines of a journal in order and returns only those that are proven to be the journal's own.
//!
//! Lines are read until a checkpoint reveals their key and signs them; then they are checked and returned. The
//! lines after the last checkpoint are checked with the secret of the epoch, if the caller has it.
//!
//! A file is read only if it begins with a line that a checkpoint in it signs. So nobody without the key can end a
//! segment early or begin another one.

mod checkpoint;
mod opening;
mod position;
mod tail;

use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::sync::Arc;

use contactd_core::AuditPosition as Position;
use contactd_core::{Chain, Timestamp};

use crate::ChainKey;
use crate::faults::{CHANGED, NOT_A_LINE, expected, missing, wrong_number};
use crate::file::failed;
use crate::key_dir::KeyDir;
use crate::line::{Checkpoint, Entry, Epoch, Line, Mark, NotDue, is_linked};
use crate::seals::Trust;
use crate::segment::Segment;
use crate::source::Source;
use crate::{JournalError, JournalFault, Roots};
pub(crate) use opening::opening;
use opening::{NotOpened, Opening};

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
    /// Whether it is the first line of its segment.
    pub(crate) begins_segment: bool,
    end: u64,
}

/// A line that waits for its checkpoint.
struct Pending {
    line: Line,
    text: Vec<u8>,
    /// The chain value before it, if that is known.
    before: Option<Chain>,
    segment: Arc<Segment>,
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

/// A reader of a journal.
pub(crate) struct Walk {
    source: Source,
    pub(crate) trust: Trust,
    keys: Option<KeyDir>,
    /// How many lines waited when the end was last read again, and how often it was.
    read_again: (usize, u32),
    reading: Option<Box<dyn BufRead + Send>>,
    /// The segment that is read, also after its end was reached.
    current: Option<Arc<Segment>>,
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
    /// Reads a journal from its first line. With `keys`, lines that are not signed yet can be proven too.
    pub(crate) fn new(source: Source, roots: &Roots, keys: Option<KeyDir>) -> Result<Self, JournalError> {
        // Read before the seals: if the keys of an epoch are gone, its seal has its copy.
        let epochs = keys.as_ref().and_then(|keys| keys.epochs().ok()).unwrap_or_default();
        let mut trust = Trust::of(&source, roots)?;
        for epoch in epochs {
            if trust.trusts(epoch.root) {
                trust.add((epoch.root, epoch.epoch), epoch.public());
            }
        }
        Ok(Self {
            source,
            trust,
            keys,
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
            position: Position::default(),
            first: None,
            torn: 0,
        })
    }

    /// Goes to the beginning of the last segment of this journal that begins with line `most` or earlier. Returns
    /// whether there is one.
    pub(crate) fn enter_last(&mut self, most: u64) -> Result<bool, JournalError> {
        for segment in self.source.list()?.into_iter().rev().filter(|segment| segment.first <= most) {
            if self.enter(segment)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes to the beginning of the last segment of this journal that was begun by this time. Returns whether there is one.
    pub(crate) fn enter_begun_by(&mut self, time: Timestamp) -> Result<bool, JournalError> {
        for segment in self.source.list()?.into_iter().rev() {
            if opening(&self.source, &self.trust, &segment)?.is_ok_and(|opening| opening.line.at <= time) {
                return self.enter(segment);
            }
        }
        Ok(false)
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
        self.current.as_deref().map(|segment| (segment, self.offset))
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
                return Ok(None);
            }
        }
    }

    /// Reads one whole line, if there is one.
    fn read_line(&mut self) -> Result<bool, JournalError> {
        let Some(segment) = self.current.clone() else { return Ok(false) };
        let reader = match &mut self.reading {
            Some(reader) => reader,
            None => self.reading.insert(self.source.read_from(&segment, self.offset)?),
        };
        let mut bytes = Vec::new();
        if let Err(error) = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes) {
            if !segment.is_compressed {
                return Err(failed("cannot read", &segment.path)(error));
            }
            self.reading = None;
            let what = format!("the rest of the file cannot be read: {error}");
            self.fault(&segment, self.number + 1, None, what);
            return Ok(false);
        }
        if !bytes.ends_with(b"\n") {
            self.torn = bytes.len() as u64;
            // A line that is too long is not one of ours. Skip it.
            let skipped = if self.torn == MAX_LINE { skip_line(reader) } else { None };
            let Some(more) = skipped else {
                self.reading = None;
                return Ok(false);
            };
            self.offset += MAX_LINE + more;
            self.number += 1;
            self.fault(&segment, self.number, None, NOT_A_LINE.to_owned());
            return Ok(true);
        }
        self.offset += bytes.len() as u64;
        self.number += 1;
        self.torn = 0;
        bytes.pop();
        self.take(&segment, bytes);
        Ok(true)
    }

    /// Takes the next line of a segment, which is the current one.
    fn take(&mut self, segment: &Arc<Segment>, text: Vec<u8>) {
        let number = self.number;
        let Some(line) = Line::parse(&text) else {
            self.fault(segment, number, None, NOT_A_LINE.to_owned());
            return;
        };
        if number > 1 && matches!(line.entry, Entry::Mark(Mark::Begun { .. } | Mark::Opened { .. })) {
            let what = "a file begins in the middle of another one".to_owned();
            self.fault(segment, number, Some(line.seq), what);
            return;
        }
        let due = self.last.map_or(1, |(seq, _)| seq.saturating_add(1));
        let mut before = self.last.map(|(_, chain)| chain);
        if number == 1 {
            // The beginning of a segment was checked before it was entered.
            before = line.opening().map(|(_, previous)| previous);
        } else if line.seq > due {
            self.fault(segment, number, Some(line.seq), missing(due, line.seq - 1));
            before = None;
        } else if line.seq < due {
            self.fault(segment, number, Some(line.seq), expected(line.seq, due));
            return;
        }
        self.last = Some((line.seq, line.chain));
        let checkpoint = line.checkpoint().cloned();
        self.pending.push(Pending {
            line,
            text,
            before,
            segment: Arc::clone(segment),
            number,
            end: self.offset,
        });
        if let Some(signed) = checkpoint {
            self.take_checkpoint(&signed);
        }
    }

    /// Checks the lines that wait, the last of which is this checkpoint.
    fn take_checkpoint(&mut self, signed: &Checkpoint) {
        let Some(last) = self.pending.last() else { return };
        let due = (self.epoch, self.next_number);
        let is_due = signed.check_due(due, self.pending.iter().map(|pending| &pending.line));
        let what = match is_due {
            Err(NotDue::Epoch) => Some("this checkpoint is not signed with the key of its epoch"),
            _ if !self.trust.signs(&last.text, signed) => Some("the signature of this checkpoint is wrong"),
            _ => None,
        };
        if let Some(what) = what {
            if let Some(wrong) = self.pending.pop() {
                self.fault_in(&wrong, what.to_owned());
            }
            return;
        }
        let key = ChainKey::new(&signed.key);
        let mut waiting = std::mem::take(&mut self.pending);
        let links: Vec<bool> = waiting.iter().map(|pending| pending.is_linked(&key)).collect();
        let agrees = waiting.last().is_some_and(|last| last.before == Some(signed.previous));
        // The signature proves the chain value before the checkpoint, that proves the line before, and so on.
        let proven_from = match agrees {
            true => links.iter().rposition(|is_linked| !is_linked).map_or(0, |at| at + 1),
            false => waiting.len() - 1,
        };
        if let Some(at) = links.iter().position(|is_linked| !is_linked) {
            // A gap before it was reported already.
            if waiting[at].before.is_some() {
                self.fault_in(&waiting[at], CHANGED.to_owned());
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
            self.fault_in(&waiting[0], what);
        } else if let (Err(NotDue::Number(due)), Some(last)) = (is_due, waiting.last()) {
            self.fault_in(last, wrong_number(signed.number, due));
        }
        self.ready.extend(waiting.drain(..).skip(proven_from).map(|pending| pending.proven(true)));
        self.keep_memory(waiting, links.len());
        self.trust.follow(signed);
        self.epoch = Some(signed.epoch_after());
        self.next_number = Some(signed.number.saturating_add(1));
    }

    /// Keeps the memory of `used` lines that waited, for those that wait next. Under load there are thousands for
    /// each checkpoint, and memory from the system is slow at first.
    fn keep_memory(&mut self, mut emptied: Vec<Pending>, used: usize) {
        emptied.shrink_to(2 * used);
        self.pending = emptied;
    }

    /// Goes to the next segment, if there is one.
    fn advance(&mut self) -> Result<bool, JournalError> {
        // The directory is listed again only if nothing in the last listing is next.
        if self.advance_in_listing()? {
            return Ok(true);
        }
        let was_there = self.current.is_some() || !self.listed.is_empty();
        self.listed = self.source.list()?;
        if self.listed.is_empty() && was_there {
            return Err(self.source.gone());
        }
        self.advance_in_listing()
    }

    fn advance_in_listing(&mut self) -> Result<bool, JournalError> {
        let current = self.current.as_ref().map(|segment| segment.first);
        let after =
            self.listed.partition_point(|segment| current.is_some_and(|first| segment.first <= first));
        for at in after..self.listed.len() {
            let segment = self.listed[at].clone();
            match opening(&self.source, &self.trust, &segment)? {
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
                Err(NotOpened::Gone) => {
                    self.listed = self.source.list_without(segment.first)?;
                    // The current one is older, so it is gone too. Reading it once more shows that.
                    self.is_closed = false;
                    return self.advance_in_listing();
                }
                Err(NotOpened::Foreign(reason)) => {
                    self.strays.retain(|(stray, _)| stray.first != segment.first);
                    self.strays.push((segment, reason));
                }
            }
        }
        Ok(false)
    }

    /// Goes to the beginning of a segment, if it is one of this journal. Returns whether it is.
    pub(crate) fn enter(&mut self, segment: Segment) -> Result<bool, JournalError> {
        let opening = match opening(&self.source, &self.trust, &segment)? {
            Ok(opening) => opening,
            Err(NotOpened::Gone) => return Err(self.source.gone()),
            Err(NotOpened::Foreign(_)) => return Ok(false),
        };
        self.first = opening.line.opening();
        self.epoch = None;
        self.enter_checked(segment, &opening);
        Ok(true)
    }

    fn enter_checked(&mut self, segment: Segment, opening: &Opening) {
        let begins = opening.signed.epoch_named();
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
        self.current = Some(Arc::new(segment));
    }

    pub(crate) fn fault(&mut self, segment: &Segment, line: u64, seq: Option<u64>, what: String) {
        let fault = JournalFault { file: segment.name(), line, seq, what };
        self.faults.push(Fault { segment: segment.first, fault });
    }

    fn fault_in(&mut self, pending: &Pending, what: String) {
        self.fault(&pending.segment, pending.number, Some(pending.line.seq), what);
    }
}

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

impl Pending {
    /// Whether it follows the line before it, and its chain value is correct under this key.
    fn is_linked(&self, key: &ChainKey) -> bool {
        self.before.is_some_and(|before| is_linked(key, before, &self.text, self.line.chain))
    }

    fn proven(self, is_signed: bool) -> Proven {
        Proven {
            line: self.line,
            text: self.text,
            is_signed,
            segment: self.segment.first,
            begins_segment: self.number == 1,
            end: self.end,
        }
    }
}
