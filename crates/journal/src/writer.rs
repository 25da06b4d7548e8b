//! The writing thread: numbers and chains all queued lines and writes them in one call.

mod checkpoints;
mod segments;

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use contactd_core::{Chain, Clock};
use segments::{Begun, Open};

use crate::epoch::EpochKeys;
use crate::line::Mark;
use crate::queue::{Next, WaitingLines};
use crate::recover::{Begin, JournalEnd};
use crate::settings::{JournalSettings, OpenedBy, Sync};
use crate::shared::Shared;
use crate::{ChainKey, format};

/// How often to retry while the journal cannot be written.
const RETRY: Duration = Duration::from_millis(500);
/// How long a line may wait for its checkpoint.
const CHECKPOINT: Duration = Duration::from_secs(1);
/// With this many lines that are not signed yet, a checkpoint is due at once. Readers keep them in memory until they are signed, and
/// the next start reads them again.
const MOST_UNSIGNED: u64 = 2_048;

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
    /// Lines that are in the file although their requests were answered 503, until the journal records this.
    undisclosed: Vec<u64>,
    buffer: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(
        settings: JournalSettings,
        clock: Arc<dyn Clock>,
        end: JournalEnd,
        anchor: File,
        shared: Arc<Shared>,
    ) -> Self {
        shared.sync.note_begun(end.synced_through, None);
        if !end.is_synced {
            shared.sync.note_failure();
        }
        shared.last.store(end.last, Ordering::Relaxed);
        Self {
            settings,
            clock,
            shared,
            number: end.next_number,
            key: end.keys.interval(end.next_number),
            keys: end.keys,
            anchor,
            noted: 0,
            unsigned: end.unsigned,
            sign_at: (end.unsigned > 0).then(Instant::now),
            must_sign: end.must_sign,
            begin: end.begin,
            segment: end.segment,
            open: None,
            last: end.last,
            chain: end.chain,
            torn: end.torn,
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
                    let first = (self.last + 1).saturating_sub(lines.len() as u64);
                    let given_up = batch.settle_at(is_written, first);
                    if is_written {
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
        self.undisclosed.extend(self.shared.taken_back());
        if !self.undisclosed.is_empty() {
            let said = self.say_undisclosed();
            if !self.report(said, 0) {
                return;
            }
        }
        if self.sign_at.is_none() && self.shared.has_refused() {
            self.sign_at = Some(Instant::now() + CHECKPOINT);
        }
        let is_asked = self.shared.must_sign.load(Ordering::Acquire);
        let has_next = self.shared.rotation.state.lock().next.is_some();
        let is_due = self.unsigned >= MOST_UNSIGNED || self.sign_at.is_some_and(|at| at <= Instant::now());
        if !is_due && !is_asked && !has_next && !self.shared.is_broken() {
            return;
        }
        self.shared.queue.note_busy();
        let done = self.say_refused().and_then(|()| self.prepare()).and_then(|()| {
            let next = self.shared.rotation.state.lock().next.take();
            self.sign(next)
        });
        if self.report(done, 0) {
            self.shared.must_sign.store(false, Ordering::Release);
        }
    }

    /// Signs what is left.
    fn end(&mut self) {
        self.shared.queue.note_busy();
        self.undisclosed.extend(self.shared.taken_back());
        if !self.undisclosed.is_empty()
            && let Err(error) = self.say_undisclosed()
        {
            tracing::error!(%error, "cannot record which lookups were not answered");
        }
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
                        "the audit journal cannot be written: lookups are answered 503 until it can be"
                    );
                }
                false
            }
        }
    }

    /// Records which lines are in the file although their requests were answered 503.
    fn say_undisclosed(&mut self) -> io::Result<()> {
        let mut marks: Vec<Vec<u8>> = Vec::new();
        let mut lines = self.undisclosed.iter().copied().peekable();
        while let Some(from) = lines.next() {
            let mut through = from;
            while let Some(next) = lines.next_if_eq(&(through + 1)) {
                through = next;
            }
            marks.push(self.fields(&Mark::Undisclosed { from, through }));
        }
        self.prepare()?;
        self.write_fields(marks.iter().map(Vec::as_slice))?;
        self.undisclosed.clear();
        Ok(())
    }

    fn say_resumed(&mut self) -> io::Result<()> {
        let lost = self.shared.unsaid.load(Ordering::Relaxed);
        let fields = self.fields(&Mark::Resumed { lost });
        self.write_fields(std::iter::once(fields.as_slice()))?;
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
