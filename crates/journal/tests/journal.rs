//! A journal on a real file system: what is written, what verification finds, and what a killed server leaves.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use contactd_core::{
    Audit, AuditEvent, AuditOutcome, AuditPosition as Position, Chain, Fate, Kind, KnownLine, ManualClock,
    ProfileDigest, Ticket, Timestamp, Verification,
};
use contactd_journal::{
    ChainKey, Entry, Journal, JournalSettings, Lines, Mark, Sync, compress_closed, head, outdated, remove,
    segments, verify,
};

fn key() -> ChainKey {
    ChainKey::new(&[7; 32])
}

fn at() -> Timestamp {
    Timestamp::parse("2026-05-01T10:00:00Z").expect("a time")
}

fn open(dir: &Path, sync: Sync, segment_bytes: u64) -> Journal {
    let settings = JournalSettings {
        dir: dir.to_owned(),
        sync,
        segment_bytes,
        node: "n1".to_owned(),
        digest_key: "k1".to_owned(),
    };
    Journal::open(settings, key(), Arc::new(ManualClock::at(at()))).expect("opens")
}

fn append(journal: &Journal, request_id: &str) -> Ticket {
    journal.append(&AuditEvent {
        at: at(),
        request_id,
        token: "tok_1",
        operation: Kind::Email,
        profile: Some(ProfileDigest([1; 16])),
        outcome: AuditOutcome::Hit,
    })
}

fn settled(ticket: &Ticket) -> Fate {
    let until = Instant::now() + Duration::from_secs(10);
    while ticket.fate() == Fate::Waiting && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    ticket.fate()
}

/// Appends the requests `from..to`, flushing after every ten.
fn fill(journal: &Journal, from: u64, to: u64) {
    for number in from..to {
        let ticket = append(journal, &format!("r{number}"));
        if number % 10 == 9 || number + 1 == to {
            journal.flush();
            assert_eq!(settled(&ticket), Fate::Written);
        }
    }
}

fn requests(dir: &Path) -> Vec<String> {
    let mut lines = Lines::after(dir, Position::default());
    let mut found = Vec::new();
    while let Some(line) = lines.read().expect("reads") {
        if let Entry::Request(record) = line.entry {
            found.push(record.request_id);
        }
    }
    found
}

fn check(dir: &Path) -> Verification {
    verify(dir, &key(), &[], false).expect("reads")
}

fn faults(dir: &Path) -> Vec<String> {
    check(dir).faults.iter().map(ToString::to_string).collect()
}

fn open_segment(dir: &Path) -> u64 {
    segments(dir).expect("lists").last().map_or(0, |segment| segment.first)
}

fn first_segment(dir: &Path) -> PathBuf {
    segments(dir).expect("lists")[0].path.clone()
}

#[test]
fn lines_are_chained_across_segments_and_restarts_in_both_sync_modes() {
    for sync in [Sync::Os, Sync::Disk] {
        let dir = tempfile::tempdir().expect("a directory");
        fill(&open(dir.path(), sync, 4_000), 0, 100);
        fill(&open(dir.path(), sync, 4_000), 100, 150);
        let expected: Vec<String> = (0..150).map(|number| format!("r{number}")).collect();
        assert_eq!(requests(dir.path()), expected);
        assert!(segments(dir.path()).expect("lists").len() > 3);
        assert_eq!(faults(dir.path()), [""; 0]);
        assert!(compress_closed(dir.path(), open_segment(dir.path())).expect("compresses") > 2);
        assert_eq!(faults(dir.path()), [""; 0]);
        assert_eq!(requests(dir.path()), expected);
        fill(&open(dir.path(), sync, 4_000), 150, 151);
        assert_eq!(requests(dir.path()).len(), 151);
        assert_eq!(faults(dir.path()), [""; 0]);
    }
}

