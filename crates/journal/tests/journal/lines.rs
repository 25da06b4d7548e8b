//! Lines: written, read, recovered, verified.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use contactd_core::AuditPosition as Position;
use contactd_core::{Audit, Fate};
use contactd_journal::Roots;
use contactd_journal::{Entry, Journal, Mark, Sync, outdated, remove};

use crate::place::{Place, append, at, copy_dir, fill, names, settled};

#[test]
fn lines_are_chained_across_segments_and_restarts_in_both_sync_modes() {
    for sync in [Sync::Os, Sync::Disk] {
        let place = Place { sync, ..Place::with_segments_of(6_000) };
        place.fill(0, 100);
        place.fill(100, 150);
        assert_eq!(place.requests(), names(0, 150));
        assert!(place.segments().len() > 3);
        assert_eq!(place.faults(), [""; 0]);
        assert!(place.compress() > 2);
        assert_eq!(place.faults(), [""; 0]);
        assert_eq!(place.requests(), names(0, 150));
        place.fill(150, 151);
        assert_eq!(place.requests().len(), 151);
        let verified = place.check();
        assert_eq!((verified.faults, verified.unsigned), (vec![], 0));
        assert_eq!(verified.signed, verified.head);
    }
}

#[test]
fn an_edit_a_cut_and_a_swap_are_located_to_the_line() {
    let place = Place::new();
    place.fill(0, 20);
    let file = place.first_segment();
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    let good = fs::read_to_string(&file).expect("reads");
    let lines: Vec<&str> = good.lines().collect();
    let changed = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        change(&mut lines);
        fs::write(&file, lines.join("\n") + "\n").expect("writes");
        place.faults()
    };
    let was_changed = "this line, or the chain value of the line before it, was changed";
    let edited = changed(&|lines| lines[6] = lines[6].replace("\"hit\"", "\"miss\""));
    assert_eq!(edited, [format!("{name}, line 7: {was_changed}")]);
    let chain = changed(&|lines| {
        lines[6] = lines[6].replace("\"chain\":\"", "\"chain\":\"00").replacen("00\"}", "\"}", 1);
    });
    assert!(chain[0].starts_with(&format!("{name}, line 7: ")), "{chain:?}");
    let cut = changed(&|lines| drop(lines.remove(6)));
    assert_eq!(cut, [format!("{name}, line 7: line 7 is missing before this one")]);
    let cut = changed(&|lines| drop(lines.drain(6..9)));
    assert_eq!(cut, [format!("{name}, line 7: lines 7 to 9 are missing before this one")]);
    let swapped = changed(&|lines| lines.swap(6, 7));
    assert!(swapped[0].starts_with(&format!("{name}, line 7: line 7 is missing")), "{swapped:?}");
    assert!(swapped[1].contains("line 8: this is line 7, but line 9 was expected here"), "{swapped:?}");
    let garbled = changed(&|lines| lines[6] = "nonsense".to_owned());
    assert_eq!(garbled[0], format!("{name}, line 7: this is not a valid journal line"));
    let doubled = changed(&|lines| lines.insert(6, lines[6].clone()));
    assert!(doubled[0].contains("line 8: this is line 7, but line 8 was expected here"), "{doubled:?}");
    // The checkpoint itself.
    let last = lines.len();
    let signed =
        changed(&|lines| lines[last - 1] = lines[last - 1].replacen("\"number\":", "\"number\":1", 1));
    assert_eq!(
        signed[0],
        format!("{name}, line {last}: the signature of this checkpoint is wrong"),
        "{signed:?}"
    );
    // Another journal's root is not trusted.
    fs::write(&file, &good).expect("writes");
    assert_eq!(place.check_with(place.root(), None).faults, []);
    let other = Place::new();
    other.fill(0, 1);
    let foreign = place.check_with(other.root(), None).faults;
    assert!(foreign.iter().any(|fault| fault.what.contains("which is not trusted")), "{foreign:?}");
}

