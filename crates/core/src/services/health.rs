//! The state of an installation: what is held, what is wrong, and backups.

mod overview;

use std::collections::BTreeMap;
use std::future::Future;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

pub use overview::{HeldBySource, Overview};
use serde::Serialize;

use crate::metrics::{Family, Measured, Measuring, MetricKind};
use crate::progress::Observer;
use crate::services::{AuditError, Parts, audits};
use crate::store::{DetailTotal, FormerTotal, Machine, PartSize, PastImport, StoreError};
use crate::{Actor, NotRecorded, Timestamp};

/// Reports the state of an installation.
pub struct Health {
    parts: Arc<Parts>,
}

/// How much is held, and how much space it takes.
#[derive(Debug)]
pub struct Stats {
    /// Profiles with at least one detail.
    pub profiles: u64,
    /// Details by source, kind and label.
    pub details: Vec<DetailTotal>,
    /// Suppressed people, numbers and addresses.
    pub suppressions: u64,
    /// The newest import.
    pub newest_import: Option<PastImport>,
    /// What is kept so that imports can be undone.
    pub former: FormerTotal,
    /// How much space each part takes.
    pub parts: Vec<PartSize>,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked.
    pub check: &'static str,
    /// How serious it is.
    #[serde(rename = "verdict")]
    pub severity: Severity,
    /// What was found.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing to do.
    Ok,
    /// Something to look at.
    Warn,
    /// Something is wrong.
    Fail,
}

impl Finding {
    /// The check found no problem.
    pub const fn ok(check: &'static str, message: String) -> Self {
        Self { check, severity: Severity::Ok, message, advice: None }
    }

    /// Something to look at.
    pub fn warn(check: &'static str, message: String, advice: &str) -> Self {
        Self { check, severity: Severity::Warn, message, advice: Some(advice.to_owned()) }
    }

    /// Something is wrong.
    pub fn fail(check: &'static str, message: String, advice: &str) -> Self {
        Self { check, severity: Severity::Fail, message, advice: Some(advice.to_owned()) }
    }
}

/// Backups of everything, each in one file. Implemented by the code that knows the data directory.
pub trait Backups: Send + Sync {
    /// Makes a backup. A file is read back before it gets its name.
    fn make<'a>(&'a self, target: BackupTarget<'a>, at: Timestamp, observer: Observer<'a>) -> Making<'a>;

    /// Removes what interrupted backups left behind. Returns false while a backup is in progress.
    fn remove_abandoned(&self) -> Result<bool, BackupError>;
}

/// Where a backup goes.
pub enum BackupTarget<'a> {
    /// A file that does not exist yet.
    File(&'a Path),
    /// A stream, such as standard output.
    Stream(&'a mut (dyn Write + Send + 'static)),
}

/// A backup in progress.
pub type Making<'a> = Pin<Box<dyn Future<Output = Result<BackupMade, BackupError>> + Send + 'a>>;

/// A finished backup.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupMade {
    /// Where it is; `None` if it went to a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// When it was started.
    pub made_at: Timestamp,
    /// Its size.
    pub bytes: u64,
    /// Whether it lacks keys, because they are not kept in the data directory.
    #[serde(skip)]
    pub lacks_keys: bool,
    /// Why the store could not note that there is a new backup; `None` if it did.
    #[serde(skip)]
    pub not_noted: Option<StoreError>,
}

/// Why a backup failed. The text contains no stored data.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BackupError(pub String);

/// Why the state could not be reported or backed up.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal could not be read.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// No backup was made.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// It could not be put on record, so nothing was copied.
    #[error(transparent)]
    NotRecorded(#[from] NotRecorded),
}

/// A clock that shows an earlier time than this is wrong: no version of contactd is older.
const EARLIEST: &str = "2026-01-01";
/// [`Health::findings`] does not read a journal that is larger than this.
const SMALL_JOURNAL: u64 = 256 << 20;

impl Health {
    pub(super) fn new(parts: Arc<Parts>) -> Self {
        Self { parts }
    }