#[test]
fn an_edit_a_cut_and_a_swap_are_located_to_the_line() {
    let dir = tempfile::tempdir().expect("a directory");
    fill(&open(dir.path(), Sync::Os, 1 << 20), 0, 20);
    let file = first_segment(dir.path());
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    let good = fs::read_to_string(&file).expect("reads");
    let lines: Vec<&str> = good.lines().collect();
    let changed = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        change(&mut lines);
        fs::write(&file, lines.join("\n") + "\n").expect("writes");
        faults(dir.path())
    };
    let edited = changed(&|lines| lines[6] = lines[6].replace("\"hit\"", "\"miss\""));
    assert_eq!(
        edited,
        [format!("{name}, line 7: this line, or the chain value of the line before it, was changed")]
    );
    let cut = changed(&|lines| drop(lines.remove(6)));
    assert_eq!(cut, [format!("{name}, line 7: line 7 is missing before this one")]);
    let cut = changed(&|lines| drop(lines.drain(6..9)));
    assert_eq!(cut, [format!("{name}, line 7: lines 7 to 9 are missing before this one")]);
    let swapped = changed(&|lines| lines.swap(6, 7));
    assert!(swapped[0].starts_with(&format!("{name}, line 7: line 7 is missing")), "{swapped:?}");
    assert!(swapped[1].contains("line 8: this is line 7, but line 9 was expected here"), "{swapped:?}");
    let garbled = changed(&|lines| lines[6] = "nonsense".to_owned());
    assert_eq!(garbled[0], format!("{name}, line 7: this is not a valid journal line"));
    // With another key, every line fails: the chain cannot be forged without the key.
    fs::write(&file, &good).expect("writes");
    let forged = verify(dir.path(), &ChainKey::new(&[8; 32]), &[], false).expect("reads");
    assert_eq!(forged.faults.len(), 21);
}

#[test]
fn a_removed_tail_is_found_with_a_head_that_was_noted_down() {
    let dir = tempfile::tempdir().expect("a directory");
    fill(&open(dir.path(), Sync::Os, 1 << 20), 0, 20);
    let noted = head(dir.path()).expect("reads").expect("a head");
    assert_eq!(noted.seq, 21);
    let file = first_segment(dir.path());
    let good = fs::read_to_string(&file).expect("reads");
    let short: Vec<&str> = good.lines().take(15).collect();
    fs::write(&file, short.join("\n") + "\n").expect("writes");
    assert_eq!(faults(dir.path()), [""; 0], "the journal alone does not show this");
    let with_head = |seq, chain| {
        verify(dir.path(), &key(), &[KnownLine { seq, chain, how: "was noted down" }], false)
            .expect("reads")
            .faults
    };
    let found = with_head(noted.seq, noted.chain);
    assert_eq!(
        found[0].what,
        "the journal ends with line 15; lines 16 to 21 were removed: line 21 was noted down"
    );
    // A journal that continues from there with other lines is found as well.
    fill(&open(dir.path(), Sync::Os, 1 << 20), 90, 110);
    assert_eq!(faults(dir.path()), [""; 0]);
    let found = with_head(noted.seq, noted.chain);
    assert_eq!(found[0].what, "line 21 is not the one that was noted down");
    assert_eq!(with_head(15, Chain::parse(&"0".repeat(32)).expect("a chain")).len(), 1);
}