#[test]
fn a_removed_tail_is_found_with_the_keys_or_with_a_head_that_was_noted_down() {
    let place = Place::new();
    place.fill(0, 20);
    let noted = place.head().expect("a head");
    assert_eq!(noted.seq, 23, "twenty requests, a beginning and two checkpoints");
    let file = place.first_segment();
    let good = fs::read_to_string(&file).expect("reads");
    let short: Vec<&str> = good.lines().take(15).collect();
    fs::write(&file, short.join("\n") + "\n").expect("writes");
    let found = place.faults();
    assert!(
        found[0].contains("lines 16 to 22 were removed: line 22 was signed, as keys/ shows"),
        "{found:?}"
    );
    // On another machine, there are no keys.
    let away = |noted| {
        let mut verifier = place.verifier();
        verifier.keys = None;
        verifier.verify(&place.audit(), noted).expect("reads")
    };
    let alone = away(&[]);
    assert_eq!((alone.faults, alone.unsigned), (vec![], 13), "the journal alone does not show this");
    let found = place.check_with(place.root(), Some(noted)).faults;
    assert!(
        found.iter().any(|fault| fault.what
            == "the journal ends with line 15; lines 16 to 23 were removed: line 23 was noted down"),
        "{found:?}"
    );
    // A journal that continues from there says so.
    place.fill(90, 110);
    let found = place.faults();
    assert!(found[1].contains("was not as it had been left: the key for its last 13 lines"), "{found:?}");
    assert_eq!(place.requests(), names(90, 110), "the key of the others is known, so nothing proves them");
    let found = place.check_with(place.root(), Some(noted)).faults;
    assert!(
        found.iter().any(|fault| fault.what.contains("line 23, which was noted down, is missing")),
        "{found:?}"
    );
}

#[test]
fn a_torn_last_line_is_left_out_and_reported_wherever_it_was_torn() {
    let running = Place::new();
    let journal = running.open();
    fill(&journal, 0, 4);
    // The server is killed while it writes one more line.
    let whole = Place::new();
    copy_dir(&running.keys(), &whole.keys());
    fill(&journal, 4, 5);
    copy_dir(&running.audit(), &whole.audit());
    drop(journal);
    let bytes = fs::read(whole.first_segment()).expect("reads");
    let last = bytes[..bytes.len() - 1].iter().rposition(|&b| b == b'\n').expect("a line") + 1;
    for end in (last + 1..bytes.len()).step_by(17).chain([bytes.len() - 1]) {
        let place = Place::new();
        copy_dir(&whole.audit(), &place.audit());
        copy_dir(&whole.keys(), &place.keys());
        fs::write(place.audit().join("000000000001.jsonl"), &bytes[..end]).expect("writes");
        assert_eq!(place.faults(), [""; 0], "torn at {end}: a server was killed");
        place.fill(90, 92);
        let report = place.check();
        assert_eq!(report.faults, []);
        assert!(report.notes.iter().any(|note| note.contains("unfinished line")), "{:?}", report.notes);
        assert_eq!(place.requests(), ["r0", "r1", "r2", "r3", "r90", "r91"]);
    }
    // After a power loss, anything may follow the last good line.
    let place = Place::new();
    copy_dir(&whole.audit(), &place.audit());
    copy_dir(&whole.keys(), &place.keys());
    fs::write(place.audit().join("000000000001.jsonl"), [&bytes[..], &[0; 3_000]].concat()).expect("writes");
    place.fill(90, 91);
    assert_eq!(place.faults(), [""; 0]);
    assert_eq!(place.requests().len(), 6);
}

