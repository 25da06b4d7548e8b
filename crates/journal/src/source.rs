//! Where a journal is read from: the files of its directory, or a copy of them that its node has shipped. One reader and one
//! verifier work on both.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::JournalError;
use crate::file::{failed, read_or_empty};
use crate::lists::{LISTS, ListFiles};
use crate::segment::{self, SEALS, Segment};
use crate::stored_copy::StoredCopy;

/// Where a journal is read from.
#[derive(Clone)]
pub(crate) enum Source {
    /// Its directory.
    Dir(PathBuf),
    /// A copy of it.
    Copy(Arc<StoredCopy>),
}

impl From<&Path> for Source {
    fn from(dir: &Path) -> Self {
        Self::Dir(dir.to_owned())
    }
}

impl Source {
    /// Its segments, oldest first.
    pub(crate) fn list(&self) -> Result<Vec<Segment>, JournalError> {
        match self {
            Self::Dir(dir) => segment::list(dir),
            Self::Copy(copy) => Ok(copy.segments()?.into_iter().map(named).collect()),
        }
    }

    /// Its segments, after one could not be found.
    pub(crate) fn list_without(&self, removed: u64) -> Result<Vec<Segment>, JournalError> {
        match self {
            Self::Dir(dir) => segment::list_without(dir, removed),
            Self::Copy(_) => {
                let listed = self.list()?;
                let is_there = listed.iter().any(|segment| segment.first == removed);
                if listed.is_empty() || is_there { Err(self.gone()) } else { Ok(listed) }
            }
        }
    }

    /// The error if a journal that was there has no segment any more.
    pub(crate) fn gone(&self) -> JournalError {
        match self {
            Self::Dir(dir) => segment::gone(dir),
            Self::Copy(_) => JournalError::File {
                what: "cannot read",
                file: "the copy of the journal".to_owned(),
                error: io::Error::new(io::ErrorKind::NotFound, "its lines are gone from the database"),
            },
        }
    }

    /// The lines of a segment, from byte `offset` on.
    pub(crate) fn read_from(
        &self,
        segment: &Segment,
        offset: u64,
    ) -> Result<Box<dyn BufRead + Send>, JournalError> {
        match self {
            Self::Dir(_) => segment.read_from(offset),
            Self::Copy(copy) => copy.read(segment.first, offset),
        }
    }

    /// The copies of its seals, as in `seals.jsonl`.
    pub(crate) fn seals(&self) -> Result<Vec<u8>, JournalError> {
        match self {
            Self::Dir(dir) => {
                let path = dir.join(SEALS);
                read_or_empty(&path).map_err(failed("cannot read", &path))
            }
            Self::Copy(copy) => copy.seals(),
        }
    }

    /// Whether a list is there and has the content that its name says.
    pub(crate) fn has_list(&self, name: &str) -> Result<bool, JournalError> {
        match self {
            Self::Dir(dir) => match ListFiles::of(dir).is_unchanged(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                found => found.map_err(failed("cannot read", &dir.join(LISTS))),
            },
            Self::Copy(copy) => copy.has_list(name),
        }
    }

    /// The names of files that do not belong there.
    pub(crate) fn strange(&self) -> Result<Vec<String>, JournalError> {
        match self {
            Self::Dir(dir) => segment::strange(dir),
            Self::Copy(_) => Ok(Vec::new()),
        }
    }
}

/// A segment of a copy, under the name that its file had.
fn named(first: u64) -> Segment {
    Segment { first, path: segment::path(Path::new(""), first), is_compressed: false }
}
