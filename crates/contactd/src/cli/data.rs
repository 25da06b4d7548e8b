//! Flags of commands that bring data in and out.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use contactd_core::{Kind, Label, Timestamp};

use super::ServiceArgs;
use super::values::{
    MaxRejects, parse_kind, parse_label, parse_mapping, parse_name, parse_region, parse_time,
};
use crate::span::Span;

/// How a file of records is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values below a header
    Csv,
    /// A JSON object per line
    Jsonl,
    /// Apache Parquet, with the columns of a CSV; only for import
    Parquet,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files of contact records, plain, .gz or .zst; - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Who the records come from; a row's own source wins
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(crate) source: Option<String>,
    /// The country of numbers that have no + and whose row names none, such as US
    #[arg(long, value_name = "COUNTRY", value_parser = parse_region)]
    pub(crate) region: Option<String>,
    /// Another header for a column, such as profileUrl="LinkedIn URL"
    #[arg(long, value_name = "COLUMN=HEADER", value_parser = parse_mapping)]
    pub(crate) map: Vec<(String, String)>,
    /// What the files are [default: what they look like]
    #[arg(long)]
    pub(crate) format: Option<Format>,
    /// What the files' sources hold besides these rows goes, in the same step
    #[arg(long)]
    pub(crate) replace_source: bool,
    /// With --replace-source: go on even if the files hold nothing, and everything of the source goes
    #[arg(long, requires = "replace_source")]
    pub(crate) allow_empty: bool,
    /// How long the details of these sources are held after they were observed, or else imported, such as 365d
    #[arg(long, value_name = "SPAN")]
    pub(crate) max_age: Option<Span>,
    /// Check everything, change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Where rejected rows go [default: the first file's name and .rejects.csv]
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
    /// More rejected rows than this, and nothing is loaded: a share like 10% or a number
    #[arg(long, value_name = "SHARE", default_value = "10%")]
    pub(crate) max_rejects: MaxRejects,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Only what this source holds
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// How to write it: JSON lines with a profile each, or CSV with a detail each
    #[arg(long, default_value = "jsonl")]
    pub(crate) format: Format,
    /// Print one JSON array instead of lines
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The file to make; it must not be there yet
    pub(crate) file: PathBuf,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup
    pub(crate) file: PathBuf,
    /// A data directory whose opt-outs are kept too, such as the one that is being replaced
    #[arg(long, value_name = "DIR")]
    pub(crate) suppressions_from: Option<PathBuf>,
    /// Go on although opt-outs made since the backup are lost
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
    /// Withdraw what an import brought in and is still held
    #[command(after_help = "Example:\n  contactd imports undo 7")]
    Undo {
        /// The import's number, from the list
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
    /// Whose they are
    #[arg(long, default_value = "personal", value_parser = parse_label)]
    pub(crate) label: Label,
    /// Who says so
    #[arg(long, default_value = "manual", value_parser = parse_name)]
    pub(crate) source: String,
    /// How sure that is, 0 to 100
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) confidence: u8,
    /// When it was seen to be true: a date or an RFC 3339 time [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) observed_at: Option<Timestamp>,
    /// The lawful basis for holding it
    #[arg(long)]
    pub(crate) basis: Option<String>,
    /// From when on it is not served
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) expires_at: Option<Timestamp>,
    /// The country of a number without +, such as US
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
    /// Only what this source says
    #[arg(long)]
    pub(crate) source: Option<String>,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EnrichArgs {
    /// A CSV with a column of profile URLs
    #[arg(value_name = "IN.csv")]
    pub(crate) input: PathBuf,
    /// Where the same rows go, with what was found
    #[arg(value_name = "OUT.csv")]
    pub(crate) output: PathBuf,
    /// The header of the profile URLs
    #[arg(long, value_name = "HEADER", default_value = "profileUrl")]
    pub(crate) column: String,
    /// Ask for this kind only; phone or email [default: both]
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    pub(crate) only: Option<Kind>,
    /// How many requests are under way at once
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) concurrency: u16,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
