//! The lines of a segment that a server did not read before it started: it checks them while it serves.

use std::path::{Path, PathBuf};

use crate::key_dir::KeyDir;
use crate::segment::Segment;
use crate::walk::Walk;
use crate::{JournalError, Roots};

/// The lines of a segment up to a checkpoint.
#[derive(Debug)]
pub(crate) struct Unread {
    dir: PathBuf,
    roots: Roots,
    keys: KeyDir,
    segment: Segment,
    /// The number of the checkpoint's line.
    through: u64,
}

impl Unread {
    pub(crate) fn new(dir: &Path, roots: &Roots, keys: &KeyDir, segment: Segment, through: u64) -> Self {
        Self { dir: dir.to_owned(), roots: roots.clone(), keys: keys.clone(), segment, through }
    }

    /// What is wrong with these lines, if something is; `None` also if this `is_over` before they are all read.
    pub(crate) fn what_is_wrong(self, is_over: impl Fn() -> bool) -> Result<Option<String>, JournalError> {
        let mut walk = Walk::new(self.dir.as_path().into(), &self.roots, Some(self.keys))?;
        let name = self.segment.name();
        if !walk.enter(self.segment)? {
            return Ok(Some(format!("{name} is not a file of this journal")));
        }
        while walk.faults.is_empty() && !is_over() {
            match walk.next()? {
                Some(found) if found.line.seq < self.through => {}
                _ => break,
            }
        }
        Ok(walk.faults.first().map(|fault| fault.fault.to_string()))
    }
}
