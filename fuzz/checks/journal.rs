//! A segment of any content: nothing is read from it that was not written.

use std::path::Path;

use contactd_core::AuditPosition;
use contactd_journal::{Entry, JournalReader, KeyDir, Line, Roots, Verifier};

/// The first segment of the journal in the fixture.
pub(crate) const SEGMENT: &[u8] = include_bytes!("../../fixtures/data-1/data/audit/000000000001.jsonl.zst");

/// A journal, and what is written in it.
pub(crate) struct Written {
    room: tempfile::TempDir,
    roots: Roots,
    lines: Vec<Line>,
}

impl Written {
    pub(crate) fn new() -> Self {
        let room = tempfile::tempdir().expect("a directory");
        std::fs::write(segment(room.path()), zstd::decode_all(SEGMENT).expect("unpacks")).expect("writes");
        let roots = Roots::remembered(reader(room.path()).roots().expect("reads"));
        let mut written = Self { room, roots, lines: Vec::new() };
        written.lines = written.read();
        assert!(written.lines.len() > 5, "a journal with lines");
        written
    }

    /// What is read from the segment, without the journal's remarks about itself.
    fn read(&self) -> Vec<Line> {
        let mut lines = reader(self.room.path()).signed_after(AuditPosition::default(), &self.roots);
        let mut found = Vec::new();
        while let Ok(Some(line)) = lines.read() {
            if !matches!(line.entry, Entry::Mark(_)) {
                found.push(line);
            }
        }
        found
    }
}

fn reader(dir: &Path) -> JournalReader {
    JournalReader::of_dir(dir, KeyDir::new(Path::new("no keys")))
}

fn segment(dir: &Path) -> std::path::PathBuf {
    dir.join("000000000001.jsonl")
}

/// Reading and verifying never panic. What is read was written, in this order.
pub(crate) fn check(written: &Written, bytes: &[u8]) {
    std::fs::write(segment(written.room.path()), bytes).expect("writes");
    let mut rest = written.lines.iter();
    for line in written.read() {
        assert!(rest.any(|written| *written == line), "this was not written: {line:?}");
    }
    let verifier = Verifier { roots: written.roots.clone(), keys: None };
    let _ = verifier.verify(written.room.path(), &[]);
}
