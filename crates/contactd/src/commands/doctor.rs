//! `contactd doctor`

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use contactd_core::store::{Details, Suppressions, Tokens};
use contactd_core::{Clock, DigestKeys, SystemClock, Timestamp};
use contactd_store_sqlite::SqliteStore;
use serde::Serialize;

use crate::cli::Everywhere;
use crate::commands::audit;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::{control, keys, output};

const RESTORE: &str = "restore the data directory from a backup if its files are damaged";

/// Free space below which an import may not fit.
const LOW_DISK: u64 = 1 << 30;
/// This version is not older than this: a clock before it is wrong.
const EARLIEST: &str = "2026-01-01";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

#[derive(Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, check: &'static str, message: String) {
        self.0.push(Finding { check, verdict: Verdict::Ok, message, advice: None });
    }

    fn warn(&mut self, check: &'static str, message: String, advice: &str) {
        self.0.push(Finding { check, verdict: Verdict::Warn, message, advice: Some(advice.to_owned()) });
    }

    fn fail(&mut self, check: &'static str, message: String, advice: &str) {
        self.0.push(Finding { check, verdict: Verdict::Fail, message, advice: Some(advice.to_owned()) });
    }
}

pub(crate) async fn run(everywhere: &Everywhere, json: bool) -> anyhow::Result<ExitCode> {
    let mut findings = Findings::default();
    examine(everywhere, &mut findings).await;
    if json {
        output::json(&findings.0)?;
    } else {
        for Finding { check, verdict, message, advice } in &findings.0 {
            let mark = match verdict {
                Verdict::Ok => "ok  ",
                Verdict::Warn => "warn",
                Verdict::Fail => "FAIL",
            };
            output::data(format_args!("{mark}  {check:<13} {message}"))?;
            if let Some(advice) = advice {
                output::data(format_args!("      {:<13} -> {advice}", ""))?;
            }
        }
    }
    let failed = findings.0.iter().any(|finding| finding.verdict == Verdict::Fail);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn examine(everywhere: &Everywhere, findings: &mut Findings) {
    let config = match Config::resolve(everywhere) {
        Ok(config) => config,
        Err(error) => {
            findings.fail(
                "configuration",
                format!("{error:#}"),
                "mend the file; `contactd config example` shows every setting",
            );
            return;
        }
    };
    findings.ok("configuration", "it reads well".to_owned());
    let now = SystemClock.now();
    clock(now, findings);
    if !config.data.exists() {
        findings.warn(
            "data",
            format!("{} is not there yet", config.data.display()),
            "it is made by the first command that needs it, such as `contactd import`",
        );
        return;
    }
    permissions(&config, findings);
    disk(&config.data, findings);
    let dir = match DataDir::make(&config.data) {
        Ok(dir) => dir,
        Err(error) => {
            findings.fail("data", format!("{error:#}"), "run this as the user the data belongs to");
            return;
        }
    };
    let opened = dir.open(&config.keys);
    match &opened {
        Ok((store, keys)) => {
            if let Err(error) = store_and_tokens(store, keys, now, findings).await {
                findings.fail("store", format!("{error:#}"), RESTORE);
            }
        }
        Err(error) => findings.fail("store", format!("{error:#}"), RESTORE),
    }
    if let Err(error) = journal(&dir, opened.ok().as_ref().map(|(store, _)| store), &config, findings).await {
        findings.fail("journal", format!("{error:#}"), "put back audit/ and its key from a backup");
    }
    if control::is_served(&dir) {
        findings.ok("server", "one is running on this data directory".to_owned());
    } else {
        findings.ok("server", "none is running on this data directory".to_owned());
    }
}

/// More of a journal than this is not read just to see how it is.
const SMALL_JOURNAL: u64 = 256 << 20;

async fn journal(
    dir: &DataDir,
    store: Option<&SqliteStore>,
    config: &Config,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let segments = contactd_journal::segments(&dir.audit())?;
    if segments.is_empty() {
        findings.ok("journal", "empty: nothing has been looked up yet".to_owned());
        return Ok(());
    }
    let bytes: u64 = segments.iter().filter_map(|segment| Some(segment.path.metadata().ok()?.len())).sum();
    let key = dir.audit_key(&config.keys)?;
    let expected = store.and_then(|store| store.fact("audit_key").ok().flatten());
    if let Some(expected) = expected.filter(|expected| *expected != key.id()) {
        findings.fail(
            "journal",
            "its key is not the one it was begun with".to_owned(),
            &format!("put back the key with fingerprint {expected}"),
        );
        return Ok(());
    }
    if rustix::fs::access(dir.audit(), rustix::fs::Access::WRITE_OK).is_err() {
        findings.fail(
            "journal",
            format!("{} cannot be written, so lookups are answered 500", dir.audit().display()),
            "make it writable for the user that serves",
        );
        return Ok(());
    }
    if bytes > SMALL_JOURNAL {
        let size = bytes as f64 / f64::from(1 << 30);
        findings.ok("journal", format!("{size:.1} GiB; `contactd audit verify` reads it all"));
        return Ok(());
    }
    let known = match store {
        Some(store) => audit::known_from_index(store).await?,
        None => Vec::new(),
    };
    let report = contactd_journal::verify(&dir.audit(), &key, &known, control::is_served(dir))?;
    match report.findings.first() {
        None => findings.ok("journal", format!("whole, {} lines", report.lines)),
        Some(first) => findings.fail("journal", first.to_string(), "contactd audit verify lists everything"),
    }
    Ok(())
}

fn clock(now: Timestamp, findings: &mut Findings) {
    match Timestamp::parse(EARLIEST) {
        Some(earliest) if now < earliest => findings.fail(
            "clock",
            format!("it shows {now}, which is before this version was made"),
            "set the clock: tokens and expiries go by it",
        ),
        _ => findings.ok("clock", now.to_string()),
    }
}

fn permissions(config: &Config, findings: &mut Findings) {
    let dir = config.data.as_path();
    let open = dir.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
    let exposed = keys::exposed(&dir.join("keys"), &config.keys);
    if open {
        findings.warn(
            "permissions",
            format!("others than its owner can look into {}", dir.display()),
            &format!("chmod 700 {}", dir.display()),
        );
    }
    if !exposed.is_empty() {
        findings.fail(
            "permissions",
            format!("others can read {}", exposed.join(", ")),
            &format!("chmod 600 {}", exposed.join(" ")),
        );
    }
    if !open && exposed.is_empty() {
        findings.ok("permissions", "only the owner can read the data".to_owned());
    }
}

fn disk(dir: &Path, findings: &mut Findings) {
    let Ok(disk) = rustix::fs::statvfs(dir) else {
        findings.warn("disk", "its free space cannot be told".to_owned(), "look at it with df");
        return;
    };
    let free = disk.f_bavail * disk.f_frsize;
    let message = format!("{:.1} GiB free", free as f64 / f64::from(1 << 30));
    if free < LOW_DISK {
        findings.warn(
            "disk",
            message,
            "make room: an import needs up to twice the size of its data while it runs",
        );
    } else {
        findings.ok("disk", message);
    }
}

async fn store_and_tokens(
    store: &SqliteStore,
    keys: &DigestKeys,
    now: Timestamp,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let damage = store.integrity()?;
    if damage.is_empty() {
        let totals = store.totals().await?;
        findings.ok("store", format!("whole, {} profiles", totals.profiles));
        if let Some(at) = totals.newest_import.map(|newest| newest.at).filter(|at| *at > now) {
            findings.warn(
                "clock",
                format!("the newest import is from the future: {at}"),
                "set the clock, or wait",
            );
        }
    } else {
        findings.fail(
            "store",
            damage.join("; "),
            "stop the server and restore the data directory from a backup",
        );
    }
    let foreign = store.list_suppressions().await?.iter().filter(|digest| !keys.hold(&digest.key)).count();
    if foreign > 0 {
        findings.fail(
            "suppressions",
            format!("{foreign} were made with a key that is not in keys/: they are not in force"),
            "put the missing key back into keys/ and restart the server",
        );
    }
    let tokens = store.list_tokens().await?;
    let live = tokens.iter().filter(|(_, token)| token.is_live(now)).count();
    let ending: Vec<&str> =
        tokens.iter().filter(|(_, token)| token.ends_soon(now)).map(|(_, token)| token.id.as_str()).collect();
    match (live, ending.as_slice()) {
        (0, _) => {
            findings.warn(
                "tokens",
                "there is none that is accepted".to_owned(),
                "contactd token create NAME",
            );
        }
        (_, []) => findings.ok("tokens", format!("{live} accepted, none ends within 14 days")),
        _ => findings.warn(
            "tokens",
            format!(
                "{} of {live} end within 14 days: {}{}",
                ending.len(),
                ending[..ending.len().min(5)].join(", "),
                if ending.len() > 5 { ", …" } else { "" }
            ),
            "contactd token rotate ID",
        ),
    }
    Ok(())
}
