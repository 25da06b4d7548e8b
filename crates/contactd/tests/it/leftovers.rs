//! What a killed backup or restore leaves is removed by the next one and by `doctor`.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::fixture::{ADA, ADA_PHONE, many};
use crate::service::{Output, PHONE, Site, eventually};

/// Names in a directory that only an unfinished command can have left.
fn left(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("unfinished") || name.starts_with(".backup-")).collect()
}

fn all_left(site: &Site) -> Vec<String> {
    [left(&site.path("")), left(&site.data())].concat()
}

/// A site with so many people that a backup or restore takes a moment.
fn large() -> Site {
    let site = Site::empty();
    site.import("crm", many("left-quell", 4_000));
    site
}

/// Kills a command after a while. Returns whether it was still running.
fn killed_after(site: &Site, args: &[&str], wait: Duration) -> bool {
    let mut child = site.spawn(args);
    std::thread::sleep(wait);
    let was_running = child.try_wait().expect("waits").is_none();
    child.kill().expect("kills");
    child.wait().expect("ends");
    was_running
}

/// Waits that go from nothing to a little more than a command takes, again and again.
/// How long it takes is measured for every 20 of them, because other work on the machine makes it differ.
fn moments(mut duration: impl FnMut() -> Duration) -> impl Iterator<Item = Duration> {
    (0..10).flat_map(move |_| {
        let whole = duration();
        (0..20).map(move |moment| whole * moment / 18)
    })
}

/// How long a command takes.
fn duration(site: &Site, args: &[&str]) -> Duration {
    let began = Instant::now();
    site.ok(args);
    began.elapsed()
}

#[test]
fn what_a_killed_backup_left_is_removed_by_the_next_one_or_by_doctor() {
    let site = large();
    let whole = || {
        let took = duration(&site, &["backup", "whole.backup"]);
        fs::remove_file(site.path("whole.backup")).expect("is there");
        took
    };
    let mut leaving = 0;
    for (moment, wait) in moments(whole).enumerate() {
        if moment >= 20 && leaving >= 5 {
            break;
        }
        let name = format!("killed-{moment}.backup");
        killed_after(&site, &["backup", &name], wait);
        let found = all_left(&site);
        leaving += u32::from(!found.is_empty());
        if moment % 2 == 0 {
            // Under another name, in another place.
            fs::create_dir_all(site.path("other")).expect("a directory");
            site.ok(&["backup", &format!("other/next-{moment}.backup")]);
        } else {
            let doctor = site.run(&["doctor"]);
            let said = doctor
                .stdout
                .contains("ok    leftovers     removed what a killed backup or restore had left: ");
            assert_eq!(said, !found.is_empty(), "{found:?}: {doctor:?}");
        }
        assert_eq!(all_left(&site), [""; 0], "after {found:?}");
        // A backup that has its name is complete.
        if site.path(&name).exists() {
            let other = Site::empty();
            other.ok(&["restore", &site.place(&name), "--accept-lost-opt-outs"]);
        }
    }
    assert!(leaving >= 5, "only {leaving} kills left something");
}

#[test]
fn what_a_killed_restore_left_is_removed_by_the_next_one_or_by_doctor() {
    let site = large();
    site.ok(&["backup", "a.backup"]);
    let backup = site.place("a.backup");
    let args = ["restore", &backup, "--accept-lost-opt-outs"];
    // Beside a directory that does not exist, and in one that is empty.
    for is_there in [false, true] {
        let prepare = |site: &Site| {
            let _ = fs::remove_dir_all(site.data());
            if is_there {
                fs::create_dir(site.data()).expect("a directory");
            }
        };
        let other = Site::empty();
        let whole = || {
            prepare(&other);
            duration(&other, &args)
        };
        let mut leaving = 0;
        for (moment, wait) in moments(whole).enumerate() {
            if moment >= 20 && leaving >= 4 {
                break;
            }
            prepare(&other);
            killed_after(&other, &args, wait);
            let found = all_left(&other);
            leaving += u32::from(!found.is_empty());
            if moment % 2 == 1 {
                let doctor = other.run(&["doctor"]);
                let said = doctor.stdout.contains("removed what a killed backup or restore had left: ");
                assert_eq!(said, !found.is_empty(), "{found:?}: {doctor:?}");
                assert_eq!(all_left(&other), [""; 0], "after {found:?}");
            }
            if !other.data().join("contactd.db").exists() {
                other.ok(&args);
            }
            assert_eq!(left(&other.path("")), [""; 0]);
            assert_eq!(other.json(&["stats"])["profiles"], 4_000);
        }
        assert!(leaving >= 4, "only {leaving} kills left something");
    }
}

