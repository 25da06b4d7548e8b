//! The data directory, or the journal in it, is moved away from a running server and back.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fixture::{ADA, EVE};
use crate::http::Request;
use crate::refusals::unavailable;
use crate::service::{PHONE, Service, Site, eventually};

/// Short segments and epochs, so that every part of the journal is in use.
const BUSY: &str = "[audit]\nsegment_bytes = 6000\nepoch = \"1s\"\n";
const GONE: &str =
    "contactd: cannot read audit: the files of the journal are gone; if they were moved, move them back\n";

struct Moved {
    service: Service,
    token: String,
    /// What is moved, and where to.
    from: PathBuf,
    to: PathBuf,
    /// How many lookups were answered with a number.
    hits: usize,
}

impl Moved {
    fn start(part: impl AsRef<Path>) -> Self {
        let site = Site::with_people();
        let token = site.token(&[]);
        let (from, to) = (site.data().join(part), site.path("away"));
        let mut moved = Self { service: site.serve_with(&[], BUSY), token, from, to, hits: 0 };
        for _ in 0..30 {
            assert_eq!(moved.look_up(), 200);
        }
        moved
    }

    fn look_up(&mut self) -> u16 {
        let status = self.service.look_up(PHONE, &self.token, ADA).status;
        self.hits += usize::from(status == 200);
        status
    }

    /// Nothing is disclosed while it is away, also if another directory is in its place.
    fn move_away(&mut self) {
        fs::rename(&self.from, &self.to).expect("moves");
        self.refuses();
        fs::create_dir_all(self.service.data().join("audit")).expect("a directory");
        self.refuses();
        let left = fs::read_dir(self.service.data().join("audit")).expect("lists");
        assert_eq!(left.count(), 0, "nothing is written there");
    }

    fn refuses(&self) {
        assert_eq!(self.service.look_up(PHONE, &self.token, ADA).shown(), unavailable());
        assert_eq!(self.service.send(&Request::get("/readyz")).shown(), unavailable());
    }

    fn move_back(&mut self) {
        fs::remove_dir_all(&self.from).expect("removes");
        fs::rename(&self.to, &self.from).expect("moves");
        eventually("it recovers by itself", || self.look_up() == 200);
        assert_eq!(self.service.send(&Request::get("/readyz")).status, 200);
    }
}

/// Every hit is on record, and nothing says that the journal is not whole.
fn is_whole(site: &Site, hits: usize) {
    let shown = site.run(&["audit", "show", "--json", "--outcome", "hit"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
    assert_eq!(shown.json().as_array().map(Vec::len), Some(hits));
    let usage = site.run(&["usage", "--json"]);
    assert_eq!((usage.code, usage.stderr.as_str()), (0, ""));
    assert_eq!(usage.json()[0]["hits"], hits);
    let verified = site.run(&["audit", "verify", "--json"]);
    assert_eq!((verified.code, verified.stderr.as_str()), (0, ""), "{}", verified.stdout);
    assert_eq!(verified.json()["findings"], Value::Array(Vec::new()));
    let doctor = site.run(&["doctor"]);
    assert!(doctor.stdout.contains("ok    journal"), "{doctor:?}");
}

/// The log says that the journal could not be written, and raises no other alarm.
fn check_log(log: &str) {
    let failed = "\"message\":\"the audit journal cannot be written: lookups are answered 503 until it can be\",\
                  \"error\":\"its directory was moved or removed: move it back\"";
    assert!(log.contains(failed), "{log}");
    assert!(log.contains("\"message\":\"the audit journal can be written again\""), "{log}");
    for alarm in ["not as it was", "not a part of the audit journal", "not whole", "may be lost"] {
        assert!(!log.contains(alarm), "{alarm}: {log}");
    }
}

#[test]
fn a_data_directory_that_is_moved_away_and_back_raises_no_alarm() {
    let mut moved = Moved::start("");
    for _ in 0..2 {
        moved.move_away();
        moved.move_back();
        is_whole(&moved.service.site, moved.hits);
    }
    check_log(&moved.service.log.text());
    let Moved { service, token, hits, .. } = moved;
    let site = service.stop();
    is_whole(&site, hits);
    let service = site.serve();
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    is_whole(&service.site, hits + 1);
    assert!(!service.log.text().contains("not as it was"), "{}", service.log.text());
}

#[test]
fn a_journal_that_is_moved_away_and_back_raises_no_alarm() {
    let mut moved = Moved::start("audit");
    is_whole(&moved.service.site, moved.hits);
    moved.move_away();
    for command in [&["audit", "show"][..], &["audit", "verify"], &["audit", "head"], &["usage"]] {
        let told = moved.service.site.run(command);
        assert_eq!((told.code, told.stdout.as_str(), told.stderr.as_str()), (1, "", GONE), "{command:?}");
    }
    moved.service.site.run(&["doctor"]).mentions(1, "the files of the journal are gone");
    // An opt-out is in force at once, and on record once the journal is back.
    moved
        .service
        .site
        .run(&["suppress", EVE, "--ticket", "DSR-9"])
        .mentions(0, "done, but not yet on record");
    moved.move_back();
    is_whole(&moved.service.site, moved.hits);
    assert!(moved.service.site.ok(&["audit", "show"]).contains("DSR-9"));
    check_log(&moved.service.log.text());
    let site = moved.service.stop();
    is_whole(&site, moved.hits);
}