#[test]
fn a_file_that_is_not_a_segment_of_this_journal_is_set_aside_and_reported() {
    let place = Place::new();
    place.fill(0, 5);
    fs::write(place.audit().join("000000000009.jsonl"), "{\"seq\":9,\"ti").expect("writes");
    assert!(place.faults()[0].contains("000000000009.jsonl: this is not a file of this journal"));
    place.fill(5, 6);
    assert!(place.faults()[0].contains("000000000009.jsonl is not a file of this journal; it was renamed"));
    assert_eq!(place.requests(), names(0, 6));
    assert!(place.audit().join("000000000009.jsonl.1.foreign").exists());
}

#[test]
fn old_lines_are_removed_and_the_rest_can_still_be_verified() {
    let place = Place::with_segments_of(6_000);
    let journal = place.open();
    fill(&journal, 0, 100);
    let verifier = place.verifier();
    assert!(
        outdated(&place.audit(), at(), &verifier).expect("reads").is_none(),
        "nothing is older than itself"
    );
    let later = at().plus(Duration::from_secs(1));
    let old = outdated(&place.audit(), later, &verifier).expect("reads").expect("old segments");
    let ticket = journal.mark(later, &Mark::Retired { through: old.through, chain: old.chain });
    assert_eq!(settled(&ticket), Fate::Written);
    let put_back = place.first_segment();
    let removed = fs::read(&put_back).expect("reads");
    assert_eq!(place.faults(), [""; 0], "a kill before they are removed is no fault");
    fs::remove_file(&put_back).expect("removes");
    assert_eq!(place.faults(), [""; 0], "a kill after the first of them is removed is no fault");
    remove(&place.audit(), &old).expect("removes");
    let ticket = journal.mark(later, &Mark::Removed { through: old.through });
    assert_eq!(settled(&ticket), Fate::Written);
    drop(journal);
    let report = place.check();
    assert_eq!(report.faults, []);
    assert_eq!(
        report.notes,
        [format!("lines 1 to {} were removed after their retention period", old.through)]
    );
    assert_eq!(report.roots, [place.root()]);
    // What was removed is not put back.
    fs::write(&put_back, removed).expect("writes");
    place.finds("had been removed and are there again");
    fs::remove_file(&put_back).expect("removes");
    // A segment removed in any other way is reported as missing.
    place.fill(100, 200);
    fs::remove_file(place.first_segment()).expect("removes");
    place.finds("nothing says that they were removed in order");
}

#[test]
fn a_segment_with_a_changed_time_is_kept_as_evidence() {
    let place = Place::with_segments_of(6_000);
    let journal = place.open();
    fill(&journal, 0, 100);
    let file = place.first_segment();
    let text = fs::read_to_string(&file).expect("reads");
    fs::write(&file, text.replace("2026-05-01", "2001-05-01")).expect("writes");
    let old = outdated(&place.audit(), at(), &place.verifier()).expect("reads");
    assert!(old.is_none(), "{old:?}");
    let compressed = place.compress();
    assert!(compressed > 0 && file.exists(), "the changed one stays as it is");
}

#[test]
fn reading_continues_where_it_stopped_while_lines_are_written() {
    let place = Place { epoch: Duration::from_millis(30), ..Place::with_segments_of(5_000) };
    let journal = place.serve();
    let mut position = Position::default();
    let mut found = Vec::new();
    for round in 0..30 {
        fill(&journal, round * 7, round * 7 + 7);
        let mut lines = place.lines_after(position);
        while let Some(line) = lines.read().expect("reads") {
            if let Entry::Request(record) = line.entry {
                found.push(record.request_id);
            }
        }
        position = lines.position();
        if round % 5 == 0 {
            place.compress();
        }
    }
    drop(journal);
    let mut lines = place.lines_after(position);
    while let Some(line) = lines.read().expect("reads") {
        if let Entry::Request(record) = line.entry {
            found.push(record.request_id);
        }
    }
    assert_eq!(found, names(0, 210));
}

