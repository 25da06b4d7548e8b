//! The rejects file: every rejected row unchanged, with its file, line, column and reason.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use contactd_core::RecordError;

use crate::FileError;
use crate::error::Tried;
use crate::layout::{Layout, Shape};
use crate::rows::{Content, Row};

/// The columns before those of the row itself.
const NAMES: [&str; 4] = ["file", "line", "column", "reason"];

/// A file that is created when the first row is rejected.
pub struct Rejects {
    path: Option<PathBuf>,
    writer: Option<csv::Writer<File>>,
    /// The file whose header was written last.
    under: String,
}

impl Rejects {
    /// Writes rejected rows to `path`. Fails if it is one of the `inputs` or an existing file of another kind.
    pub fn to(path: PathBuf, inputs: &[PathBuf]) -> Result<Self, FileError> {
        if let Ok(there) = path.metadata() {
            let is_same = |input: &PathBuf| {
                let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
                input.metadata().is_ok_and(|input| (input.dev(), input.ino()) == (there.dev(), there.ino()))
            };
            if inputs.iter().any(is_same) {
                let what =
                    format!("--rejects {} is one of the files to import; choose another", path.display());
                return Err(FileError::Usage(what));
            }
            if there.is_file() && !holds_rejects(&path) {
                return Err(FileError::unusable(format!(
                    "{} exists and holds something else; choose another file with --rejects",
                    path.display()
                )));
            }
        }
        Ok(Self { path: Some(path), writer: None, under: String::new() })
    }

    /// Discards rejected rows.
    pub fn nowhere() -> Self {
        Self { path: None, writer: None, under: String::new() }
    }

    /// Adds a rejected row. The rows of each input file follow its own header.
    pub(crate) fn add(&mut self, layout: &Layout, error: RecordError, row: &Row) -> Result<(), FileError> {
        let Some(path) = &self.path else { return Ok(()) };
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(csv::WriterBuilder::new().flexible(true).from_writer(make(path)?)),
        };
        if self.under != layout.file {
            let names = NAMES.map(str::as_bytes);
            let written = match &layout.shape {
                Shape::Fields(columns) => writer.write_record(names.into_iter().chain(&columns.header)),
                Shape::Json => writer.write_record(names.into_iter().chain([b"row".as_slice()])),
            };
            written.tried(&cannot_write(path))?;
            layout.file.clone_into(&mut self.under);
        }
        let line = row.line.to_string();
        let why = [&layout.file, &line, error.column, error.reason].map(str::as_bytes);
        let written = match &row.content {
            Content::Fields(fields) => writer.write_record(why.into_iter().chain(fields)),
            Content::Json(text) => writer.write_record(why.into_iter().chain([text.as_slice()])),
        };
        written.tried(&cannot_write(path))
    }

    /// Flushes all rows to the file.
    pub(crate) fn finish(&mut self) -> Result<(), FileError> {
        match (&mut self.writer, &self.path) {
            (Some(writer), Some(path)) => writer.flush().tried(&cannot_write(path)),
            _ => Ok(()),
        }
    }

    /// The file, if a row was rejected.
    pub fn written(&self) -> Option<&Path> {
        self.path.as_deref().filter(|_| self.writer.is_some())
    }
}

/// Whether a file is empty or holds the rejects of an earlier import.
fn holds_rejects(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
    read.is_ok() && (start.is_empty() || start.starts_with(NAMES.join(",").as_bytes()))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write the rejected rows to {}; choose another file with --rejects", path.display())
}

fn make(path: &Path) -> Result<File, FileError> {
    // Created for its owner only, because it holds personal data.
    let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    made.tried(&cannot_write(path))
}

/// Where rejected rows are written: the chosen file, or one next to the first input file.
pub fn rejects_file(chosen: Option<&Path>, files: &[PathBuf]) -> PathBuf {
    if let Some(chosen) = chosen {
        return chosen.to_owned();
    }
    // Not next to a pipe, whatever its path.
    let first = files.first().filter(|file| file.is_file());
    let mut name = first.map_or("stdin".into(), |file| file.as_os_str().to_owned());
    name.push(".rejects.csv");
    PathBuf::from(name)
}
