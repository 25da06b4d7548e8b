//! No journal files, and no backups.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use contactd_core::services::{
    BackupError, BackupTarget, Backups, FileShape, Making, PreviewedRow, ReadOptions, RecordFiles,
    RecordSource, RowChecks, RowsError, UploadedFile,
};
use contactd_core::{
    AuditPosition, CopiedFiles, JournalCopy, JournalError, JournalFiles, JournalHead, JournalLine,
    JournalLines, KnownLine, Observer, ProofMade, RootKey, Roots, Seen, SignedLines, Timestamp, Verification,
};

/// No journal files, and no backups.
pub(crate) struct Nothing;

impl JournalLines for Nothing {
    fn position(&self) -> AuditPosition {
        AuditPosition::default()
    }

    fn read(&mut self) -> Result<Option<JournalLine>, JournalError> {
        Ok(None)
    }
}

impl JournalFiles for Nothing {
    fn lines_after(&self, _: AuditPosition, _: &Roots) -> Box<dyn JournalLines> {
        Box::new(Self)
    }

    fn verify_watched(&self, _: &[KnownLine], _: &Roots, _: Seen<'_>) -> Result<Verification, JournalError> {
        unreachable!("no test asks for it")
    }

    fn first_line(&self) -> Result<Option<u64>, JournalError> {
        Ok(None)
    }

    fn head(&self, _: &Roots) -> Result<Option<JournalHead>, JournalError> {
        Ok(None)
    }

    fn roots(&self) -> Result<Vec<RootKey>, JournalError> {
        Ok(Vec::new())
    }

    fn begins(&self) -> Result<Option<Timestamp>, JournalError> {
        Ok(None)
    }

    fn bytes(&self) -> Result<u64, JournalError> {
        Ok(0)
    }

    fn prove(
        &self,
        _: Timestamp,
        _: Timestamp,
        _: &Roots,
        _: &mut dyn Write,
    ) -> Result<ProofMade, JournalError> {
        unreachable!("no test asks for it")
    }

    fn signed_after(&self, _: AuditPosition, _: &Roots) -> Box<dyn SignedLines> {
        unreachable!("no test asks for it")
    }

    fn seals(&self) -> Result<Vec<(u64, String)>, JournalError> {
        Ok(Vec::new())
    }

    fn of_copy(&self, _: Arc<dyn JournalCopy>) -> Box<dyn CopiedFiles> {
        unreachable!("no test asks for it")
    }
}

impl Backups for Nothing {
    fn make<'a>(&'a self, _: BackupTarget<'a>, _: Timestamp, _: Observer<'a>) -> Making<'a> {
        Box::pin(async { Err(BackupError("no test asks for it".to_owned())) })
    }

    fn remove_abandoned(&self) -> Result<bool, BackupError> {
        Ok(true)
    }
}

impl RecordFiles for Nothing {
    fn describe(&self, _: &UploadedFile) -> Result<FileShape, RowsError> {
        unreachable!("not simulated")
    }

    fn preview(
        &self,
        _: &UploadedFile,
        _: &ReadOptions,
        _: &RowChecks<'_>,
        _: usize,
    ) -> Result<Vec<PreviewedRow>, RowsError> {
        unreachable!("not simulated")
    }

    fn open(
        &self,
        _: &UploadedFile,
        _: &ReadOptions,
        _: Option<&Path>,
    ) -> Result<Box<dyn RecordSource>, RowsError> {
        unreachable!("not simulated")
    }
}
