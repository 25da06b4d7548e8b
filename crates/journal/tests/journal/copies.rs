//! A copy of a journal, as a node ships it: read and verified by the same code as files.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use contactd_core::store::{CopiedLine, JournalCopies, StoreError};
use contactd_core::{AuditPosition, SignedLine, Timestamp};
use contactd_journal::{JournalError, JournalReader, KnownLine, Roots, verify_proof};

use crate::place::{Place, append, fill};

/// Lines in memory.
#[derive(Clone, Default)]
struct InMemory {
    lines: Vec<SignedLine>,
    seals: Vec<String>,
}

impl InMemory {
    /// The lines with the numbers under which they are stored: one after the other, whatever they say themselves.
    fn stored(&self) -> impl Iterator<Item = CopiedLine> {
        let numbers = self.lines.first().map_or(1, |line| line.seq)..;
        numbers.zip(&self.lines).map(|(seq, line)| CopiedLine {
            seq,
            begins_segment: line.begins_segment,
            text: line.text.clone(),
        })
    }
}

#[async_trait]
impl JournalCopies for InMemory {
    async fn copied_segments(&self, _: i32) -> Result<Vec<u64>, StoreError> {
        let begins = self.stored().enumerate().filter(|(at, line)| *at == 0 || line.begins_segment);
        Ok(begins.map(|(_, line)| line.seq).collect())
    }

    async fn copied_lines(&self, _: i32, from: u64, most: u32) -> Result<Vec<CopiedLine>, StoreError> {
        Ok(self.stored().filter(|line| line.seq >= from).take(most as usize).collect())
    }

    async fn copied_seals(&self, _: i32) -> Result<Vec<String>, StoreError> {
        Ok(self.seals.clone())
    }
}

/// A copy from which the first segments are removed while it is read.
struct Trimmed {
    copy: InMemory,
    /// How many times lines are read before.
    reads_before: AtomicUsize,
    /// The number of the first line that stays.
    first: u64,
}

#[async_trait]
impl JournalCopies for Trimmed {
    async fn copied_segments(&self, copy: i32) -> Result<Vec<u64>, StoreError> {
        let is_trimmed = self.reads_before.load(Relaxed) == 0;
        let segments = self.copy.copied_segments(copy).await?;
        Ok(segments.into_iter().filter(|segment| !is_trimmed || *segment >= self.first).collect())
    }

    async fn copied_lines(&self, copy: i32, from: u64, most: u32) -> Result<Vec<CopiedLine>, StoreError> {
        let was_read = self.reads_before.fetch_update(Relaxed, Relaxed, |reads| reads.checked_sub(1));
        let from = if was_read.is_ok() { from } else { from.max(self.first) };
        self.copy.copied_lines(copy, from, most).await
    }

    async fn copied_seals(&self, copy: i32) -> Result<Vec<String>, StoreError> {
        self.copy.copied_seals(copy).await
    }
}

/// Adds what is signed after a position.
fn ship(place: &Place, copy: &mut InMemory, from: AuditPosition) -> AuditPosition {
    let mut reading = place.reader().signed_after(from, &Roots::given(vec![place.root()]));
    while let Some(line) = reading.read_signed().expect("reads") {
        copy.seals.extend(line.is_seal.then(|| line.text.clone()));
        copy.lines.push(line);
    }
    reading.position()
}

fn files(copy: &InMemory) -> JournalReader {
    JournalReader::of_copy(Arc::new(copy.clone()), 1, AuditPosition::default())
}

fn faults(place: &Place, copy: &InMemory, known: &[KnownLine]) -> Vec<String> {
    let verified = files(copy).verify(known, &Roots::given(vec![place.root()])).expect("reads");
    assert!(verified.unsigned == 0 || !verified.faults.is_empty(), "a copy ends with a signature");
    verified.faults.iter().map(ToString::to_string).collect()
}

