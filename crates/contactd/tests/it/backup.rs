//! Backups are complete, private and verified; and what a restore requires.

use std::os::unix::fs::PermissionsExt;

use crate::fixture::{ADA, ADA_PHONE, EVE, EVE_EMAIL};
use crate::service::{EMAIL, PHONE, Service, Site};

#[test]
fn a_backup_made_while_serving_is_restored_with_everything() {
    let (service, token) = Service::with_people();
    let backup = service.site.place("a.backup");
    service.site.ok(&["backup", &backup]);
    assert_eq!(std::fs::metadata(&backup).expect("a file").permissions().mode() & 0o777, 0o600);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200, "it continues to serve");
    let exported = service.site.run(&["export"]).stdout;

    let other = Site::empty();
    other.ok(&["restore", &backup, "--accept-lost-opt-outs"]);
    assert_eq!(other.run(&["export"]).stdout, exported);
    let restored = other.serve();
    assert_eq!(restored.look_up(PHONE, &token, ADA).json()["phoneNumber"], ADA_PHONE);
    assert_eq!(restored.look_up(EMAIL, &token, EVE).json()["email"], EVE_EMAIL);
}

#[test]
fn a_backup_overwrites_nothing_and_leaves_nothing_else_behind() {
    let site = Site::with_people();
    let taken = site.file("taken", "something else");
    site.run(&["backup", &taken]).mentions(1, "exists; choose another file name");
    assert_eq!(std::fs::read_to_string(&taken).expect("reads"), "something else");
    for inside in ["data/a.backup", "data/keys/a.backup"] {
        site.run(&["backup", inside]).mentions(1, "inside the data directory");
    }
    assert_eq!(site.run(&["backup", "no/such/directory/a.backup"]).code, 1);
    site.ok(&["backup", "a.backup"]);
    let left: Vec<String> = std::fs::read_dir(site.data())
        .expect("lists")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("backup"))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let site = Site::with_people();
    site.ok(&["backup", "a.backup"]);
    let whole = std::fs::read(site.path("a.backup")).expect("reads");
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    for (what, bytes) in [
        ("cut", &whole[..whole.len() - 10]),
        ("cut in half", &whole[..whole.len() / 2]),
        ("changed", &flipped),
        ("empty", &[]),
        ("another file", b"profileUrl,phone\n"),
    ] {
        let other = Site::empty();
        let broken = other.file("broken.backup", bytes);
        other.run(&["restore", &broken, "--accept-lost-opt-outs"]).mentions(1, "not a complete backup");
        assert!(!other.data().join("contactd.db").exists(), "{what}");
    }
}

#[test]
fn a_backup_with_something_other_than_files_is_not_restored() {
    for kind in [tar::EntryType::Symlink, tar::EntryType::GNUSparse, tar::EntryType::Directory] {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        // A hole of 8 GiB.
        let sparse = header.as_gnu_mut().expect("this format");
        sparse.realsize = *b"77777777777\0";
        sparse.sparse[0].offset = sparse.realsize;
        sparse.sparse[0].numbytes = *b"00000000000\0";
        archive.append_data(&mut header, "contactd.db", &[][..]).expect("appends");
        let packed = zstd::encode_all(&archive.into_inner().expect("finishes")[..], 1).expect("packs");
        let site = Site::empty();
        let odd = site.file("odd.backup", packed);
        let message =
            format!("contactd: {odd} is not a complete backup: it contains something that is not a file\n");
        site.run(&["restore", &odd]).says(1, message);
        assert!(!site.data().exists(), "{kind:?}");
    }
}

#[test]
fn a_restore_does_not_lose_opt_outs_unless_that_is_accepted() {
    let site = Site::with_people();
    let token = site.token(&[]);
    site.ok(&["backup", "a.backup"]);
    site.ok(&["suppress", ADA]);
    site.run(&["restore", "a.backup", "--accept-lost-opt-outs"]).mentions(1, "not empty");
    let other = Site::empty();
    other.run(&["restore", &site.place("a.backup")]).mentions(1, "this backup was made at 20");
    assert_eq!(other.restore(&site).code, 0);
    let service = other.serve();
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 404);
    assert_eq!(service.look_up(EMAIL, &token, EVE).status, 200);
}

#[test]
fn a_restore_needs_only_the_opt_outs_of_what_it_replaces_and_keeps_revocations() {
    let site = Site::with_people();
    let token = site.token(&[]);
    site.ok(&["backup", "a.backup"]);
    site.ok(&["suppress", ADA]);
    let id = site.json(&["token", "list"])[0]["id"].as_str().expect("an id").to_owned();
    site.ok(&["token", "revoke", &id]);
    std::fs::write(site.data().join("details.db"), "damaged").expect("damages");
    let other = Site::empty();
    std::fs::create_dir(other.data()).expect("makes");
    other.restore(&site).mentions(0, "1 opt-out and 1 revocation of tokens");
    let fresh = other.token(&[]);
    let service = other.serve();
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 401);
    assert_eq!(service.look_up(PHONE, &fresh, ADA).status, 404);
    assert_eq!(service.look_up(EMAIL, &fresh, EVE).json()["email"], EVE_EMAIL);
}

#[test]
fn a_restore_that_was_interrupted_while_it_was_put_in_place_is_not_opened_and_not_deleted() {
    let site = Site::with_people();
    site.ok(&["suppress", ADA]);
    site.ok(&["backup", "a.backup"]);
    let unfinished = site.data().join(".restore.unfinished");
    std::fs::create_dir(&unfinished).expect("a directory");
    std::fs::rename(site.data().join("contactd.db"), unfinished.join("contactd.db")).expect("moves");
    site.run(&["stats"]).mentions(1, "contactd.db, which holds tokens and opt-outs");
    site.run(&["restore", "a.backup", "--accept-lost-opt-outs"])
        .mentions(1, "a restore that was interrupted");
    assert!(unfinished.join("contactd.db").is_file(), "what is there may be all there is");
}
