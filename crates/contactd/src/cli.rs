//! The command line, as it is written.

mod values;

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use contactd_core::{AuditOutcome, Kind, Label, Quota, Rate, Timestamp};

use crate::commands::audit::NotedHead;
use crate::config::{AuditSync, BasePath, Engine, Listen, LogFormat, LogLevel};
use crate::span::{Lifetime, Span};
pub(crate) use values::MaxRejects;
use values::{parse_kind, parse_label, parse_mapping, parse_name, parse_region, parse_time};

/// The contact lookup service that teams run themselves.
///
/// A caller sends the URL of a person's professional-network profile and gets back that
/// person's personal phone number or e-mail address, if you hold one and may disclose it.
#[derive(Debug, Parser)]
#[command(name = "contactd", version, max_term_width = 100)]
#[command(
    after_help = "Example:\n  contactd serve --demo        a service with invented people, and curl lines to try it"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Everywhere {
    /// The data directory [default: ./contactd-data]
    #[arg(long, global = true, value_name = "DIR", env = "CONTACTD_DATA", help_heading = "Everywhere")]
    pub(crate) data: Option<PathBuf>,
    /// The storage engine: `sqlite`, whose files are in the data directory [default: sqlite]
    #[arg(long, global = true, value_name = "URL", env = "CONTACTD_STORE", help_heading = "Everywhere")]
    pub(crate) store: Option<Engine>,
    /// The configuration file [default: contactd.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE", env = "CONTACTD_CONFIG", help_heading = "Everywhere")]
    pub(crate) config: Option<PathBuf>,
    /// Whether `data` came from the command line.
    #[arg(skip)]
    pub(crate) data_is_flag: bool,
}

impl Cli {
    /// Reads the command line, or explains it and exits.
    pub(crate) fn read() -> Self {
        let matches = Self::command().get_matches();
        let is_flag = |matches: &ArgMatches| matches.value_source("data") == Some(ValueSource::CommandLine);
        let mut cli = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        cli.everywhere.data_is_flag =
            is_flag(&matches) || matches.subcommand().is_some_and(|(_, matches)| is_flag(matches));
        cli
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve lookups
    #[command(
        after_help = "Examples:\n  contactd serve --demo\n  contactd serve --listen 0.0.0.0:8080 --access-log"
    )]
    Serve(ServeArgs),
    /// Make, list, revoke and rotate tokens
    #[command(subcommand, after_help = "Example:\n  contactd token create crm > token")]
    Token(TokenCommand),
    /// Load contact records from CSV, JSON lines or Parquet, all or nothing
    #[command(after_help = "Examples:\n  contactd import people.csv --source crm\n  \
        contactd import export.csv --source ats --map profileUrl=\"LinkedIn URL\" --region US --dry-run")]
    Import(ImportArgs),
    /// Add or correct one person's details by hand
    #[command(
        after_help = "Example:\n  contactd put https://www.linkedin.com/in/ada-quell-1a2b3c --phone +14155550123"
    )]
    Put(PutArgs),
    /// Remove one person's details
    #[command(after_help = "Examples:\n  contactd remove https://www.linkedin.com/in/ada-quell-1a2b3c\n  \
        contactd remove https://www.linkedin.com/in/ada-quell-1a2b3c --email ada@example.com")]
    Remove(RemoveArgs),
    /// Opt out people, numbers or addresses: nothing discloses them any more
    #[command(after_help = "Examples:\n  contactd suppress https://www.linkedin.com/in/ada-quell-1a2b3c\n  \
        contactd suppress --phone +14155550123 --email ada@example.com\n  contactd suppress --list opt-outs.txt")]
    Suppress(SubjectArgs),
    /// Take a suppression back
    #[command(after_help = "Example:\n  contactd unsuppress https://www.linkedin.com/in/ada-quell-1a2b3c")]
    Unsuppress(SubjectArgs),
    /// Everything held about a person, and who received it when
    #[command(after_help = "Examples:\n  contactd subject https://www.linkedin.com/in/ada-quell-1a2b3c\n  \
        contactd subject --email ada@example.com --html > report.html")]
    Subject(SubjectReportArgs),
    /// Remove every detail of a person, and suppress them
    #[command(after_help = "Example:\n  contactd erase https://www.linkedin.com/in/ada-quell-1a2b3c")]
    Erase(EraseArgs),
    /// Show the audit journal, prove that it is whole, or print what to note down elsewhere
    #[command(
        subcommand,
        after_help = "Examples:\n  contactd audit show --outcome hit --since 2026-05-01\n  contactd audit verify"
    )]
    Audit(AuditCommand),
    /// Show hits, misses and refusals by token and day
    #[command(after_help = "Example:\n  contactd usage --csv > usage.csv")]
    Usage(UsageArgs),
    /// Remove details whose time is over; a running server does so by itself
    #[command(after_help = "Examples:\n  contactd sweep\n  contactd sweep --source crm --max-age 365d")]
    Sweep(SweepArgs),
    /// Print everything that is held, as `import` reads it
    #[command(
        after_help = "Examples:\n  contactd export > people.jsonl\n  contactd export --source crm --format csv | gzip > crm.csv.gz"
    )]
    Export(ExportArgs),
    /// List imports, or undo one
    #[command(after_help = "Examples:\n  contactd imports\n  contactd imports undo 7")]
    Imports(ImportsArgs),
    /// Copy everything into one file, also while serving
    #[command(after_help = "Example:\n  contactd backup /var/backups/contactd-$(date +%F).backup")]
    Backup(BackupArgs),
    /// Make a data directory from a backup
    #[command(
        after_help = "Example:\n  mv contactd-data old && contactd restore contactd-2026-05-01.backup --suppressions-from old"
    )]
    Restore(RestoreArgs),
    /// Show what is held
    #[command(after_help = "Example:\n  contactd stats --json")]
    Stats(JsonArg),
    /// Ask a running service
    #[command(
        after_help = "Example:\n  CONTACTD_TOKEN=ctd_… contactd lookup phone https://www.linkedin.com/in/ada-quell-1a2b3c"
    )]
    Lookup(LookupArgs),
    /// Add phone numbers and e-mail addresses to a CSV, through a running service
    #[command(after_help = "Example:\n  CONTACTD_TOKEN=ctd_… contactd enrich people.csv enriched.csv\n\n\
        Run it again after an interruption: it goes on where it stopped.")]
    Enrich(EnrichArgs),
    /// Tell the canonical form of profile URLs, or why they are refused
    #[command(after_help = "Examples:\n  contactd canonicalize https://de.linkedin.com/in/Ada-Quell/\n  \
        contactd canonicalize < urls.txt\n  contactd canonicalize --jsonl < values.jsonl")]
    Canonicalize(CanonicalizeArgs),
    /// Print or check a configuration file
    #[command(subcommand, after_help = "Example:\n  contactd config example > contactd.toml")]
    Config(ConfigCommand),
    /// Check configuration, store, keys, journal, tokens, permissions, disk and clock, and say what to do
    #[command(after_help = "Example:\n  contactd doctor")]
    Doctor(JsonArg),
    /// Print a completion script for your shell
    #[command(after_help = "Example:\n  contactd completions bash > /etc/bash_completion.d/contactd")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct JsonArg {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Default, Args)]
