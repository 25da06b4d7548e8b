//! List files: whom an administrative action was about, if they are more people than its line names.
//!
//! `audit/lists/` has one file for each list, named after the SHA-256 of its content: the digests of the profiles, 16 bytes each,
//! sorted, each once. A list is on disk before the line that names it, and never changes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use contactd_core::{ShortDigest, Timestamp, hex};
use sha2::{Digest, Sha256};

use crate::file::{give_to_owner, sync_dir};

/// The directory of the lists, in that of the journal.
pub(crate) const LISTS: &str = "lists";
/// The end of the name of a list that is being written.
const UNFINISHED: &str = ".new";
/// The length of a digest.
const DIGEST: u64 = 16;

/// The list files of a journal.
#[derive(Clone, Debug)]
pub struct ListFiles(PathBuf);

impl ListFiles {
    /// Those of the journal in this directory.
    pub fn of(audit: &Path) -> Self {
        Self(audit.join(LISTS))
    }

    /// Begins a list.
    pub fn begin(&self) -> io::Result<NewList> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if !self.0.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
            give_to_owner(&self.0)?;
            self.0.parent().map_or(Ok(()), sync_dir)?;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = self.0.join(format!("{}-{number}{UNFINISHED}", std::process::id()));
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        Ok(NewList { path, out: BufWriter::with_capacity(1 << 18, file), hasher: Sha256::new() })
    }

    /// The names of all lists that were written before this time, finished or not.
    pub fn older_than(&self, time: Timestamp) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for file in files(&self.0)? {
            let written = file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            if i64::try_from(written.as_millis()).is_ok_and(|millis| millis < time.millis()) {
                names.push(file.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    /// The names of the lists with one of these digests.
    pub fn with_any(&self, digests: &[ShortDigest]) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for file in files(&self.0)? {
            let name = file.file_name().to_string_lossy().into_owned();
            if !name.ends_with(UNFINISHED) && has_any(&File::open(file.path())?, digests)? {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The length of a list in bytes.
    pub fn length(&self, name: &str) -> io::Result<u64> {
        Ok(self.0.join(name).metadata()?.len())
    }

    /// At most `most` bytes of a list from an offset on, fewer at its end.
    pub fn read_at(&self, name: &str, offset: u64, most: u64) -> io::Result<Vec<u8>> {
        let length = self.length(name)?.saturating_sub(offset).min(most);
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        File::open(self.0.join(name))?.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    /// Removes a list.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    /// Whether a list has the content that its name says.
    pub(crate) fn is_unchanged(&self, name: &str) -> io::Result<bool> {
        let mut file = File::open(self.0.join(name))?;
        let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 18]);
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hex::encode(&hasher.finalize()) == name),
                read => hasher.update(&buffer[..read]),
            }
        }
    }

    /// Copies all lists into the directory of another journal. Returns their names there.
    pub(crate) fn copy(&self, target: &Path) -> io::Result<Vec<String>> {
        let (mut names, to) = (Vec::new(), target.join(LISTS));
        for file in files(&self.0)? {
            let name = file.file_name().to_string_lossy().into_owned();
            if name.ends_with(UNFINISHED) {
                continue;
            }
            DirBuilder::new().recursive(true).mode(0o700).create(&to)?;
            if fs::hard_link(file.path(), to.join(&name)).is_err() {
                fs::copy(file.path(), to.join(&name))?;
                File::open(to.join(&name))?.sync_all()?;
            }
            names.push(format!("{LISTS}/{name}"));
        }
        if !names.is_empty() {
            sync_dir(&to)?;
        }
        Ok(names)
    }
}

/// The files in a directory; none if it does not exist.
fn files(dir: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.collect(),
    }
}

/// Whether a list has one of these digests.
fn has_any(list: &File, digests: &[ShortDigest]) -> io::Result<bool> {
    let count = list.metadata()?.len() / DIGEST;
    for wanted in digests {
        let (mut from, mut until) = (0, count);
        while from < until {
            let middle = from + (until - from) / 2;
            let mut found = [0; 16];
            list.read_exact_at(&mut found, middle * DIGEST)?;
            match found.cmp(&wanted.0) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Greater => until = middle,
                std::cmp::Ordering::Equal => return Ok(true),
            }
        }
    }
    Ok(false)
}

/// A list that is being written.
pub struct NewList {
    path: PathBuf,
    out: BufWriter<File>,
    hasher: Sha256,
}

impl NewList {
    /// Adds bytes: digests, in ascending order.
    pub fn add(&mut self, digests: &[u8]) -> io::Result<()> {
        self.hasher.update(digests);
        self.out.write_all(digests)
    }

    /// Brings the list to disk, and returns its name. One with the same content is replaced, so that it counts as new.
    pub fn finish(self) -> io::Result<String> {
        let name = hex::encode(&self.hasher.finalize());
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        give_to_owner(&self.path)?;
        file.sync_all()?;
        fs::rename(&self.path, self.path.with_file_name(&name))?;
        self.path.parent().map_or(Ok(()), sync_dir)?;
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_found_by_each_of_its_digests_and_by_no_other() {
        let room = tempfile::tempdir().expect("a directory");
        let lists = ListFiles::of(room.path());
        let digest = |n: u8| ShortDigest([n; 16]);
        let mut new = lists.begin().expect("begins");
        (1..=5).for_each(|n| new.add(&digest(2 * n).0).expect("adds"));
        let name = new.finish().expect("finishes");
        for n in 0..=12 {
            let found = lists.with_any(&[digest(n), digest(255)]).expect("reads");
            assert_eq!(found.len(), usize::from(n % 2 == 0 && (2..=10).contains(&n)), "{n}");
        }
        assert!(lists.is_unchanged(&name).expect("reads"));
        assert_eq!(lists.read_at(&name, 64, 100).expect("reads"), [10; 16]);
        fs::write(room.path().join(LISTS).join(&name), [2; 16]).expect("writes");
        assert!(!lists.is_unchanged(&name).expect("reads"));
    }
}