#[test]
fn a_torn_last_line_is_cut_off_and_reported_wherever_it_was_torn() {
    let whole = tempfile::tempdir().expect("a directory");
    fill(&open(whole.path(), Sync::Os, 1 << 20), 0, 5);
    let bytes = fs::read(first_segment(whole.path())).expect("reads");
    let last = bytes[..bytes.len() - 1].iter().rposition(|&b| b == b'\n').expect("a line") + 1;
    for end in (last + 1..bytes.len()).step_by(17).chain([bytes.len() - 1]) {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("000000000001.jsonl"), &bytes[..end]).expect("writes");
        assert_eq!(faults(dir.path()).len(), 1, "torn at {end}");
        assert_eq!(verify(dir.path(), &key(), &[], true).expect("reads").faults, [], "it is being written");
        fill(&open(dir.path(), Sync::Os, 1 << 20), 90, 92);
        let report = check(dir.path());
        assert_eq!(report.faults, []);
        assert!(report.notes[0].contains("unfinished line"), "{:?}", report.notes);
        assert_eq!(requests(dir.path()), ["r0", "r1", "r2", "r3", "r90", "r91"]);
    }
    // After a power loss, anything may follow the last good line.
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("000000000001.jsonl"), [&bytes[..], &[0; 3_000]].concat()).expect("writes");
    fill(&open(dir.path(), Sync::Os, 1 << 20), 90, 91);
    assert_eq!(faults(dir.path()), [""; 0]);
    assert_eq!(requests(dir.path()).len(), 6);
}

#[test]
fn a_segment_without_a_complete_line_is_begun_again() {
    let dir = tempfile::tempdir().expect("a directory");
    fill(&open(dir.path(), Sync::Os, 1 << 20), 0, 5);
    fs::write(dir.path().join("000000000007.jsonl"), "{\"seq\":7,\"ti").expect("writes");
    fill(&open(dir.path(), Sync::Os, 1 << 20), 5, 6);
    assert_eq!(faults(dir.path()), [""; 0]);
    assert_eq!(requests(dir.path()).len(), 6);
}

#[test]
fn old_lines_are_removed_and_the_rest_can_still_be_verified() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open(dir.path(), Sync::Os, 4_000);
    fill(&journal, 0, 100);
    assert!(outdated(dir.path(), at()).expect("reads").is_none(), "nothing is older than itself");
    let later = at().plus(Duration::from_secs(1));
    let (through, old) = outdated(dir.path(), later).expect("reads").expect("old segments");
    let ticket = journal.mark(later, &Mark::Retired { through });
    assert_eq!(settled(&ticket), Fate::Written);
    remove(dir.path(), &old).expect("removes");
    drop(journal);
    let report = check(dir.path());
    assert_eq!(report.faults, []);
    assert_eq!(report.notes, [format!("lines 1 to {through} were removed after their retention period")]);
    // A segment removed in any other way is reported as missing.
    fill(&open(dir.path(), Sync::Os, 4_000), 100, 200);
    let next = first_segment(dir.path());
    fs::remove_file(next).expect("removes");
    assert!(faults(dir.path())[0].contains("are missing before this one"));
}

