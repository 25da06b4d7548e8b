//! The command line: commands, flags and their help texts.

mod accounts;
mod data;
mod people;
mod values;

use std::path::PathBuf;

use clap::builder::TypedValueParser as _;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use contactd_core::{Kind, Lifetime, OrNone, Quota, Rate, Scope, Span};
use contactd_server::{BasePath, PublicUrl};
use contactd_services::{defaults, parse_source};

use crate::setting::{AuditSync, Listen, LogFormat, LogLevel, StoreText};
pub(crate) use accounts::{AdminTokenArgs, AdminTokenCommand, UserCommand};
pub(crate) use data::{
    BackupArgs, EnrichArgs, ExportArgs, ExportFormat, ImportArgs, ImportsArgs, ImportsCommand, PutArgs,
    RemoveArgs, RestoreArgs,
};
pub(crate) use people::{
    AuditCommand, AuditProofArgs, AuditShowArgs, AuditVerifyArgs, EraseArgs, SubjectArgs, SubjectReportArgs,
    SuppressArgs, SweepArgs, UsageArgs,
};
use values::{parse_kind, parse_scope};

/// The contact lookup service that teams run themselves.
///
/// A caller sends the URL of a person's professional-network profile and gets back that
/// person's personal phone number or e-mail address, if you hold one and may disclose it.
#[derive(Debug, Parser)]
#[command(name = "contactd", version, max_term_width = 100)]
#[command(
    after_help = "Example:\n  contactd serve --demo        a service with invented people, and curl commands to try it"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command accepts.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Everywhere {
    /// The data directory [default: ./contactd-data]
    #[arg(long, global = true, value_name = "DIR", env = "CONTACTD_DATA", help_heading = "Global options")]
    pub(crate) data: Option<PathBuf>,
    /// Where the store is: `sqlite` for files in the data directory, or the `postgres://USER@HOST/DATABASE` of a cluster. A URL
    /// with a password belongs into the environment or the file, because flags are visible to other users
    /// [default: sqlite]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "CONTACTD_STORE",
        hide_env_values = true,
        value_parser = clap::builder::StringValueParser::new().map(StoreText),
        help_heading = "Global options"
    )]
    pub(crate) store: Option<StoreText>,
    /// The configuration file [default: contactd.toml, if there is one]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "CONTACTD_CONFIG",
        help_heading = "Global options"
    )]
    pub(crate) config: Option<PathBuf>,
    /// Whether `data` came from the command line.
    #[arg(skip)]
    pub(crate) data_is_flag: bool,
    /// Whether `store` came from the command line.
    #[arg(skip)]
    pub(crate) store_is_flag: bool,
}

