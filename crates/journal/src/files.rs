//! Read access to a journal: to its files, or to a copy of them.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contactd_core::store::JournalCopies;
use contactd_core::{AuditPosition, RootKey, Timestamp, blocking};

use crate::file::failed;
use crate::line::Line;
use crate::lists::ListFiles;
use crate::seals::Trust;
use crate::source::{Source, StoredCopy};
use crate::walk::{Proven, Walk};
use crate::{
    JournalError, JournalHead, KeyDir, KnownLine, Lines, ProofMade, Roots, Seen, Verification, Verifier,
    proof,
};

/// Reads a journal: its files, or a copy of them in the store that nodes share.
#[derive(Clone)]
pub struct JournalReader {
    pub(crate) source: Source,
    /// Where its keys are. A copy is verified with public keys alone.
    keys: Option<KeyDir>,
}

impl JournalReader {
    /// The files in a directory.
    pub fn of_dir(dir: &Path, keys: KeyDir) -> Self {
        Self { source: Source::Dir(dir.to_owned()), keys: Some(keys) }
    }

    /// The copy with this id. If reading begins at a position, the lines before it need not be read.
    pub fn of_copy(store: Arc<dyn JournalCopies>, copy: i32, position: AuditPosition) -> Self {
        let source = Source::Copy(Arc::new(StoredCopy::new(store, copy, position)));
        Self { source, keys: None }
    }

    fn verifier(&self, roots: &Roots) -> Verifier {
        Verifier { roots: roots.clone(), keys: self.keys.clone() }
    }

    /// The lines after a position. Lines that were changed or added by somebody else are left out.
    pub fn lines_after(&self, position: AuditPosition, roots: &Roots) -> Lines {
        Lines::of(self.source.clone(), position, self.verifier(roots))
    }

    /// Checks every line, and that the journal still contains each of the `known` lines.
    pub fn verify(&self, known: &[KnownLine], roots: &Roots) -> Result<Verification, JournalError> {
        self.verify_watched(known, roots, &mut |_| true)
    }

    /// As [`verify`](Self::verify). Now and then, `seen` is told how many
    /// lines are checked; it returns whether to continue. If not, this fails with [`JournalError::Cancelled`].
    pub fn verify_watched(
        &self,
        known: &[KnownLine],
        roots: &Roots,
        seen: Seen<'_>,
    ) -> Result<Verification, JournalError> {
        blocking(|| {
            let verifier = self.verifier(roots);
            verifier.check_there(&self.source)?;
            verifier.verify_source(&self.source, known, seen)
        })
    }

    /// The number of the oldest line that is still in the journal; `None` if there is none.
    pub fn first_line(&self) -> Result<Option<u64>, JournalError> {
        Ok(self.source.list()?.first().map(|segment| segment.first))
    }

    /// The line with this number, if it is there and proven.
    pub fn line(&self, seq: u64, roots: &Roots) -> Result<Option<Line>, JournalError> {
        blocking(|| {
            let mut walk = self.verifier(roots).walk(&self.source)?;
            if !walk.enter_last(seq)? {
                return Ok(None);
            }
            while let Some(Proven { line, .. }) = walk.next()? {
                if line.seq >= seq {
                    return Ok(Some(line).filter(|line| line.seq == seq));
                }
            }
            Ok(None)
        })
    }

    /// The last checkpoint that is on disk; `None` if there is none.
    pub fn head(&self, roots: &Roots) -> Result<Option<JournalHead>, JournalError> {
        blocking(|| {
            self.verifier(roots).check_there(&self.source)?;
            let mut walk = Walk::new(self.source.clone(), roots, None)?;
            if !walk.enter_last(u64::MAX)? {
                return Ok(None);
            }
            let mut head = None;
            while let Some(Proven { line, .. }) = walk.next()? {
                if line.checkpoint().is_some() {
                    head = Some(JournalHead { seq: line.seq, chain: line.chain, at: line.at });
                }
            }
            if let Some((end, _)) = walk.end()
                && head.is_some()
                && !end.is_compressed
                && matches!(self.source, Source::Dir(_))
            {
                let synced = File::open(&end.path).and_then(|file| file.sync_data());
                synced.map_err(failed("cannot sync", &end.path))?;
            }
            Ok(head)
        })
    }

    /// The roots that the journal itself names, oldest first.
    pub fn roots(&self) -> Result<Vec<RootKey>, JournalError> {
        let mut roots = Vec::new();
        for copy in blocking(|| Trust::of(&self.source, &Roots::default()))?.seals {
            if !roots.contains(&copy.epoch.0) {
                roots.push(copy.epoch.0);
            }
        }
        Ok(roots)
    }

    /// When the oldest line that is still in the journal was written.
    pub fn begins(&self) -> Result<Option<Timestamp>, JournalError> {
        let first = blocking(|| self.verifier(&Roots::default()).walk(&self.source)?.next())?;
        Ok(first.map(|proven| proven.line.at))
    }

    /// Its list files; none for a copy.
    pub fn lists(&self) -> Option<ListFiles> {
        match &self.source {
            Source::Dir(dir) => Some(ListFiles::of(dir)),
            Source::Copy(_) => None,
        }
    }

    /// The size of all files, in bytes.
    pub fn bytes(&self) -> Result<u64, JournalError> {
        let size = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
        Ok(self.source.list()?.iter().map(|segment| size(&segment.path)).sum())
    }

    /// Writes what an auditor needs to verify the lines of a period.
    pub fn prove(
        &self,
        since: Timestamp,
        until: Timestamp,
        roots: &Roots,
        out: &mut dyn Write,
    ) -> Result<ProofMade, JournalError> {
        blocking(|| {
            let verifier = self.verifier(roots);
            verifier.check_there(&self.source)?;
            proof::make(&self.source, &verifier, since, until, out)
        })
    }

    /// The lines after a position that are signed, for [`Lines::read_signed`].
    pub fn signed_after(&self, position: AuditPosition, roots: &Roots) -> Lines {
        // Without the keys of the epoch, only what is signed is read.
        let verifier = Verifier { roots: roots.clone(), ..Verifier::default() };
        Lines::of(self.source.clone(), position, verifier)
    }

    /// The copies of all seals, with the numbers of their lines, in order. The lines themselves may have been removed.
    pub fn seals(&self) -> Result<Vec<(u64, String)>, JournalError> {
        let seals = self.source.seals()?;
        let whole = seals.split_inclusive(|&b| b == b'\n').filter_map(|text| text.strip_suffix(b"\n"));
        let numbered = whole.filter_map(|text| {
            let line = Line::parse(text).filter(|line| line.checkpoint().is_some())?;
            Some((line.seq, String::from_utf8(text.to_vec()).ok()?))
        });
        Ok(numbered.collect())
    }
}
