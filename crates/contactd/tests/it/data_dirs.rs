//! The data directory of every released version, this one first, is opened, verified and served. `fixtures/make-data.sh` makes one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fixture::{ADA, ADA_PHONE, MIRA, MIRA_PHONE};
use crate::service::{EMAIL, PHONE, Site, assert_has};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");

/// Copies a directory for its owner only, as it was: version control keeps no such permissions.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a directory");
    fs::set_permissions(to, PermissionsExt::from_mode(0o700)).expect("sets");
    for entry in fs::read_dir(from).expect("lists") {
        let (entry, target) = {
            let entry = entry.expect("an entry");
            (entry.path(), to.join(entry.file_name()))
        };
        if entry.is_dir() {
            copy(&entry, &target);
        } else {
            fs::copy(&entry, &target).expect("copies");
            fs::set_permissions(&target, PermissionsExt::from_mode(0o600)).expect("sets");
        }
    }
}

fn data_dirs() -> Vec<PathBuf> {
    let entries = fs::read_dir(FIXTURES).expect("fixtures").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.join("data/contactd.db").is_file()).collect()
}

/// What is on record of requests, in order.
fn requests(site: &Site) -> Vec<Value> {
    on_record(&site.json(&["audit", "show"]))
}

fn on_record(shown: &Value) -> Vec<Value> {
    let mut events = shown.as_array().expect("a list").clone();
    events.sort_by_key(|event| event["seq"].as_u64());
    events.into_iter().filter(|event| event["actor"].is_null()).collect()
}

#[test]
fn the_data_directory_of_every_released_version_is_opened_verified_and_served() {
    let dirs = data_dirs();
    assert!(!dirs.is_empty());
    for dir in dirs {
        let read = |name: &str| fs::read_to_string(dir.join(name)).expect("a file");
        let said = |name: &str| serde_json::from_str::<Value>(&read(name)).expect("JSON");
        let name = dir.display();
        let site = Site::empty();
        copy(&dir.join("data"), &site.data());
        site.ok(&["audit", "verify"]);
        site.ok(&["doctor"]);
        assert_eq!(site.ok(&["export"]), read("export.jsonl").trim_end(), "{name}");
        for (what, file) in
            [("token", "tokens.json"), ("user", "users.json"), ("admin-token", "admin-tokens.json")]
        {
            let (now, then) = (site.list(&[what, "list"]), said(file));
            let then = then.as_array().expect("a list");
            assert_eq!(now.len(), then.len(), "{name}: {what}");
            // Later versions may say more.
            now.iter().zip(then).for_each(|(now, then)| assert_has(now, then.clone()));
        }
        let before = on_record(&said("audit.json"));
        assert_eq!(requests(&site), before, "{name}");
        let imports = site.json(&["imports"]);
        assert!(imports[2]["undoneAt"].is_string(), "{name}: {imports}");
        assert_eq!(site.json(&["stats"])["suppressions"], 3, "{name}");

        let token = read("token").trim().to_owned();
        let service = site.serve();
        assert_eq!(service.look_up(PHONE, &token, ADA).json()["phoneNumber"], ADA_PHONE, "{name}");
        assert_eq!(service.look_up(PHONE, &token, MIRA).json()["phoneNumber"], MIRA_PHONE, "{name}");
        for (path, url) in [
            (EMAIL, MIRA),
            (PHONE, "https://www.linkedin.com/in/out-vastor-3c4d5e"),
            (PHONE, "https://www.linkedin.com/in/gone-ebrix-4d5e6f"),
            (PHONE, "https://www.linkedin.com/in/mistake-quell"),
        ] {
            assert_eq!(service.look_up(path, &token, url).status, 404, "{name}: {url}");
        }
        let shown = requests(&service.site);
        assert_eq!(shown.len(), before.len() + 6, "{name}");
        assert_eq!(shown[..before.len()], before[..], "{name}");
        assert_eq!(service.site.run(&["audit", "verify"]).code, 0, "{name}");
        let usage = service.site.json(&["usage"]);
        let used: u64 = usage
            .as_array()
            .expect("a list")
            .iter()
            .flat_map(|usage| ["hits", "misses", "refused"].map(|count| usage[count].as_u64().unwrap_or(0)))
            .sum();
        assert_eq!(used, before.len() as u64 + 6, "{name}: every line is counted once");
    }
}

#[test]
fn a_restore_keeps_the_opt_outs_of_every_released_version() {
    for dir in data_dirs() {
        // The other directory is read as it is, and not opened before.
        let site = Site::empty();
        copy(&dir.join("data"), &site.data());
        let made = Site::with_people();
        made.ok(&["backup", &site.place("a.backup")]);
        let other = Site::empty();
        assert_eq!(other.restore(&site).code, 0, "{}", dir.display());
        assert_eq!(other.json(&["stats"])["suppressions"], 3, "{}", dir.display());
    }
}
