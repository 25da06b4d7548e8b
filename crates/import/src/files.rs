//! Files as the source of an import.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use contactd_core::{Cancel, DiskBudget, Observer, WatchedGrowth};

use crate::digests::Digests;
use crate::error::Tried;
use crate::joined::Joined;
use crate::load::{self, Plan};
use crate::{FileError, Format, ReadOptions, ReadRows, RecordBatch, Rejects, RowChecks, UploadedFile};

/// An input to read.
#[derive(Clone, Debug)]
pub enum Input {
    /// A file; `-` is standard input.
    File(PathBuf),
    /// A file that is called otherwise in messages.
    Uploaded(UploadedFile),
    /// The name and the content of a CSV in memory.
    Csv(&'static str, Cow<'static, str>),
}

/// Files of records that are imported together.
pub struct Files {
    plan: Plan,
    rejects: Rejects,
    joined: Option<Joined>,
    digests: Option<Digests>,
    /// What the database writes while it takes the rows.
    growth: Option<WatchedGrowth>,
    /// At most how much that is.
    most_stored: u64,
}

/// A row takes this many times its size, in the log of the database and in its file.
const STORED_TIMES: u64 = 4;

impl Files {
    /// Reads these inputs and writes rejected rows to `rejects`. What does not fit into memory is
    /// written to the directory of `disk`, which has to be as private as the data.
    pub fn new(
        inputs: Vec<Input>,
        format: Option<Format>,
        options: ReadOptions,
        disk: DiskBudget,
        mut rejects: Rejects,
    ) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        rejects.write_within(&disk);
        let plan = Plan { inputs, format, options, disk, threads, most_rejected: u64::MAX };
        Self { plan, rejects, joined: None, digests: None, growth: None, most_stored: 0 }
    }

    /// Where the rejected rows are written.
    pub fn rejects(&self) -> &Rejects {
        &self.rejects
    }

    /// Stops reading when more rows than this have a rejected value: then nothing is loaded anyway.
    pub fn stop_above(&mut self, most_rejected: u64) {
        self.plan.most_rejected = most_rejected;
    }

    /// Reads and checks every row. Returns early if it is cancelled, or if too many are rejected.
    pub fn read(
        &mut self,
        checks: &RowChecks<'_>,
        observer: Observer<'_>,
        cancel: &Cancel,
    ) -> Result<ReadRows, FileError> {
        let (mut read, sorted, digests) =
            load::read(&self.plan, checks, &mut self.rejects, observer, cancel)?;
        // All rejected rows are in their file before anything is loaded.
        self.rejects.finish()?;
        read.rejects_not_kept = self.rejects.not_kept();
        self.most_stored = read.bytes.saturating_mul(STORED_TIMES);
        self.joined = Some(Joined::new(sorted));
        self.digests = Some(digests);
        Ok(read)
    }

    /// Visits the digest of every profile that the rows name, suppressed or not, each once and in order. Call [`read`](Self::read)
    /// first.
    pub fn each_profile(&mut self, visit: impl FnMut(&[u8; 16]) -> io::Result<()>) -> io::Result<()> {
        self.digests.as_mut().map_or(Ok(()), |digests| digests.each(visit))
    }

    /// The next records, in ascending order of their sort keys, one record per profile; `None` after the last. Call [`read`](Self::read)
    /// first. Fails if the disk has no room for the rows in the database.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, FileError> {
        self.require_room()?;
        self.joined.as_mut().map_or(Ok(None), Joined::next)
    }

    /// Fails if the disk has no room for the rows in the database.
    pub fn require_room(&mut self) -> Result<(), FileError> {
        let growth = self.growth.get_or_insert_with(|| self.plan.disk.watch(self.most_stored));
        growth.check().tried("cannot load the rows")
    }

    /// Makes [`next_batch`](Self::next_batch) start again with the first records.
    pub fn rewind(&mut self) -> Result<(), FileError> {
        self.joined.as_mut().map_or(Ok(()), Joined::rewind)
    }
}
