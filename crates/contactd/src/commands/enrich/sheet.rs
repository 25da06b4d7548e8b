//! The file: which URLs are in it, and the same rows with more columns.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use contactd_core::{DiskBudget, Kind};
use contactd_import::{FileError, Format, InputRead, ReadOptions, Table, TableColumn};

use super::LookedUp;
use super::urls::Urls;
use crate::cli::EnrichArgs;
use crate::unfinished;

pub(crate) struct Sheet {
    path: PathBuf,
    options: ReadOptions,
    disk: DiskBudget,
    /// The file, read to its end: only then its encoding is certain.
    table: Table,
    /// The column with the profile URLs.
    column: TableColumn,
    /// Without empty ones.
    pub(crate) urls: Urls,
    /// The names that columns have, in lower case.
    taken: HashSet<String>,
}

impl Sheet {
    /// Reads the whole file.
    pub(crate) fn read(args: &EnrichArgs) -> anyhow::Result<Self> {
        if args.input == Path::new("-") {
            bail!("standard input cannot be read twice; save it as a file first");
        }
        let options = ReadOptions {
            mapping: vec![("profileUrl".to_owned(), args.column.clone())],
            delimiter: args.delimiter,
            encoding: args.encoding,
            sheet: args.sheet.clone(),
            ..ReadOptions::default()
        };
        // What has to be unpacked first is written where the output will be.
        let dir = args.output().parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let disk = DiskBudget::new(dir.to_owned());
        let mut table = Table::open(&args.input, &options, &disk).map_err(|error| advised(&error))?;
        let column = table.column(&args.column).map_err(|error| advised(&error))?;
        let lower = |names: Vec<String>| names.into_iter().map(|name| name.to_lowercase());
        let mut taken: HashSet<String> = lower(table.names().unwrap_or_default()).collect();
        let mut urls = Urls::default();
        while let Some(row) = table.next_row()? {
            let url = column.text(&row);
            if !url.is_empty() {
                urls.add(&url).context("there are too many URLs; split the file")?;
            }
            taken.extend(lower(row.field_names()));
        }
        Ok(Self { path: args.input.clone(), options, disk, table, column, urls, taken })
    }

    /// How it was read.
    pub(crate) fn about(&self) -> InputRead {
        self.table.about()
    }

    /// Writes the rows with the columns of these kinds, completely or not at all. Returns the number of rows.
    pub(crate) fn write(
        &self,
        output: &Path,
        kinds: &[Kind],
        find: impl FnMut(Kind, &str) -> anyhow::Result<LookedUp>,
    ) -> anyhow::Result<u64> {
        let unfinished = unfinished::name(output);
        let what = || format!("cannot write {}", output.display());
        let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
        let file = create().with_context(what)?;
        let written = self.write_rows(file, format_of(output), kinds, find).and_then(|rows| {
            fs::hard_link(&unfinished, output)?;
            Ok(rows)
        });
        let _ = fs::remove_file(&unfinished);
        written.with_context(what)
    }

    fn write_rows(
        &self,
        file: File,
        format: Option<Format>,
        kinds: &[Kind],
        mut find: impl FnMut(Kind, &str) -> anyhow::Result<LookedUp>,
    ) -> anyhow::Result<u64> {
        let mut added = vec![self.free_name("canonicalUrl", "contactdCanonicalUrl")];
        added.extend(kinds.iter().flat_map(|&kind| self.column_names(kind)));
        let mut writer = self.table.writer(file, format, &added)?;
        let mut table = Table::open(&self.path, &self.options, &self.disk)?;
        let mut rows = 0;
        while let Some(row) = table.next_row()? {
            let url = self.column.text(&row);
            let found: Vec<LookedUp> =
                kinds.iter().map(|&kind| find(kind, &url)).collect::<anyhow::Result<_>>()?;
            let canonical = found.iter().find_map(|found| found.canonical.as_deref()).unwrap_or_default();
            let values =
                found.iter().flat_map(|found| [found.value.as_deref().unwrap_or_default(), &found.status]);
            let added: Vec<&str> = std::iter::once(canonical).chain(values).collect();
            writer.write(&row, &added)?;
            rows += 1;
        }
        writer.finish()?.sync_all()?;
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
        let is_taken = |name: &str| self.taken.contains(&name.to_lowercase());
        let numbered = (2..).map(|number| format!("{other}{number}"));
        let mut names = [plain.to_owned(), other.to_owned()].into_iter().chain(numbered);
        names.find(|name| !is_taken(name) && !is_taken(&format!("{name}Status"))).unwrap_or_default()
    }
}

/// The format that the name of a file asks for; none if that of the input will do.
fn format_of(output: &Path) -> Option<Format> {
    let ending = output.extension()?.to_str()?.to_ascii_lowercase();
    match ending.as_str() {
        "csv" | "tsv" => Some(Format::Csv),
        "jsonl" | "ndjson" => Some(Format::Jsonl),
        "parquet" => Some(Format::Parquet),
        "xlsx" => Some(Format::Xlsx),
        _ => None,
    }
}

/// An error about the input, with the flag that helps.
fn advised(error: &FileError) -> anyhow::Error {
    let advice = match error.inner() {
        FileError::NoColumn { suggested: Some(header), .. } => {
            format!("; name the column with the profile URLs, perhaps --column {header:?}")
        }
        FileError::NoColumn { .. } => "; name the column with the profile URLs with --column".to_owned(),
        FileError::NoSheet { .. } => "; name one with --sheet".to_owned(),
        _ => String::new(),
    };
    anyhow!("{error}{advice}")
}
