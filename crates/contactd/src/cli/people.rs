//! Flags of commands about people, and about what was disclosed about them.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use contactd_core::{Moment, RootKey, Span, Timestamp};
use contactd_journal::NotedHead;
use contactd_services::FollowPlace;

use super::JsonArg;
use super::values::{GivenRoots, parse_roots, parse_time};

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("subject").args(["urls", "phone", "email", "list"]).required(true).multiple(true))]
pub(crate) struct SubjectArgs {
    /// Profile URLs
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// A phone number with +; may be repeated
    #[arg(long)]
    pub(crate) phone: Vec<String>,
    /// An e-mail address; may be repeated
    #[arg(long)]
    pub(crate) email: Vec<String>,
    /// A file with one URL, phone number or e-mail address per line, or with columns of them; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) list: Option<PathBuf>,
    /// The sheet of an .xlsx list [default: the first]
    #[arg(long, value_name = "NAME", requires = "list")]
    pub(crate) sheet: Option<String>,
    /// The case this is done for, to be recorded with it
    #[arg(long, value_name = "TEXT")]
    pub(crate) ticket: Option<String>,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("one").args(["url", "phone", "email"]).required(true))]
pub(crate) struct SubjectReportArgs {
    /// The person's profile URL
    pub(crate) url: Option<String>,
    /// A phone number with +, instead of a URL
    #[arg(long)]
    pub(crate) phone: Option<String>,
    /// An e-mail address, instead of a URL
    #[arg(long)]
    pub(crate) email: Option<String>,
    /// Read who received what from the journal itself, not from its index; takes longer
    #[arg(long)]
    pub(crate) from_journal: bool,
    /// The case this is done for, to be recorded with it
    #[arg(long, value_name = "TEXT")]
    pub(crate) ticket: Option<String>,
    /// List every disclosure, however many there are; otherwise more than 50 are summed up
    #[arg(long)]
    pub(crate) all: bool,
    /// Print an HTML page for the person who asked
    #[arg(long)]
    pub(crate) html: bool,
    /// Print JSON, which always lists everything
    #[arg(long, conflicts_with = "html")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SuppressArgs {
    #[command(flatten)]
    pub(crate) subjects: SubjectArgs,
    /// Also opt out the people whose profiles hold a number or an address that is named
    #[arg(long)]
    pub(crate) person: bool,
    /// Change nothing unless everything that is named is on file
    #[arg(long)]
    pub(crate) must_exist: bool,
    /// With --person: do not ask, however many profiles there are
    #[arg(long, requires = "person")]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whom").args(["url", "phone", "email"]).required(true))]
pub(crate) struct EraseArgs {
    /// The person's profile URL
    pub(crate) url: Option<String>,
    /// Everybody whose profile holds this phone number, with +
    #[arg(long)]
    pub(crate) phone: Option<String>,
    /// Everybody whose profile holds this e-mail address
    #[arg(long)]
    pub(crate) email: Option<String>,
    /// Show what would be erased and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Change nothing if nobody is on file
    #[arg(long)]
    pub(crate) must_exist: bool,
    /// Do not ask, however many profiles hold the number or address
    #[arg(long)]
    pub(crate) yes: bool,
    /// Also suppress the person's numbers and addresses, so that they are not disclosed under another profile
    #[arg(long)]
    pub(crate) values: bool,
    /// The case this is done for, to be recorded with it
    #[arg(long, value_name = "TEXT")]
    pub(crate) ticket: Option<String>,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Also remove details of this source that are older than --max-age
    #[arg(long, value_name = "NAME", requires = "max_age")]
    pub(crate) source: Option<String>,
    /// The age: a number and s, m, h, d or w
    #[arg(long, value_name = "SPAN", requires = "source")]
    pub(crate) max_age: Option<Span>,
    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UsageArgs {
    /// Only requests of this token, by id or name
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
    /// Show requests of recognised tokens and administrative actions, newest first
    #[command(after_help = "Examples:\n  contactd audit show --token crm-sync --limit 20\n  \
        contactd audit show --profile https://www.linkedin.com/in/ada-quell-1a2b3c --json\n  \
        contactd audit show --phone +14155550123 --since 30d --by recipient\n  \
        contactd audit show --operation export --since 2026-05-01 --csv > exports.csv\n  \
        contactd audit show --follow --json >> events.jsonl")]
    Show(AuditShowArgs),
    /// Check that no line was changed, added, moved or removed; needs no secret
    #[command(after_help = "Examples:\n  contactd audit verify\n  \
        contactd audit verify --root \"$(cat root)\" --head \"$(tail -1 heads)\"\n  \
        contactd audit verify --dir /mnt/copy/audit --root \"$(cat root)\"\n  \
        contactd audit verify --proof may.proof --root \"$(cat root)\"")]
    Verify(AuditVerifyArgs),
    /// Print the number and chain value of the last signed line, to save elsewhere
    #[command(after_help = "Example:\n  contactd audit head >> /mnt/elsewhere/heads")]
    Head(JsonArg),
    /// Print the public key with which the journal can be verified, to note down once
    #[command(after_help = "Example:\n  contactd audit root > /mnt/elsewhere/root")]
    Root(JsonArg),
    /// Print the lines of a period with everything an auditor needs to verify them
    #[command(
        after_help = "Example:\n  contactd audit proof --since 2026-05-01 --until 2026-06-01 > may.proof"
    )]
    Proof(AuditProofArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AuditProofArgs {
    /// From this time on: a date or an RFC 3339 time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) since: Timestamp,
    /// Before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) until: Timestamp,
    /// In a cluster: of what this node has shipped to the database, by its id or name [default: the node on this machine]
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AuditShowArgs {
    /// Only requests of this token, by id or name
    #[arg(long)]
    pub(crate) token: Option<String>,
    /// Only requests and actions about this person, by profile URL
    #[arg(long, value_name = "URL")]
    pub(crate) profile: Option<String>,
    /// Only disclosures of this phone number, with +, and actions about it
    #[arg(long, conflicts_with = "email")]
    pub(crate) phone: Option<String>,
    /// Only disclosures of this e-mail address, and actions about it
    #[arg(long)]
    pub(crate) email: Option<String>,
    /// Only at or after this time: a date, an RFC 3339 time, or how long ago, such as 30d
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Moment>,
    /// Only before this time, given in the same way
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Moment>,
    /// Only with this outcome: hit, miss or refused, or done or failed for administrative actions
    #[arg(long, value_parser = ["hit", "miss", "refused", "done", "failed"])]
    pub(crate) outcome: Option<String>,
    /// Only this operation: phone or email, or an action such as export, suppress or "token create"
    #[arg(long)]
    pub(crate) operation: Option<String>,
    /// Only the request with this id, as the caller sent it or as it is recorded
    #[arg(long, value_name = "ID")]
    pub(crate) request: Option<String>,
    /// Only actions of this user
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,
    /// Sum up instead of listing; by recipient: the requests of each token, with the first and last time
    #[arg(long, value_name = "WHAT", value_parser = ["recipient"])]
    pub(crate) by: Option<String>,
    /// Show at most this many, the newest
    #[arg(long, value_name = "COUNT")]
    pub(crate) limit: Option<u64>,
    /// Go on with new lines as they are signed, oldest first, until it is stopped. Without --since or --after, only new lines are
    /// shown
    #[arg(long, conflicts_with_all = ["until", "by", "limit", "csv"])]
    pub(crate) follow: bool,
    /// With --follow: go on after the line with this `place`, in all journals
    #[arg(long, value_name = "PLACE", requires = "follow", conflicts_with = "since")]
    pub(crate) after: Option<FollowPlace>,
    /// Print CSV
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print one JSON array; with --follow, one object a line
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    /// A head that `audit head` printed earlier: the journal must still contain that line
    #[arg(long, value_name = "SEQ:CHAIN[:NODE]")]
    pub(crate) head: Option<NotedHead>,
    /// The key that `audit root` printed; may be repeated, or have several with spaces or line ends between them [default: the one that
    /// the store remembers]
    #[arg(long, value_name = "KEY", value_parser = parse_roots)]
    root: Vec<GivenRoots>,
    /// Verify a copy of a data directory or of its audit/ instead, on any machine
    #[arg(long, value_name = "DIR", conflicts_with_all = ["proof", "accept_loss"])]
    pub(crate) dir: Option<PathBuf>,
    /// In a cluster: only what this node has shipped to the database, by its id or name [default: all nodes]
    #[arg(long, value_name = "NODE", conflicts_with_all = ["dir", "proof", "accept_loss"])]
    pub(crate) node: Option<String>,
    /// Verify a file of `audit proof` instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["head", "accept_loss"])]
    pub(crate) proof: Option<PathBuf>,
    /// Accept the loss of indexed lines and stop reporting it; use this once the loss is explained
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl AuditVerifyArgs {
    /// All roots that are given.
    pub(crate) fn roots(&self) -> Vec<RootKey> {
        self.root.iter().flat_map(|given| given.0.iter().copied()).collect()
    }
}
