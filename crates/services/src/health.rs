//! The state of an installation: what is held, what is wrong, and backups.

mod overview;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use contactd_core::metrics::{Family, Measured, Measuring, MetricKind};
use contactd_core::store::{ActionFilter, AuditFilter, IndexedLine, Machine, PartSize, StoreError};
use contactd_core::{Actor, AdminEntry, Finding, NotRecorded, Timestamp};
pub use overview::{HeldBySource, Overview};
use serde::Serialize;

use crate::views::StatsView;
use crate::{AuditError, Parts, audits};

/// Reports the state of an installation.
pub struct Health {
    pub(crate) parts: Arc<Parts>,
}

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
/// More checks of import files than this by one actor within a day are a finding.
const MANY_CHECKS: u64 = 10;

impl Health {
    /// How much is held, and how much space it takes.
    pub async fn stats(&self, actor: &Actor) -> Result<StatsView, HealthError> {
        actor.note("stats");
        let totals = self.parts.store.totals().await?;
        let mut files = self.parts.store.sizes().await?;
        let bytes = self.parts.journal.bytes().map_err(AuditError::from)?;
        files.push(PartSize { name: "audit/".to_owned(), bytes });
        Ok(StatsView {
            profiles: totals.profiles,
            details: totals.details,
            suppressions: self.parts.store.list_suppressions().await?.len() as u64,
            newest_import: totals.newest_import,
            kept_for_undo: self.parts.store.former_total().await?,
            bytes: files.iter().map(|file| file.bytes).sum(),
            files,
        })
    }

    /// Makes a backup with `make` while others read and write, and notes when it was complete.
    pub async fn backup(
        &self,
        actor: &Actor,
        make: impl AsyncFnOnce(Timestamp) -> Result<BackupMade, BackupError>,
    ) -> Result<BackupMade, HealthError> {
        let entry = self.parts.entry(actor, "backup");
        self.parts.record_read(&entry).await?;
        let mut made = make(self.parts.clock.now()).await?;
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
        let locked_out = self.locked_out().await;
        let checks = [
            self.store_findings().await,
            self.token_findings().await,
            self.suppression_findings().await,
            locked_out.map(Vec::from_iter),
        ];
        for found in checks {
            findings.extend(found.unwrap_or_else(|error| {
                let advice = "restore the data directory from a backup if its files are damaged";
                vec![Finding::fail("store", error.to_string(), advice)]
            }));
        }
        // What is not indexed yet counts too. If it cannot be, the check of the journal says why.
        let _ = audits::up_to_date(&self.parts).await;
        findings.extend(self.check_findings().await.unwrap_or_default());
        findings.push(self.journal_finding().await.unwrap_or_else(|error| {
            let advice = match &error {
                AuditError::Store(StoreError::Unavailable(_)) => "mend what it says, and run this again",
                _ => "look at the permissions of audit/ and keys/; if files are damaged, restore them from a backup",
            };
            Finding::fail("journal", error.to_string(), advice)
        }));
        findings
    }

    /// The users who cannot log in, because the key of their second factor is missing.
    pub async fn locked_out(&self) -> Result<Option<Finding>, StoreError> {
        self.parts.locked_out().await
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

    /// Who has checked many import files within a day: whoever compares files with what is on file can find out what that is.
    async fn check_findings(&self) -> Result<Vec<Finding>, StoreError> {
        let operation = Some(AdminEntry::IMPORT_CHECK.to_owned());
        let filter = AuditFilter {
            since: Some(self.parts.clock.now().minus(Duration::from_secs(86_400))),
            actions: Some(ActionFilter { operation, ..ActionFilter::default() }),
            ..AuditFilter::default()
        };
        let mut by_actor: BTreeMap<String, u64> = BTreeMap::new();
        let mut count = |line| {
            if let IndexedLine::Admin(record) = line {
                *by_actor.entry(record.entry.actor).or_default() += 1;
            }
            true
        };
        self.parts.store.visit_audit(&filter, &mut count).await?;
        let many = by_actor.into_iter().filter(|(_, checks)| *checks > MANY_CHECKS);
        let finding = |(actor, checks)| {
            let message = format!("{checks} checks of import files by {actor} in the last day");
            let advice = "ask what for: `contactd audit show --operation 'import check'` shows them, with --profile those about a person";
            Finding::warn("imports", message, advice)
        };
        Ok(many.map(finding).collect())
    }

    async fn journal_finding(&self) -> Result<Finding, AuditError> {
        let journal = &self.parts.journal;
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
                Err(_) => Self::unanswered(false),
            }
        })
    }
}

fn store_up(is_up: u64) -> Family {
    Family::gauge(
        "contactd_store_up",
        "Whether the store could be asked; on a node, also whether it can renew its lease there.",
        is_up,
    )
}

impl Health {
    /// What is measured without asking the store.
    pub fn unanswered(is_up: bool) -> Vec<Family> {
        vec![store_up(u64::from(is_up))]
    }

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
