//! Opening a segment, and beginning the next one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use contactd_core::Chain;

use super::Writer;
use crate::file::file_id;
use crate::line::Mark;
use crate::recover::Begin;
use crate::{format, seals, segment};

/// The open segment.
pub(super) struct Open {
    pub(super) file: Arc<File>,
    path: PathBuf,
    id: (u64, u64),
    /// The length of its valid part. Bytes after it come from failed or unfinished writes.
    pub(super) len: u64,
}

impl Open {
    fn new(file: File, path: PathBuf, len: u64) -> io::Result<Self> {
        let id = file_id(&file.metadata()?);
        Ok(Self { file: Arc::new(file), path, id, len })
    }

    /// The length of the file; none if its path no longer leads to it.
    fn len_by_name(&self) -> io::Result<Option<u64>> {
        match fs::metadata(&self.path) {
            Ok(found) => Ok(Some(found.len()).filter(|_| file_id(&found) == self.id)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether its path leads to it.
    fn is_in_place(&self) -> bool {
        matches!(self.len_by_name(), Ok(Some(_)))
    }
}

/// A new segment with its first lines.
pub(super) struct Begun {
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
    /// Ensures that there is an open segment, and that it contains nothing after its valid part.
    pub(super) fn prepare(&mut self) -> io::Result<()> {
        let suspect_after = self.shared.sync.failure();
        if self.open.is_some() && self.shared.is_broken() {
            if self.unsigned > 0 {
                self.write_checkpoint(None)?;
            }
            self.begin = self.shared.take_broken().map(Begin::Broken).or(self.begin.take());
        }
        // A segment that was begun reveals the key of the lines before it, so no other line can follow these.
        if suspect_after.is_some() || self.begin.is_some() || self.begun.is_some() {
            return self.begin_segment(suspect_after);
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
            // Somebody truncated or removed it. Its line numbers are not reused, so verification finds this. If the
            // directory is not in its place, no segment can be begun: once it is back, this one goes on.
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

    /// Begins a segment. It is valid once its first line and its directory entry are on disk. If this fails, the next try
    /// goes on with what was begun.
    fn begin_segment(&mut self, suspect_after: Option<u64>) -> io::Result<()> {
        if let Some(open) = &self.open {
            // Remove bytes of failed writes from the end of the old segment.
            let _ = open
                .file
                .metadata()
                .and_then(|found| if found.len() > open.len { open.file.set_len(open.len) } else { Ok(()) });
        }
        self.shared.dir.check_place()?;
        let is_good = |begun: &Begun| begun.suspect_after == suspect_after && begun.open.is_in_place();
        if !self.begun.as_ref().is_some_and(is_good) {
            self.begun = Some(self.make_segment(suspect_after)?);
        }
        // The directory may have been moved since.
        self.shared.dir.check_place()?;
        self.shared.dir.sync()?;
        let Some(begun) = self.begun.take_if(|begun| begun.open.is_in_place()) else {
            return Err(io::Error::other("its directory was moved while a segment was begun; trying again"));
        };
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
            Some(Begin::Journal(old_root)) => {
                Mark::Begun { root: self.keys.root, after: last, previous, old_root: *old_root }
            }
            Some(Begin::Broken(what)) => {
                Mark::Opened { after: last, previous, suspect_after, broken: Some(what.clone()) }
            }
            None => Mark::Opened { after: last, previous, suspect_after, broken: None },
        };
        let recovered = (self.torn > 0).then_some(Mark::Recovered { torn_bytes: self.torn });
        for mark in [Some(opened), recovered].into_iter().flatten() {
            last += 1;
            chain = format::finish(&mut text, &self.key, chain, last, &self.fields(&mark));
        }
        let before = chain;
        let (chain, signed) = self.add_checkpoint(&mut text, last, before, None);
        let path = segment::path(&self.settings.dir, self.last + 1);
        let is_begun =
            self.begun.as_ref().is_some_and(|begun| begun.open.path == path && begun.open.is_in_place());
        if path.symlink_metadata().is_ok() && !is_begun {
            // Not ours: the numbers of our lines are used once.
            segment::set_aside(&path).map_err(io::Error::other)?;
        }
        let file = segment::make(&self.settings.dir, self.last + 1, &text)?;
        let open = Open::new(file, path, text.len() as u64)?;
        Ok(Begun { suspect_after, open, last: last + 1, chain, before, signed })
    }
}
