//! Creates a data directory from a backup, without losing newer opt-outs and revocations.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use contactd_core::store::{Accounts, Machine, Maintenance, Outbox, TakenOver, Tokens};
use contactd_core::{AdminEntry, Clock, Observer, Progress, SystemClock, User};
use contactd_journal::KnownLine;
use contactd_journal::{Journal, JournalSettings, KeyDir, Verifier};

use crate::archive::Manifest;
use crate::cli::RestoreArgs;
use crate::control::{self, ControlAnswer};
use crate::data_dir::DataDir;
use crate::engine::Files;
use crate::keys::KeySource;
use crate::opening::open_files;
use crate::{actor, archive, durable, keys, on_record, unfinished};

/// The temporary name of an incomplete restore, in a directory that existed before.
const LEFT: &str = ".restore.unfinished";
/// A file in it: the names of everything that is being put in place, one per line.
const LIST: &str = "names-being-put-in-place";

/// What a restore did.
pub(crate) struct Restored {
    /// When the backup was made.
    pub(crate) made_at: String,
    /// Whether it is the backup of a node of a cluster.
    pub(crate) is_of_node: bool,
    /// What was kept of another data directory, if one was named.
    pub(crate) kept: Option<KeptState>,
    /// Otherwise who and what is accepted again, as it was when the backup was made.
    pub(crate) live: LiveAgain,
    /// What killed restores had left, and was removed.
    pub(crate) removed: Vec<PathBuf>,
}

/// What was kept of another data directory.
pub(crate) struct KeptState {
    /// Whether its journal is newer than the backup's and was kept.
    pub(crate) journal: bool,
    pub(crate) withdrawals: TakenOver,
}

/// Accounts and tokens that the backup has and that are not ended there, by name. Since then, they may have been.
#[derive(Default)]
pub(crate) struct LiveAgain {
    /// Users, each with the role.
    pub(crate) users: Vec<String>,
    /// Admin tokens, each with the role.
    pub(crate) admin_tokens: Vec<String>,
    pub(crate) tokens: Vec<String>,
}

impl LiveAgain {
    async fn read(store: &Files) -> anyhow::Result<Self> {
        let now = SystemClock.now();
        let users = store.list_users().await?.into_iter().filter(User::is_enabled);
        let admin_tokens = store.list_admin_tokens().await?.into_iter().filter(|token| token.is_live(now));
        let tokens = store.list_tokens().await?.into_iter().filter(|(_, token)| token.is_live(now));
        Ok(Self {
            users: users.map(|user| format!("{} ({})", user.name, user.role)).collect(),
            admin_tokens: admin_tokens.map(|token| format!("{} ({})", token.name, token.role)).collect(),
            tokens: tokens.map(|(_, token)| token.name).collect(),
        })
    }
}

/// Restores `target`, which must be empty or missing, completely or not at all. Refuses to lose opt-outs unless that is
/// accepted. First removes what killed restores left.
pub(crate) async fn restore(
    args: &RestoreArgs,
    target: &Path,
    keys: &KeySource,
    observer: Observer<'_>,
) -> anyhow::Result<Restored> {
    let backup = &args.file;
    let left = target.join(LEFT);
    let others = others(target);
    if !others.is_empty() && !is_half_in_place(target) {
        let what = match left.is_dir() {
            true => "holds a restore that was interrupted; move it away and run this again",
            false => {
                "exists and is not empty; move it away, and pass it with --suppressions-from so that its opt-outs are kept"
            }
        };
        bail!("{} {what}", target.display());
    }
    let Manifest { made_at, is_of_node, .. } = archive::read(backup, None, observer)?;
    // The opt-outs of a cluster are in its database.
    let has_opt_outs = !is_of_node;
    if has_opt_outs && args.suppressions_from.is_none() && !args.accept_lost_opt_outs {
        bail!(
            "this backup was made at {made_at}: people who opted out since then would be disclosed again. To keep their \
             opt-outs, use --suppressions-from DIR with the data directory in use until now; to lose them, use \
             --accept-lost-opt-outs"
        );
    }
    // Only now that this backup is known to be whole.
    let removed = remove_abandoned(target)?;
    // If the target exists, work inside it, because its parent may not be writable; otherwise work next to it.
    let unfinished = if target.exists() { left } else { unfinished::name(target) };
    let _in_progress = begin(&unfinished)?;
    let made = match make(args, &unfinished, keys, observer).await {
        Ok(kept) => put_in_place(&unfinished, target).map(|()| kept),
        Err(error) => Err(error),
    };
    if made.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    let kept = made.with_context(|| format!("cannot restore {}", backup.display()))?;
    let (kept, live, is_of_node) = kept;
    Ok(Restored { made_at, is_of_node, kept, live, removed })
}

