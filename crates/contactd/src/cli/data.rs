//! Flags of commands that load, change and export data.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use contactd_core::{DateFormat, Kind, Label, Span, Timestamp};
use contactd_import::Encoding;
use contactd_services::{MaxRejects, defaults, parse_share, parse_source};

use super::ServiceArgs;
use super::values::{
    parse_delimiter, parse_encoding, parse_import, parse_kind, parse_label, parse_mapping, parse_region,
    parse_time,
};

/// The format of a file to import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ImportFormat {
    /// Comma-separated values with a header
    Csv,
    /// A JSON object on each line
    Jsonl,
    /// Apache Parquet, with the columns of a CSV
    Parquet,
    /// An Excel workbook, with the columns of a CSV in one of its sheets
    Xlsx,
}

impl From<ImportFormat> for contactd_import::Format {
    fn from(format: ImportFormat) -> Self {
        match format {
            ImportFormat::Csv => Self::Csv,
            ImportFormat::Jsonl => Self::Jsonl,
            ImportFormat::Parquet => Self::Parquet,
            ImportFormat::Xlsx => Self::Xlsx,
        }
    }
}

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// Comma-separated values, one detail on each line
    Csv,
    /// A JSON object on each line, one profile each
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files of contact records: CSV, JSON lines, Parquet, .xlsx; plain, .gz or .zst; - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The source of the records; a source in a row takes precedence
    #[arg(long, value_name = "NAME", value_parser = parse_source)]
    pub(crate) source: Option<String>,
    /// The country of phone numbers without + in rows that name no region, such as US
    #[arg(long, value_name = "COUNTRY", value_parser = parse_region)]
    pub(crate) region: Option<String>,
    /// The header of a column that has another name in the file, such as profileUrl="LinkedIn URL"; several columns may be phone,
    /// phone:work, email or email:work
    #[arg(long, value_name = "COLUMN=HEADER", value_parser = parse_mapping)]
    pub(crate) map: Vec<(String, String)>,
    /// The format of the files [default: detected from their content and name]
    #[arg(long)]
    pub(crate) format: Option<ImportFormat>,
    /// What separates the columns of CSV files: one character, or the word tab [default: detected from the header]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// The encoding of text files, such as windows-1252 [default: detected, and named in the report]
    #[arg(long, value_name = "NAME", value_parser = parse_encoding)]
    pub(crate) encoding: Option<Encoding>,
    /// The sheet of .xlsx files [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) sheet: Option<String>,
    /// The format of observedAt and expiresAt, if it is not RFC 3339, such as '%d.%m.%Y' or '%m/%d/%Y %H:%M'
    #[arg(long, value_name = "FORMAT", value_parser = DateFormat::parse)]
    pub(crate) date_format: Option<DateFormat>,
    /// Reject details without a basis
    #[arg(long)]
    pub(crate) require_basis: bool,
    /// Also delete this source's details that are not in the files
    #[arg(long)]
    pub(crate) replace_source: bool,
    /// With --replace-source: load nothing if a source with 1,000 details or more would lose more of them than this share
    #[arg(long, value_name = "SHARE", default_value = defaults::MAX_WITHDRAWN, value_parser = parse_share)]
    pub(crate) max_withdrawn: f64,
    /// With --replace-source: continue even if the files contain no valid row, which deletes all details of the source
    #[arg(long, requires = "replace_source")]
    pub(crate) allow_empty: bool,
    /// How long to hold details of these sources after they were observed, or imported if they have no date, such as 365d
    #[arg(long, value_name = "SPAN")]
    pub(crate) max_age: Option<Span>,
    /// Check everything and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// File for rejected rows; with several inputs rejects.csv, rejects.2.csv and so on [default: each input's name with
    /// .rejects.csv or .rejects.jsonl]
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
    /// Load nothing if more rows than this have a rejected value: a share like 10% or a number of rows
    #[arg(long, value_name = "SHARE", default_value = defaults::MAX_REJECTS)]
    pub(crate) max_rejects: MaxRejects,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Only details of this source
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// The format: JSON lines with one profile each, or CSV with one detail each
    #[arg(long, default_value = "jsonl")]
    pub(crate) format: ExportFormat,
    /// The case this is done for, to be recorded with it
    #[arg(long, value_name = "TEXT")]
    pub(crate) ticket: Option<String>,
    /// Print one JSON array instead of lines
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to create; it must not exist yet. - is standard output
    pub(crate) file: PathBuf,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup
    pub(crate) file: PathBuf,
    /// A data directory whose opt-outs, revocations and accounts are kept, such as the one being replaced
    #[arg(long, value_name = "DIR")]
    pub(crate) suppressions_from: Option<PathBuf>,
    /// Continue even though opt-outs made since the backup will be lost
    #[arg(long, conflicts_with = "suppressions_from")]
    pub(crate) accept_lost_opt_outs: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ImportsCommand>,
    /// Print the list as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportsCommand {
    /// Take back an import: remove what it added, restore what it changed and withdrew
    #[command(after_help = "Example:\n  contactd imports undo 7")]
    Undo {
        /// The import's number, from the list
        #[arg(value_parser = parse_import)]
        id: i64,
        /// Print what was done as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("detail").args(["phone", "email"]).required(true).multiple(true))]
pub(crate) struct PutArgs {
    /// The person's profile URL
    pub(crate) url: String,
    /// A phone number
    #[arg(long)]
    pub(crate) phone: Option<String>,
    /// An e-mail address
    #[arg(long)]
    pub(crate) email: Option<String>,
    /// Whether they are personal or work details
    #[arg(long, default_value = "personal", value_parser = parse_label)]
    pub(crate) label: Label,
    /// The source
    #[arg(long, default_value = defaults::SOURCE_BY_HAND, value_parser = parse_source)]
    pub(crate) source: String,
    /// The confidence, 0 to 100
    #[arg(long, default_value_t = defaults::CONFIDENCE_BY_HAND, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) confidence: u8,
    /// When it was last known to be correct: a date or an RFC 3339 time [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) observed_at: Option<Timestamp>,
    /// The lawful basis for holding it
    #[arg(long)]
    pub(crate) basis: Option<String>,
    /// When it expires; from then on it is not served
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) expires_at: Option<Timestamp>,
    /// The country of a phone number without +, such as US
    #[arg(long, value_name = "COUNTRY", value_parser = parse_region)]
    pub(crate) region: Option<String>,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The person's profile URL
    pub(crate) url: String,
    /// Only this phone number
    #[arg(long)]
    pub(crate) phone: Vec<String>,
    /// Only this e-mail address
    #[arg(long)]
    pub(crate) email: Vec<String>,
    /// Only details of this source
    #[arg(long)]
    pub(crate) source: Option<String>,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EnrichArgs {
    /// A file with a column of profile URLs: CSV, JSON lines, Parquet or .xlsx
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The file to create: the same rows with what was found, in the format of the input unless it ends in .csv, .tsv, .jsonl,
    /// .parquet or .xlsx
    #[arg(value_name = "OUT", required_unless_present = "output_flag")]
    output: Option<PathBuf>,
    /// The same as OUT
    #[arg(short = 'o', long = "output", value_name = "OUT", conflicts_with = "output")]
    output_flag: Option<PathBuf>,
    /// The header of the column with the profile URLs
    #[arg(long, value_name = "HEADER", default_value = "profileUrl")]
    pub(crate) column: String,
    /// What separates the columns of a CSV: one character, or the word tab [default: detected from the header]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// The encoding of a text file, such as windows-1252 [default: detected]
    #[arg(long, value_name = "NAME", value_parser = parse_encoding)]
    pub(crate) encoding: Option<Encoding>,
    /// The sheet of an .xlsx file [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) sheet: Option<String>,
    /// Look up this kind only: phone or email [default: both]
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    pub(crate) only: Option<Kind>,
    /// How many requests to send at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) concurrency: u16,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl EnrichArgs {
    /// The file to create.
    pub(crate) fn output(&self) -> &Path {
        self.output.as_ref().or(self.output_flag.as_ref()).map_or(Path::new(""), PathBuf::as_path)
    }
}