#[test]
fn a_restore_that_is_half_in_place_is_removed_and_only_that() {
    let site = Site::with_people();
    let token = site.token(&[]);
    site.ok(&["backup", "a.backup"]);
    let backup = &site.place("a.backup");
    let half = |is_ours: bool| {
        let other = Site::empty();
        other.ok(&["restore", backup, "--accept-lost-opt-outs"]);
        let unfinished = other.data().join(".restore.unfinished");
        fs::create_dir(&unfinished).expect("a directory");
        for name in ["contactd.db", "keys"] {
            fs::rename(other.data().join(name), unfinished.join(name)).expect("moves");
        }
        for name in
            ["contactd.db-wal", "contactd.db-shm", "details.db-wal", "details.db-shm", "audit-index.db"]
        {
            let _ = fs::remove_file(other.data().join(name));
        }
        if is_ours {
            fs::write(unfinished.join("names-being-put-in-place"), "details.db\naudit\nkeys\ncontactd.db")
                .expect("writes");
        }
        other
    };
    let restored = half(true);
    let again = restored.run(&["restore", backup, "--accept-lost-opt-outs"]);
    for name in ["details.db", "audit", ".restore.unfinished"] {
        let path = restored.data().join(name);
        again.mentions(0, format!("removed {}, which a killed restore had left\n", path.display()));
    }
    assert_eq!(restored.serve().look_up(PHONE, &token, ADA).json()["phoneNumber"], ADA_PHONE);
    let examined = half(true);
    assert_eq!(examined.run(&["doctor"]).code, 1, "there is no data directory");
    assert_eq!(fs::read_dir(examined.data()).expect("lists").count(), 0);
    // Without the list, or with something else beside it, it may be all there is.
    let unknown = half(false);
    unknown.run(&["doctor"]);
    assert!(
        unknown.data().join("details.db").is_file() && unknown.data().join(".restore.unfinished").is_dir()
    );
    let mixed = half(true);
    fs::write(mixed.data().join("notes.txt"), "mine").expect("writes");
    mixed.run(&["doctor"]);
    assert_eq!(mixed.run(&["restore", backup, "--accept-lost-opt-outs"]).code, 1);
    assert!(mixed.data().join("details.db").is_file() && mixed.data().join("notes.txt").is_file());
}

#[test]
fn doctor_leaves_a_backup_and_a_restore_alone_that_are_running() {
    let site = Site::with_people();
    let unfinished = site.path("a.backup.1.unfinished");
    fs::write(&unfinished, "half").expect("writes");
    let copies = site.data().join(".backup-x");
    fs::create_dir(&copies).expect("a directory");
    fs::write(copies.join("written-to"), unfinished.to_str().expect("UTF-8")).expect("writes");
    let restoring = site.path("data.1.unfinished");
    fs::create_dir(&restoring).expect("a directory");
    // As they lock it while they run.
    let backup = File::open(site.data().join("keys")).expect("opens");
    backup.lock_shared().expect("locks");
    let restore = File::open(&restoring).expect("opens");
    restore.lock().expect("locks");
    assert!(!site.run(&["doctor"]).stdout.contains("leftovers"));
    assert!(unfinished.exists() && copies.exists() && restoring.exists());
    drop((backup, restore));
    let doctor = site.run(&["doctor"]);
    let expected = format!(
        "ok    leftovers     removed what a killed backup or restore had left: {}, {}, {}\n",
        restoring.display(),
        unfinished.display(),
        copies.display()
    );
    assert!(doctor.stdout.contains(&expected), "{doctor:?}");
    assert!(!unfinished.exists() && !copies.exists() && !restoring.exists());
}

#[test]
fn a_backup_to_standard_output_is_restored_like_a_file() {
    let site = Site::with_people();
    let token = site.token(&[]);
    let file = File::create(site.path("piped.backup")).expect("creates");
    let output =
        site.command().args(["backup", "-"]).stdout(file).stderr(Stdio::piped()).output().expect("runs");
    let bytes = site.path("piped.backup").metadata().expect("a file").len();
    let said = format!(
        "everything was written to standard output: {bytes} bytes; unlike a file, it was not read back {}\n",
        site.used()
    );
    Output::from(output).says(0, said);
    assert_eq!(all_left(&site), [""; 0]);
    let other = Site::empty();
    other.ok(&["restore", &site.place("piped.backup"), "--accept-lost-opt-outs"]);
    assert_eq!(other.serve().look_up(PHONE, &token, ADA).json()["phoneNumber"], ADA_PHONE);
    let said = "contactd: the backup goes to standard output, so --json cannot: leave it out\n";
    site.run(&["backup", "-", "--json"]).says(2, said);
}

#[test]
fn a_backup_to_a_reader_that_goes_away_fails() {
    let site = large();
    let mut command = site.command();
    command.args(["backup", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    let said = "contactd: the backup is not complete: it could not be written: Broken pipe (os error 32)\n";
    Output::from(output).says(1, said);
    let metrics = site.serve().metrics();
    assert!(!metrics.contains("contactd_last_backup_timestamp_seconds"), "{metrics}");
}

#[test]
fn a_backup_file_is_private_from_the_first_moment() {
    let site = large();
    let mut child = site.spawn(&["backup", "a.backup"]);
    let mut modes = Vec::new();
    eventually("it is complete", || {
        for name in left(&site.path("")) {
            modes.extend(site.path(&name).metadata().map(|metadata| metadata.permissions().mode() & 0o777));
        }
        child.try_wait().expect("waits").is_some()
    });
    assert!(modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
}
