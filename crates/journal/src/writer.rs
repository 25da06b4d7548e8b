//! The writing thread: numbers and chains all queued lines and writes them in one call.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use contactd_core::{Chain, Clock, RootKey};

use crate::epoch::EpochKeys;
use crate::epochs::Sealed;
use crate::file::sync_dir;
use crate::format::CheckpointAt;
use crate::key_dir::{Anchor, write_anchor, write_last};
use crate::line::Mark;
use crate::queue::{Next, WaitingLines};
use crate::recover::{Begin, JournalEnd};
use crate::settings::{JournalSettings, OpenedBy, Sync};
use crate::shared::Shared;
use crate::{ChainKey, format, seals, segment};

/// How often to retry while the journal cannot be written.
const RETRY: Duration = Duration::from_millis(500);
/// How long a line may wait for its checkpoint.
const CHECKPOINT: Duration = Duration::from_secs(1);

pub(crate) struct Writer {
    settings: JournalSettings,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    keys: EpochKeys,
    /// The number of the next checkpoint, and the key of the lines up to it.
    number: u64,
    key: ChainKey,
    /// Where the last signed line is noted.
    anchor: File,
    /// The last line that is noted there.
    noted: u64,
    /// Lines that are not signed yet, and when they must be.
    unsigned: u64,
    sign_at: Option<Instant>,
    /// A checkpoint was noted as about to be written, and was not: it comes before any other line.
    must_sign: bool,
    /// How the next segment begins, if that is special.
    begin: Option<Begin>,
    /// The last server's segment and the length of its valid part, until this writer opens it.
    segment: Option<(PathBuf, u64)>,
    open: Option<Open>,
    /// A new segment whose directory entry is not synced yet.
    begun: Option<Begun>,
    /// The number and the chain value of the last line that counts as written.
    last: u64,
    chain: Chain,
    /// Bytes of an unfinished line that a killed server left, until the journal records them.
    torn: u64,
    /// Lines that are in the file although their requests were answered 500, until the journal records this.
    undisclosed: Vec<u64>,
    buffer: Vec<u8>,
}

/// The open segment.
struct Open {
    file: Arc<File>,
    path: PathBuf,
    /// Identifies the file even if it was renamed or replaced.
    inode: u64,
    /// The length of its valid part. Bytes after it come from failed or unfinished writes.
    len: u64,
}

impl Open {
    fn new(file: File, path: PathBuf, len: u64) -> io::Result<Self> {
        let inode = file.metadata()?.ino();
        Ok(Self { file: Arc::new(file), path, inode, len })
    }

