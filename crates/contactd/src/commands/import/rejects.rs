//! The rejects file: every rejected row as it was, with its file, line, column and reason.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use contactd_core::RecordError;

use super::rows::{Content, Layout, Row, Shape};

/// A file that is made when the first row is rejected.
pub(crate) struct Rejects {
    path: Option<PathBuf>,
    writer: Option<csv::Writer<File>>,
    /// The file whose header was written last.
    under: String,
}

impl Rejects {
    /// Rejects to `path`, which is none of the `inputs`.
    pub(crate) fn to(path: PathBuf, inputs: &[PathBuf]) -> anyhow::Result<Self> {
        let is_same = |input: &PathBuf| match (input.canonicalize(), path.canonicalize()) {
            (Ok(input), Ok(rejects)) => input == rejects,
            _ => false,
        };
        if inputs.iter().any(is_same) {
            bail!("--rejects {} is one of the files to import; name another", path.display());
        }
        Ok(Self { path: Some(path), writer: None, under: String::new() })
    }

    /// Rejects to nowhere, because this is only a try.
    pub(crate) fn nowhere() -> Self {
        Self { path: None, writer: None, under: String::new() }
    }

    /// Adds a row of `file`. Each file's rows stand under its own header.
    pub(crate) fn add(&mut self, layout: &Layout, error: RecordError, row: &Row) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(csv::WriterBuilder::new().flexible(true).from_writer(make(path)?)),
        };
        if self.under != layout.file {
            let names = ["file", "line", "column", "reason"].map(str::as_bytes);
            match &layout.shape {
                Shape::Fields(columns) => writer.write_record(names.into_iter().chain(&columns.header))?,
                Shape::Json => writer.write_record(names.into_iter().chain([b"row".as_slice()]))?,
            }
            layout.file.clone_into(&mut self.under);
        }
        let line = row.line.to_string();
        let why = [&layout.file, &line, error.column, error.reason].map(str::as_bytes);
        match &row.content {
            Content::Fields(fields) => writer.write_record(why.into_iter().chain(fields))?,
            Content::Json(text) => writer.write_record(why.into_iter().chain([text.as_slice()]))?,
        }
        Ok(())
    }

    /// The file, if there is one.
    pub(crate) fn finish(self) -> anyhow::Result<Option<PathBuf>> {
        let Some(mut writer) = self.writer else { return Ok(None) };
        writer.flush()?;
        Ok(self.path)
    }
}

fn make(path: &Path) -> anyhow::Result<File> {
    // For its owner only: it holds what the file held.
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).with_context(|| {
        format!("cannot write the rejected rows to {}; name another file with --rejects", path.display())
    })
}
