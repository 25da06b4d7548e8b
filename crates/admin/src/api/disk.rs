//! Room on the disk. Some is always left: the journal needs it, and without the journal no lookup is answered.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How much of the disk is left free.
const LEFT_FREE: u64 = 256 << 20;

/// After so many bytes they are written through to the disk, and the free space is looked at. So the journal, which may be on the
/// same disk, never waits for more than this.
pub(crate) const PORTION: u64 = 16 << 20;

/// Whether so many bytes fit on the disk of a directory. If it cannot be told, writing will tell.
pub(crate) fn has_room(dir: &Path, bytes: u64) -> bool {
    let Ok(disk) = rustix::fs::statvfs(dir) else { return true };
    bytes.saturating_add(LEFT_FREE) <= disk.f_bavail.saturating_mul(disk.f_frsize)
}

/// Whether there is no room for what was to be written.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// A new file that only its owner can read, and that stops growing while there is still room.
pub(crate) struct RoomyFile {
    file: File,
    dir: std::path::PathBuf,
    portion: u64,
}

impl RoomyFile {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let dir = path.parent().unwrap_or(path).to_owned();
        let mut roomy = Self { file, dir, portion: 0 };
        roomy.look()?;
        Ok(roomy)
    }

    fn look(&mut self) -> io::Result<()> {
        self.portion = 0;
        self.file.sync_data()?;
        if has_room(&self.dir, 0) { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}

impl Write for RoomyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.portion >= PORTION {
            self.look()?;
        }
        let written = self.file.write(bytes)?;
        self.portion += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