/// What is in the target besides an unfinished restore.
fn others(target: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(target).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.file_name().is_some_and(|name| name != LEFT)).collect()
}

/// Whether a killed restore had begun to put its files in place, and nothing else is there: what it had put there is listed,
/// and `contactd.db`, which comes last, is not there yet.
fn is_half_in_place(target: &Path) -> bool {
    let listed = listed(target);
    let is_listed =
        |path: &PathBuf| path.file_name().is_some_and(|name| listed.iter().any(|l| name == l.as_str()));
    !listed.is_empty() && !target.join("contactd.db").exists() && others(target).iter().all(is_listed)
}

/// The names that a restore into an existing directory puts in place.
fn listed(target: &Path) -> Vec<String> {
    let list = fs::read_to_string(target.join(LEFT).join(LIST)).unwrap_or_default();
    list.lines().map(str::to_owned).collect()
}

/// Creates the directory of a restore and marks that it is in progress, visibly for all processes and containers, until the
/// result is dropped.
fn begin(unfinished: &Path) -> anyhow::Result<File> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(unfinished);
    let claim = made.and_then(|()| File::open(unfinished));
    let claim = claim.with_context(|| format!("cannot create {}", unfinished.display()))?;
    if claim.try_lock().is_err() {
        bail!("another restore is writing to {}; wait until it is done", unfinished.display());
    }
    Ok(claim)
}

