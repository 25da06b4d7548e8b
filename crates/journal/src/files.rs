//! The journal's files, as the services in `core` use them.

use std::path::PathBuf;
use std::sync::Arc;

use contactd_core::{
    AuditPosition, JournalError, JournalFiles, JournalHead, JournalLine, JournalLines, KnownLine, Timestamp,
    Verification,
};

use crate::{ChainKey, Entry, Lines, Mark, begins, head, segments, verify};

/// Loads the key of the journal when it is needed.
pub type KeyLoader = Arc<dyn Fn() -> Result<ChainKey, JournalError> + Send + Sync>;

/// A journal's directory, and what is needed to verify it.
pub struct JournalDir {
    /// The directory.
    pub dir: PathBuf,
    /// The key.
    pub key: KeyLoader,
    /// Whether a server may be writing the last line right now.
    pub is_served: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl JournalFiles for JournalDir {
    fn key_id(&self) -> Result<String, JournalError> {
        Ok((self.key)()?.id().to_owned())
    }

    fn lines_after(&self, position: AuditPosition) -> Box<dyn JournalLines> {
        Box::new(Lines::after(&self.dir, position))
    }

    fn verify(&self, known: &[KnownLine]) -> Result<Verification, JournalError> {
        verify(&self.dir, &(self.key)()?, known, (self.is_served)())
    }

    fn head(&self) -> Result<Option<JournalHead>, JournalError> {
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
