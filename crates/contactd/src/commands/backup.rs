//! `contactd backup`

use std::fs::{self, File};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use serde::Serialize;

use crate::cli::BackupArgs;
use crate::config::Config;
use crate::context::Context;
use crate::data_dir::DataDir;
use crate::keys::KeySource;
use crate::{archive, durable, output, unfinished};

/// How the names of directories begin in which a backup is put together.
const COPIES: &str = ".backup-";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Made<'a> {
    file: &'a Path,
    made_at: &'a str,
    bytes: u64,
}

pub(crate) fn run(config: Config, args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let file = args.file.as_path();
    if !config.data.join("contactd.db").is_file() {
        bail!("there is no store in {}; name its directory with --data", config.data.display());
    }
    let context = &Context::open(config)?;
    if file.symlink_metadata().is_ok() {
        bail!("{} is there already; name another file, or move it away", file.display());
    }
    let made_at = context.now().to_string();
    let dir = context.dir.path();
    let _under_way = claim(&context.dir)?;
    // In the data directory, because that is as private as what is copied.
    let copies = tempfile::Builder::new().prefix(COPIES).tempdir_in(dir)?;
    let mut files: Vec<String> = context
        .store
        .copy_to(copies.path())
        .context("cannot copy the databases")?
        .into_iter()
        .map(str::to_owned)
        .collect();
    fs::create_dir(copies.path().join("keys"))?;
    for key in fs::read_dir(context.dir.keys())? {
        let name = format!("keys/{}", key?.file_name().to_string_lossy());
        durable::copy(&dir.join(&name), &copies.path().join(&name))?;
        files.push(name);
    }
    // Behind the databases: a token of which the journal speaks is in them.
    fs::create_dir(copies.path().join("audit"))?;
    let segments = contactd_journal::copy(&context.dir.audit(), &copies.path().join("audit"))?;
    files.extend(segments.into_iter().map(|name| format!("audit/{name}")));
    let unfinished = unfinished::name(file);
    let made = archive::write(&unfinished, copies.path(), &files, made_at.clone())
        .and_then(|()| archive::read(&unfinished, None))
        .and_then(|_| put_in_place(&unfinished, file));
    if made.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    made.with_context(|| format!("cannot make {}", file.display()))?;
    let bytes = file.metadata()?.len();
    if args.json {
        output::json(&Made { file, made_at: &made_at, bytes })?;
    }
    output::words(format_args!("{} holds everything and was read back: {bytes} bytes", file.display()));
    if [&context.key_sources.digest, &context.key_sources.audit]
        .iter()
        .any(|source| !matches!(source, KeySource::DataDir))
    {
        output::words(format_args!("but the keys that come from elsewhere: keep a copy of them too"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives the file its name, unless another has it by now.
fn put_in_place(unfinished: &Path, file: &Path) -> anyhow::Result<()> {
    fs::hard_link(unfinished, file)?;
    fs::remove_file(unfinished)?;
    durable::sync_parent(file)?;
    Ok(())
}

/// Says that a backup is being made for as long as the answer is kept, whichever process or container looks; takes away what
/// killed ones left.
fn claim(dir: &DataDir) -> anyhow::Result<File> {
    remove_abandoned(dir)?;
    let claim = File::open(dir.keys())?;
    claim.lock_shared()?;
    Ok(claim)
}

/// Takes away the copies of backups that were killed, unless one is being made now. Whether none is.
pub(crate) fn remove_abandoned(dir: &DataDir) -> anyhow::Result<bool> {
    // The keys are what every backup copies; the directory itself is the running server's to lock.
    let claim = File::open(dir.keys())?;
    if claim.try_lock().is_err() {
        return Ok(false);
    }
    for entry in fs::read_dir(dir.path())? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(COPIES) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(true)
}
