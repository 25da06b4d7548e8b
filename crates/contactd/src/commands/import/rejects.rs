//! The rejects file: every rejected row as it was, with its line, column and reason.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use anyhow::Context;
use contactd_core::RecordError;

use super::csv_rows::Row;

/// A file that is made when the first row is rejected.
pub(crate) struct Rejects {
    path: Option<PathBuf>,
    writer: Option<csv::Writer<File>>,
}

impl Rejects {
    /// Rejects to `path`; to nowhere if this is only a try.
    pub(crate) fn to(path: Option<PathBuf>, dry_run: bool) -> Self {
        Self { path: path.filter(|_| !dry_run), writer: None }
    }

    pub(crate) fn add(&mut self, line: u64, error: RecordError, row: &Row<'_>) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                // It holds personal data: for its owner only.
                let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
                let file =
                    file.with_context(|| format!("cannot write the rejects file {}", path.display()))?;
                let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(file);
                let names = ["line", "column", "reason"].map(str::as_bytes);
                writer.write_record(names.into_iter().chain(row.header()))?;
                self.writer.insert(writer)
            }
        };
        let line = line.to_string();
        let why = [line.as_bytes(), error.column.as_bytes(), error.reason.as_bytes()];
        writer.write_record(why.into_iter().chain(row.fields()))?;
        Ok(())
    }

    /// The file, if there is one.
    pub(crate) fn finish(self) -> anyhow::Result<Option<PathBuf>> {
        let Some(mut writer) = self.writer else { return Ok(None) };
        writer.flush()?;
        Ok(self.path)
    }
}