impl Cli {
    /// Parses the command line. On `--help` or an error, prints it and exits.
    pub(crate) fn read() -> Self {
        let matches = Self::command().get_matches();
        // A flag of every command can stand before or after the name of the command.
        let is_flag = |id: &str| {
            let mut found = Some(&matches);
            while let Some(matches) = found {
                if matches.value_source(id) == Some(ValueSource::CommandLine) {
                    return true;
                }
                found = matches.subcommand().map(|(_, matches): (_, &ArgMatches)| matches);
            }
            false
        };
        let mut cli = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        (cli.everywhere.data_is_flag, cli.everywhere.store_is_flag) = (is_flag("data"), is_flag("store"));
        cli
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the lookup service
    #[command(
        after_help = "Examples:\n  contactd serve --demo\n  contactd serve --listen 0.0.0.0:8080 --access-log\n  \
            contactd serve --listen 0.0.0.0:8443 --tls-cert server.pem --tls-key server.key\n\n\
            SIGTERM and Ctrl-C stop it. SIGHUP reads the configuration file and the certificate again, and opens the log \
            file again.\n\n\
            The console is at http://127.0.0.1:8081/admin/, or below --admin-listen. `contactd user create NAME --role admin` makes \
            its first user."
    )]
    Serve(ServeArgs),
    /// Create, list, update, revoke and rotate tokens
    #[command(subcommand, after_help = "Example:\n  contactd token create crm > token")]
    Token(TokenCommand),
    /// Create, list, disable and enable users of the console; change roles; reset passwords and second factors
    #[command(subcommand, after_help = "Example:\n  contactd user create olga --role admin")]
    User(UserCommand),
    /// Create, list and revoke tokens of the admin API
    #[command(
        subcommand,
        after_help = "Example:\n  contactd admin-token create nightly-import --role operator > token"
    )]
    AdminToken(AdminTokenCommand),
    /// Load contact records from CSV, Excel, JSON lines or Parquet, all or nothing
    #[command(after_help = "Examples:\n  contactd import people.csv --source crm\n  \
        contactd import export.csv --source ats --map profileUrl=\"LinkedIn URL\" --region US --dry-run\n  \
        contactd import customers.xlsx --source fair --map phone=Mobile --map phone:work=Office\n  \
        contactd import excel.csv --source hr --delimiter ';' --date-format '%d.%m.%Y' --require-basis")]
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
    /// Opt out people, phone numbers or e-mail addresses, so that they are no longer disclosed
    #[command(after_help = "Examples:\n  contactd suppress https://www.linkedin.com/in/ada-quell-1a2b3c\n  \
        contactd suppress --email ada@example.com --person\n  contactd suppress --list opt-outs.txt")]
    Suppress(SuppressArgs),
    /// Undo a suppression
    #[command(after_help = "Example:\n  contactd unsuppress https://www.linkedin.com/in/ada-quell-1a2b3c")]
    Unsuppress(SubjectArgs),
    /// Report everything held about a person, and who received it when
    #[command(after_help = "Examples:\n  contactd subject https://www.linkedin.com/in/ada-quell-1a2b3c\n  \
        contactd subject --phone +14155550123 --all\n  \
        contactd subject --email ada@example.com --ticket DSR-17 --html > report.html")]
    Subject(SubjectReportArgs),
    /// Remove every detail of a person, and suppress them
    #[command(after_help = "Example:\n  contactd erase https://www.linkedin.com/in/ada-quell-1a2b3c")]
    Erase(EraseArgs),
    /// Show the audit journal, check that it is whole, prove it to an auditor, or print its head or root to save elsewhere
    #[command(
        subcommand,
        after_help = "Examples:\n  contactd audit show --outcome hit --since 30d\n  contactd audit verify"
    )]
    Audit(AuditCommand),
    /// Show hits, misses and refusals by token and day
    #[command(after_help = "Example:\n  contactd usage --csv > usage.csv")]
    Usage(UsageArgs),
    /// Remove details that have expired or are too old; a running server does this by itself
    #[command(after_help = "Examples:\n  contactd sweep\n  contactd sweep --source crm --max-age 365d")]
    Sweep(SweepArgs),
    /// Show how long each source's details are kept, and which end next
    #[command(after_help = "Examples:\n  contactd retention\n  contactd retention --json")]
    Retention(JsonArg),
    /// Print everything that is held, in a format that `import` can read
    #[command(
        after_help = "Examples:\n  contactd export > people.jsonl\n  contactd export --source crm --format csv | gzip > crm.csv.gz\n  \
        contactd export --ticket AUDIT-9 > people.jsonl"
    )]
    Export(ExportArgs),
    /// List imports, or undo one
    #[command(after_help = "Examples:\n  contactd imports\n  contactd imports undo 7")]
    Imports(ImportsArgs),
    /// Back up everything to one file; the server can keep running
    #[command(after_help = "Examples:\n  contactd backup /var/backups/contactd-$(date +%F).backup\n  \
        contactd backup - | ssh backup.example 'cat > contactd.backup'")]
    Backup(BackupArgs),
    /// Create a data directory from a backup
    #[command(
        after_help = "Example:\n  mv contactd-data old && contactd restore contactd-2026-05-01.backup --suppressions-from old"
    )]
    Restore(RestoreArgs),
    /// Show what is held
    #[command(after_help = "Example:\n  contactd stats --json")]
    Stats(JsonArg),
    /// Move the store of a data directory into the database of a cluster; the server must be stopped
    #[command(
        after_help = "Example:\n  contactd migrate --to postgres://contactd@db.example.com/contacts?sslrootcert=ca.pem\n\n\
        After an interruption, run it again: it continues where it stopped. `export` and `import` lead back."
    )]
    Migrate(MigrateArgs),
    /// List the nodes of a cluster, forget one, or compare this machine's copy with the database
    #[command(
        subcommand,
        after_help = "Example:\n  contactd node list --store postgres://contactd@db.example.com/contacts"
    )]
    Node(NodeCommand),
    /// Look up people in a running service
    #[command(
        after_help = "Example:\n  CONTACTD_TOKEN=ctd_… contactd lookup phone https://www.linkedin.com/in/ada-quell-1a2b3c"
    )]
    Lookup(LookupArgs),
    /// Let an agent look up people in a running service: the Model Context Protocol over standard input and output
    #[command(
        after_help = "Example:\n  CONTACTD_TOKEN=ctd_… contactd mcp --url https://contacts.example.com\n\n\
        The token needs the scope mcp: contactd token create assistant --scope mcp --scope phone --quota 100/day"
    )]
    Mcp(ServiceArgs),
    /// Add phone numbers and e-mail addresses from a running service to a file
    #[command(after_help = "Example:\n  CONTACTD_TOKEN=ctd_… contactd enrich people.csv enriched.csv\n\n\
        After an interruption, run it again: it continues where it stopped.")]
    Enrich(EnrichArgs),
    /// Print the canonical form of profile URLs, or why they are refused
    #[command(after_help = "Examples:\n  contactd canonicalize https://de.linkedin.com/in/Ada-Quell/\n  \
        contactd canonicalize < urls.txt\n  contactd canonicalize --jsonl < values.jsonl")]
    Canonicalize(CanonicalizeArgs),
    /// Print or check a configuration file
    #[command(subcommand, after_help = "Example:\n  contactd config example > contactd.toml")]
    Config(ConfigCommand),
    /// Check configuration, store, keys, journal, tokens, permissions, disk and clock, and suggest fixes
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

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServeArgs {
    /// Serve built-in invented people from a temporary data directory, with a token valid for one day
    #[arg(long)]
    pub(crate) demo: bool,
    /// The address to listen on for lookups [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", env = "CONTACTD_LISTEN")]
    pub(crate) listen: Option<Listen>,
    /// The address to listen on for operators: metrics, admin API and console [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDRESS", env = "CONTACTD_ADMIN_LISTEN")]
    pub(crate) admin_listen: Option<Listen>,
    /// Serve HTTPS with the certificate in this PEM file, followed by those that lead to its authority; needs --tls-key
    #[arg(long, value_name = "FILE", env = "CONTACTD_TLS_CERT")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate, a PEM file that only its owner can read
    #[arg(long, value_name = "FILE", env = "CONTACTD_TLS_KEY")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Path prefix for every public path, such as /contacts
    #[arg(long, value_name = "PATH", env = "CONTACTD_BASE_PATH")]
    pub(crate) base_path: Option<BasePath>,
    /// The address at which clients reach the service, such as `https://contacts.example.com`, for its OpenAPI description
    #[arg(long, value_name = "URL", env = "CONTACTD_PUBLIC_URL")]
    pub(crate) public_url: Option<PublicUrl>,
    /// Number of worker threads [default: one per core]
    #[arg(long, value_name = "COUNT", env = "CONTACTD_WORKERS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// When an answer may be sent: once the operating system has its audit line, or once the line is on disk [default: os]
    #[arg(long, value_name = "WHEN", env = "CONTACTD_AUDIT_SYNC")]
    pub(crate) audit_sync: Option<AuditSync>,
    /// Log one line per request
    #[arg(long)]
    pub(crate) access_log: bool,
    /// How much to log [default: info]
    #[arg(long, value_name = "LEVEL", env = "CONTACTD_LOG_LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// Format of log lines [default: auto]
    #[arg(long, value_name = "FORMAT", env = "CONTACTD_LOG_FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Log to this file instead of stderr; SIGHUP opens it again
    #[arg(long, value_name = "FILE", env = "CONTACTD_LOG_FILE")]
    pub(crate) log_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// The database, which must be empty
    #[arg(
        long,
        value_name = "URL",
        env = "CONTACTD_MIGRATE_TO",
        hide_env_values = true,
        value_parser = clap::builder::StringValueParser::new().map(StoreText)
    )]
    pub(crate) to: StoreText,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List the nodes: what they do, how long their lease lasts, and how far their copies are behind
    #[command(after_help = "Example:\n  contactd node list --json")]
    List(JsonArg),
    /// Forget a node that will not come back, so that no change waits for it and nothing is kept for it
    #[command(after_help = "Example:\n  contactd node forget 7fc1f6a4")]
    Forget(NodeForgetArgs),
    /// Compare counts and digests of this machine's copy with the database; exit 1 if they differ
    #[command(after_help = "Example:\n  contactd node verify --data /var/lib/contactd")]
    Verify(JsonArg),
    /// List the tokens and opt-outs that this machine's node holds and the database does not, because somebody changed its rows by
    /// hand; with --yes, put them back. Accounts, which no node holds, are listed and accepted as they are. On record
    #[command(after_help = "Example:\n  contactd node reconcile\n  contactd node reconcile --yes")]
    Reconcile(NodeReconcileArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NodeReconcileArgs {
    /// Put back what this node holds, and accept the accounts that are listed
    #[arg(long)]
    pub(crate) yes: bool,
    /// Give up the opt-outs and limits of tokens that the database has lost: these people are disclosed again
    #[arg(long, conflicts_with = "yes")]
    pub(crate) accept_lost_opt_outs: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NodeForgetArgs {
    /// The node's id or name, from `node list`
    pub(crate) id: String,
    /// If it may still answer lookups, wait until its lease has ended
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it; it is shown only once
    #[command(after_help = "Examples:\n  contactd token create crm > token\n  \
        contactd token create ats --scope phone --expires 30d --rate 50/s --quota 10000/day\n  \
        contactd token create ats-tests --sandbox\n  \
        contactd token create assistant --scope mcp --scope phone --quota 100/day")]
    Create(TokenCreateArgs),
    /// List tokens, without their secret values
    #[command(after_help = "Example:\n  contactd token list --json")]
    List(JsonArg),
    /// Change scope, expiry, rate or quota of a token, with immediate effect
    #[command(after_help = "Examples:\n  contactd token update crm --scope phone --expires 30d\n  \
        contactd token update tok_8sWn2QbX1mZk --rate none --quota 10000/day")]
    Update(TokenUpdateArgs),
    /// Revoke a token, with immediate effect
    #[command(
        after_help = "Examples:\n  contactd token revoke crm\n  contactd token revoke tok_8sWn2QbX1mZk"
    )]
    Revoke(WhichToken),
    /// Replace a token, also one that has ended, with a new one of the same name; the old token stays valid for a while, and both share
    /// one quota
    #[command(after_help = "Example:\n  contactd token rotate crm --overlap 24h > token")]
    Rotate(TokenRotateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// A name that no other token has or had: the system that uses it, not a person. Metrics and reports show it
    #[arg(value_parser = parse_source)]
    pub(crate) name: String,
    /// What the token may look up: phone or email; give it twice for both [default: both]. Besides, mcp for an agent, which needs
    /// --quota
    #[arg(long, value_name = "SCOPE", value_parser = parse_scope)]
    pub(crate) scope: Vec<Scope>,
    /// For tests: the token begins with ctd_test_, and its answers are made up and follow from the profile URL
    #[arg(long, conflicts_with = "quota")]
    pub(crate) sandbox: bool,
    /// How long the token is valid: a number and s, m, h, d or w, or never
    #[arg(long, value_name = "SPAN", default_value = defaults::TOKEN_LIFETIME)]
    pub(crate) expires: Lifetime,
    /// How many requests it may send, such as 50/s [default: 10/s with --sandbox]
    #[arg(long)]
    pub(crate) rate: Option<Rate>,
    /// How many requests it may send at once [default: the number in --rate]
    #[arg(long, requires = "rate", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) burst: Option<u32>,
    /// How many hits it may receive, such as 10000/day or 200000/month
    #[arg(long)]
    pub(crate) quota: Option<Quota>,
    /// Print the token and its properties as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WhichToken {
    /// The token's name, or its id from `token list`
    #[arg(value_name = "NAME|ID")]
    pub(crate) token: String,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").args(["scope", "expires", "rate", "burst", "quota"]).required(true).multiple(true))]
pub(crate) struct TokenUpdateArgs {
    #[command(flatten)]
    pub(crate) which: WhichToken,
    /// What the token may look up from now on: phone or email; give it twice for both. Besides, mcp for an agent, which needs a
    /// quota
    #[arg(long, value_name = "SCOPE", value_parser = parse_scope)]
    pub(crate) scope: Vec<Scope>,
    /// How long the token is valid from now on: a number and s, m, h, d or w, or never
    #[arg(long, value_name = "SPAN")]
    pub(crate) expires: Option<Lifetime>,
    /// How many requests it may send, such as 50/s, or none
    #[arg(long)]
    pub(crate) rate: Option<OrNone<Rate>>,
    /// How many requests it may send at once [default: the number in --rate]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) burst: Option<u32>,
    /// How many hits it may receive, such as 10000/day or 200000/month, or none; what was used so far still counts
    #[arg(long)]
    pub(crate) quota: Option<OrNone<Quota>>,
    /// Print the token's properties as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TokenRotateArgs {
    #[command(flatten)]
    pub(crate) which: WhichToken,
    /// How long the old token stays valid
    #[arg(long, value_name = "SPAN", default_value = defaults::ROTATION_OVERLAP)]
    pub(crate) overlap: Span,
    /// How long the new token is valid [default: as long as was asked for with the old token]
    #[arg(long, value_name = "SPAN")]
    pub(crate) expires: Option<Lifetime>,
    /// Print the token and its properties as JSON
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
    /// The base URL of the service
    #[arg(long, value_name = "BASE", env = "CONTACTD_URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) url: String,
    /// Trust the certificate authorities in this PEM file, and no others, if the URL begins with https://
    #[arg(long, value_name = "FILE", env = "CONTACTD_CACERT")]
    pub(crate) cacert: Option<PathBuf>,
    /// The token
    #[arg(long, env = "CONTACTD_TOKEN", hide_env_values = true)]
    pub(crate) token: String,
}

#[derive(Debug, Args)]
pub(crate) struct CanonicalizeArgs {
    /// Profile URLs; if none are given, they are read from standard input, one per line
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// Read the input as JSON values, one per line
    #[arg(long)]
    pub(crate) jsonl: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print a configuration file with every setting, commented out
    #[command(after_help = "Example:\n  contactd config example > contactd.toml")]
    Example,
    /// Check the configuration and report every error with its line; otherwise say which settings come from where
    #[command(after_help = "Example:\n  contactd config check --config contactd.toml")]
    Check(JsonArg),
}