    /// The length of the file; none if its path no longer leads to it.
    fn len_by_name(&self) -> io::Result<Option<u64>> {
        match fs::metadata(&self.path) {
            Ok(found) => Ok(Some(found.len()).filter(|_| found.ino() == self.inode)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A new segment with its first lines.
struct Begun {
    suspect_after: Option<u64>,
    open: Open,
    last: u64,
    chain: Chain,
    /// The chain value before its checkpoint.
    before: Chain,
    /// Its checkpoint, without the newline.
    signed: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(
        settings: JournalSettings,
        clock: Arc<dyn Clock>,
        end: JournalEnd,
        anchor: File,
        shared: Arc<Shared>,
    ) -> Self {
        let JournalEnd { segment, synced_through, last, chain, torn, keys, next_number, unsigned, .. } = end;
        let begin = end.begin;
        shared.sync.note_begun(synced_through, None);
        if !end.is_synced {
            shared.sync.note_failure();
        }
        shared.last.store(last, Ordering::Relaxed);
        Self {
            settings,
            clock,
            shared,
            number: next_number,
            key: keys.interval(next_number),
            keys,
            anchor,
            noted: 0,
            unsigned,
            sign_at: (unsigned > 0).then(Instant::now),
            must_sign: end.must_sign,
            begin,
            segment,
            open: None,
            last,
            chain,
            torn,
            begun: None,
            undisclosed: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Writes until the queue is closed and empty.
    pub(crate) fn run(&mut self) {
        self.shared.queue.note_busy();
        let prepared = self.prepare();
        self.report(prepared, 0);
        let mut lines = WaitingLines::default();
        loop {
            let is_down = self.shared.is_down.load(Ordering::Relaxed);
            match self.shared.queue.next(&mut lines, self.patience(is_down)) {
                Next::Write(batch) => {
                    let written = self.prepare().and_then(|()| self.write(&lines));
                    let is_written = self.report(written, lines.len() as u64);
                    let given_up = batch.settle(is_written);
                    if is_written {
                        let first = self.last + 1 - lines.len() as u64;
                        self.undisclosed.extend(given_up.into_iter().map(|line| first + u64::from(line)));
                    }
                }
                Next::Idle if is_down => {
                    self.shared.queue.note_busy();
                    let tried = self.prepare().and_then(|()| self.say_resumed());
                    self.report(tried, 0);
                }
                Next::Idle => {}
                Next::End => break,
            }
            if !self.shared.is_down.load(Ordering::Relaxed) {
                self.do_what_is_due();
            }
            self.note_last();
        }
        self.end();
    }

    /// How long to wait for lines.
    fn patience(&self, is_down: bool) -> Duration {
        match self.sign_at {
            _ if is_down => RETRY,
            Some(at) => at.saturating_duration_since(Instant::now()),
            None => Duration::from_secs(3600),
        }
    }

    /// Work that no request waits for: lines about the journal itself, checkpoints, seals.
    fn do_what_is_due(&mut self) {
        if !self.undisclosed.is_empty() {
            // If this fails, it is tried again with the next lines.
            let _ = self.say_undisclosed();
        }
        if self.sign_at.is_none() && self.shared.has_refused() {
            self.sign_at = Some(Instant::now() + CHECKPOINT);
        }
        let is_asked = self.shared.must_sign.load(Ordering::Acquire);
        let has_next = self.shared.rotation.has_next();
        let is_due = self.sign_at.is_some_and(|at| at <= Instant::now());
        if !is_due && !is_asked && !has_next {
            return;
        }
        self.shared.queue.note_busy();
        let done = self.say_refused().and_then(|()| self.prepare()).and_then(|()| {
            let next = self.shared.rotation.take_next();
            self.sign(next)
        });
        if self.report(done, 0) {
            self.shared.must_sign.store(false, Ordering::Release);
        }
    }

    /// Signs what is left.
    fn end(&mut self) {
        self.shared.queue.note_busy();
        let stopped = (self.settings.opened_by == OpenedBy::Server).then(|| self.fields(&Mark::Stopped));
        let signed = self
            .say_refused()
            .and_then(|()| self.prepare())
            .and_then(|()| self.write_fields(stopped.iter().map(Vec::as_slice)))
            .and_then(|()| self.sign(None));
        if let Err(error) = signed {
            tracing::error!(%error, "cannot sign the end of the audit journal");
        }
        self.note_last();
        if let Some(open) = &self.open {
            match open.file.sync_data() {
                Ok(()) => self.shared.sync.note_synced(self.last),
                Err(error) => tracing::error!(%error, "cannot sync the end of the audit journal"),
            }
        }
    }

    fn fields(&self, mark: &Mark) -> Vec<u8> {
        let mut fields = Vec::new();
        format::mark(&mut fields, &self.settings.node, self.clock.now(), mark);
        fields
    }

    /// Writes a checkpoint if there are lines to sign. With the keys of the next epoch, it seals this one.
    fn sign(&mut self, next: Option<EpochKeys>) -> io::Result<()> {
        if self.unsigned == 0 && next.is_none() {
            self.sign_at = None;
            return Ok(());
        }
        let signed = self.write_checkpoint(next.as_ref().map(EpochKeys::public));
        match (signed, next) {
            (Ok(seal), Some(next)) => {
                let Some(file) = self.open.as_ref().map(|open| Arc::clone(&open.file)) else { return Ok(()) };
                let epoch = std::mem::replace(&mut self.keys, next).epoch;
                self.key = self.keys.interval(self.number);
                let current = self.keys.clone();
                self.shared.rotation.note_sealed(Sealed { file, seal, epoch, current });
                Ok(())
            }
            (Ok(_), None) => Ok(()),
            (Err(error), next) => {
                if let Some(next) = next {
                    self.shared.rotation.return_next(next);
                }
                Err(error)
            }
        }
    }

    /// Writes a checkpoint; returns its line.
    fn write_checkpoint(&mut self, next: Option<RootKey>) -> io::Result<Vec<u8>> {
        // Noted first: from now on the key may be known, and no other line may follow under it.
        self.note_anchor(self.number, self.last, self.chain);
        self.must_sign = true;
        let place = CheckpointAt {
            node: &self.settings.node,
            at: self.clock.now(),
            seq: self.last + 1,
            previous: self.chain,
            number: self.number,
        };
        let mut text = Vec::new();
        let chain = format::checkpoint(&mut text, &self.keys, &place, next);
        let line = text.trim_ascii_end().to_vec();
        self.buffer = text;
        let seq = self.last + 1;
        match self.write_buffer(seq, chain) {
            // It is in the file and may survive, so it counts. The next segment says that a sync failed.
            Err(error) if self.last == seq => {
                tracing::error!(%error, "cannot sync a checkpoint of the audit journal");
            }
            written => written?,
        }
        self.note_signed();
        Ok(line)
    }

    /// The lines so far are signed.
    fn note_signed(&mut self) {
        self.number += 1;
        self.key = self.keys.interval(self.number);
        (self.unsigned, self.sign_at, self.must_sign) = (0, None, false);
    }

    fn note_anchor(&self, number: u64, seq: u64, chain: Chain) {
        if let Err(error) = write_anchor(&self.anchor, &Anchor::new(self.keys.root, number, seq, chain)) {
            tracing::error!(%error, "cannot note in keys/ what the audit journal has signed");
        }
    }

    /// Notes the last line, so that it is missed if somebody removes it before it is signed.
    fn note_last(&mut self) {
        if self.noted != self.last {
            self.noted = self.last;
            if let Err(error) = write_last(&self.anchor, self.last, self.chain) {
                tracing::error!(%error, "cannot note in keys/ what the audit journal contains");
            }
        }
    }

    /// Records refused requests that were only counted.
    fn say_refused(&mut self) -> io::Result<()> {
        let counts = self.shared.take_refused();
        if counts.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let lines: Vec<Vec<u8>> = counts
            .iter()
            .map(|(kind, &count)| {
                let mut fields = Vec::new();
                format::refused(&mut fields, &self.settings.node, now, kind, count);
                fields
            })
            .collect();
        let said = self.prepare().and_then(|()| self.write_fields(lines.iter().map(Vec::as_slice)));
        if said.is_err() {
            self.shared.return_refused(counts);
        }
        said
    }

    /// Updates counters, state and log with the result of an attempt. Returns whether it succeeded.
    fn report(&mut self, result: io::Result<()>, lines: u64) -> bool {
        let was_down = self.shared.is_down.swap(result.is_err(), Ordering::Relaxed);
        match result {
            Ok(()) => {
                self.shared.written.fetch_add(lines, Ordering::Relaxed);
                if was_down {
                    tracing::warn!("the audit journal can be written again");
                }
                true
            }
            Err(error) => {
                self.shared.note_lost(lines);
                if !was_down {
                    tracing::error!(
                        %error,
                        "the audit journal cannot be written: lookups are answered 500 until it can be"
                    );
                }
                false
            }
        }
    }

    /// Ensures that there is an open segment, and that it contains nothing after its valid part.
    fn prepare(&mut self) -> io::Result<()> {
        if let Some(synced_through) = self.shared.sync.failure() {
            return self.begin_segment(Some(synced_through));
        }
        if self.begin.is_some() {
            return self.begin_segment(None);
        }
        if let Some((path, len)) = &self.segment {
            let file = OpenOptions::new().append(true).open(path)?;
            // A killed server may have written lines that are not on disk yet.
            file.sync_data().inspect_err(|_| self.shared.sync.note_failure())?;
            self.shared.sync.note_synced(self.last);
            let open = Open::new(file, path.clone(), *len)?;
            self.shared.note_open(&open.path);
            self.open = Some(open);
            self.segment = None;
        }
        let Some(open) = &self.open else {
            return self.begin_segment(None);
        };
        if self.torn > 0 {
            // The unfinished line is not part of the chain. The new segment records its length.
            return self.begin_segment(None);
        }
        let Some(len) = open.len_by_name()?.filter(|&len| len >= open.len) else {
            // Somebody truncated or removed it. Its line numbers are not reused, so verification finds this.
            return self.begin_segment(None);
        };
        if len > open.len {
            open.file.set_len(open.len)?;
        }
        if self.must_sign {
            self.write_checkpoint(None)?;
        }
        let Some(open) = &self.open else { return Ok(()) };
        if open.len >= self.settings.segment_bytes {
            // Every segment ends with a signature, so that it can be verified by itself.
            if self.unsigned > 0 {
                self.write_checkpoint(None)?;
            }
            let Some(open) = &self.open else { return Ok(()) };
            open.file.sync_data().inspect_err(|_| self.shared.sync.note_failure())?;
            // The sync thread may have received an error that this sync did not.
            return self.begin_segment(self.shared.sync.failure());
        }
        Ok(())
    }

    /// Begins a segment. It is valid once its first line and its directory entry are on disk.
    fn begin_segment(&mut self, suspect_after: Option<u64>) -> io::Result<()> {
        if let Some(open) = &self.open {
            // Remove bytes of failed writes from the end of the old segment.
            let _ = open
                .file
                .metadata()
                .and_then(|found| if found.len() > open.len { open.file.set_len(open.len) } else { Ok(()) });
        }
        let begun = match self.begun.take() {
            Some(begun) if begun.suspect_after == suspect_after => begun,
            _ => self.make_segment(suspect_after)?,
        };
        if let Err(error) = sync_dir(&self.settings.dir) {
            self.begun = Some(begun);
            return Err(error);
        }
        if let Some(Begin::Journal(_)) = &self.begin
            && let Err(error) = seals::append(&self.settings.dir, &begun.signed)
        {
            self.begun = Some(begun);
            return Err(io::Error::other(error));
        }
        self.begin = None;
        (self.last, self.chain, self.torn) = (begun.last, begun.chain, 0);
        self.shared.last.store(self.last, Ordering::Relaxed);
        self.note_signed();
        self.note_anchor(self.number - 1, self.last - 1, begun.before);
        self.shared.note_open(&begun.open.path);
        // Do not return to the last server's segment, even if it was never opened.
        (self.open, self.segment) = (Some(begun.open), None);
        self.shared.sync.note_begun(self.last, suspect_after);
        Ok(())
    }

    fn make_segment(&self, suspect_after: Option<u64>) -> io::Result<Begun> {
        let mut text = Vec::new();
        let (mut last, mut chain) = (self.last, self.chain);
        let previous = self.chain;
        let opened = match &self.begin {
            Some(Begin::Journal(old)) => {
                Mark::Begun { root: self.keys.root, after: last, previous, old: old.clone() }
            }
            Some(Begin::Broken(what)) => {
                Mark::Opened { after: Some(last), previous, suspect_after, broken: Some(what.clone()) }
            }
            None => Mark::Opened { after: Some(last), previous, suspect_after, broken: None },
        };
        let recovered = (self.torn > 0).then_some(Mark::Recovered { torn_bytes: self.torn });
        for mark in [Some(opened), recovered].into_iter().flatten() {
            last += 1;
            chain = format::finish(&mut text, &self.key, chain, last, &self.fields(&mark));
        }
        let before = chain;
        let place = CheckpointAt {
            node: &self.settings.node,
            at: self.clock.now(),
            seq: last + 1,
            previous: chain,
            number: self.number,
        };
        let start = text.len();
        chain = format::checkpoint(&mut text, &self.keys, &place, None);
        let signed = text[start..].trim_ascii_end().to_vec();
        let path = segment::path(&self.settings.dir, self.last + 1);
        if path.symlink_metadata().is_ok() && self.begun.is_none() {
            // Not ours: the numbers of our lines are used once.
            segment::set_aside(&path).map_err(io::Error::other)?;
        }
        let file = segment::make(&self.settings.dir, self.last + 1, &text)?;
        let open = Open::new(file, path, text.len() as u64)?;
        Ok(Begun { suspect_after, open, last: last + 1, chain, before, signed })
    }

    /// Records which lines are in the file although their requests were answered 500.
    fn say_undisclosed(&mut self) -> io::Result<()> {
        let mut marks: Vec<Vec<u8>> = Vec::new();
        let mut lines = self.undisclosed.iter().copied().peekable();
        while let Some(from) = lines.next() {
            let mut through = from;
            while let Some(next) = lines.next_if_eq(&(through + 1)) {
                through = next;
            }
            let mut fields = Vec::new();
            let mark = Mark::Undisclosed { from, through };
            format::mark(&mut fields, &self.settings.node, self.clock.now(), &mark);
            marks.push(fields);
        }
        self.prepare()?;
        self.write_fields(marks.iter().map(Vec::as_slice))?;
        self.undisclosed.clear();
        Ok(())
    }

    fn say_resumed(&mut self) -> io::Result<()> {
        let lost = self.shared.unsaid.load(Ordering::Relaxed);
        let mut fields = Vec::new();
        format::mark(&mut fields, &self.settings.node, self.clock.now(), &Mark::Resumed { lost });
        self.write_fields([fields.as_slice()].into_iter())?;
        self.shared.unsaid.fetch_sub(lost, Ordering::Relaxed);
        Ok(())
    }

    fn write(&mut self, lines: &WaitingLines) -> io::Result<()> {
        if self.shared.unsaid.load(Ordering::Relaxed) > 0 {
            self.say_resumed()?;
        }
        if !self.undisclosed.is_empty() {
            self.say_undisclosed()?;
        }
        self.write_fields(lines.iter())
    }

    /// Writes lines in one call. If not all bytes are written, none of the lines is valid.
    fn write_fields<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        self.buffer.clear();
        let (mut seq, mut chain) = (self.last, self.chain);
        for fields in lines {
            seq += 1;
            chain = format::finish(&mut self.buffer, &self.key, chain, seq, fields);
        }
        if seq == self.last {
            return Ok(());
        }
        let lines = seq - self.last;
        self.write_buffer(seq, chain)?;
        if self.unsigned == 0 {
            self.sign_at = Some(Instant::now() + CHECKPOINT);
        }
        self.unsigned += lines;
        Ok(())
    }

    /// Writes the buffer, which ends with line `seq`.
    fn write_buffer(&mut self, seq: u64, chain: Chain) -> io::Result<()> {
        let Some(open) = &mut self.open else {
            return Err(io::Error::other("there is no segment"));
        };
        let written = (&*open.file).write(&self.buffer)?;
        if written < self.buffer.len() {
            // Truncate now or, if that fails, before the next write.
            let _ = open.file.set_len(open.len);
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        match self.settings.sync {
            Sync::Disk => {
                if let Err(error) = open.file.sync_data() {
                    self.shared.sync.note_failure();
                    // The lines are in the file and may survive, so their numbers cannot be reused.
                    open.len += written as u64;
                    self.undisclosed.extend(self.last + 1..=seq);
                    self.unsigned += seq - self.last;
                    (self.last, self.chain) = (seq, chain);
                    return Err(error);
                }
                self.shared.sync.note_synced(seq);
            }
            Sync::Os => self.shared.sync.note_written(&open.file, seq),
        }
        open.len += written as u64;
        (self.last, self.chain) = (seq, chain);
        self.shared.last.store(seq, Ordering::Relaxed);
        Ok(())
    }
}
