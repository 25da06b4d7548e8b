//! A table answers what was put into it, or says that it is not sure. Whatever is done to its file.

#![expect(clippy::expect_used, reason = "test code: a failed expectation is a failed test")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use contactd_core::store::place::{first_id_of_key, kind_number};
use contactd_core::{Kind, Timestamp};
use contactd_lookup_table::{Content, Table, TableId, Unfinished, Unsure, Writer, order_of_place, wipe};
use proptest::prelude::*;

type Held = Vec<(String, Option<i64>)>;
type Found = Result<Option<(Held, bool)>, Unsure>;

/// What is put into a table, in the order of the store.
#[derive(Default)]
struct Put(BTreeMap<(i64, i64, String), Held>);

impl Put {
    fn add(&mut self, profile: &str, kind: Kind, held: Held) {
        self.0.insert((first_id_of_key(profile, 0), kind_number(kind), profile.to_owned()), held);
    }

    fn write(&self, path: &Path) -> TableId {
        let id = TableId::random().expect("random bytes");
        let file = File::create_new(path).expect("a new file");
        let mut writer = Writer::new(file, id, false, Box::new(|_| Ok(()))).expect("begins");
        for ((place, number, profile), held) in &self.0 {
            let kind = if *number == 0 { Kind::Phone } else { Kind::Email };
            let mut content = Content::default();
            held.iter().for_each(|(text, end)| content.add(text, end.map(Timestamp::from_seconds)));
            writer.put(*place, profile, kind, &content).expect("puts");
        }
        writer.finish().expect("ends");
        id
    }

    /// What a table has to say.
    fn expected(&self, number: u32, kind: Kind) -> Found {
        let key = (place(number), kind_number(kind), slug(number));
        Ok(self.0.get(&key).map(|held| (held.clone(), false)))
    }
}

/// What a table says: the values, and whether there are more.
fn find(table: &Table, number: u32, kind: Kind) -> Found {
    table.find(first_id_of_key(&slug(number), kind_number(kind)), &slug(number), kind, |held| {
        held.map(|mut held| {
            let all =
                held.by_ref().map(|value| (value.text.to_owned(), value.expires_at.map(Timestamp::seconds)));
            (all.collect(), held.is_cut())
        })
    })
}

fn both(path: &Path, id: TableId) -> [Table; 2] {
    let file = || File::open(path).expect("opens");
    [Table::open(file(), id).expect("a table"), Table::in_memory(&file(), id).expect("a table")]
}

fn slug(number: u32) -> String {
    format!("linkedin.com/in/quell-{number}")
}

fn place(number: u32) -> i64 {
    first_id_of_key(&slug(number), 0)
}

/// Phones of some, addresses of others, up to several and long ones.
fn some(count: u32) -> Put {
    let mut put = Put::default();
    for number in 0..count {
        if number % 3 != 0 {
            let end = (number % 5 == 0).then_some(i64::from(number));
            let phones = (0..=number % 4).map(|n| (format!("+1415555{n:02}{:02}", number % 100), end));
            put.add(&slug(number), Kind::Phone, phones.collect());
        }
        if number % 2 == 0 {
            let length = usize::try_from(number * 7 % 230).expect("small");
            let address = format!("{number}-{}@example.com", "e".repeat(length));
            put.add(&slug(number), Kind::Email, vec![(address, None)]);
        }
    }
    put
}

#[test]
fn everything_is_found_as_it_was_put_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    for count in [0, 1, 100, 70_000] {
        let (put, path) = (some(count), dir.path().join(count.to_string()));
        let id = put.write(&path);
        for table in both(&path, id) {
            assert_eq!(table.records(), put.0.len() as u64);
            for number in 0..count + 1_000 {
                for kind in Kind::ALL {
                    assert_eq!(find(&table, number, kind), put.expected(number, kind), "{number} {kind:?}");
                }
            }
        }
    }
}

#[test]
fn values_that_do_not_fit_are_only_in_the_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("table");
    let mut put = Put::default();
    let many: Held = (0..40).map(|n| (format!("+14155550{n:03}"), Some(n))).collect();
    put.add(&slug(1), Kind::Phone, many.clone());
    put.add(&slug(2), Kind::Email, vec![("e".repeat(255), None), ("e@example.com".to_owned(), None)]);
    let id = put.write(&path);
    for table in both(&path, id) {
        let (held, is_cut) = find(&table, 1, Kind::Phone).expect("sure").expect("held");
        assert!(is_cut && held.len() > 10 && many.starts_with(&held), "{}", held.len());
        assert_eq!(find(&table, 2, Kind::Email), Ok(Some((vec![], true))));
    }
}

