//! `doctor`, and what `serve` says about the same: the wrong user, a disk that is read-only, keys that others can read, what
//! killed commands left.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::fixture::ADA;
use crate::service::{Output, PHONE, Site, could_not_run};
use crate::transcript::{check, transcripts};

/// A user who is not root.
const OTHER: u32 = 65_534;

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

/// Gives everything in a site to another user.
fn give_away(site: &Site) {
    for path in [files(&site.path("")), vec![site.path("")]].concat() {
        std::os::unix::fs::lchown(path, Some(OTHER), Some(OTHER)).expect("gives");
    }
}

/// Runs a command as a user who is not root, and to whom the site belongs.
fn run_unprivileged(site: &Site, args: &[&str]) -> Output {
    if !geteuid().is_root() {
        return site.run(args);
    }
    // The binary may be in a place that only root can reach.
    let binary = site.path("contactd-binary");
    if !binary.exists() {
        // Not by this process: a process that another test starts meanwhile would keep the file open for writing.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_contactd")).arg(&binary).status();
        assert!(copied.expect("cp runs").success());
    }
    chown(site.path(""), Some(OTHER), Some(OTHER)).expect("gives");
    let user = OTHER.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(&binary).args(args);
    let output = command.env_clear().env("CONTACTD_DATA", site.data()).env("PATH", "/usr/bin:/bin").output();
    Output::from(output.expect("setpriv runs"))
}

/// The findings of one check.
fn found(output: &Output, check: &str) -> Vec<Value> {
    let findings = output.json();
    findings.as_array().expect("a list").iter().filter(|finding| finding["check"] == check).cloned().collect()
}

/// A finding as `doctor --json` prints it.
pub(crate) fn finding(check: &str, verdict: &str, message: &str, advice: &str) -> Value {
    json!({ "check": check, "verdict": verdict, "message": message, "advice": advice })
}

/// Fails unless `doctor --json` ended with this code and printed this finding.
#[track_caller]
pub(crate) fn finds(output: &Output, code: i32, finding: &Value) {
    let is_there = output.json().as_array().is_some_and(|all| all.contains(finding));
    assert!(output.code == code && is_there, "not {code} and {finding}: {output:?}");
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("sets");
}

#[test]
fn doctor_as_the_wrong_user_says_whom_the_data_belongs_to_and_leaves_no_files() {
    let site = Site::with_people();
    site.token(&[]);
    if !geteuid().is_root() {
        let refused = site.run(&["doctor", "--data", "/usr", "--json"]);
        let message = found(&refused, "user")[0]["message"].as_str().expect("a message").to_owned();
        assert!(
            refused.code == 1 && message.starts_with("/usr belongs to root, and this runs as "),
            "{message}"
        );
        return;
    }
    give_away(&site);
    let before = files(&site.path(""));
    let refused = site.run(&["doctor", "--json"]);
    let data = site.data().display().to_string();
    let message = format!("{data} belongs to nobody, and this runs as root");
    let advice = format!("run this as that user: sudo -u 'nobody' contactd doctor --data {data}");
    finds(&refused, 1, &finding("user", "fail", &message, &advice));
    assert_eq!(refused.json().as_array().map(Vec::len), Some(3), "configuration and clock besides");
    assert_eq!(files(&site.path("")), before, "it leaves no files");
    let right = run_unprivileged(&site, &["doctor"]);
    assert_eq!(right.code, 0, "{right:?}");

    // Somebody else again, who cannot look into the directory.
    for path in files(&site.data()).into_iter().chain([site.data()]) {
        chown(path, Some(0), Some(0)).expect("gives");
    }
    let refused = run_unprivileged(&site, &["doctor", "--json"]);
    assert_eq!(
        (refused.code, &found(&refused, "user")[0]["message"]),
        (1, &format!("{data} belongs to root, and this runs as nobody").into())
    );
}

#[test]
fn what_root_creates_in_the_data_directory_of_another_user_belongs_to_that_user() {
    if !geteuid().is_root() {
        return could_not_run(
            "doctor::what_root_creates_in_the_data_directory_of_another_user_belongs_to_that_user",
            "it needs root",
        );
    }
    let site = Site::with_people();
    give_away(&site);
    for file in ["audit-index.db", "audit-index.db-wal", "audit-index.db-shm"] {
        let _ = std::fs::remove_file(site.data().join(file));
    }
    for args in [
        &["stats"][..],
        &["usage"],
        &["audit", "verify"],
        &["token", "create", "x"],
        &["suppress", ADA],
        &["sweep"],
    ] {
        site.ok(args);
        let wrong: Vec<_> = files(&site.data())
            .into_iter()
            .filter(|path| path.symlink_metadata().is_ok_and(|metadata| metadata.uid() != OTHER))
            .collect();
        assert_eq!(wrong, [""; 0].map(PathBuf::from), "after {args:?}");
    }
}

#[test]
fn doctor_on_a_directory_that_cannot_be_written_says_so() {
    let site = Site::with_people();
    if geteuid().is_root() {
        give_away(&site);
    }
    chmod(&site.data(), 0o555);
    let refused = run_unprivileged(&site, &["doctor", "--json"]);
    chmod(&site.data(), 0o700);
    let data = site.data().display().to_string();
    let message = format!("{data} cannot be written: Permission denied (os error 13)");
    let advice = format!("chmod u+w {data}. tokens, opt-outs and the store were not checked");
    finds(&refused, 1, &finding("disk", "fail", &message, &advice));
    assert!(found(&refused, "store").is_empty(), "{refused:?}");
    assert_eq!(found(&refused, "journal")[0]["verdict"], "ok");
}

#[test]
fn doctor_on_a_disk_that_is_read_only_says_so() {
    let site = Site::with_people();
    let data = site.data().display().to_string();
    let script = format!(
        "mount --bind {data} {data} && mount -o remount,ro,bind {data} && {} doctor --json",
        env!("CARGO_BIN_EXE_contactd")
    );
    let own_mounts: &[&str] =
        if geteuid().is_root() { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let output = Command::new("unshare")
        .args(own_mounts)
        .args(["sh", "-c", &script])
        .env("CONTACTD_DATA", site.data())
        .current_dir(site.path(""))
        .output()
        .expect("unshare runs");
    let refused = Output::from(output);
    if refused.stdout.is_empty() && refused.stderr.contains("ermi") {
        // As in most containers. The test above covers the rest.
        return could_not_run("doctor::doctor_on_a_disk_that_is_read_only_says_so", "it may not mount");
    }
    let message = format!("{data} is on a file system that is read-only");
    let advice = "mount it read-write; if a fault of the disk made it read-only, the kernel's log says so. \
                  tokens, opt-outs and the store were not checked";
    finds(&refused, 1, &finding("disk", "fail", &message, advice));
    assert!(found(&refused, "store").is_empty(), "{refused:?}");
}

#[test]
fn serve_refuses_keys_that_others_can_read_and_warns_about_a_group() {
    let site = Site::with_people();
    let token = site.token(&[]);
    let key = site.data().join("keys/digest-001.key");
    let name = key.display();
    check(&site, "key_modes");
    let warning = format!("the group can read {name}; unless it has to, run `chmod 600 {name}`");
    let service = site.serve();
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    assert_eq!(service.logged("WARN"), [warning]);
}

transcripts! {
    fn doctor_creates_no_store() { check(&Site::empty(), "no_data") }
    fn a_password_in_a_file_that_others_can_read_is_reported() { check(&Site::with_people(), "password_in_file") }
}
