//! Files as the source of an import.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use contactd_core::{Cancel, Observer};

use crate::digests::Digests;
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
}

impl Files {
    /// Reads these inputs and writes rejected rows to `rejects`. `room` is a directory for what does not fit
    /// into memory; it has to be as private as the data.
    pub fn new(
        inputs: Vec<Input>,
        format: Option<Format>,
        options: ReadOptions,
        room: PathBuf,
        rejects: Rejects,
    ) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { plan: Plan { inputs, format, options, room, threads }, rejects, joined: None, digests: None }
    }

    /// Where the rejected rows are written.
    pub fn rejects(&self) -> &Rejects {
        &self.rejects
    }

    /// Reads and checks every row. Returns early if it is cancelled.
    pub fn read(
        &mut self,
        checks: &RowChecks<'_>,
        observer: Observer<'_>,
        cancel: &Cancel,
    ) -> Result<ReadRows, FileError> {
        let (read, sorted, digests) = load::read(&self.plan, checks, &mut self.rejects, observer, cancel)?;
        // All rejected rows are in their file before anything is loaded.
        self.rejects.finish()?;
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
    /// first.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, FileError> {
        self.joined.as_mut().map_or(Ok(None), Joined::next)
    }

    /// Makes [`next_batch`](Self::next_batch) start again with the first records.
    pub fn rewind(&mut self) -> Result<(), FileError> {
        self.joined.as_mut().map_or(Ok(()), Joined::rewind)
    }
}