#[test]
fn another_table_or_half_of_one_is_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("table");
    let id = some(1_000).write(&path);
    let refused =
        |id| Table::open(File::open(&path).expect("opens"), id).map(drop).expect_err("refused").kind();
    assert_eq!(refused(TableId::random().expect("random bytes")), io::ErrorKind::InvalidData);
    let file = File::options().write(true).open(&path).expect("opens");
    let length = file.metadata().expect("reads").len();
    file.set_len(length - 64).expect("truncates");
    assert_eq!(refused(id), io::ErrorKind::InvalidData);
    file.set_len(length).expect("grows");
    file.write_all_at(&[7], 57).expect("writes");
    assert_eq!(refused(id), io::ErrorKind::InvalidData);
}

#[test]
fn what_is_wiped_is_not_in_the_file_and_the_others_are_still_found() {
    let dir = tempfile::tempdir().expect("a directory");
    let (put, path) = (some(3_000), dir.path().join("table"));
    let id = put.write(&path);
    let gone: Vec<u32> = (0..3_000).step_by(50).collect();
    let file = File::options().read(true).write(true).open(&path).expect("opens");
    let orders: Vec<u32> = gone.iter().map(|&number| order_of_place(place(number))).collect();
    let contains = |text: &str| {
        let bytes = std::fs::read(&path).expect("reads");
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    };
    assert!(contains("\x00100-e"), "an address is in the file as it is");
    wipe(&file, &orders).expect("wipes");
    wipe(&file, &orders).expect("wipes again");
    for number in &gone {
        assert!(!contains(&format!("\x00{number}-e")), "{number}");
    }
    for table in both(&path, id) {
        let mut asked = 0;
        for number in 0..3_000 {
            for kind in Kind::ALL {
                match find(&table, number, kind) {
                    Err(unsure) => {
                        assert_eq!(unsure, Unsure::Wiped);
                        asked += 1;
                    }
                    found => {
                        assert_eq!(found, put.expected(number, kind));
                        assert!(!gone.contains(&number) || found == Ok(None), "{number} {kind:?}");
                    }
                }
            }
        }
        assert!(asked < 600, "{asked} of 6000 lookups ask the store");
    }
}

#[test]
fn too_many_profiles_in_one_place_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = File::create_new(dir.path().join("table")).expect("a new file");
    let id = TableId::random().expect("random bytes");
    let mut writer = Writer::new(file, id, true, Box::new(|_| Ok(()))).expect("begins");
    let mut content = Content::default();
    content.add("+14155550101", None);
    let put = (0..1_000).try_for_each(|number| writer.put(1 << 40, &slug(number), Kind::Phone, &content));
    let all = put.and_then(|()| writer.finish().map(drop));
    assert!(matches!(all, Err(Unfinished::Crowded)));
}

#[test]
fn a_disk_without_room_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = File::create_new(dir.path().join("table")).expect("a new file");
    let full = Box::new(|_| Err(io::ErrorKind::StorageFull.into()));
    let writer = Writer::new(file, TableId::random().expect("random bytes"), false, full).expect("begins");
    assert!(
        matches!(writer.finish(), Err(Unfinished::Io(error)) if error.kind() == io::ErrorKind::StorageFull)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Bytes changed, parts zeroed, copied from elsewhere, or cut off.
    #[test]
    fn a_damaged_table_is_never_wrong(
        damage in prop::collection::vec((0u8..4, any::<u64>(), any::<u64>(), 1u64..300, any::<u8>()), 1..20),
        probes in prop::collection::vec(0u32..600, 100),
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let (put, path) = (some(500), dir.path().join("table"));
        let id = put.write(&path);
        let file = File::options().read(true).write(true).open(&path).expect("opens");
        let [opened, _] = both(&path, id);
        let length = file.metadata().expect("reads").len();
        for (what, at, from, count, byte) in damage {
            // The header has a checksum of its own.
            let (at, from) = (4_096 + at % (length - 4_096), from % length);
            let part = |count: u64| vec![0; usize::try_from(count.min(length - at)).expect("small")];
            match what {
                0 => file.write_all_at(&[byte], at).expect("writes"),
                1 => file.write_all_at(&part(count), at).expect("writes"),
                2 => {
                    // A slot in the place of another.
                    let mut slots = part(64 * (count / 64 + 1));
                    file.read_at(&mut slots, from / 64 * 64).expect("reads");
                    let end = usize::try_from(length - at / 64 * 64).expect("small").min(slots.len());
                    file.write_all_at(&slots[..end], at / 64 * 64).expect("writes");
                }
                _ => file.set_len(length - at % 4_096).and_then(|()| file.set_len(length)).expect("truncates"),
            }
        }
        for table in [opened].into_iter().chain(both(&path, id)) {
            for &number in &probes {
                for kind in Kind::ALL {
                    match find(&table, number, kind) {
                        Err(unsure) => prop_assert_eq!(unsure, Unsure::Damaged),
                        found => prop_assert_eq!(found, put.expected(number, kind)),
                    }
                }
            }
        }
    }
}
