//! The CSV: which URLs are in it, and the same rows with more columns.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::BufWriter;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use contactd_core::{Kind, csv_cell};
use contactd_import::{Content, CsvRows, Row};
use csv::ByteRecord;

use super::LookedUp;
use crate::unfinished;

pub(crate) struct Sheet {
    path: PathBuf,
    header: ByteRecord,
    /// The index of the column with the profile URLs.
    place: usize,
}

impl Sheet {
    pub(crate) fn open(path: &Path, column: &str) -> anyhow::Result<Self> {
        let (_, header) = open(path)?;
        let is_wanted = |name: &[u8]| name.trim_ascii().eq_ignore_ascii_case(column.as_bytes());
        if header.iter().filter(|name| is_wanted(name)).count() > 1 {
            bail!("{}: two columns are called {column}; rename one of them", path.display());
        }
        let Some(place) = header.iter().position(is_wanted) else {
            bail!(
                "{}: no column is called {column}; name the column with the profile URLs with --column",
                path.display()
            );
        };
        Ok(Self { path: path.to_owned(), header, place })
    }

    /// Every URL once, in the order of the file, without empty ones.
    pub(crate) fn distinct_urls(&self) -> anyhow::Result<Vec<String>> {
        let mut seen = HashSet::new();
        let mut urls = Vec::new();
        self.each(|_, url| {
            if !url.is_empty() && seen.insert(url.to_owned()) {
                urls.push(url.to_owned());
            }
            Ok(())
        })?;
        Ok(urls)
    }

    /// Writes the rows with the columns of these kinds, completely or not at all. Returns the number of rows.
    pub(crate) fn write(
        &self,
        output: &Path,
        kinds: &[Kind],
        mut find: impl FnMut(Kind, &str) -> LookedUp,
    ) -> anyhow::Result<u64> {
        let unfinished = unfinished::name(output);
        let what = || format!("cannot write {}", output.display());
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .with_context(what)?;
        let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(BufWriter::new(file));
        let mut added = vec![self.free_name("canonicalUrl", "contactdCanonicalUrl")];
        added.extend(kinds.iter().flat_map(|&kind| self.column_names(kind)));
        writer.write_record(self.header.iter().chain(added.iter().map(String::as_bytes)).map(cell))?;
        let mut rows = 0;
        let written = self.each(|row, url| {
            // Short rows are padded, so that the added values are below their headers.
            let missing = self.header.len().saturating_sub(row.len());
            let given = row.iter().chain(std::iter::repeat_n(&b""[..], missing));
            let found: Vec<LookedUp> = kinds.iter().map(|&kind| find(kind, url)).collect();
            let canonical = found.iter().find_map(|found| found.canonical.as_deref()).unwrap_or_default();
            let values =
                found.iter().flat_map(|found| [found.value.as_deref().unwrap_or_default(), &found.status]);
            let added = std::iter::once(canonical).chain(values).map(str::as_bytes);
            rows += 1;
            writer.write_record(given.chain(added).map(cell)).with_context(what)
        });
        let finished = written.and_then(|()| {
            let file = writer.into_inner().map_err(|error| error.into_error())?;
            file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
            fs::hard_link(&unfinished, output)?;
            Ok(())
        });
        let _ = fs::remove_file(&unfinished);
        finished.with_context(what)?;
        Ok(rows)
    }

    /// The names of the two columns of a kind: as in the contract, unless the file already has such a column.
    fn column_names(&self, kind: Kind) -> [String; 2] {
        let name = match kind {
            Kind::Phone => self.free_name("phoneNumber", "contactdPhoneNumber"),
            Kind::Email => self.free_name("email", "contactdEmail"),
        };
        let status = format!("{name}Status");
        [name, status]
    }

    /// The first of these names, and then of `other` with a number, that the file does not have yet, also with `Status`.
    fn free_name(&self, plain: &str, other: &str) -> String {
        let is_taken = |name: &str| {
            self.header.iter().any(|there| there.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
        };
        let numbered = (2..).map(|number| format!("{other}{number}"));
        let mut names = [plain.to_owned(), other.to_owned()].into_iter().chain(numbered);
        names.find(|name| !is_taken(name) && !is_taken(&format!("{name}Status"))).unwrap_or_default()
    }

    /// Calls `take` with every row after the header, and the URL in it.
    fn each(&self, mut take: impl FnMut(&ByteRecord, &str) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let what = || self.path.display().to_string();
        let (mut rows, _) = open(&self.path)?;
        while let Some(Row { line, content: Content::Fields(row) }) = rows.read_row().with_context(what)? {
            if row.len() > self.header.len() {
                bail!("{}, line {line}: there are more fields than columns; correct this line", what());
            }
            let url = String::from_utf8_lossy(row.get(self.place).unwrap_or_default()).trim().to_owned();
            take(&row, &url)?;
        }
        Ok(())
    }
}

/// A cell that no spreadsheet program runs as a formula. One that already begins with `'` stays as it is.
fn cell(bytes: &[u8]) -> Cow<'_, [u8]> {
    let is_safe =
        bytes.starts_with(b"'") || matches!(csv_cell(&String::from_utf8_lossy(bytes)), Cow::Borrowed(_));
    if is_safe { bytes.into() } else { [b"'", bytes].concat().into() }
}

/// The rows of the file, and the header above them.
fn open(path: &Path) -> anyhow::Result<(CsvRows, ByteRecord)> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    CsvRows::open(Box::new(file)).with_context(|| path.display().to_string())
}