pub(crate) struct ServeArgs {
    /// Serve built-in invented people from a throw-away data directory, with a token for a day
    #[arg(long)]
    pub(crate) demo: bool,
    /// The public address [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", env = "CONTACTD_LISTEN")]
    pub(crate) listen: Option<Listen>,
    /// The operator's address, for metrics [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS", env = "CONTACTD_ADMIN_LISTEN")]
    pub(crate) admin_listen: Option<Listen>,
    /// A path before every public path, such as /contacts
    #[arg(long, value_name = "PATH", env = "CONTACTD_BASE_PATH")]
    pub(crate) base_path: Option<BasePath>,
    /// Threads that serve [default: one per core]
    #[arg(long, value_name = "COUNT", env = "CONTACTD_WORKERS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// When an answer may leave: its audit line is with the operating system, or on disk [default: os]
    #[arg(long, value_name = "WHEN", env = "CONTACTD_AUDIT_SYNC")]
    pub(crate) audit_sync: Option<AuditSync>,
    /// Log one line per request
    #[arg(long)]
    pub(crate) access_log: bool,
    /// How much to log [default: info]
    #[arg(long, value_name = "LEVEL", env = "CONTACTD_LOG_LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// How log lines look [default: auto]
    #[arg(long, value_name = "FORMAT", env = "CONTACTD_LOG_FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, this once
    #[command(after_help = "Examples:\n  contactd token create crm > token\n  \
        contactd token create ats --scope phone --expires 30d --rate 50/s --quota 10000/day")]
    Create(TokenCreateArgs),
    /// List tokens, without the tokens themselves
    #[command(after_help = "Example:\n  contactd token list --json")]
    List(JsonArg),
    /// End a token now
    #[command(after_help = "Example:\n  contactd token revoke tok_8sWn2QbX1mZk")]
    Revoke {
        /// The token's id, from `token list`
        id: String,
    },
    /// Make a token in place of another, which goes on for a while
    #[command(after_help = "Example:\n  contactd token rotate tok_8sWn2QbX1mZk --overlap 24h > token")]
    Rotate(TokenRotateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// Who it is for
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// What it may look up; give it twice for both [default: both]
    #[arg(long, value_name = "SCOPE", value_parser = parse_kind)]
    pub(crate) scope: Vec<Kind>,
    /// How long it lives: a number and s, m, h, d or w, or never
    #[arg(long, value_name = "SPAN", default_value = "90d")]
    pub(crate) expires: Lifetime,
    /// How often it may ask, such as 50/s
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    /// How many requests may come at once [default: those of one second, minute or hour]
    #[arg(long, requires = "rate", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) burst: Option<u32>,
    /// How many hits it may have, such as 10000/day or 200000/month
    #[arg(long)]
    pub(crate) quota: Option<Quota>,
    /// Print the token and what is known about it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TokenRotateArgs {
    /// The old token's id, from `token list`
    pub(crate) id: String,
    /// How long the old token goes on
    #[arg(long, value_name = "SPAN", default_value = "24h")]
    pub(crate) overlap: Span,
    /// How long the new token lives [default: as long as the old one, from its making to its end]
    #[arg(long, value_name = "SPAN")]
    pub(crate) expires: Option<Lifetime>,
    /// Print the token and what is known about it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

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
#[command(group = clap::ArgGroup::new("subject").args(["urls", "phone", "email", "list"]).required(true).multiple(true))]
pub(crate) struct SubjectArgs {
    /// Profile URLs
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// A phone number with its +; may be repeated
    #[arg(long)]
    pub(crate) phone: Vec<String>,
    /// An e-mail address; may be repeated
    #[arg(long)]
    pub(crate) email: Vec<String>,
    /// A file with one URL, phone number or e-mail address a line; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) list: Option<PathBuf>,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("one").args(["url", "phone", "email"]).required(true))]
pub(crate) struct SubjectReportArgs {
    /// The person's profile URL
    pub(crate) url: Option<String>,
    /// A phone number with its +: whoever it is held about
    #[arg(long)]
    pub(crate) phone: Option<String>,
    /// An e-mail address: whoever it is held about
    #[arg(long)]
    pub(crate) email: Option<String>,
    /// Print a page for the person who asked, to be saved or printed
    #[arg(long)]
    pub(crate) html: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "html")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EraseArgs {
    /// The person's profile URL
    pub(crate) url: String,
    /// Suppress the numbers and addresses too, under whichever profile they may come again
    #[arg(long)]
    pub(crate) values: bool,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Also remove what this source said too long ago
    #[arg(long, value_name = "NAME", requires = "max_age")]
    pub(crate) source: Option<String>,
    /// How long ago: a number and s, m, h, d or w
    #[arg(long, value_name = "SPAN", requires = "source")]
    pub(crate) max_age: Option<Span>,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// Only of this token, by id or name
    #[arg(long)]
    pub(crate) token: Option<String>,
    /// Print CSV
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Show requests of recognised tokens, oldest first
    #[command(after_help = "Examples:\n  contactd audit show --token crm-sync --limit 20\n  \
        contactd audit show --profile https://www.linkedin.com/in/ada-quell-1a2b3c --json")]
    Show(AuditShowArgs),
    /// Prove that no line was changed, moved or removed
    #[command(
        after_help = "Examples:\n  contactd audit verify\n  contactd audit verify --head 41:9f86d081884c7d659a2feaa0c55ad015"
    )]
    Verify(AuditVerifyArgs),
    /// Print the number and the chain value of the last line, to be noted down elsewhere
    #[command(after_help = "Example:\n  contactd audit head >> /mnt/elsewhere/heads")]
    Head(JsonArg),
}

#[derive(Debug, Args)]
pub(crate) struct AuditShowArgs {
    /// Only of this token, by id or name
    #[arg(long)]
    pub(crate) token: Option<String>,
    /// Only about this person, by profile URL
    #[arg(long, value_name = "URL")]
    pub(crate) profile: Option<String>,
    /// Only then or later: a date or an RFC 3339 time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) since: Option<Timestamp>,
    /// Only before then
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) until: Option<Timestamp>,
    /// Only hit, miss or refused
    #[arg(long, value_parser = AuditOutcome::NAMES)]
    pub(crate) outcome: Option<String>,
    /// No more than this many
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<u64>,
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    /// What `audit head` printed earlier: the journal has to go at least that far, and through that line
    #[arg(long, value_name = "SEQ:CHAIN")]
    pub(crate) head: Option<NotedHead>,
    /// Take it that lines which had been indexed are gone, once their loss is explained, and forget that they were there
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LookupArgs {
    /// What to look up: phone or email
    #[arg(value_parser = parse_kind)]
    pub(crate) kind: Kind,
    /// Profile URLs
    #[arg(required = true, value_name = "URL")]
    pub(crate) profile_urls: Vec<String>,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// A running service.
#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    /// Where the service is
    #[arg(long, value_name = "BASE", env = "CONTACTD_URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) url: String,
    /// The token
    #[arg(long, env = "CONTACTD_TOKEN", hide_env_values = true)]
    pub(crate) token: String,
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

#[derive(Debug, Args)]
pub(crate) struct CanonicalizeArgs {
    /// Profile URLs; without any, they are read from standard input, one per line
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// The input is JSON values, one per line
    #[arg(long)]
    pub(crate) jsonl: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print a configuration file with every setting, commented out
    #[command(after_help = "Example:\n  contactd config example > contactd.toml")]
    Example,
    /// Say what is wrong with the configuration file, with the line
    #[command(after_help = "Example:\n  contactd config check --config contactd.toml")]
    Check,
}
