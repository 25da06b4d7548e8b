//! The directory of a journal is moved away and back while the journal is open.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use contactd_core::{Audit, AuditPosition, Fate};
use contactd_journal::JournalError;
use contactd_journal::{Journal, Mark, Sync, outdated, remove};

use crate::place::{Place, append, at, fill, names, settled};

const GONE: &str = "cannot read audit: the files of the journal are gone; if they were moved, move them back";

impl Place {
    fn away(&self) -> PathBuf {
        self.dir.path().join("away")
    }

    fn move_away(&self) {
        fs::rename(self.audit(), self.away()).expect("moves");
    }

    fn move_back(&self) {
        fs::rename(self.away(), self.audit()).expect("moves");
    }

    fn error_after(&self, position: AuditPosition) -> String {
        self.lines_after(position).read().expect_err("fails").to_string()
    }
}

/// What became of one more line.
fn fate(journal: &Journal, request_id: &str) -> Fate {
    let ticket = append(journal, request_id);
    journal.flush();
    settled(&ticket)
}

fn wait_until_written(journal: &Journal, request_id: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    while fate(journal, request_id) != Fate::Written {
        assert!(Instant::now() < until, "it does not recover");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn no_line_is_written_while_the_directory_is_away_and_it_goes_on_when_it_is_back() {
    for sync in [Sync::Os, Sync::Disk] {
        for segment_bytes in [1 << 20, 3_000] {
            let place = Place { sync, segment_bytes, ..Place::new() };
            let journal = place.open();
            fill(&journal, 0, 20);
            for round in 0..3 {
                let before = place.requests();
                place.move_away();
                assert_eq!(fate(&journal, "away"), Fate::Failed);
                assert!(!journal.health().is_up);
                // Another directory in its place is not used.
                fs::create_dir(place.audit()).expect("a directory");
                assert_eq!(fate(&journal, "elsewhere"), Fate::Failed);
                // This fails if anything is in it.
                fs::remove_dir(place.audit()).expect("an empty directory");
                place.move_back();
                let back = format!("back{round}");
                wait_until_written(&journal, &back);
                assert_eq!(place.requests(), [before, vec![back]].concat());
                assert_eq!(place.faults(), [""; 0]);
            }
            drop(journal);
            place.fill(20, 30);
            assert_eq!(place.faults(), [""; 0]);
        }
    }
}

#[test]
fn a_reader_says_that_the_journal_is_gone_and_not_that_it_was_changed() {
    let place = Place::with_segments_of(6_000);
    place.fill(0, 100);
    let mut lines = place.lines_after(AuditPosition::default());
    for _ in 0..10 {
        lines.read().expect("reads");
    }
    let middle = lines.position();
    while lines.read().expect("reads").is_some() {}
    place.move_away();
    for position in [AuditPosition::default(), middle, lines.position()] {
        assert_eq!(place.error_after(position), GONE);
        fs::create_dir(place.audit()).expect("a directory");
        assert_eq!(place.error_after(position), GONE, "another directory");
        fs::remove_dir(place.audit()).expect("removes");
    }
    assert!(matches!(lines.read(), Err(JournalError::File { .. })), "it was read before");
    place.move_back();
    assert!(lines.read().expect("reads").is_none());
    assert!(place.lines_after(middle).read().expect("reads").is_some());
    assert_eq!(place.requests(), names(0, 100));
}

#[test]
fn epochs_end_in_order_although_the_directory_is_moved_again_and_again() {
    let place = Place { epoch: Duration::from_millis(40), ..Place::new() };
    let journal = place.serve();
    fill(&journal, 0, 5);
    for number in 5..25 {
        place.move_away();
        std::thread::sleep(Duration::from_millis(14));
        place.move_back();
        wait_until_written(&journal, &format!("r{number}"));
    }
    drop(journal);
    assert_eq!(place.faults(), [""; 0]);
    assert_eq!(place.check_with(place.root(), place.head()).faults, []);
    assert_eq!(place.requests(), names(0, 25));
}

#[test]
fn segments_that_cannot_be_found_do_not_count_as_removed() {
    let place = Place::with_segments_of(6_000);
    let journal = place.open();
    fill(&journal, 0, 100);
    let later = at().plus(Duration::from_secs(1));
    let old = outdated(&place.audit(), later, &place.verifier()).expect("reads").expect("old segments");
    let ticket = journal.mark(later, &Mark::Retired { through: old.through, chain: old.chain });
    assert_eq!(settled(&ticket), Fate::Written);
    place.move_away();
    assert_eq!(remove(&place.audit(), &old).expect_err("fails").to_string(), GONE);
    place.move_back();
    assert_eq!(place.faults(), [""; 0]);
    remove(&place.audit(), &old).expect("removes");
    assert_eq!(place.faults(), [""; 0]);
}

#[test]
fn a_link_with_the_name_of_a_segment_that_leads_nowhere_is_reported() {
    let place = Place::new();
    place.fill(0, 5);
    std::os::unix::fs::symlink("nowhere", place.audit().join("000000000500.jsonl")).expect("links");
    assert_eq!(
        place.faults(),
        [
            "000000000500.jsonl: this is not a file of this journal: it is a link to a file that does not exist"
        ]
    );
    place.fill(5, 6);
    assert!(place.audit().join("000000000500.jsonl.1.foreign").is_symlink());
    assert_eq!(place.requests(), names(0, 6));
}
