//! Which commands make a missing data directory, and that the others act on none. Every changing command names the one it used.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::fixture::{ADA, PEOPLE};
use crate::service::Site;
use crate::transcript::check;

/// Commands that need a store and make none.
const REFUSING: &[&[&str]] = &[
    &["token", "list"],
    &["token", "update", "tok_nobody", "--scope", "phone"],
    &["token", "revoke", "tok_nobody"],
    &["token", "rotate", "tok_nobody"],
    &["user", "list"],
    &["user", "disable", "nobody"],
    &["user", "enable", "nobody"],
    &["user", "role", "nobody", "admin"],
    &["user", "password", "nobody"],
    &["user", "reset-totp", "nobody"],
    &["admin-token", "create", "deploy", "--role", "operator"],
    &["admin-token", "list"],
    &["admin-token", "revoke", "adm_nobody"],
    &["admin-token", "take-over", "adm_nobody"],
    &["remove", ADA],
    &["retention"],
    &["suppress", ADA],
    &["unsuppress", ADA],
    &["subject", ADA],
    &["erase", ADA],
    &["audit", "show"],
    &["audit", "verify"],
    &["audit", "verify", "--accept-loss"],
    &["audit", "head"],
    &["audit", "root"],
    &["audit", "proof", "--since", "2026-05-01", "--until", "2026-06-01"],
    &["usage"],
    &["sweep"],
    &["export"],
    &["imports"],
    &["imports", "undo", "1"],
    &["backup", "a.backup"],
    &["stats"],
    &["migrate", "--to", "postgres://localhost/contacts"],
];

/// Commands that make a missing store.
const MAKING: &[&[&str]] = &[
    &["import", "-", "--source", "crm"],
    &["import", "-", "--source", "crm", "--dry-run"],
    &["put", ADA, "--phone", "+14155550123"],
    &["token", "create", "crm"],
    &["user", "create", "olga", "--role", "admin"],
    &["restore", "a.backup", "--accept-lost-opt-outs"],
    &["serve"],
];

/// Commands that need no store. `doctor` says if there is none; `node` is about a cluster, and refuses if there is none.
const WITHOUT: &[&[&str]] = &[
    &["lookup"],
    &["enrich"],
    &["mcp"],
    &["canonicalize"],
    &["config", "example"],
    &["config", "check"],
    &["completions"],
    &["doctor"],
    &["node", "list"],
    &["node", "forget"],
    &["node", "verify"],
    &["node", "reconcile"],
];

const ADVICE: &str =
    "give the right one with --data DIR (or CONTACTD_DATA), or make one with `contactd import`";

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("lists");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The commands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // Text that goes on in the next line is indented further.
    let names = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|rest| !rest.starts_with(' ')).filter_map(|rest| rest.split(' ').next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_either_makes_a_store_or_refuses_to_work_without_one_or_needs_none() {
    let site = Site::empty();
    let known = |words: &[&str]| [REFUSING, MAKING, WITHOUT].concat().iter().any(|c| c.starts_with(words));
    for command in listed(&site.ok(&["--help"])) {
        assert!(known(&[&command]), "{command}");
        for inner in listed(&site.ok(&[&command, "--help"])) {
            assert!(known(&[&command, &inner]), "{command} {inner}");
        }
    }
}

#[test]
fn a_command_that_finds_no_data_directory_says_so_and_creates_nothing() {
    let site = Site::empty();
    std::fs::create_dir(site.path("empty")).expect("a directory");
    for (dir, why) in [("nosuch", ""), ("empty", ": it has no contactd.db")] {
        let path = site.path(dir);
        let path = path.to_str().expect("UTF-8");
        let message = format!("there is no data directory at {path}{why}");
        for args in REFUSING {
            // Given as it is or relative to where the command runs, it is named in full.
            for given in [path.to_owned(), format!("./{dir}")] {
                let output = site.run(&[args, &["--data", &given][..]].concat());
                let expected = (1, "", format!("contactd: {message}; {ADVICE}\n"));
                assert_eq!((output.code, output.stdout.as_str(), output.stderr), expected, "{args:?}");
            }
        }
        let output = site.run(&["doctor", "--data", path]);
        assert_eq!((output.code, output.stderr.as_str()), (1, ""));
        let lines: Vec<&str> = output.stdout.lines().collect();
        let expected = [format!("FAIL  data          {message}"), format!("      {:<13} -> {ADVICE}", "")];
        assert_eq!(lines[lines.len() - 2..], expected);
        assert_eq!(names(&site.path("")), ["empty"]);
        assert_eq!(names(&site.path("empty")), [""; 0]);
    }
}

#[test]
fn a_command_that_makes_the_data_directory_makes_it_for_its_owner_only() {
    let other = Site::with_people();
    other.ok(&["backup", "a.backup"]);
    for args in MAKING {
        let site = Site::empty();
        std::fs::copy(other.path("a.backup"), site.path("a.backup")).expect("copies");
        let site = match args {
            ["serve"] => site.serve().stop(),
            args => {
                site.ok_with_input(args, PEOPLE);
                site
            }
        };
        let mode = site.data().metadata().expect("a directory").permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{args:?}");
        assert!(site.data().join("contactd.db").is_file(), "{args:?}");
    }
}

#[test]
fn every_command_that_changes_something_names_the_data_directory_it_used() {
    let site = Site::empty();
    check(&site, "changes");
    let expected = format!("data directory {}", site.data().display());
    let service = site.serve();
    crate::service::eventually("it names the directory", || service.log.text().contains(&expected));
}