    /// How much is held, and how much space it takes.
    pub async fn stats(&self, actor: &Actor) -> Result<Stats, HealthError> {
        actor.note("stats");
        let totals = self.parts.store.totals().await?;
        let mut parts = self.parts.store.sizes().await?;
        let bytes = self.parts.journal.bytes().map_err(AuditError::from)?;
        parts.push(PartSize { name: "audit/".to_owned(), bytes });
        Ok(Stats {
            profiles: totals.profiles,
            details: totals.details,
            suppressions: self.parts.store.list_suppressions().await?.len() as u64,
            newest_import: totals.newest_import,
            former: self.parts.store.former_total().await?,
            parts,
        })
    }

    /// Makes a backup while others read and write, and notes in the store when it was complete.
    pub async fn backup(
        &self,
        actor: &Actor,
        target: BackupTarget<'_>,
        observer: Observer<'_>,
    ) -> Result<BackupMade, HealthError> {
        let entry = self.parts.entry(actor, "backup");
        self.parts.record_read(&entry).await?;
        let mut made = self.parts.backups.make(target, self.parts.clock.now(), observer).await?;
        // Not on record once more: that it was asked for already is.
        if let Some(machine) = &self.parts.machine {
            made.not_noted = machine.note_backup(self.parts.clock.now()).await.err();
        }
        Ok(made)
    }

    /// When the last backup of this machine was complete.
    async fn last_backup(&self) -> Result<Option<Timestamp>, StoreError> {
        match &self.parts.machine {
            Some(machine) => machine.last_backup().await,
            None => Ok(None),
        }
    }

    /// Checks the store, the tokens, the suppressions, the journal and the clock.
    pub async fn findings(&self, actor: &Actor) -> Vec<Finding> {
        actor.note("doctor");
        let mut findings = Vec::new();
        let checks =
            [self.store_findings().await, self.token_findings().await, self.suppression_findings().await];
        for found in checks {
            findings.extend(found.unwrap_or_else(|error| {
                let advice = "restore the data directory from a backup if its files are damaged";
                vec![Finding::fail("store", error.to_string(), advice)]
            }));
        }
        findings.push(self.journal_finding().await.unwrap_or_else(|error| {
            let advice = match &error {
                AuditError::Store(StoreError::Unavailable(_)) => "mend what it says, and run this again",
                _ => "look at the permissions of audit/ and keys/; if files are damaged, restore them from a backup",
            };
            Finding::fail("journal", error.to_string(), advice)
        }));
        findings
    }

    async fn store_findings(&self) -> Result<Vec<Finding>, StoreError> {
        let mut damage = self.parts.store.check().await?;
        if let Some(files) = self.parts.machine.as_ref().and_then(Machine::files_of_node) {
            damage.extend(files.check().await?);
        }
        if !damage.is_empty() {
            let advice = "stop the server and restore the data directory from a backup";
            return Ok(vec![Finding::fail("store", damage.join("; "), advice)]);
        }
        let totals = self.parts.store.totals().await?;
        let mut findings = vec![Finding::ok("store", format!("whole; profiles: {}", totals.profiles))];
        let now = self.parts.clock.now();
        if let Some(at) = totals.newest_import.map(|newest| newest.at).filter(|at| *at > now) {
            let message = format!("the newest import is from the future: {at}");
            findings.push(Finding::warn("clock", message, "set the clock, or wait"));
        }
        Ok(findings)
    }

    async fn suppression_findings(&self) -> Result<Vec<Finding>, StoreError> {
        let suppressions = self.parts.store.list_suppressions().await?;
        let unknown = suppressions.iter().filter(|digest| !self.parts.keys.hold(&digest.key)).count();
        if unknown == 0 {
            return Ok(Vec::new());
        }
        Ok(vec![Finding::fail(
            "suppressions",
            format!("{unknown} were made with a key that is not in keys/: they are not in force"),
            "put the missing key back into keys/ and restart the server",
        )])
    }

    async fn token_findings(&self) -> Result<Vec<Finding>, StoreError> {
        /// How many ids the message names at most.
        const NAMED: usize = 5;
        let now = self.parts.clock.now();
        let tokens = self.parts.store.list_tokens().await?;
        let live = tokens.iter().filter(|(_, token)| token.is_live(now)).count();
        let ending: Vec<&str> = tokens
            .iter()
            .filter(|(_, token)| token.ends_soon(now))
            .map(|(_, token)| token.id.as_str())
            .collect();
        Ok(vec![match (live, ending.as_slice()) {
            (0, _) => {
                let message = "there is none that is accepted".to_owned();
                Finding::warn("tokens", message, "contactd token create NAME")
            }
            (_, []) => Finding::ok("tokens", format!("{live} accepted, none ends within 14 days")),
            _ => {
                let named = ending[..ending.len().min(NAMED)].join(", ");
                let more = if ending.len() > NAMED { ", …" } else { "" };
                let message = format!("{} of {live} end within 14 days: {named}{more}", ending.len());
                Finding::warn("tokens", message, "contactd token rotate ID")
            }
        }])
    }

