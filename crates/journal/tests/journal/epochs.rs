//! Epochs, seals, old journals, restored journals, proofs.

use std::fs;
use std::time::{Duration, Instant};

use contactd_core::{AuditPosition, RootKey, Timestamp};
use contactd_journal::{JournalFault, Roots};
use contactd_journal::{Verifier, is_journal_key, verify_proof};

use crate::place::{Place, at, copy_dir, fill, names};

fn seals(place: &Place) -> usize {
    fs::read_to_string(place.audit().join("seals.jsonl"))
        .unwrap_or_default()
        .matches("\"mark\":\"seal\"")
        .count()
}

fn epoch_keys(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.keys()).expect("lists");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".key")).collect();
    names.sort();
    names
}

/// A journal with several sealed epochs, each with some lines.
pub(crate) fn with_epochs(segment_bytes: u64, epochs: usize) -> Place {
    let place = Place { epoch: Duration::from_millis(40), ..Place::with_segments_of(segment_bytes) };
    let journal = place.serve();
    let until = Instant::now() + Duration::from_secs(20);
    let mut number = 0;
    while seals(&place) < epochs && Instant::now() < until {
        fill(&journal, number, number + 7);
        number += 7;
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(journal);
    place
}

#[test]
fn an_epoch_is_sealed_also_when_idle_and_its_keys_are_destroyed() {
    let place = Place { epoch: Duration::from_millis(40), ..Place::new() };
    let journal = place.serve();
    let until = Instant::now() + Duration::from_secs(10);
    while seals(&place) < 3 {
        assert!(Instant::now() < until, "no epoch ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(journal);
    // Those of the next epoch may be there already, if it was about to begin.
    let keys = epoch_keys(&place);
    assert!(matches!(keys.len(), 1 | 2) && !keys.iter().any(|key| key.contains("00001.key")), "{keys:?}");
    assert_eq!(place.faults(), [""; 0]);
    assert_eq!(place.check_with(place.root(), place.head()).faults, []);
    for name in fs::read_dir(place.keys()).expect("lists") {
        let file = name.expect("an entry");
        let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().expect("a file").permissions());
        assert_eq!(mode & 0o777, 0o600, "{:?}", file.file_name());
        assert!(is_journal_key(&file.file_name().to_string_lossy()));
    }
}

#[test]
fn with_all_current_keys_nothing_that_is_sealed_can_be_changed() {
    let place = with_epochs(1 << 20, 4);
    let root = place.root();
    let file = place.first_segment();
    let good = fs::read_to_string(&file).expect("reads");
    let lines: Vec<&str> = good.lines().collect();
    let sealed = lines.iter().rposition(|line| line.contains("\"mark\":\"seal\"")).expect("a seal");
    // Whoever has the current keys can sign anything in the current epoch, and cannot sign in an earlier one.
    for at in (1..sealed).step_by(3) {
        let mut changed: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        changed[at] = changed[at].replacen("\"time\":\"2026", "\"time\":\"2025", 1);
        fs::write(&file, changed.join("\n") + "\n").expect("writes");
        assert!(!place.check_with(root, None).is_whole(), "line {}", at + 1);
        changed.drain(at..=sealed);
        fs::write(&file, changed.join("\n") + "\n").expect("writes");
        assert!(!place.check_with(root, None).is_whole(), "cut at line {}", at + 1);
    }
}

#[test]
fn start_and_stop_have_lines_so_that_time_without_service_is_known() {
    let place = Place::new();
    let journal = place.serve();
    fill(&journal, 0, 3);
    drop(journal);
    place.clock.advance(Duration::from_secs(600));
    drop(place.serve());
    let outages = place.check().outages;
    assert_eq!(outages.len(), 1, "{outages:?}");
    assert!(outages[0].was_stopped);
    assert_eq!((outages[0].from, outages[0].until), (at(), at().plus(Duration::from_secs(600))));
}

#[test]
fn a_restored_journal_begins_anew_and_names_the_old_root() {
    let place = with_epochs(6_000, 2);
    let (old_root, count) = (place.root(), place.requests().len());
    let restored = Place::new();
    copy_dir(&place.audit(), &restored.audit());
    restored.fill(900, 903);
    let new_root = restored.root();
    assert_ne!(old_root, new_root);
    assert_eq!(restored.faults(), [""; 0]);
    assert_eq!(restored.requests().len(), count + 3);
    let verifier = |roots| Verifier { roots: Roots::given(roots), keys: None };
    let both = verifier(vec![old_root, new_root]).verify(&restored.audit(), &[]).expect("reads");
    assert_eq!((both.faults, both.roots), (vec![], vec![old_root, new_root]));
    assert!(both.notes.iter().any(|note| note.contains("after a restore")), "{:?}", both.notes);
    for one in [old_root, new_root] {
        assert!(!verifier(vec![one]).verify(&restored.audit(), &[]).expect("reads").is_whole());
    }
    restored.fill(903, 906);
    assert_eq!(restored.faults(), [""; 0]);
}

#[test]
fn a_proof_shows_a_period_and_nothing_can_be_changed_in_it() {
    let place = with_epochs(6_000, 3);
    let root = place.root();
    let file = place.keys().join("proof.jsonl");
    let prove = |since: Timestamp, until: Timestamp| {
        let dir = place.reader();
        let mut out = Vec::new();
        let made = dir.prove(since, until, &Roots::given(vec![root]), &mut out).expect("proves");
        fs::write(&file, &out).expect("writes");
        made
    };
    let made = prove(at(), at().plus(Duration::from_secs(1)));
    assert!(made.last > made.first);
    let verified = verify_proof(&file, &Roots::given(vec![root])).expect("reads");
    assert_eq!(verified.faults, []);
    assert_eq!(verified.lines, made.last - made.first + 1);
    let good = fs::read_to_string(&file).expect("reads");
    let lines: Vec<&str> = good.lines().collect();
    for at in 1..lines.len() {
        let mut changed = lines.clone();
        changed.remove(at);
        fs::write(&file, changed.join("\n") + "\n").expect("writes");
        let found = verify_proof(&file, &Roots::given(vec![root])).expect("reads");
        // Without its first or last lines it is a smaller proof, or none.
        let is_end = at == 1 || at == lines.len() - 1;
        assert!(!found.is_whole() || is_end, "line {at}");
        let edited: Vec<String> = lines
            .iter()
            .enumerate()
            .map(|(n, line)| if n == at { line.replacen("\"n1\"", "\"n2\"", 1) } else { (*line).to_owned() })
            .collect();
        fs::write(&file, edited.join("\n") + "\n").expect("writes");
        assert!(!verify_proof(&file, &Roots::given(vec![root])).expect("reads").is_whole(), "line {at}");
    }
    fs::write(&file, &good).expect("writes");
    let other = with_epochs(6_000, 1).root();
    assert!(!verify_proof(&file, &Roots::given(vec![other])).expect("reads").is_whole());
}

/// Reads the journal from every position in it.
fn read_from_everywhere(place: &Place) {
    let all = place.requests();
    let mut lines = place.lines_after(AuditPosition::default());
    let mut seen = 0;
    while let Some(line) = lines.read().expect("reads") {
        seen += usize::from(matches!(line.entry, contactd_journal::Entry::Request(_)));
        let mut rest = place.lines_after(lines.position());
        let mut left = 0;
        while let Some(line) = rest.read().expect("reads") {
            left += usize::from(matches!(line.entry, contactd_journal::Entry::Request(_)));
        }
        assert_eq!(seen + left, all.len(), "from {:?}", lines.position());
    }
    assert_eq!(seen, all.len());
}

#[test]
fn a_reader_that_starts_in_the_middle_proves_what_it_reads() {
    let place = with_epochs(6_000, 3);
    read_from_everywhere(&place);
    let all = place.requests();
    assert_eq!(all, names(0, all.len() as u64));
}

#[test]
fn a_kill_before_the_first_segment_of_a_new_journal_loses_nothing_of_the_old_one() {
    let place = with_epochs(6_000, 2);
    let count = place.requests().len();
    let restored = Place::new();
    copy_dir(&place.audit(), &restored.audit());
    restored.fill(900, 901);
    // As a kill leaves it: the new keys are there, and nothing that they signed.
    let begun = restored.segments().pop().expect("the new journal");
    fs::remove_file(begun).expect("removes");
    copy_dir(&place.audit(), &restored.audit());
    fs::write(restored.keys().join("journal-signed"), "").expect("writes");
    restored.fill(900, 903);
    assert_eq!(restored.faults(), [""; 0]);
    assert_eq!(restored.requests().len(), count + 3);
}

fn seals_file(place: &Place) -> std::path::PathBuf {
    place.audit().join("seals.jsonl")
}

/// Verifies with the root alone, as somebody with a copy does.
fn check_without_keys(place: &Place, root: RootKey) -> Vec<JournalFault> {
    let verifier = Verifier { roots: Roots::given(vec![root]), keys: None };
    verifier.verify(&place.audit(), &[]).expect("reads").faults
}

#[test]
fn a_seal_without_its_copy_hides_no_line_and_gets_its_copy_at_the_next_start() {
    let place = with_epochs(1 << 20, 3);
    place.fill(500, 520);
    let (root, good) = (place.root(), fs::read_to_string(seals_file(&place)).expect("reads"));
    // A kill came before the copy was written, or while it was.
    let last = good.trim_end().rfind('\n').expect("several lines") + 1;
    for end in [last, last + 40] {
        fs::write(seals_file(&place), &good[..end]).expect("writes");
        read_from_everywhere(&place);
        drop(place.open());
        assert_eq!(fs::read_to_string(seals_file(&place)).expect("reads"), good);
        assert_eq!(check_without_keys(&place, root), []);
    }
}

#[test]
fn lost_copies_of_seals_are_made_again_in_order() {
    let mut place = with_epochs(6_000, 3);
    let root = place.root();
    // The last segment begins in the current epoch, so a start reads no seal.
    place.fill(500, 560);
    let good = fs::read_to_string(seals_file(&place)).expect("reads");
    fs::remove_file(seals_file(&place)).expect("removes");
    assert!(!check_without_keys(&place, root).is_empty(), "the keys of later epochs are not known");
    drop(place.open());
    assert_eq!(fs::read_to_string(seals_file(&place)).expect("reads"), good);
    assert_eq!((place.faults(), check_without_keys(&place, root)), (vec![], vec![]));

    // The last segment contains a seal, and a kill came before the keys of the epoch before it were destroyed.
    let old_keys: Vec<_> = epoch_keys(&place)
        .into_iter()
        .map(|name| (fs::read(place.keys().join(&name)).expect("reads"), name))
        .collect();
    place.segment_bytes = 1 << 20;
    let (journal, before) = (place.serve(), seals(&place));
    let until = Instant::now() + Duration::from_secs(10);
    while seals(&place) == before {
        assert!(Instant::now() < until, "no epoch ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(journal);
    for (key, name) in old_keys {
        fs::write(place.keys().join(name), key).expect("writes");
    }
    let good = fs::read_to_string(seals_file(&place)).expect("reads");
    fs::remove_file(seals_file(&place)).expect("removes");
    drop(place.open());
    assert_eq!(fs::read_to_string(seals_file(&place)).expect("reads"), good);
    assert_eq!((place.faults(), check_without_keys(&place, root)), (vec![], vec![]));
}

#[test]
fn a_copy_of_a_seal_that_somebody_removed_stays_missing() {
    let place = with_epochs(1 << 20, 3);
    let good = fs::read_to_string(seals_file(&place)).expect("reads");
    let (_, rest) = good.split_once('\n').expect("several lines");
    fs::write(seals_file(&place), rest).expect("writes");
    let found = ["seals.jsonl: the copy of a seal is missing"];
    assert_eq!(place.faults(), found);
    place.fill(500, 510);
    assert_eq!(fs::read_to_string(seals_file(&place)).expect("reads"), rest);
    assert_eq!(place.faults(), found);
}