#[test]
fn reading_continues_where_it_stopped_while_lines_are_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open(dir.path(), Sync::Os, 3_000);
    let mut position = Position::default();
    let mut found = Vec::new();
    for round in 0..30 {
        fill(&journal, round * 7, round * 7 + 7);
        let mut lines = Lines::after(dir.path(), position);
        while let Some(line) = lines.read().expect("reads") {
            if let Entry::Request(record) = line.entry {
                found.push(record.request_id);
            }
        }
        position = lines.position();
        if round % 5 == 0 {
            compress_closed(dir.path(), open_segment(dir.path())).expect("compresses");
        }
    }
    let expected: Vec<String> = (0..210).map(|number| format!("r{number}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_restart_cuts_off_nothing_but_an_unfinished_line() {
    let dir = tempfile::tempdir().expect("a directory");
    fill(&open(dir.path(), Sync::Os, 1 << 20), 0, 20);
    let file = first_segment(dir.path());
    let good = fs::read_to_string(&file).expect("reads");
    let edited = good.replacen("\"requestId\":\"r7\"", "\"requestId\":\"r8\"", 1);
    let garbled: String = good
        .lines()
        .enumerate()
        .map(|(n, line)| if n == 20 { "nonsense\n".to_owned() } else { format!("{line}\n") })
        .collect();
    for changed in [edited, garbled] {
        for later in segments(dir.path()).expect("lists").iter().skip(1) {
            fs::remove_file(&later.path).expect("removes");
        }
        fs::write(&file, &changed).expect("writes");
        let before = faults(dir.path());
        assert_eq!(before.len(), 1);
        fill(&open(dir.path(), Sync::Os, 1 << 20), 90, 92);
        assert!(fs::read_to_string(&file).expect("reads").starts_with(&changed), "nothing is cut off");
        assert!(faults(dir.path()).starts_with(&before), "{:?}", faults(dir.path()));
        let found = requests(dir.path());
        assert_eq!(found.last().map(String::as_str), Some("r91"));
        // Continuing from there does not start from the beginning.
        let mut lines = Lines::after(dir.path(), Position::default());
        while lines.read().expect("reads").is_some() {}
        assert!(Lines::after(dir.path(), lines.position()).read().expect("reads").is_none());
    }
}

#[test]
fn a_journal_has_one_writer() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = open(dir.path(), Sync::Os, 1 << 20);
    let settings = JournalSettings {
        dir: dir.path().to_owned(),
        sync: Sync::Os,
        segment_bytes: 1 << 20,
        node: "n2".to_owned(),
        digest_key: "k1".to_owned(),
    };
    let clock = Arc::new(ManualClock::at(at()));
    assert!(Journal::open(settings.clone(), key(), Arc::clone(&clock) as _).is_err());
    fill(&first, 0, 3);
    drop(first);
    fill(&Journal::open(settings, key(), clock).expect("opens"), 3, 6);
    assert_eq!(faults(dir.path()), [""; 0]);
}

#[test]
fn a_segment_removed_or_truncated_while_it_is_written_is_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = open(dir.path(), Sync::Os, 1 << 20);
    fill(&journal, 0, 5);
    fs::remove_file(first_segment(dir.path())).expect("removes");
    fill(&journal, 5, 7);
    assert_eq!(requests(dir.path()), ["r5", "r6"]);
    assert!(faults(dir.path())[0].contains("lines 1 to 6 are missing before this one"));
    let file = first_segment(dir.path());
    let text = fs::read_to_string(&file).expect("reads");
    let short: String = text.split_inclusive('\n').take(2).collect();
    fs::OpenOptions::new()
        .write(true)
        .open(&file)
        .and_then(|file| file.set_len(short.len() as u64))
        .expect("cuts");
    fill(&journal, 7, 9);
    drop(journal);
    assert!(faults(dir.path())[1].contains("line 9 is missing before this one"), "{:?}", faults(dir.path()));
}

#[test]
fn impossible_numbers_are_faults_and_a_noted_line_must_exist() {
    let dir = tempfile::tempdir().expect("a directory");
    fill(&open(dir.path(), Sync::Os, 1 << 20), 0, 5);
    let noted = head(dir.path()).expect("reads").expect("a head");
    let file = first_segment(dir.path());
    let good = fs::read_to_string(&file).expect("reads");
    for (old, new) in [("{\"seq\":1,", "{\"seq\":0,"), ("{\"seq\":4,", "{\"seq\":18446744073709551615,")] {
        fs::write(&file, good.replacen(old, new, 1)).expect("writes");
        assert!(!faults(dir.path()).is_empty(), "{new}");
    }
    fill(
        &{
            fs::write(&file, &good).expect("writes");
            open(dir.path(), Sync::Os, 1 << 20)
        },
        5,
        8,
    );
    let longer = fs::read_to_string(&file).expect("reads");
    let without: String = longer
        .split_inclusive('\n')
        .filter(|line| !line.contains(&format!("{{\"seq\":{},", noted.seq)))
        .collect();
    fs::write(&file, without).expect("writes");
    let found = verify(
        dir.path(),
        &key(),
        &[KnownLine { seq: noted.seq, chain: noted.chain, how: "was noted down" }],
        false,
    )
    .expect("reads")
    .faults;
    assert!(
        found.iter().any(|finding| finding.what.contains("which was noted down, is missing")),
        "{found:?}"
    );
}
