//! `contactd restore`

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use contactd_core::{Clock, SystemClock};
use contactd_journal::Noted;
use contactd_store_sqlite::{TakenOver, Withdrawals};

use crate::cli::RestoreArgs;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::keys::KeySources;
use crate::{archive, durable, output, unfinished};

/// What is not whole yet, in a directory that was there.
const LEFT: &str = ".restore.unfinished";

pub(crate) fn run(config: &Config, args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let target = &config.data;
    // What a restore that was killed left is nobody's.
    let left = target.join(LEFT);
    if left.is_dir() {
        fs::remove_dir_all(&left).with_context(|| format!("cannot remove {}", left.display()))?;
    }
    let is_empty = |dir: &Path| fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    if target.exists() && !is_empty(target) {
        bail!(
            "{} is there already and not empty; move it away, and name it with --suppressions-from so that its \
             opt-outs are kept",
            target.display()
        );
    }
    let made_at = archive::read(&args.file, None)?.made_at;
    if args.suppressions_from.is_none() && !args.accept_lost_opt_outs {
        bail!(
            "this backup is of {made_at}: people who opted out since then would be disclosed again. Keep their \
             opt-outs with --suppressions-from DIR, the data directory in use until now, or say --accept-lost-opt-outs"
        );
    }
    // Into a directory that is there, because its parent may be somebody else's, or beside one that is to be made.
    let unfinished = if target.exists() { left } else { unfinished::name(target) };
    let restored = restore(&args.file, &unfinished, args.suppressions_from.as_deref(), &config.keys);
    let restored = restored.and_then(|kept| put_in_place(&unfinished, target).map(|()| kept));
    if restored.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    let kept = restored.with_context(|| format!("cannot restore {}", args.file.display()))?;
    output::words(format_args!("{} is as it was at {made_at}", target.display()));
    if args.suppressions_from.is_some() {
        output::words(format_args!(
            "{} opt-outs and {} revocations of tokens made since then were kept",
            kept.withdrawals.suppressions, kept.withdrawals.revocations
        ));
        if kept.withdrawals.suppressions > 0 {
            output::words(format_args!(
                "whoever was erased since then is held again, and given to nobody: erase them once more"
            ));
        }
        if kept.journal {
            output::words(format_args!("the audit journal is the newer one, with everything since then"));
        } else {
            output::words(format_args!(
                "the audit journal is the backup's: there is no other that is whole and goes on from it"
            ));
        }
    } else {
        output::words(format_args!(
            "tokens that were revoked since then are accepted again; `contactd token list` shows them"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// What came from another data directory.
#[derive(Default)]
struct Kept {
    journal: bool,
    withdrawals: TakenOver,
}

fn put_in_place(unfinished: &Path, target: &Path) -> anyhow::Result<()> {
    if !target.exists() {
        fs::rename(unfinished, target)?;
        return Ok(durable::sync_parent(target)?);
    }
    for entry in fs::read_dir(unfinished)? {
        let entry = entry?;
        fs::rename(entry.path(), target.join(entry.file_name()))?;
    }
    fs::remove_dir(unfinished)?;
    durable::sync_dir(target)?;
    Ok(())
}

/// Takes over the journal of the other directory, which goes further than the backup's: it says to whom was disclosed what
/// since then. Whether there is one.
fn keep_journal(other: &Path, dir: &Path, keys: &KeySources) -> anyhow::Result<bool> {
    let (newer, audit) = (other.join("audit"), dir.join("audit"));
    if contactd_journal::segments(&newer)?.is_empty() || !crate::keys::share_audit(other, dir)? {
        return Ok(false);
    }
    // Only one that is whole and goes through the last line of the backup's is a later state of it.
    let known: Vec<Noted> = contactd_journal::head(&audit)?
        .map(|head| Noted { seq: head.seq, chain: head.chain, how: "is in the backup" })
        .into_iter()
        .collect();
    let key = crate::keys::audit(&keys.audit, &dir.join("keys"), false)?;
    if !contactd_journal::verify(&newer, &key, &known, true)?.findings.is_empty() {
        return Ok(false);
    }
    if audit.exists() {
        fs::remove_dir_all(&audit)?;
    }
    DirBuilder::new().mode(0o700).create(&audit)?;
    contactd_journal::copy(&newer, &audit)?;
    Ok(true)
}

/// Makes a whole data directory; says what came from elsewhere.
fn restore(
    backup: &Path,
    dir: &Path,
    suppressions_from: Option<&Path>,
    keys: &KeySources,
) -> anyhow::Result<Kept> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    DirBuilder::new().mode(0o700).create(dir.join("keys"))?;
    archive::read(backup, Some(dir))?;
    let mut kept = Kept::default();
    if let Some(other) = suppressions_from {
        if !other.join("contactd.db").is_file() {
            bail!("{} is not a data directory: it has no contactd.db", other.display());
        }
        // Only what is needed of it is opened: the rest of it may be why this is a restore.
        let newer = Withdrawals::read(other)
            .with_context(|| format!("cannot read the opt-outs in {}", other.display()))?;
        crate::keys::add_all(&other.join("keys"), &dir.join("keys"))?;
        let (store, _) = DataDir::make(dir)?.open(keys)?;
        kept.journal = keep_journal(other, dir, keys)?;
        kept.withdrawals = store.take_over(&newer, SystemClock.now())?;
    }
    let (store, _) = DataDir::make(dir)?.open(keys)?;
    let wrong = store.integrity()?;
    if !wrong.is_empty() {
        bail!("a database in the backup is damaged: {}", wrong.join("; "));
    }
    drop(store);
    durable::sync_dir(dir)?;
    Ok(kept)
}
