//! Room on the disk of a data directory, which everybody shares who writes large files there.
//!
//! What is promised to one is not promised to another, and some is always left: without the journal no lookup is answered, and
//! without `contactd.db` no opt-out is kept.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

/// How much is left free for the journal and `contactd.db`; on a small disk, a quarter of it.
const LEFT_FREE: u64 = 256 << 20;
/// How much is promised at a time to a file whose size is not known.
const PORTION: u64 = 1 << 20;
/// How much a database may still write twice of what it was given: the size of its cache.
const NOT_WRITTEN_YET: u64 = 32 << 20;

/// The room in a directory. Clones share it; another process looks at the same disk before it writes, but does not know what is
/// promised here.
#[derive(Clone, Debug)]
pub struct DiskBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    /// Bytes that are promised and not written yet.
    promised: Mutex<u64>,
}

impl DiskBudget {
    /// The room on the disk of this directory.
    pub fn new(dir: PathBuf) -> Self {
        Self(Arc::new(Shared { dir, promised: Mutex::new(0) }))
    }

    /// The directory, for temporary files.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Promises room for this many bytes. Fails as a full disk does if too little would be left free.
    pub fn reserve(&self, bytes: u64) -> io::Result<Reservation> {
        let mut promised = self.0.promised.lock();
        let (free, left) = self.free_and_left();
        if bytes.saturating_add(*promised).saturating_add(left) > free {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!("{} MiB of the disk stay free for the journal and for opt-outs", left >> 20),
            ));
        }
        *promised += bytes;
        drop(promised);
        Ok(Reservation { disk: self.clone(), left: bytes })
    }

    /// A file that is written within this budget, if it is on the same disk.
    pub fn file(&self, file: File) -> io::Result<BudgetedFile> {
        let about = file.metadata()?;
        let is_here = about.is_file() && self.0.dir.metadata().is_ok_and(|dir| dir.dev() == about.dev());
        let reserved = if is_here { Some(self.reserve(0)?) } else { None };
        Ok(BudgetedFile { file, reserved, written: 0 })
    }

    /// Begins to watch what a transaction of a database writes, which writes at most so many bytes in all.
    pub fn watch(&self, at_most: u64) -> WatchedGrowth {
        let cached = at_most.min(NOT_WRITTEN_YET);
        WatchedGrowth { disk: self.clone(), free_before: self.free_and_left().0, cached, reserved: None }
    }

    /// How much is free, and how much of that stays free. If it cannot be told, writing will tell.
    fn free_and_left(&self) -> (u64, u64) {
        let Ok(disk) = rustix::fs::statvfs(&self.0.dir) else { return (u64::MAX, 0) };
        let size = disk.f_blocks.saturating_mul(disk.f_frsize);
        (disk.f_bavail.saturating_mul(disk.f_frsize), LEFT_FREE.min(size / 4))
    }
}

/// Room that is promised. What is not used when it is dropped is free again.
#[derive(Debug)]
pub struct Reservation {
    disk: DiskBudget,
    left: u64,
}

impl Reservation {
    /// Makes sure that this many bytes are promised, which are about to be written.
    pub fn extend_to(&mut self, bytes: u64) -> io::Result<()> {
        if self.left < bytes {
            let mut more = self.disk.reserve((bytes - self.left).max(PORTION))?;
            self.left += std::mem::take(&mut more.left);
        }
        Ok(())
    }

    /// Notes that this many bytes are written.
    pub fn use_up(&mut self, bytes: u64) {
        let used = bytes.min(self.left);
        self.left -= used;
        *self.disk.0.promised.lock() -= used;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.use_up(self.left);
    }
}

/// A file that stops growing while there is still room for the journal.
#[derive(Debug)]
pub struct BudgetedFile {
    file: File,
    reserved: Option<Reservation>,
    written: u64,
}

impl BudgetedFile {
    /// How many bytes were written.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// The file.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// The file, to which nothing more is written.
    pub fn into_file(self) -> File {
        self.file
    }
}

impl Write for BudgetedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(reserved) = &mut self.reserved {
            reserved.extend_to(bytes.len() as u64)?;
        }
        let written = self.file.write(bytes)?;
        if let Some(reserved) = &mut self.reserved {
            reserved.use_up(written as u64);
        }
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// What is written on a disk while a transaction of a database goes on.
#[derive(Debug)]
pub struct WatchedGrowth {
    disk: DiskBudget,
    free_before: u64,
    cached: u64,
    reserved: Option<Reservation>,
}

impl WatchedGrowth {
    /// Fails as a full disk does if what was written since the beginning does not fit once more, with what is in the cache: the
    /// transaction is in a log, and is copied from there when it is complete.
    pub fn check(&mut self) -> io::Result<()> {
        self.reserved = None;
        let grown = self.free_before.saturating_sub(self.disk.free_and_left().0);
        self.reserved = Some(self.disk.reserve(grown + self.cached)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_to_one_is_not_promised_to_another() {
        let disk = DiskBudget::new(PathBuf::from("."));
        let (free, left) = disk.free_and_left();
        // Others use the same disk meanwhile.
        let most = free - left - (free - left) / 4;
        let mut first = disk.reserve(most).expect("fits");
        let refused = disk.reserve(most / 2).expect_err("is promised already");
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        first.use_up(most / 4 * 3);
        let second = disk.reserve(most / 2).expect("as if it were written elsewhere");
        drop((first, second));
        assert_eq!(*disk.0.promised.lock(), 0);
    }
}
