//! The journal's files, as the services in `core` use them.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use contactd_core::{
    AuditPosition, JournalError, JournalFiles, JournalHead, JournalLine, JournalLines, KnownLine, ProofMade,
    RootKey, Roots, Timestamp, Verification,
};

use crate::{ChainKey, Entry, KeyDir, Lines, Mark, Verifier, begins, head, proof, roots, segments};

/// Loads the key of a journal without checkpoints, if there is one.
pub type KeyLoader = Arc<dyn Fn() -> Option<ChainKey> + Send + Sync>;

/// A journal's directory, and what is needed to verify it.
pub struct JournalDir {
    /// The directory.
    pub dir: PathBuf,
    /// Where its keys are.
    pub keys: KeyDir,
    /// The key of a journal without checkpoints.
    pub old_key: KeyLoader,
}

impl JournalDir {
    fn verifier(&self, roots: &Roots) -> Verifier {
        Verifier { roots: roots.clone(), keys: Some(self.keys.clone()), old_key: (self.old_key)() }
    }
}

impl JournalFiles for JournalDir {
    fn lines_after(&self, position: AuditPosition, roots: &Roots) -> Box<dyn JournalLines> {
        Box::new(Lines::after(&self.dir, position, self.verifier(roots)))
    }

    fn verify(&self, known: &[KnownLine], roots: &Roots) -> Result<Verification, JournalError> {
        let verifier = self.verifier(roots);
        verifier.check_there(&self.dir)?;
        verifier.verify(&self.dir, known)
    }

    fn head(&self, roots: &Roots) -> Result<Option<JournalHead>, JournalError> {
        self.verifier(roots).check_there(&self.dir)?;
        head(&self.dir, roots)
    }

    fn roots(&self) -> Result<Vec<RootKey>, JournalError> {
        roots(&self.dir)
    }

    fn begins(&self) -> Result<Option<Timestamp>, JournalError> {
        begins(&self.dir, &self.verifier(&Roots::default()))
    }

    fn bytes(&self) -> Result<u64, JournalError> {
        let size = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
        Ok(segments(&self.dir)?.iter().map(|segment| size(&segment.path)).sum())
    }

    fn prove(
        &self,
        since: Timestamp,
        until: Timestamp,
        roots: &Roots,
        out: &mut dyn Write,
    ) -> Result<ProofMade, JournalError> {
        let verifier = self.verifier(roots);
        verifier.check_there(&self.dir)?;
        proof::make(&self.dir, &verifier, since, until, out)
    }
}

impl JournalLines for Lines {
    fn position(&self) -> AuditPosition {
        self.position()
    }

    fn read(&mut self) -> Result<Option<JournalLine>, JournalError> {
        Ok(self.read()?.map(|line| match line.entry {
            Entry::Request(record) => JournalLine::Request(record),
            Entry::Admin(record) => JournalLine::Admin(*record),
            Entry::Mark(Mark::Undisclosed { from, through }) => JournalLine::Undisclosed { from, through },
            Entry::Mark(Mark::Retired { through, .. }) => JournalLine::Retired { through },
            Entry::Mark(_) => JournalLine::Mark,
        }))
    }
}
