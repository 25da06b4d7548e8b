//! Writing large files, so that the journal, which may be on the same disk, neither lacks room nor waits.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use contactd_core::{BudgetedFile, DiskBudget};

/// After so many bytes they are written through to the disk. So the journal never waits for more than this.
pub(crate) const PORTION: u64 = 16 << 20;

/// Whether there is no room for what was to be written.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// A new file that only its owner can read, and that stops growing while there is still room.
pub(crate) struct RoomyFile {
    file: BudgetedFile,
    portion: u64,
}

impl RoomyFile {
    pub(crate) fn create(path: &Path, disk: &DiskBudget) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self { file: disk.file(file)?, portion: 0 })
    }
}

impl Write for RoomyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.portion >= PORTION {
            self.portion = 0;
            self.file.file().sync_data()?;
        }
        let written = self.file.write(bytes)?;
        self.portion += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