#[test]
fn a_restart_changes_nothing_that_is_there() {
    let place = Place::new();
    place.fill(0, 20);
    let file = place.first_segment();
    let good = fs::read_to_string(&file).expect("reads");
    let edited = good.replacen("\"requestId\":\"r7\"", "\"requestId\":\"r8\"", 1);
    let garbled: String = good
        .lines()
        .enumerate()
        .map(|(n, line)| if n == 20 { "nonsense\n".to_owned() } else { format!("{line}\n") })
        .collect();
    for changed in [edited, garbled] {
        for later in place.segments().iter().skip(1) {
            fs::remove_file(later).expect("removes");
        }
        fs::write(&file, &changed).expect("writes");
        assert!(!place.faults().is_empty());
        place.fill(90, 92);
        assert_eq!(fs::read_to_string(&file).expect("reads"), changed, "nothing is cut off");
        place.finds("was not as it had been left");
        assert_eq!(place.requests().last().map(String::as_str), Some("r91"));
        // Continuing from there does not start from the beginning.
        let mut lines = place.lines_after(Position::default());
        while lines.read().expect("reads").is_some() {}
        assert!(place.lines_after(lines.position()).read().expect("reads").is_none());
    }
}

#[test]
fn a_journal_has_one_writer() {
    let place = Place::new();
    let first = place.open();
    assert!(Journal::open(place.settings(), Arc::clone(&place.clock) as _).is_err());
    fill(&first, 0, 3);
    drop(first);
    place.fill(3, 6);
    assert_eq!(place.faults(), [""; 0]);
}

#[test]
fn a_segment_removed_or_truncated_while_it_is_written_is_found() {
    let place = Place::new();
    let journal = place.open();
    fill(&journal, 0, 5);
    fs::remove_file(place.first_segment()).expect("removes");
    fill(&journal, 5, 7);
    assert_eq!(place.requests(), ["r5", "r6"]);
    place.finds("lines 1 to 7 are missing");
    let file = place.first_segment();
    let text = fs::read_to_string(&file).expect("reads");
    let short: String = text.split_inclusive('\n').take(3).collect();
    let cut =
        fs::OpenOptions::new().write(true).open(&file).and_then(|file| file.set_len(short.len() as u64));
    cut.expect("cuts");
    fill(&journal, 7, 9);
    drop(journal);
    place.finds("line 11 is missing before this one");
}

#[test]
fn impossible_numbers_are_faults() {
    let place = Place::new();
    place.fill(0, 5);
    let file = place.first_segment();
    let good = fs::read_to_string(&file).expect("reads");
    for (old, new) in [
        ("{\"seq\":1,", "{\"seq\":0,"),
        ("{\"seq\":4,", "{\"seq\":18446744073709551615,"),
        ("\"after\":0", "\"after\":18446744073709551615"),
        ("\"epoch\":1,", "\"epoch\":18446744073709551615,"),
        ("\"number\":2,", "\"number\":18446744073709551615,"),
    ] {
        assert!(good.contains(old), "{old}");
        fs::write(&file, good.replacen(old, new, 1)).expect("writes");
        assert!(!place.faults().is_empty(), "{new}");
    }
}

#[test]
fn a_copy_is_verified_elsewhere_with_the_root_alone() {
    let place = Place::with_segments_of(6_000);
    place.fill(0, 100);
    place.compress();
    let copy = Place::new();
    copy_dir(&place.audit(), &copy.audit());
    let verifier = contactd_journal::Verifier { roots: Roots::given(vec![place.root()]), keys: None };
    let verified = verifier.verify(&copy.audit(), &[]).expect("reads");
    assert_eq!((verified.faults, verified.unsigned), (vec![], 0));
}

