//! The rejects file: every rejected row as it was, with its file, line, column and reason.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use contactd_core::RecordError;

use crate::misuse::Misuse;

use super::rows::{Content, Layout, Row, Shape};

/// What stands before the columns of a row.
const NAMES: [&str; 4] = ["file", "line", "column", "reason"];

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
        if let Ok(there) = path.metadata() {
            let is_same = |input: &PathBuf| {
                let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
                input.metadata().is_ok_and(|input| (input.dev(), input.ino()) == (there.dev(), there.ino()))
            };
            if inputs.iter().any(is_same) {
                let what =
                    format!("--rejects {} is one of the files to import; name another", path.display());
                return Err(Misuse(what).into());
            }
            if there.is_file() && !holds_rejects(&path) {
                bail!(
                    "{} is there already and holds something else; name another file with --rejects",
                    path.display()
                );
            }
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
            let names = NAMES.map(str::as_bytes);
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

    /// Sees that every row is in the file. The file, if there is one.
    pub(crate) fn finish(&mut self) -> anyhow::Result<Option<&Path>> {
        let (Some(writer), Some(path)) = (&mut self.writer, &self.path) else { return Ok(None) };
        writer.flush().with_context(|| cannot_write(path))?;
        Ok(Some(path))
    }
}

/// Whether a file is empty, or an earlier import's.
fn holds_rejects(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
    read.is_ok() && (start.is_empty() || start.starts_with(NAMES.join(",").as_bytes()))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the rejected rows to {}; name another file with --rejects", path.display())
}

fn make(path: &Path) -> anyhow::Result<File> {
    // For its owner only: it holds what the file held.
    let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    made.with_context(|| cannot_write(path))
}
