//! The journal's files, as the services in `core` use them.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use contactd_core::{
    AuditPosition, CopiedFiles, JournalCopy, JournalError, JournalFiles, JournalHead, JournalLine,
    JournalLines, KnownLine, ProofMade, RootKey, Roots, Seen, SignedLine, SignedLines, Timestamp,
    Verification,
};

use crate::line::Line;
use crate::source::Source;
use crate::{Checkpoint, Entry, KeyDir, Lines, Mark, Verifier, begins, head_of, proof, roots_of, segments};

/// A journal's directory, and what is needed to verify it.
pub struct JournalDir {
    /// The directory.
    pub dir: PathBuf,
    /// Where its keys are.
    pub keys: KeyDir,
}

impl JournalDir {
    fn source(&self) -> Source {
        Source::Dir(self.dir.clone())
    }

    fn verifier(&self, roots: &Roots) -> Verifier {
        Verifier { roots: roots.clone(), keys: Some(self.keys.clone()) }
    }
}

impl JournalFiles for JournalDir {
    fn lines_after(&self, position: AuditPosition, roots: &Roots) -> Box<dyn JournalLines> {
        Box::new(Lines::after(&self.dir, position, self.verifier(roots)))
    }

    fn verify_watched(
        &self,
        known: &[KnownLine],
        roots: &Roots,
        seen: Seen<'_>,
    ) -> Result<Verification, JournalError> {
        let verifier = self.verifier(roots);
        verifier.check_there(&self.source())?;
        verifier.verify_source(&self.source(), known, seen)
    }

    fn first_line(&self) -> Result<Option<u64>, JournalError> {
        Ok(segments(&self.dir)?.first().map(|segment| segment.first))
    }

    fn head(&self, roots: &Roots) -> Result<Option<JournalHead>, JournalError> {
        self.verifier(roots).check_there(&self.source())?;
        head_of(&self.source(), roots)
    }

    fn roots(&self) -> Result<Vec<RootKey>, JournalError> {
        roots_of(&self.source())
    }

    fn begins(&self) -> Result<Option<Timestamp>, JournalError> {
        begins(&self.source(), &self.verifier(&Roots::default()))
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
        verifier.check_there(&self.source())?;
        proof::make(&self.source(), &verifier, since, until, out)
    }

    fn signed_after(&self, position: AuditPosition, roots: &Roots) -> Box<dyn SignedLines> {
        // Without the keys of the epoch, only what is signed is read.
        let verifier = Verifier { roots: roots.clone(), ..Verifier::default() };
        Box::new(Lines::after(&self.dir, position, verifier))
    }

    fn seals(&self) -> Result<Vec<(u64, String)>, JournalError> {
        let seals = self.source().seals()?;
        let whole = seals.split_inclusive(|&b| b == b'\n').filter_map(|text| text.strip_suffix(b"\n"));
        let numbered = whole.filter_map(|text| {
            let line = Line::parse(text).filter(|line| line.checkpoint().is_some())?;
            Some((line.seq, String::from_utf8(text.to_vec()).ok()?))
        });
        Ok(numbered.collect())
    }

    fn of_copy(&self, copy: Arc<dyn JournalCopy>) -> Box<dyn CopiedFiles> {
        Box::new(Copied(Source::Copy(copy)))
    }
}

/// A copy of a journal. Only public keys verify it.
struct Copied(Source);

impl Copied {
    fn verifier(roots: &Roots) -> Verifier {
        Verifier { roots: roots.clone(), ..Verifier::default() }
    }
}

impl CopiedFiles for Copied {
    fn lines_after(&self, position: AuditPosition, roots: &Roots) -> Box<dyn JournalLines> {
        Box::new(Lines::of(self.0.clone(), position, Self::verifier(roots)))
    }

    fn verify_watched(
        &self,
        known: &[KnownLine],
        roots: &Roots,
        seen: Seen<'_>,
    ) -> Result<Verification, JournalError> {
        Self::verifier(roots).verify_source(&self.0, known, seen)
    }

    fn head(&self, roots: &Roots) -> Result<Option<JournalHead>, JournalError> {
        head_of(&self.0, roots)
    }

    fn roots(&self) -> Result<Vec<RootKey>, JournalError> {
        roots_of(&self.0)
    }

    fn begins(&self) -> Result<Option<Timestamp>, JournalError> {
        begins(&self.0, &Self::verifier(&Roots::default()))
    }

    fn prove(
        &self,
        since: Timestamp,
        until: Timestamp,
        roots: &Roots,
        out: &mut dyn Write,
    ) -> Result<ProofMade, JournalError> {
        proof::make(&self.0, &Self::verifier(roots), since, until, out)
    }
}

impl SignedLines for Lines {
    fn position(&self) -> AuditPosition {
        self.position()
    }

    fn read(&mut self) -> Result<Option<SignedLine>, JournalError> {
        let Some(proven) = self.next()? else { return Ok(None) };
        let signed = proven.line.checkpoint();
        Ok(Some(SignedLine {
            seq: proven.line.seq,
            begins_segment: proven.begins_segment,
            is_checkpoint: signed.is_some(),
            is_seal: signed.is_some_and(Checkpoint::is_copied),
            retires: match proven.line.entry {
                Entry::Mark(Mark::Retired { through, .. }) => Some(through),
                _ => None,
            },
            text: String::from_utf8_lossy(&proven.text).into_owned(),
        }))
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