#[test]
fn a_written_line_that_is_taken_back_is_marked_as_undisclosed() {
    let place = Place::new();
    let journal = place.open();
    fill(&journal, 0, 3);
    let ticket = append(&journal, "r3");
    journal.flush();
    assert_eq!(settled(&ticket), Fate::Written);
    let number = ticket.number().expect("it is written");
    journal.take_back(&ticket);
    fill(&journal, 4, 6);
    drop(journal);
    let mut lines = place.lines_after(Position::default());
    let mut marked = Vec::new();
    while let Some(line) = lines.read().expect("reads") {
        match line.entry {
            Entry::Request(record) if record.request_id == "r3" => assert_eq!(record.seq, number),
            Entry::Mark(Mark::Undisclosed { from, through }) => marked.push((from, through)),
            _ => {}
        }
    }
    assert_eq!(marked, [(number, number)]);
    assert_eq!(place.faults(), [""; 0]);
}

#[test]
fn thousands_of_lines_are_signed_before_a_second_is_over() {
    let place = Place::with_segments_of(8 << 20);
    fill(&place.serve(), 0, 10_000);
    let mut lines = place.lines_after(Position::default());
    let (mut unsigned, mut most) = (0, 0);
    while let Some(line) = lines.read().expect("reads") {
        let is_checkpoint = matches!(line.entry, Entry::Mark(Mark::Checkpoint(_)));
        unsigned = if is_checkpoint { 0 } else { unsigned + 1 };
        most = unsigned.max(most);
    }
    assert!(most < 2_100, "{most}");
    assert_eq!(place.faults(), [""; 0]);
}

#[test]
fn a_server_finds_changed_lines_before_the_last_checkpoint_while_it_serves() {
    for is_killed in [false, true] {
        let place = Place::new();
        let journal = place.serve();
        fill(&journal, 0, 20);
        assert!(journal.sign());
        fill(&journal, 20, 30);
        if is_killed {
            let left = Place::new();
            copy_dir(&place.keys(), &left.keys());
            copy_dir(&place.audit(), &left.audit());
            serve_changed(&left);
        } else {
            drop(journal);
            serve_changed(&place);
        }
    }
}

/// Changes a line that is signed, and serves.
fn serve_changed(place: &Place) {
    let file = place.first_segment();
    let good = fs::read_to_string(&file).expect("reads");
    fs::write(&file, good.replacen("\"requestId\":\"r7\"", "\"requestId\":\"r8\"", 1)).expect("writes");
    let journal = place.serve();
    fill(&journal, 90, 92);
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while place.segments().len() == 1 && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    fill(&journal, 92, 94);
    drop(journal);
    place.finds("was not as it had been left");
    assert_eq!(
        place.requests().len(),
        26,
        "what is before the changed line in its interval cannot be proven"
    );
    // It is found once.
    let segments = place.segments().len();
    drop(place.serve());
    assert_eq!(place.segments().len(), segments);
    place.finds("was not as it had been left");
}

#[test]
fn what_a_killed_server_left_is_found_from_its_last_checkpoint() {
    let place = Place { epoch: Duration::from_millis(30), ..Place::new() };
    let mut written = 0;
    for round in 0..20 {
        let journal = place.serve();
        fill(&journal, written, written + 50);
        written += 50;
        if round % 3 == 0 {
            assert!(journal.sign());
            fill(&journal, written, written + 5);
            written += 5;
        }
        // As a kill leaves it: without a signature of the last lines, and sometimes with half a line.
        let left = tempfile::tempdir().expect("a directory");
        copy_dir(&place.keys(), &left.path().join("keys"));
        copy_dir(&place.audit(), &left.path().join("audit"));
        drop(journal);
        copy_dir(&left.path().join("keys"), &place.keys());
        copy_dir(&left.path().join("audit"), &place.audit());
        if round % 4 == 0 {
            let mut last = fs::read(place.segments().pop().expect("a segment")).expect("reads");
            last.extend_from_slice(b"{\"seq\":");
            fs::write(place.segments().pop().expect("a segment"), last).expect("writes");
        }
    }
    drop(place.serve());
    assert_eq!(place.faults(), [""; 0]);
    assert_eq!(place.requests(), names(0, written));
}
