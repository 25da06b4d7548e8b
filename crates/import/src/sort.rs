//! Sorting more data than fits into memory.
//!
//! Entries are collected up to a limit, sorted, and written to a file as a run; at the end the runs are merged.
//! Runs are unnamed files in the data directory: they disappear with the process, however it ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use contactd_core::DiskBudget;

/// Sorts entries by key. Entries with the same key keep their order.
pub(crate) struct Sorter {
    disk: DiskBudget,
    /// The maximum number of bytes kept in memory.
    bound: usize,
    bytes: Vec<u8>,
    entries: Vec<SortEntry>,
    runs: Vec<File>,
    pub(crate) count: u64,
    /// The bytes of all entries.
    pub(crate) total: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SortEntry {
    key: u64,
    at: usize,
    len: usize,
}

impl Sorter {
    pub(crate) fn new(disk: DiskBudget, bound: usize) -> Self {
        Self { disk, bound, bytes: Vec::new(), entries: Vec::new(), runs: Vec::new(), count: 0, total: 0 }
    }

    pub(crate) fn push(&mut self, key: u64, bytes: &[u8]) -> io::Result<()> {
        if self.bytes.len() + bytes.len() + self.entries.len() * size_of::<SortEntry>() > self.bound {
            self.write_run()?;
        }
        self.entries.push(SortEntry { key, at: self.bytes.len(), len: bytes.len() });
        self.bytes.extend_from_slice(bytes);
        self.count += 1;
        self.total += bytes.len() as u64;
        Ok(())
    }

    fn write_run(&mut self) -> io::Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        self.entries.sort_unstable();
        let mut run =
            BufWriter::with_capacity(1 << 20, self.disk.file(tempfile::tempfile_in(self.disk.dir())?)?);
        for entry in &self.entries {
            run.write_all(&entry.key.to_le_bytes())?;
            run.write_all(&u32::try_from(entry.len).map_err(io::Error::other)?.to_le_bytes())?;
            run.write_all(&self.bytes[entry.at..entry.at + entry.len])?;
        }
        let mut run = run.into_inner().map_err(io::IntoInnerError::into_error)?.into_file();
        run.rewind()?;
        self.runs.push(run);
        self.entries.clear();
        self.bytes.clear();
        Ok(())
    }

    /// All entries, in order.
    pub(crate) fn finish(mut self) -> io::Result<Sorted> {
        if self.runs.is_empty() {
            self.entries.sort_unstable();
            return Ok(Sorted::InMemory { bytes: self.bytes, entries: self.entries, next: 0 });
        }
        self.write_run()?;
        let runs = self.runs.into_iter().map(Run::new).collect();
        let mut merged = Sorted::Merged { runs, first: BinaryHeap::new(), current: Vec::new() };
        merged.rewind()?;
        Ok(merged)
    }
}

/// Sorted entries, one after the other.
pub(crate) enum Sorted {
    InMemory { bytes: Vec<u8>, entries: Vec<SortEntry>, next: usize },
    Merged { runs: Vec<Run>, first: BinaryHeap<Reverse<(u64, usize)>>, current: Vec<u8> },
}

/// A run that is being read, with its next entry.
pub(crate) struct Run {
    file: BufReader<File>,
    entry: Vec<u8>,
}

impl Run {
    fn new(file: File) -> Self {
        Self { file: BufReader::with_capacity(1 << 20, file), entry: Vec::new() }
    }

    /// Reads the next entry and returns its key; none at the end.
    fn advance(&mut self) -> io::Result<Option<u64>> {
        let mut key = [0; 8];
        match self.file.read_exact(&mut key) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let mut len = [0; 4];
        self.file.read_exact(&mut len)?;
        self.entry.resize(u32::from_le_bytes(len) as usize, 0);
        self.file.read_exact(&mut self.entry)?;
        Ok(Some(u64::from_le_bytes(key)))
    }
}

impl Sorted {
    /// The next entry and its key.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        match self {
            Self::InMemory { bytes, entries, next } => {
                let entry = entries.get(*next);
                *next += 1;
                Ok(entry.map(|entry| (entry.key, &bytes[entry.at..entry.at + entry.len])))
            }
            Self::Merged { runs, first, current } => {
                let Some(Reverse((key, number))) = first.pop() else { return Ok(None) };
                let run = &mut runs[number];
                std::mem::swap(current, &mut run.entry);
                if let Some(key) = run.advance()? {
                    first.push(Reverse((key, number)));
                }
                Ok(Some((key, current)))
            }
        }
    }

    /// Starts again at the first entry.
    pub(crate) fn rewind(&mut self) -> io::Result<()> {
        match self {
            Self::InMemory { next, .. } => *next = 0,
            Self::Merged { runs, first, .. } => {
                first.clear();
                for (number, run) in runs.iter_mut().enumerate() {
                    run.file.rewind()?;
                    if let Some(key) = run.advance()? {
                        first.push(Reverse((key, number)));
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(bound: usize) -> Vec<Vec<u8>> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut sorter = Sorter::new(DiskBudget::new(dir.path().to_owned()), bound);
        let mut seed = 7_u64;
        for number in 0..1_000_u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = seed >> 58;
            sorter.push(key, format!("{key:02} {number:04}").as_bytes()).expect("pushes");
        }
        let mut all = Vec::new();
        let mut sorted = sorter.finish().expect("sorts");
        for _ in 0..2 {
            all.clear();
            while let Some((_, entry)) = sorted.next().expect("reads") {
                all.push(entry.to_vec());
            }
            sorted.rewind().expect("rewinds");
        }
        assert!(std::fs::read_dir(dir.path()).expect("lists").next().is_none(), "runs are unnamed files");
        all
    }

    #[test]
    fn the_sort_is_stable_and_independent_of_the_memory_limit() {
        let in_memory = sorted(usize::MAX);
        assert_eq!(in_memory.len(), 1_000);
        assert!(in_memory.is_sorted());
        assert_eq!(sorted(1_000), in_memory);
        assert_eq!(sorted(1), in_memory);
    }
}
