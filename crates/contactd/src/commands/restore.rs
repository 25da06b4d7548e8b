//! `contactd restore`

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use contactd_core::Clock;
use contactd_core::SystemClock;
use contactd_core::store::Suppressions;

use crate::cli::RestoreArgs;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::{archive, keys, output, unfinished};

pub(crate) async fn run(config: &Config, args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let target = &config.data;
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
    let unfinished = unfinished::name(target);
    let restored = restore(&args.file, &unfinished, args.suppressions_from.as_deref()).await;
    let restored = restored.and_then(|kept| {
        if target.exists() {
            fs::remove_dir(target)?;
        }
        fs::rename(&unfinished, target)?;
        Ok(kept)
    });
    if restored.is_err() {
        let _ = fs::remove_dir_all(&unfinished);
    }
    let kept = restored.with_context(|| format!("cannot restore {}", args.file.display()))?;
    output::words(format_args!("{} is as it was at {made_at}", target.display()));
    if args.suppressions_from.is_some() {
        output::words(format_args!("{kept} opt-outs made since then were kept"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a whole data directory; says how many opt-outs came from elsewhere.
async fn restore(backup: &Path, dir: &Path, suppressions_from: Option<&Path>) -> anyhow::Result<u64> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    DirBuilder::new().mode(0o700).create(dir.join("keys"))?;
    archive::read(backup, Some(dir))?;
    let mut kept = 0;
    if let Some(other) = suppressions_from {
        if !other.join("contactd.db").is_file() {
            bail!("{} is not a data directory: it has no contactd.db", other.display());
        }
        let (newer, _) = DataDir::make(other)?.open()?;
        keys::add_all(&other.join("keys"), &dir.join("keys"))?;
        let (store, _) = DataDir::make(dir)?.open()?;
        kept = store.suppress(&newer.list_suppressions().await?, SystemClock.now()).await?;
    }
    let (store, _) = DataDir::make(dir)?.open()?;
    let wrong = store.integrity()?;
    if !wrong.is_empty() {
        bail!("a database in the backup is damaged: {}", wrong.join("; "));
    }
    drop(store);
    fs::File::open(dir)?.sync_all()?;
    Ok(kept)
}