/// A journal of several segments, written and shipped in parts.
fn shipped() -> (Place, InMemory) {
    let place = Place::with_segments_of(5_000);
    let (mut copy, mut position) = (InMemory::default(), AuditPosition::default());
    for part in 0..4 {
        place.fill(part * 25, part * 25 + 25);
        position = ship(&place, &mut copy, position);
    }
    (place, copy)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_shipped_in_parts_has_every_line_once_and_verifies_with_the_root_alone() {
    let (place, copy) = shipped();
    assert!(copy.copied_segments(1).await.expect("lists").len() > 3);
    let of_files = place.check();
    let of_copy = files(&copy).verify(&[], &Roots::given(vec![place.root()])).expect("reads");
    assert_eq!(of_copy.faults, []);
    assert_eq!(
        (of_copy.lines, of_copy.head, of_copy.signed),
        (of_files.lines, of_files.head, of_files.signed)
    );
    assert_eq!(copy.lines.len() as u64, of_files.lines);
    assert_eq!(files(&copy).head(&Roots::default()).expect("reads"), place.head());
    assert_eq!(files(&copy).roots().expect("reads"), [place.root()]);
    let other = Roots::given(vec![contactd_core::RootKey([7; 32])]);
    assert!(!files(&copy).verify(&[], &other).expect("reads").is_whole(), "another root");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_are_not_signed_yet_are_not_shipped() {
    let place = Place::new();
    let journal = place.open();
    fill(&journal, 0, 3);
    assert!(journal.sign());
    let mut copy = InMemory::default();
    let position = ship(&place, &mut copy, AuditPosition::default());
    assert!(copy.lines.last().is_some_and(|line| line.is_checkpoint));
    assert_eq!(faults(&place, &copy, &[]), [] as [&str; 0]);
    append(&journal, "later");
    drop(journal);
    ship(&place, &mut copy, position);
    assert!(copy.lines.iter().any(|line| line.text.contains("\"later\"")));
    assert_eq!(faults(&place, &copy, &[]), [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_a_copy_is_found() {
    let (place, whole) = shipped();
    let last = whole.lines.last().expect("a line").clone();
    let head = place.head().expect("a head");
    let known = [KnownLine { seq: last.seq, chain: head.chain, how: "was shipped" }];
    assert_eq!(faults(&place, &whole, &known), [] as [&str; 0]);
    for at in 0..whole.lines.len() {
        let mut copy = whole.clone();
        copy.lines[at].text = copy.lines[at].text.replacen("\"time\":\"2026", "\"time\":\"2025", 1);
        assert_ne!(faults(&place, &copy, &known), [] as [&str; 0], "line {at} changed");
        let mut copy = whole.clone();
        copy.lines.remove(at);
        assert_ne!(faults(&place, &copy, &known), [] as [&str; 0], "line {at} removed");
        let mut copy = whole.clone();
        copy.lines[at].begins_segment ^= true;
        // The first one begins a segment anyway.
        assert_eq!(faults(&place, &copy, &known).is_empty(), at == 0, "segment of line {at}");
        if at > 0 {
            let mut copy = whole.clone();
            copy.lines.swap(at - 1, at);
            assert_ne!(faults(&place, &copy, &known), [] as [&str; 0], "line {at} moved");
            let mut copy = whole.clone();
            copy.lines.insert(at, copy.lines[at - 1].clone());
            assert_ne!(faults(&place, &copy, &known), [] as [&str; 0], "line {at} twice");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_that_are_removed_while_they_are_verified_are_not_missing() {
    let (place, copy) = shipped();
    let segments = copy.copied_segments(1).await.expect("lists");
    let (first, roots) = (segments[segments.len() - 2], Roots::given(vec![place.root()]));
    for reads in 0..3 * segments.len() {
        let store = Trimmed { copy: copy.clone(), reads_before: AtomicUsize::new(reads), first };
        let reader = JournalReader::of_copy(Arc::new(store), 1, AuditPosition::default());
        let verified = reader.verify(&[], &roots).expect("reads");
        // These lines do not say that others were removed: that is found, and nothing else.
        let faults: Vec<String> = verified.faults.iter().map(ToString::to_string).collect();
        let removed = format!("the journal: lines 1 to {} are missing, and", first - 1);
        let is_found = |fault: &String| fault.starts_with(&removed);
        assert!(faults.iter().all(is_found), "removed after {reads} reads: {faults:?}");
        assert_eq!(faults.len() as u64, u64::from(verified.first == Some(first)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_from_a_copy_is_the_one_from_the_files() {
    let (place, copy) = shipped();
    let time = |text| Timestamp::parse(text).expect("a time");
    let (since, until) = (time("2026-01-01"), time("2027-01-01"));
    let roots = Roots::given(vec![place.root()]);
    let (mut from_files, mut from_copy) = (Vec::new(), Vec::new());
    let made = place.reader().prove(since, until, &roots, &mut from_files).expect("proves");
    let again = files(&copy).prove(since, until, &roots, &mut from_copy).expect("proves");
    assert_eq!((made, from_files), (again, from_copy.clone()));
    let file = place.dir.path().join("proof");
    std::fs::write(&file, from_copy).expect("writes");
    assert_eq!(verify_proof(&file, &roots).expect("reads").faults, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verification_says_how_far_it_is_and_can_be_stopped() {
    let (place, mut copy) = (Place::with_segments_of(200_000), InMemory::default());
    place.fill(0, 9_000);
    ship(&place, &mut copy, AuditPosition::default());
    let (dir, shipped) = (place.reader(), files(&copy));
    assert_eq!(dir.first_line().expect("lists"), Some(1));
    let mut seen = (Vec::new(), Vec::new());
    let whole = dir.verify_watched(&[], &Roots::default(), &mut |lines| {
        seen.0.push(lines);
        true
    });
    assert_eq!(whole.expect("reads").faults, []);
    shipped
        .verify_watched(&[], &Roots::default(), &mut |lines| {
            seen.1.push(lines);
            true
        })
        .expect("reads");
    assert_eq!(seen, (vec![4_096, 8_192], vec![4_096, 8_192]));
    let stopped = dir.verify_watched(&[], &Roots::default(), &mut |_| false);
    assert!(matches!(stopped, Err(JournalError::Cancelled)));
}
