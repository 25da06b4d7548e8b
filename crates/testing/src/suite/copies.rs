//! Copies of journals. An engine that only one process uses keeps none.

use contactd_core::store::{CopyStep, EntryPlace, Store};
use contactd_core::{AuditPosition, ShortDigest, SignedLine};

use super::day;

fn at(seq: u64) -> AuditPosition {
    AuditPosition { segment: 1, offset: seq * 10, seq, chain: [7; 16] }
}

fn lines(from: u64, through: u64) -> Vec<SignedLine> {
    let line = |seq| SignedLine {
        seq,
        begins_segment: seq == 1,
        is_checkpoint: false,
        is_seal: seq == 2,
        list: None,
        retires: (seq == 5).then_some(1),
        text: format!("line {seq}"),
    };
    (from..=through).map(line).collect()
}

/// Steps are added where the copy ends, and read as they were added; another copy leaves the one before; or nothing is kept.
pub async fn a_copy_of_a_journal_has_every_line_once_or_there_is_none(store: &dyn Store) {
    let nothing = AuditPosition::default();
    let keeps_copies = store.copy_position("a").await.expect("reads").is_some();
    let new = lines(1, 5);
    let step = CopyStep { node: "a", from: nothing, to: at(5), lines: &new, seals: &[] };
    for _ in 0..2 {
        assert_eq!(store.add_to_copy(step).await.expect("adds"), keeps_copies, "also when it is repeated");
    }
    assert_eq!(
        store.copy_position("b").await.expect("reads"),
        keeps_copies.then_some(nothing),
        "another node"
    );
    let shifted = CopyStep { from: at(6), to: at(7), ..step };
    assert!(!store.add_to_copy(shifted).await.expect("adds"), "the copy does not end where it begins");

    while store.trim_copy("a").await.expect("removes") {}
    store.remove_old_copies(day("2020-01-01")).await.expect("removes");
    let copies = store.list_copies().await.expect("lists");
    assert_eq!(copies.len(), usize::from(keeps_copies));
    let copy = copies.first().map_or(1, |copy| copy.copy);
    let read = store.copied_lines(copy, 0, 100).await.expect("reads");
    let read: Vec<(u64, &str)> = read.iter().map(|line| (line.seq, line.text.as_str())).collect();
    // The fifth says that the first was removed.
    let all = [(2, "line 2"), (3, "line 3"), (4, "line 4"), (5, "line 5")];
    assert_eq!(read, all[..if keeps_copies { 4 } else { 0 }]);
    let seals = store.copied_seals(copy).await.expect("reads");
    assert_eq!(seals.len(), usize::from(keeps_copies), "seals are kept: {seals:?}");
    assert!(store.copied_segments(copy).await.expect("reads").len() <= 1);

    for _ in 0..2 {
        store.begin_journal_copy("a").await.expect("one to which nothing was added is a new one");
    }
    let action = r#"{"actor":"olga","entry":"0a","chain":"00"}"#.to_owned();
    let action = [SignedLine { text: action, ..new[0].clone() }];
    let again = store.add_to_copy(CopyStep { from: nothing, to: at(1), lines: &action, ..step }).await;
    assert_eq!(again.expect("adds"), keeps_copies);
    let place = EntryPlace { entry: "0a".to_owned(), node: "a".to_owned(), seq: 1 };
    let ids = ["0a".to_owned(), "0b".to_owned()];
    let found = store.find_copied(&ids).await.expect("finds");
    assert_eq!(found, [place][..usize::from(keeps_copies)]);
    assert_eq!(store.list_copies().await.expect("lists").len(), 2 * usize::from(keeps_copies));
    store.remove_earlier_copies("a").await.expect("removes");
    assert_eq!(store.list_copies().await.expect("lists").len(), usize::from(keeps_copies));
    assert_eq!(store.copy_position("a").await.expect("reads"), keeps_copies.then_some(at(1)));
}

/// A list is found by each of its digests, in whichever part it is, until it is removed; or none is kept.
pub async fn a_list_is_found_by_its_digests_or_none_is_kept(store: &dyn Store) {
    let digests: Vec<ShortDigest> = (0..6).map(|n| ShortDigest([n; 16])).collect();
    let part = |from: usize| digests[from..from + 2].iter().flat_map(|digest| digest.0).collect::<Vec<u8>>();
    let keeps_lists = store.lists_with(&[]).await.expect("searches").is_some();
    for (number, from) in [(1, 3), (0, 1), (0, 1)] {
        store.add_list_part("ada", number, &part(from)).await.expect("adds");
    }
    for (at, digest) in digests.iter().enumerate() {
        let found = store.lists_with(&[*digest]).await.expect("searches").unwrap_or_default();
        assert_eq!(found.len(), usize::from(keeps_lists && (1..5).contains(&at)), "{at}");
    }
    let read = store.list_part("ada", 1).await.expect("reads");
    assert_eq!(read, keeps_lists.then(|| part(3)));
    assert_eq!(store.list_part("ada", 2).await.expect("reads"), None);
    assert!(store.lists_before(day("2020-01-01")).await.expect("lists").is_empty());
    let all = store.lists_before(day("2100-01-01")).await.expect("lists");
    assert_eq!(all.len(), usize::from(keeps_lists));
    store.remove_list("ada").await.expect("removes");
    assert_eq!(store.list_part("ada", 0).await.expect("reads"), None);
}
