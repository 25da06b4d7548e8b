//! The files of a journal, as the services of `core` see them.

use std::path::PathBuf;
use std::sync::Arc;

use contactd_core::{
    AuditPosition, Head, JournalError, JournalFiles, JournalLine, JournalLines, KnownLine, Timestamp,
    Verification,
};

use crate::{ChainKey, Entry, Lines, Mark, begins, head, segments, verify};

/// Where the key of the journal comes from, when it is needed.
pub type KeySource = Arc<dyn Fn() -> Result<ChainKey, JournalError> + Send + Sync>;

/// A journal's directory and what is needed to check it.
pub struct Files {
    /// The directory.
    pub dir: PathBuf,
    /// The key.
    pub key: KeySource,
    /// Whether a server may be writing the last line right now.
    pub is_served: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl JournalFiles for Files {
    fn key_id(&self) -> Result<String, JournalError> {
        Ok((self.key)()?.id().to_owned())
    }

    fn lines_after(&self, position: AuditPosition) -> Box<dyn JournalLines> {
        Box::new(Lines::after(&self.dir, position))
    }

    fn verify(&self, known: &[KnownLine]) -> Result<Verification, JournalError> {
        verify(&self.dir, &(self.key)()?, known, (self.is_served)())
    }

    fn head(&self) -> Result<Option<Head>, JournalError> {
        head(&self.dir)
    }

    fn begins(&self) -> Result<Option<Timestamp>, JournalError> {
        begins(&self.dir)
    }

    fn bytes(&self) -> Result<u64, JournalError> {
        let size = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
        Ok(segments(&self.dir)?.iter().map(|segment| size(&segment.path)).sum())
    }
}

impl JournalLines for Lines {
    fn position(&self) -> AuditPosition {
        self.position()
    }

    fn read(&mut self) -> Result<Option<JournalLine>, JournalError> {
        Ok(self.read()?.map(|line| match line.entry {
            Entry::Request(record) => JournalLine::Request(record),
            Entry::Mark(Mark::Undisclosed { from, through }) => JournalLine::Undisclosed { from, through },
            Entry::Mark(_) => JournalLine::Mark,
        }))
    }
}