/// Removes what killed restores into `target` left, unless they are in progress. Returns what was removed.
pub(crate) fn remove_abandoned(target: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    let left = target.join(LEFT);
    for unfinished in unfinished::all_of(target).into_iter().chain([left.clone()]) {
        if !unfinished.is_dir() {
            continue;
        }
        let Ok(claim) = File::open(&unfinished) else { continue };
        if claim.try_lock().is_err() {
            continue;
        }
        if unfinished == left {
            if is_half_in_place(target) {
                removed.extend(others(target));
            } else if !others(target).is_empty() && !target.join("contactd.db").exists() {
                // Not of a restore alone: this may be all there is.
                continue;
            }
        }
        removed.push(unfinished);
    }
    // The list of what is half in place is removed last.
    for path in &removed {
        let gone = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        gone.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(removed)
}

/// The directory for the journal of a node, which a new node does not continue.
pub(crate) const NODE_JOURNAL: &str = "audit-restored";

/// Creates a complete data directory.
async fn make(
    args: &RestoreArgs,
    dir: &Path,
    keys: &KeySource,
    observer: Observer<'_>,
) -> anyhow::Result<(Option<KeptState>, LiveAgain, bool)> {
    DirBuilder::new().mode(0o700).create(dir.join("keys"))?;
    archive::read(&args.file, Some(dir), observer)?;
    observer(Progress::Copying { step: "checking the restored data", done: 0, all: None });
    let mut kept = None;
    if let Some(other) = &args.suppressions_from {
        if !other.join("contactd.db").is_file() {
            bail!("{} is not a data directory: it has no contactd.db", other.display());
        }
        // Open only what is needed: the rest may be damaged, which may be the reason for this restore.
        let newer = Files::read_withdrawals(other)
            .with_context(|| format!("cannot read the opt-outs in {}", other.display()))?;
        keys::add_all(&other.join("keys"), &dir.join("keys"))?;
        keys::copy_second_factor(&other.join("keys"), &dir.join("keys"))?;
        let (store, _) = open_files(&DataDir::make(dir)?, keys).await?;
        let store = Arc::new(store);
        let machine = Machine::embedded(String::new(), Arc::<Files>::clone(&store));
        let journal = keep_journal(other, dir, &machine).await?;
        kept = Some(KeptState { journal, withdrawals: store.take_over(&newer, SystemClock.now()).await? });
    }
    let (store, _) = open_files(&DataDir::make(dir)?, keys).await?;
    let wrong = store.check().await?;
    if !wrong.is_empty() {
        bail!("a database in the backup is damaged: {}", wrong.join("; "));
    }
    let mut live = LiveAgain::default();
    let counts = if let Some(KeptState { withdrawals: taken, .. }) = &kept {
        vec![
            ("optOutsKept", taken.suppressions),
            ("revocationsKept", taken.revocations),
            ("restrictionsKept", taken.restrictions),
            ("accountsEnded", taken.ended_accounts),
            ("accountsAdded", taken.new_accounts),
            ("rolesKept", taken.roles),
            ("passwordsKept", taken.passwords),
            ("secondFactorsKept", taken.second_factors),
        ]
    } else {
        live = LiveAgain::read(&store).await?;
        vec![
            ("usersEnabled", live.users.len() as u64),
            ("adminTokensLive", live.admin_tokens.len() as u64),
            ("tokensLive", live.tokens.len() as u64),
        ]
    };
    let entry = AdminEntry::new(&actor::of_this_process(), "restore", SystemClock.now());
    store.add_entry(&entry.counted(&counts)).await?;
    let copied = store.copy_state()?;
    drop(store);
    if let Some(copied) = &copied {
        keep_keys_and_journal(dir)?;
        // So that nothing uses it without the database.
        Files::open(dir)?.begin_copy(&copied.lineage)?;
    }
    durable::sync_dir(dir)?;
    Ok((kept, live, copied.is_some()))
}

/// Makes the directory of a new node out of that of a node. The database has everything else, and also what that node did since the
/// backup: its journal must not go on from an earlier line.
fn keep_keys_and_journal(dir: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    let audit = dir.join("audit");
    if audit.exists() {
        fs::rename(audit, dir.join(NODE_JOURNAL))?;
    }
    Ok(())
}

/// Keeps the journal of the other directory if it continues the backup's, because it records what was disclosed to whom since
/// then. Returns whether it was kept.
async fn keep_journal(other: &Path, dir: &Path, machine: &Machine) -> anyhow::Result<bool> {
    let (newer, audit) = (other.join("audit"), dir.join("audit"));
    if contactd_journal::segments(&newer)?.is_empty() {
        return Ok(false);
    }
    sign_the_end(other);
    // It continues the backup's journal only if it is whole and contains that journal's last signature.
    let known: Vec<KnownLine> = Verifier::default()
        .verify(&audit, &[])?
        .head
        .map(|head| KnownLine { seq: head.seq, chain: head.chain, how: "is in the backup" })
        .into_iter()
        .collect();
    let verifier = Verifier { keys: Some(KeyDir::new(&other.join("keys"))), ..Verifier::default() };
    let verified = verifier.verify(&newer, &known)?;
    if !verified.is_whole() {
        return Ok(false);
    }
    if audit.exists() {
        fs::remove_dir_all(&audit)?;
    }
    DirBuilder::new().mode(0o700).create(&audit)?;
    contactd_journal::copy(&newer, &audit)?;
    machine.add_roots(&verified.roots).await?;
    Ok(true)
}

/// Signs what a killed server left unsigned: without its keys, nothing proves these lines later.
fn sign_the_end(dir: &Path) {
    let data = DataDir::existing(dir);
    if matches!(control::ask(&data, control::SIGN), Ok(ControlAnswer::Done)) {
        return;
    }
    let settings = JournalSettings { segment_bytes: u64::MAX, ..on_record::brief_settings(&data, "restore") };
    if let Err(error) = Journal::open(settings, Arc::new(SystemClock)) {
        tracing::warn!(%error, "the last lines of the newer journal may be missing");
    }
}

fn put_in_place(unfinished: &Path, target: &Path) -> anyhow::Result<()> {
    if !target.exists() {
        fs::rename(unfinished, target)?;
        return Ok(durable::sync_parent(target)?);
    }
    // The details first and the opt-outs last: a directory that has only the first is not opened.
    let mut names = Vec::new();
    for entry in fs::read_dir(unfinished)? {
        names.push(entry?.file_name());
    }
    names.sort_by_key(|name| (name != "details.db", name == "contactd.db"));
    // Listed first, so that what a kill leaves half in place is recognised as this restore's.
    let list: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    durable::write(&unfinished.join(LIST), list.join("\n").as_bytes())?;
    durable::sync_dir(unfinished)?;
    for name in names {
        fs::rename(unfinished.join(&name), target.join(&name))?;
    }
    fs::remove_dir_all(unfinished)?;
    durable::sync_dir(target)?;
    Ok(())
}
