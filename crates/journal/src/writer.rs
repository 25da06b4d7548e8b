//! The one thread that writes: numbers, chains, one call for all lines that wait.

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
use crate::queue::{Next, Waiting};
use crate::recover::End;
use crate::settings::{Settings, Sync};
use crate::shared::Shared;
use crate::{ChainKey, format, segment};

/// How often a journal that is down is tried.
const RETRY: Duration = Duration::from_millis(500);

pub(crate) struct Writer {
    settings: Settings,
    key: ChainKey,
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    /// The segment that the last server wrote to, until it is opened.
    segment: Option<(PathBuf, u64)>,
    open: Option<Open>,
    /// A segment that is made and whose name is not known to be on disk yet.
    begun: Option<Begun>,
    /// The number and the chain value of the last line that counts as written.
    last: u64,
    chain: Chain,
    /// Bytes that a killed server left, to be reported.
    torn: u64,
    /// Lines that are written and whose requests were answered 500 all the same, until the journal says so.
    undisclosed: Vec<u64>,
    buffer: Vec<u8>,
}

/// The segment that is written to.
struct Open {
    file: Arc<File>,
    path: PathBuf,
    /// Which file that is, whatever it is called.
    inode: u64,
    /// Bytes of it that count.
    len: u64,
}

impl Open {
    fn new(file: File, path: PathBuf, len: u64) -> io::Result<Self> {
        let inode = file.metadata()?.ino();
        Ok(Self { file: Arc::new(file), path, inode, len })
    }

    /// How long the file is, if it still has its name.
    fn len_by_name(&self) -> io::Result<Option<u64>> {
        match fs::metadata(&self.path) {
            Ok(found) => Ok(Some(found.len()).filter(|_| found.ino() == self.inode)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A segment with its first lines.
struct Begun {
    suspect_after: Option<u64>,
    open: Open,
    last: u64,
    chain: Chain,
}

impl Writer {
    pub(crate) fn new(
        settings: Settings,
        key: ChainKey,
        clock: Arc<dyn Clock>,
        end: End,
        shared: Arc<Shared>,
    ) -> Self {
        let End { segment, synced_through, last, chain, torn } = end;
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
        let mut lines = Waiting::default();
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
                // If it does not work now it is tried with the next lines.
                let _ = self.say_undisclosed();
            }
        }
        self.shared.queue.note_busy();
        if let Some(open) = &self.open {
            match open.file.sync_data() {
                Ok(()) => self.shared.sync.note_synced(self.last),
                Err(error) => tracing::error!(%error, "the end of the audit journal could not be synced"),
            }
        }
    }

    /// Takes note of how it went; whether it went well.
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
                    tracing::error!(%error, "the audit journal cannot be written: lookups are answered 500 until it can");
                }
                false
            }
        }
    }

    /// Sees that there is a segment to write to, and that nothing stands in it that does not count.
    fn prepare(&mut self) -> io::Result<()> {
        if let Some(synced_through) = self.shared.sync.failure() {
            return self.begin_segment(Some(synced_through));
        }
        if let Some((path, len)) = &self.segment {
            let file = OpenOptions::new().append(true).open(path)?;
            // A killed server has handed lines to the operating system that may not be on disk yet.
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
            // Its bytes are kept out of the chain: the next line stands in a segment of its own and says so.
            return self.begin_segment(None);
        }
        let Some(len) = open.len_by_name()?.filter(|&len| len >= open.len) else {
            // Somebody cut it or took it away. Its numbers stay used, so that this is found out.
            return self.begin_segment(None);
        };
        if len > open.len {
            open.file.set_len(open.len)?;
        }
        if open.len >= self.settings.segment_bytes {
            open.file.sync_data().inspect_err(|_| self.shared.sync.note_failure())?;
            // The other thread may have been told of a failure that this sync was not.
            return self.begin_segment(self.shared.sync.failure());
        }
        Ok(())
    }

    /// Begins a segment. It counts once its first line and its name are on disk.
    fn begin_segment(&mut self, suspect_after: Option<u64>) -> io::Result<()> {
        if let Some(open) = &self.open {
            // What does not count is not to be found behind what does.
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
        // The last server's segment, if it could not even be opened, is not gone back to.
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

    /// Says which lines nobody was waiting for any more when they were written.
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

    fn write(&mut self, lines: &Waiting) -> io::Result<()> {
        if self.shared.unsaid.load(Ordering::Relaxed) > 0 {
            self.say_resumed()?;
        }
        if !self.undisclosed.is_empty() {
            self.say_undisclosed()?;
        }
        self.write_fields(lines.iter())
    }

    /// Writes lines in one call. If that does not work whole, none of them counts.
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
            // Cut back now if that works, and before the next write if not.
            let _ = open.file.set_len(open.len);
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        match self.settings.sync {
            Sync::Disk => {
                if let Err(error) = open.file.sync_data() {
                    self.shared.sync.note_failure();
                    // They stand in the file, and may yet be found there: their numbers are used.
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
