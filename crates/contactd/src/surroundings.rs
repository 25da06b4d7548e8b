//! What `doctor` checks outside the store: permissions, disk, journal directory, server.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use contactd_core::Verification;
use contactd_core::services::Finding;
use contactd_journal::{KeyDir, Verifier};

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::keys::KeySources;
use crate::{control, keys};

/// Free space below which an import may not fit.
const LOW_DISK: u64 = 1 << 30;

pub(crate) fn permissions(config: &Config) -> Vec<Finding> {
    let dir = config.data.as_path();
    let mut findings = Vec::new();
    if dir.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0) {
        let message = format!("other users can read {}", dir.display());
        findings.push(Finding::warn("permissions", message, &format!("chmod 700 {}", dir.display())));
    }
    let exposed = keys::exposed(&dir.join("keys"), &config.keys);
    if !exposed.is_empty() {
        let message = format!("other users can read {}", exposed.join(", "));
        findings.push(Finding::fail("permissions", message, &format!("chmod 600 {}", exposed.join(" "))));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("permissions", "only the owner can read the data".to_owned()));
    }
    findings
}

pub(crate) fn disk(dir: &Path) -> Finding {
    let Ok(disk) = rustix::fs::statvfs(dir) else {
        return Finding::warn("disk", "the free space cannot be read".to_owned(), "check it with df");
    };
    let free = disk.f_bavail * disk.f_frsize;
    let message = format!("{:.1} GiB free", free as f64 / f64::from(1 << 30));
    if free < LOW_DISK {
        let advice = "free some space: an import needs up to twice the size of its data while it runs";
        return Finding::warn("disk", message, advice);
    }
    Finding::ok("disk", message)
}

/// A finding if the journal cannot be written; `None` if it can, or if there is no journal yet.
pub(crate) fn unwritable_journal(dir: &DataDir) -> Option<Finding> {
    let audit = dir.audit();
    let is_writable = rustix::fs::access(&audit, rustix::fs::Access::WRITE_OK).is_ok();
    (audit.exists() && !is_writable).then(|| {
        let message = format!("{} cannot be written, so lookups are answered 500", audit.display());
        Finding::fail("journal", message, "make it writable for the user that runs the server")
    })
}

/// The journal alone, for when the store cannot be opened. Creates nothing.
pub(crate) fn journal(dir: &DataDir, sources: &KeySources) -> Finding {
    let verify = || -> anyhow::Result<Option<Verification>> {
        if contactd_journal::segments(&dir.audit())?.is_empty() {
            return Ok(None);
        }
        let old_key = keys::old_audit(&sources.audit, &dir.keys())?;
        let verifier = Verifier { keys: Some(KeyDir::new(&dir.keys())), old_key, ..Verifier::default() };
        Ok(Some(verifier.verify(&dir.audit(), &[])?))
    };
    match verify() {
        Ok(Some(verified)) if verified.is_whole() => {
            Finding::ok("journal", format!("whole; lines: {}; not compared with its index", verified.lines))
        }
        Ok(Some(_)) => {
            Finding::fail("journal", "it is not whole".to_owned(), "contactd audit verify lists everything")
        }
        Ok(None) => {
            let advice = "if there were lookups, restore audit/ from a backup";
            Finding::warn(
                "journal",
                "there is none, and it cannot be compared with its index".to_owned(),
                advice,
            )
        }
        Err(error) => {
            let advice =
                "run this as the user the data belongs to; if files are missing, restore them from a backup";
            Finding::fail("journal", format!("{error:#}"), advice)
        }
    }
}

pub(crate) fn server(dir: &DataDir) -> Finding {
    let state = if control::is_served(dir) { "a server" } else { "no server" };
    Finding::ok("server", format!("{state} is running on this data directory"))
}
