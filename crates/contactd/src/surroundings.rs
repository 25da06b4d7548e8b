//! What `doctor` checks outside the store: permissions, disk, journal directory, server.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use contactd_core::Finding;
use contactd_journal::Verification;
use contactd_journal::{KeyDir, Verifier};
use rustix::io::Errno;

use crate::data_dir::DataDir;
use crate::keys::{ExposedKeys, KeySource};
use crate::{abandoned_backups, actor, restoring};

/// Free space below which an import may not fit.
const LOW_DISK: u64 = 1 << 30;
/// Less free space than this is none.
const FULL_DISK: u64 = 1 << 20;

pub(crate) fn permissions(dir: &Path, keys: &KeySource) -> Vec<Finding> {
    let mut findings = Vec::new();
    if dir.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0) {
        let message = format!("other users can read {}", dir.display());
        findings.push(Finding::warn("permissions", message, &format!("chmod 700 {}", dir.display())));
    }
    let ExposedKeys { to_others, to_group } = ExposedKeys::find(&dir.join("keys"), keys);
    if !to_others.is_empty() {
        let message = format!("other users can read {}, so `serve` does not start", to_others.join(", "));
        findings.push(Finding::fail("permissions", message, &format!("chmod 600 {}", to_others.join(" "))));
    }
    if !to_group.is_empty() {
        let message = format!("the group can read {}", to_group.join(", "));
        let advice = format!("chmod 600 {}, unless the group has to read them", to_group.join(" "));
        findings.push(Finding::warn("permissions", message, &advice));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("permissions", "only the owner can read the data".to_owned()));
    }
    findings
}

/// A finding if others can read a configuration file that has a password in it.
pub(crate) fn exposed_password(file: &Path) -> Option<Finding> {
    let is_exposed = file.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0);
    is_exposed.then(|| {
        let message =
            format!("other users can read {}, and the password of the database in it", file.display());
        let advice = format!("chmod 640 {}, or give the store with CONTACTD_STORE", file.display());
        Finding::warn("permissions", message, &advice)
    })
}

/// A finding if the data belongs to another user: to open it would leave files of the wrong owner in it.
pub(crate) fn wrong_user(dir: &Path) -> Option<Finding> {
    // The files count, where they can be seen: the directory may belong to somebody who prepared it.
    let metadata = dir.join("contactd.db").metadata().or_else(|_| dir.metadata()).ok()?;
    let user = rustix::process::geteuid().as_raw();
    (metadata.uid() != user).then(|| {
        let (owner, me, dir) = (actor::of_user(metadata.uid()), actor::of_user(user), dir.display());
        let message = format!("{dir} belongs to {owner}, and this runs as {me}");
        let sudo = if owner.contains(' ') { format!("#{}", metadata.uid()) } else { owner };
        let advice = format!("run this as that user: sudo -u '{sudo}' contactd doctor --data {dir}");
        Finding::fail("user", message, &advice)
    })
}

/// A finding if the data cannot be written: then the store cannot be opened, and a server cannot run.
pub(crate) fn unwritable(dir: &Path) -> Option<Finding> {
    let names = ["", "keys", "contactd.db", "details.db"];
    let paths = names.iter().map(|name| if name.is_empty() { dir.to_owned() } else { dir.join(name) });
    let advice = "tokens, opt-outs and the store were not checked";
    paths.into_iter().find_map(|path| {
        let shown = path.display();
        match rustix::fs::access(&path, rustix::fs::Access::WRITE_OK) {
            Ok(()) | Err(Errno::NOENT) => None,
            Err(Errno::ROFS) => Some(Finding::fail(
                "disk",
                format!("{shown} is on a file system that is read-only"),
                &format!("mount it read-write; if a fault of the disk made it read-only, the kernel's log says so. {advice}"),
            )),
            Err(error) => Some(Finding::fail(
                "disk",
                format!("{shown} cannot be written: {error}"),
                &format!("chmod u+w {shown}. {advice}"),
            )),
        }
    })
}

/// Removes what killed backups and restores left, and says what that was.
pub(crate) fn leftovers(dir: &Path) -> Option<Finding> {
    let remove = || -> anyhow::Result<Vec<PathBuf>> {
        let mut removed = restoring::remove_abandoned(dir)?;
        if dir.join("keys").is_dir() {
            removed.extend(abandoned_backups::remove_abandoned(&DataDir::existing(dir))?.unwrap_or_default());
        }
        Ok(removed)
    };
    match remove() {
        Ok(removed) if removed.is_empty() => None,
        Ok(removed) => {
            let names: Vec<String> = removed.iter().map(|path| path.display().to_string()).collect();
            let message = format!("removed what a killed backup or restore had left: {}", names.join(", "));
            Some(Finding::ok("leftovers", message))
        }
        Err(error) => {
            let message = format!("what a killed backup or restore left is still there: {error:#}");
            Some(Finding::warn("leftovers", message, "remove it"))
        }
    }
}

pub(crate) fn disk(dir: &Path) -> Finding {
    let Ok(disk) = rustix::fs::statvfs(dir) else {
        return Finding::warn("disk", "the free space cannot be read".to_owned(), "check it with df");
    };
    let free = disk.f_bavail * disk.f_frsize;
    let message = format!("{:.1} GiB free", free as f64 / f64::from(1 << 30));
    if free < FULL_DISK {
        let advice =
            "free some space: until then the journal cannot be written, and lookups are answered 503";
        return Finding::fail("disk", format!("the disk of {} is full", dir.display()), advice);
    }
    if free < LOW_DISK {
        let advice = "free some space: an import needs up to twice the size of its data while it runs";
        return Finding::warn("disk", message, advice);
    }
    Finding::ok("disk", message)
}

/// The finding that the server keeps no journal.
pub(crate) fn journal_is_off() -> Finding {
    let message = "the journal is off: nothing that is disclosed or looked at is on record, and changes get on record once it is on again";
    Finding::warn(
        "journal",
        message.to_owned(),
        "set audit.sync to \"os\" or \"disk\", and restart the server",
    )
}

/// A finding if no file can be made for the journal; `None` if one can, or if there is no journal yet.
pub(crate) fn unwritable_journal(dir: &DataDir) -> Option<Finding> {
    let audit = dir.audit();
    let is_writable = rustix::fs::access(&audit, rustix::fs::Access::WRITE_OK).is_ok();
    (audit.exists() && !is_writable).then(|| {
        let message = format!(
            "no new file can be made in {}: lookups are refused once the journal needs its next file",
            audit.display()
        );
        Finding::fail("journal", message, "make it writable for the user that runs the server")
    })
}

/// The journal alone, for when the store cannot be opened. Creates nothing.
pub(crate) fn journal(dir: &DataDir) -> Finding {
    let verify = || -> anyhow::Result<Option<Verification>> {
        if contactd_journal::segments(&dir.audit())?.is_empty() {
            return Ok(None);
        }
        let verifier = Verifier { keys: Some(KeyDir::new(&dir.keys())), ..Verifier::default() };
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