    async fn journal_finding(&self) -> Result<Finding, AuditError> {
        let journal = &*self.parts.journal;
        let bytes = journal.bytes()?;
        let known = audits::known_from_index(&self.parts).await?;
        if bytes == 0 && known.is_empty() {
            let copies = self.parts.store.list_copies().await?;
            let shipped = copies.iter().filter(|copy| copy.is_last && copy.position.seq > 0);
            let (nodes, lines) =
                shipped.fold((0, 0), |(nodes, lines), copy| (nodes + 1_u64, lines + copy.position.seq));
            if nodes > 0 {
                let message = format!(
                    "none on this machine; the database has those of nodes: {nodes}, with lines: {lines}. `contactd audit verify` checks \
                     them"
                );
                return Ok(Finding::ok("journal", message));
            }
            return Ok(Finding::ok("journal", "empty: nothing has been looked up yet".to_owned()));
        }
        if bytes > SMALL_JOURNAL {
            let size = bytes as f64 / f64::from(1 << 30);
            let message = format!("{size:.1} GiB; `contactd audit verify` reads it all");
            return Ok(Finding::ok("journal", message));
        }
        let verification = journal.verify(&known, &audits::roots(&self.parts).await?)?;
        Ok(match verification.faults.first() {
            None => Finding::ok("journal", format!("whole; lines: {}", verification.lines)),
            Some(first) => {
                Finding::fail("journal", first.to_string(), "contactd audit verify lists everything")
            }
        })
    }
}

impl Measured for Health {
    fn families(&self) -> Measuring<'_> {
        Box::pin(async {
            match self.store_families().await {
                Ok(families) => [vec![store_up(1)], families].concat(),
                Err(_) => self.unreachable(),
            }
        })
    }
}

fn store_up(is_up: u64) -> Family {
    Family::gauge("contactd_store_up", "Whether the store could be asked.", is_up)
}

impl Health {
    /// What is measured while the store cannot be asked.
    pub fn unreachable(&self) -> Vec<Family> {
        vec![store_up(0)]
    }
}

impl Health {
    async fn store_families(&self) -> Result<Vec<Family>, StoreError> {
        let totals = self.parts.store.totals().await?;
        let mut by_kind = BTreeMap::<_, u64>::new();
        for total in &totals.details {
            *by_kind.entry((total.kind, total.label)).or_default() += total.count;
        }
        let mut details =
            Family::new("contactd_store_details", MetricKind::Gauge, "Details held, by kind and label.");
        for ((kind, label), count) in by_kind {
            details = details.with(&[("kind", kind.name()), ("label", label.name())], count);
        }
        let mut bytes = Family::new("contactd_store_bytes", MetricKind::Gauge, "Bytes on disk, by file.");
        for part in self.parts.store.sizes().await? {
            bytes = bytes.with(&[("file", &part.name)], part.bytes);
        }
        let mut families =
            vec![Family::gauge("contactd_store_profiles", "Profiles held.", totals.profiles), details, bytes];
        let backup = self.last_backup().await?;
        let imported_at = totals.newest_import.map(|newest| newest.at);
        for (name, help, at) in [
            ("contactd_last_import_timestamp_seconds", "When the newest import was committed.", imported_at),
            ("contactd_last_backup_timestamp_seconds", "When the last backup was complete.", backup),
        ] {
            if let Some(seconds) = at.and_then(|at| u64::try_from(at.seconds()).ok()) {
                families.push(Family::gauge(name, help, seconds));
            }
        }
        Ok(families)
    }
}

/// Whether the clock can be right.
pub fn clock_finding(now: Timestamp) -> Finding {
    match Timestamp::parse(EARLIEST) {
        Some(earliest) if now < earliest => Finding::fail(
            "clock",
            format!("it shows {now}, which is before this version was made"),
            "set the clock: tokens and expiries depend on it",
        ),
        _ => Finding::ok("clock", now.to_string()),
    }
}
