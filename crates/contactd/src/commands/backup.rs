//! `contactd backup`

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use serde::Serialize;

use crate::cli::BackupArgs;
use crate::config::Config;
use crate::context::Context;
use crate::{archive, output, unfinished};

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
    remove_what_killed_backups_left(dir);
    // In the data directory, because that is as private as what is copied.
    let copies =
        tempfile::Builder::new().prefix(&format!(".backup-{}-", std::process::id())).tempdir_in(dir)?;
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
        fs::copy(dir.join(&name), copies.path().join(&name))?;
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
    Ok(ExitCode::SUCCESS)
}

/// Gives the file its name, unless another has it by now.
fn put_in_place(unfinished: &Path, file: &Path) -> anyhow::Result<()> {
    fs::hard_link(unfinished, file)?;
    fs::remove_file(unfinished)?;
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(dir)?.sync_all()?;
    Ok(())
}

/// Copies that a backup which was killed could not take away.
///
/// Whether one is being made now.
pub(crate) fn remove_what_killed_backups_left(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    let mut is_under_way = false;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(owner) = name.strip_prefix(".backup-").and_then(|rest| rest.split('-').next()) else {
            continue;
        };
        if Path::new("/proc").join(owner).exists() {
            is_under_way = true;
        } else {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    is_under_way
}
