//! The writing thread: numbers and chains all queued lines and writes them in one call.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use contactd_core::{Chain, Clock};

use crate::file::sync_dir;
use crate::line::Mark;
use crate::queue::{Next, WaitingLines};
use crate::recover::JournalEnd;
use crate::settings::{JournalSettings, Sync};
use crate::shared::Shared;
use crate::{ChainKey, format, segment};

/// How often to retry while the journal cannot be written.
const RETRY: Duration = Duration::from_millis(500);

pub(crate) struct Writer {
    settings: JournalSettings,
    key: ChainKey,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
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
}

impl Writer {
    pub(crate) fn new(
        settings: JournalSettings,
        key: ChainKey,
        clock: Arc<dyn Clock>,
        end: JournalEnd,
        shared: Arc<Shared>,
    ) -> Self {
        let JournalEnd { segment, synced_through, last, chain, torn } = end;
        shared.sync.note_begun(synced_through, None);
        Self {
            settings,
            key,
            clock,
            shared,
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
            let patience = if is_down { RETRY } else { Duration::from_secs(3600) };
            match self.shared.queue.next(&mut lines, patience) {
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
            if !self.undisclosed.is_empty() {
                // If this fails, it is tried again with the next lines.
                let _ = self.say_undisclosed();
            }
        }
        self.shared.queue.note_busy();
        if let Some(open) = &self.open {
            match open.file.sync_data() {
                Ok(()) => self.shared.sync.note_synced(self.last),
                Err(error) => tracing::error!(%error, "cannot sync the end of the audit journal"),
            }
        }
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
        if open.len >= self.settings.segment_bytes {
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
        (self.last, self.chain, self.torn) = (begun.last, begun.chain, 0);
        self.shared.note_open(&begun.open.path);
        // Do not return to the last server's segment, even if it was never opened.
        (self.open, self.segment) = (Some(begun.open), None);
        self.shared.sync.note_begun(self.last, suspect_after);
        Ok(())
    }

    fn make_segment(&self, suspect_after: Option<u64>) -> io::Result<Begun> {
        let mut text = Vec::new();
        let (mut last, mut chain) = (self.last, self.chain);
        let opened = Mark::Opened { previous: self.chain, suspect_after };
        let recovered = (self.torn > 0).then_some(Mark::Recovered { torn_bytes: self.torn });
        for mark in [Some(opened), recovered].into_iter().flatten() {
            let mut fields = Vec::new();
            format::mark(&mut fields, &self.settings.node, self.clock.now(), &mark);
            last += 1;
            chain = format::finish(&mut text, &self.key, chain, last, &fields);
        }
        let file = segment::make(&self.settings.dir, self.last + 1, &text)?;
        let path = segment::path(&self.settings.dir, self.last + 1);
        let open = Open::new(file, path, text.len() as u64)?;
        Ok(Begun { suspect_after, open, last, chain })
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
        let Some(open) = &mut self.open else {
            return Err(io::Error::other("there is no segment"));
        };
        self.buffer.clear();
        let (mut seq, mut chain) = (self.last, self.chain);
        for fields in lines {
            seq += 1;
            chain = format::finish(&mut self.buffer, &self.key, chain, seq, fields);
        }
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
                    (self.last, self.chain) = (seq, chain);
                    return Err(error);
                }
                self.shared.sync.note_synced(seq);
            }
            Sync::Os => self.shared.sync.note_written(&open.file, seq),
        }
        open.len += written as u64;
        (self.last, self.chain) = (seq, chain);
        Ok(())
    }
}
