//! Details against the SQLite engine, and what nodes rely on: a changed place has the number of its change in all rows, or a
//! tombstone.

use std::collections::BTreeMap;
use std::time::Duration;

use contactd_core::store::{
    Aged, DetailFilter, Details, Import, ImportPlan, ImportSummary, Importing, PutCounts, Store, StoreError,
    SweepPlan, Undo,
};
use contactd_core::{ContactValue, Detail, Kind, Label, Profile, Record, Timestamp};
use contactd_store_postgres::PostgresStore;
use contactd_store_sqlite::SqliteStore;
use contactd_testing::{Dice, InTempDir};

use crate::fixture::{self, client};

/// The first two have the same hash.
const COLLIDING: [&str; 2] = ["linkedin.com/in/quell-1620615", "linkedin.com/in/quell-8174454"];

const DAY: Duration = Duration::from_secs(86_400);

struct Opened {
    store: PostgresStore,
    url: String,
}

async fn open() -> Opened {
    let (url, store) = fixture::new().await;
    Opened { store, url }
}

impl Opened {
    fn sql(&self, sql: &str) -> String {
        fixture::sql(&self.url, sql)
    }

    /// Every place: its number, and its rows without the number.
    fn places(&self) -> BTreeMap<i64, (i64, String)> {
        let places = self.sql(
            "SELECT id >> 16 << 16, min(number), max(number), md5(string_agg(concat_ws('|', id, observed_at, expires_at, import,
                 said_by, source, label, confidence, profile, value, basis), ';' ORDER BY id))
             FROM contactd.details GROUP BY 1 ORDER BY 1",
        );
        let place = |line: &str| {
            let columns: Vec<&str> = line.split('|').collect();
            assert_eq!(columns[1], columns[2], "a place has two numbers");
            let number = columns[1].parse().expect("a number");
            (columns[0].parse().expect("a place"), (number, columns[3].to_owned()))
        };
        places.lines().map(place).collect()
    }

    fn tombstones(&self) -> BTreeMap<i64, i64> {
        let list = self.sql("SELECT place, number FROM contactd.tombstones");
        let tombstone = |line: &str| {
            let (place, number) = line.split_once('|').expect("two columns");
            (place.parse().expect("a place"), number.parse().expect("a number"))
        };
        list.lines().map(tombstone).collect()
    }

    /// How many rows every table has, and the numbers of changes.
    fn counted(&self) -> String {
        let tables = self.sql(
            "SELECT relname, (xpath('/row/n/text()', query_to_xml('SELECT count(*) AS n FROM contactd.' || relname,
                 FALSE, TRUE, '')))[1] FROM pg_class
             WHERE relnamespace = 'contactd'::regnamespace AND relkind = 'r' ORDER BY relname",
        );
        let counters = self.sql("SELECT counter, number FROM contactd.counters ORDER BY counter");
        format!("{tables}\n{counters}")
    }

    fn number(&self) -> i64 {
        self.sql("SELECT number FROM contactd.counters WHERE counter = 'details'").parse().expect("a number")
    }
}

/// Checks that a node with everything up to `number` would notice everything that is different since.
/// Returns how many tombstones there are.
fn check_noticed(opened: &Opened, before: &BTreeMap<i64, (i64, String)>, number: i64) -> usize {
    let (now, tombstones) = (opened.places(), opened.tombstones());
    for (place, (_, rows)) in before {
        match now.get(place) {
            None => assert!(tombstones.get(place).is_some_and(|at| *at > number), "no tombstone"),
            Some((at, rows_now)) => assert!(rows == rows_now || *at > number, "an old number"),
        }
    }
    let new = now.iter().filter(|(place, _)| !before.contains_key(place));
    assert!(new.into_iter().all(|(_, (at, _))| *at > number), "a new place with an old number");
    assert!(tombstones.keys().all(|place| !now.contains_key(place)), "a tombstone where something is held");
    tombstones.len()
}

/// Some detail.
fn some_detail(dice: &mut Dice) -> Detail {
    let source = ["crm", "hr", "ats"][dice.index(3)];
    let (kind, value) = match dice.below(3) {
        0 => (Kind::Phone, format!("+1415555010{}", dice.below(4))),
        1 => (Kind::Email, format!("quell-{}@example.com", dice.below(3))),
        _ => (Kind::Email, format!("Quell-{}@example.com", dice.below(3))),
    };
    let mut detail = Detail::new(kind, ContactValue::from_store(value), source);
    detail.confidence = u8::try_from(dice.below(3)).expect("small") * 10;
    detail.label = if dice.below(4) == 0 { Label::Work } else { Label::Personal };
    detail.observed_at = (dice.below(2) == 0).then(|| day(dice.below(60)));
    detail.expires_at = (dice.below(5) == 0).then(|| day(40 + dice.below(60)));
    detail.basis = (dice.below(3) == 0).then(|| "consent".to_owned());
    detail
}

/// Some details of some of these profiles.
fn some_records(dice: &mut Dice, store: &PostgresStore, profiles: &[Profile]) -> Vec<Record> {
    let mut records = Vec::new();
    for profile in profiles {
        // The details of a profile come together.
        if dice.below(3) > 0 {
            let details = (0..=dice.below(6)).map(|_| some_detail(dice)).collect();
            records.push(Record { profile: profile.clone(), details });
        }
    }
    records.sort_by_key(|record| store.sort_key(&record.profile));
    records
}

fn day(days: u64) -> Timestamp {
    Timestamp::from_seconds(1_780_000_000).plus(DAY * u32::try_from(days).expect("small"))
}

fn profiles() -> Vec<Profile> {
    let others = (0..12).map(|number| format!("linkedin.com/in/vesper-{number}"));
    COLLIDING.into_iter().map(str::to_owned).chain(others).map(|key| Profile::from_key(&key)).collect()
}

async fn import(store: &dyn Store, plan: &ImportPlan, records: &[Record], back: &[Record]) -> PutCounts {
    let mut import = store.begin_import(plan).await.expect("begins");
    for batch in records.chunks(3) {
        import.put(batch.to_vec()).await.expect("puts");
    }
    import.finish().await.expect("finishes");
    let values = back.iter().flat_map(|record| {
        record.details.iter().map(|detail| (record.profile.clone(), detail.kind, detail.value.clone()))
    });
    import.take_back(&values.collect::<Vec<_>>()).await.expect("takes back");
    let counts = import.counts();
    let summary = ImportSummary { counts, ..ImportSummary::default() };
    import.commit(&summary, None).await.expect("commits");
    counts
}

/// Everything about the profiles that a caller can see.
async fn seen(store: &dyn Store) -> Vec<String> {
    let mut seen = Vec::new();
    let mut visit = |profile: &Profile, details: Vec<Detail>| {
        for detail in details {
            let value = detail.value.expose().to_owned();
            seen.push(format!("{} {value} {detail:?}", profile.key()));
        }
        true
    };
    store.visit_all(&mut visit).await.expect("visits");
    for profile in profiles() {
        let mut former: Vec<String> = store
            .list_former(&profile)
            .await
            .expect("lists")
            .iter()
            .map(|former| format!("{} {:?} {}", former.import, former.detail, former.detail.value.expose()))
            .collect();
        former.sort();
        seen.extend(former);
    }
    let totals = store.totals().await.expect("counts");
    let mut counted: Vec<String> = totals.details.iter().map(|total| format!("{total:?}")).collect();
    counted.sort();
    seen.extend(counted);
    seen.push(format!("{} profiles", totals.profiles));
    seen.push(format!("{:?}", store.list_retention(day(50)).await.expect("lists")));
    seen
}

#[tokio::test]
async fn it_does_the_same_as_the_sqlite_engine_and_nodes_notice_every_change() {
    let opened = open().await;
    let (store, files) = (&opened.store, InTempDir::open(SqliteStore::open));
    let mut dice = Dice::new(14);
    let profiles = profiles();
    // Among equals, details are in the order in which their sources were first imported.
    let all = ["ats", "crm", "hr"].map(str::to_owned).to_vec();
    let mut most_tombstones = 0;
    for step in 0..80 {
        let (before, number) = (opened.places(), opened.number());
        let now = day(step / 4);
        match dice.below(10) {
            0..5 => {
                let replaced = match dice.below(3) {
                    0 => vec![all[dice.index(3)].clone()],
                    _ => Vec::new(),
                };
                let given = dice.index(14);
                let from = dice.index(profiles.len());
                let some = &profiles[from..profiles.len().min(from + given)];
                let records = some_records(&mut dice, store, some);
                let plan = ImportPlan {
                    replaced,
                    max_age: Some((all.clone(), DAY * 55)),
                    ..ImportPlan::of(if dice.below(2) == 0 { 0 } else { records.len() as u64 }, now)
                };
                let back = if dice.below(4) == 0 { &records[..records.len() / 3] } else { &[] };
                let counts = import(store, &plan, &records, back).await;
                assert_eq!(counts, import(&*files, &plan, &records, back).await, "step {step}");
            }
            5 | 6 => {
                let profile = &profiles[dice.index(profiles.len())];
                let source = (dice.below(2) == 0).then(|| all[dice.index(3)].clone());
                let which = DetailFilter { source, ..DetailFilter::all() };
                let removed = store.remove_details(profile, &which, None).await.expect("removes");
                let expected = files.remove_details(profile, &which, None).await.expect("removes");
                assert_eq!(removed, expected, "step {step}");
            }
            7 => {
                let plan =
                    SweepPlan { now: day(dice.below(60)), aged: Aged::Policies, former_before: day(0) };
                let swept = store.sweep(plan, None).await.expect("sweeps");
                assert_eq!(swept, files.sweep(plan, None).await.expect("sweeps"), "step {step}");
            }
            _ => {
                let imports = store.list_imports().await.expect("lists");
                let Some(id) = imports.iter().rev().map(|import| import.id).nth(dice.index(2)) else {
                    continue;
                };
                let undone: Undo = store.undo_import(id, now, None).await.expect("undoes");
                assert_eq!(undone, files.undo_import(id, now, None).await.expect("undoes"), "step {step}");
            }
        }
        assert_eq!(seen(store).await, seen(&*files).await, "step {step}");
        most_tombstones = most_tombstones.max(check_noticed(&opened, &before, number));
    }
    assert!(most_tombstones > 0, "no step emptied a place");
}

/// Begins an import. The server notices the end of the last one in its own time.
async fn begin<'a>(store: &'a PostgresStore, plan: &ImportPlan) -> Box<dyn Import + 'a> {
    loop {
        match store.begin_import(plan).await {
            Err(StoreError::Busy) => {}
            begun => return begun.expect("begins"),
        }
    }
}

/// Begins an import, and gives it up after this many steps.
async fn give_up_after(steps: u32, store: &PostgresStore, plan: &ImportPlan, records: &[Record]) {
    let mut import = begin(store, plan).await;
    if steps > 0 {
        import.put(records.to_vec()).await.expect("puts");
    }
    if steps > 1 {
        import.finish().await.expect("finishes");
    }
    if steps > 2 {
        let first = |Record { profile, details }: &Record| {
            (profile.clone(), details[0].kind, details[0].value.clone())
        };
        import.take_back(&records.iter().map(first).collect::<Vec<_>>()).await.expect("takes back");
    }
}

#[tokio::test]
async fn an_import_that_ends_at_any_point_leaves_nothing() {
    let opened = open().await;
    let mut dice = Dice::new(7);
    let records = some_records(&mut dice, &opened.store, &profiles());
    let first = ImportPlan::of(records.len() as u64, day(1));
    import(&opened.store, &first, &records, &[]).await;
    let (places, seen_before) = (opened.places(), seen(&opened.store).await);
    let plan = ImportPlan { replaced: vec!["crm".to_owned()], ..ImportPlan::of(9, day(2)) };
    let others = some_records(&mut dice, &opened.store, &profiles());
    for end in 0..4 {
        give_up_after(end, &opened.store, &plan, &others).await;
        assert_eq!(opened.places(), places);
        assert_eq!(seen(&opened.store).await, seen_before);
    }
}

#[tokio::test]
async fn a_trial_counts_like_an_import_and_writes_nothing() {
    let opened = open().await;
    let mut dice = Dice::new(3);
    import(
        &opened.store,
        &ImportPlan::of(9, day(1)),
        &some_records(&mut dice, &opened.store, &profiles()),
        &[],
    )
    .await;
    let records = some_records(&mut dice, &opened.store, &profiles());
    let plan = ImportPlan { replaced: vec!["crm".to_owned()], ..ImportPlan::of(9, day(2)) };
    let before = (opened.places(), opened.tombstones(), seen(&opened.store).await, opened.counted());
    let mut trial =
        opened.store.begin_import(&ImportPlan { is_trial: true, ..plan.clone() }).await.expect("begins");
    trial.put(records.clone()).await.expect("puts");
    trial.finish().await.expect("finishes");
    let counts = trial.counts();
    assert!(counts.changed + counts.withdrawn > 0, "it would change something");
    drop(trial);
    let after = (opened.places(), opened.tombstones(), seen(&opened.store).await, opened.counted());
    assert_eq!(after, before);
    let mut real = begin(&opened.store, &plan).await;
    real.put(records).await.expect("puts");
    real.finish().await.expect("finishes");
    assert_eq!(counts, real.counts());
}

#[tokio::test]
async fn an_import_waits_for_a_row_longer_than_for_another_import() {
    let opened = open().await;
    let profile = Profile::from_key(COLLIDING[0]);
    let records = [Record { profile: profile.clone(), details: vec![some_detail(&mut Dice::new(5))] }];
    import(&opened.store, &ImportPlan::of(1, day(1)), &records, &[]).await;
    let removed = opened.store.remove_details(&profile, &DetailFilter::all(), None).await.expect("removes");
    assert_eq!((removed, opened.tombstones().len()), (1, 1));
    let other = client(&opened.url).await;
    other.batch_execute("BEGIN; SELECT 1 FROM contactd.tombstones FOR UPDATE").await.expect("locks");
    let release = async {
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND waitstart < clock_timestamp() - interval '1 s'
            AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())";
        while other.query_one(waits, &[]).await.expect("reads").get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        other.batch_execute("COMMIT").await.expect("unlocks");
    };
    let plan = ImportPlan::of(1, day(2));
    tokio::join!(import(&opened.store, &plan, &records, &[]), release);
    assert_eq!((opened.places().len(), opened.tombstones().len()), (1, 0));
}

#[tokio::test]
async fn one_process_at_a_time_sweeps() {
    let opened = open().await;
    let mut detail = some_detail(&mut Dice::new(5));
    detail.expires_at = Some(day(3));
    let records = [Record { profile: Profile::from_key(COLLIDING[0]), details: vec![detail] }];
    import(&opened.store, &ImportPlan::of(1, day(1)), &records, &[]).await;
    let other = client(&opened.url).await;
    let sweep = async || {
        let plan = SweepPlan { now: day(4), aged: Aged::Policies, former_before: day(0) };
        opened.store.sweep(plan, None).await.expect("sweeps").expired
    };
    other
        .batch_execute("SELECT pg_advisory_lock(x'636f6e7461637401'::bigint)")
        .await
        .expect("sweeps in another process");
    let number = opened.number();
    assert_eq!((sweep().await, opened.number()), (0, number));
    other.batch_execute("SELECT pg_advisory_unlock_all()").await.expect("ends");
    assert_eq!((sweep().await, opened.number()), (1, number + 1));
    assert_eq!((sweep().await, opened.number()), (0, number + 1));
    assert_eq!(
        opened.sql(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database =
        (SELECT oid FROM pg_database WHERE datname = current_database())"
        ),
        "0"
    );
}

#[tokio::test]
async fn an_undo_that_is_not_possible_is_no_change() {
    let opened = open().await;
    let records = some_records(&mut Dice::new(9), &opened.store, &profiles());
    import(&opened.store, &ImportPlan::of(9, day(1)), &records, &[]).await;
    assert!(matches!(opened.store.undo_import(1, day(1), None).await.expect("undoes"), Undo::Done(_)));
    let number = opened.number();
    for (id, expected) in [(1, Undo::Already), (2, Undo::Unknown)] {
        assert_eq!(opened.store.undo_import(id, day(1), None).await.expect("answers"), expected);
    }
    assert_eq!(opened.number(), number);
}

/// A plan that says that many records will come.
fn large() -> ImportPlan {
    let sources = ["ats", "crm", "hr"].map(str::to_owned).to_vec();
    ImportPlan { max_age: Some((sources, DAY * 55)), ..ImportPlan::of(1_000_000, day(1)) }
}

impl Opened {
    /// The table of details, and everything that is known about it.
    fn table(&self) -> (String, String) {
        let described = "SELECT relowner, relacl, reloptions, relreplident, relhasindex,
                (SELECT string_agg(concat_ws(' ', attname, atttypid::regtype, attnotnull, attcollation, attstorage), ',' ORDER BY attnum)
                    FROM pg_attribute WHERE attrelid = pg_class.oid AND attnum > 0),
                (SELECT string_agg(concat_ws(' ', indexrelid::regclass, indisprimary, indisunique, indisvalid, pg_get_indexdef(indexrelid)), ','
                    ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = pg_class.oid),
                (SELECT string_agg(conname || ' ' || pg_get_constraintdef(oid), ',' ORDER BY conname)
                    FROM pg_constraint WHERE conrelid = pg_class.oid)
            FROM pg_class WHERE oid = 'contactd.details'::regclass";
        (self.sql("SELECT 'contactd.details'::regclass::oid"), self.sql(described))
    }
}

#[tokio::test]
async fn a_large_import_fills_an_empty_table_while_others_read_it_and_the_table_is_as_before() {
    let opened = open().await;
    let reader = fixture::open(&opened.url).await;
    let (store, files) = (&opened.store, InTempDir::open(SqliteStore::open));
    let (table, description) = opened.table();
    let nothing = seen(&reader).await;
    let records = some_records(&mut Dice::new(21), store, &profiles());
    let values: Vec<_> = records[..2]
        .iter()
        .flat_map(|record| record.details.iter().map(|d| (record.profile.clone(), d.kind, d.value.clone())))
        .collect();
    let mut filling = store.begin_import(&large()).await.expect("begins");
    for batch in records.chunks(3) {
        filling.put(batch.to_vec()).await.expect("puts");
        assert_eq!(seen(&reader).await, nothing);
    }
    filling.finish().await.expect("finishes");
    assert_eq!(seen(&reader).await, nothing);
    filling.take_back(&values).await.expect("takes back");
    let counts = filling.counts();
    let summary = ImportSummary { counts, ..ImportSummary::default() };
    filling.commit(&summary, None).await.expect("commits");
    assert_eq!(counts, import(&*files, &large(), &records, &records[..2]).await);
    assert_eq!(seen(&reader).await, seen(&*files).await);
    check_noticed(&opened, &BTreeMap::new(), 0);
    let (filled, description_now) = opened.table();
    assert_ne!(filled, table, "it was not filled without indexes");
    assert_eq!(description_now, description);
    let more = some_records(&mut Dice::new(22), store, &profiles());
    assert_eq!(import(&reader, &large(), &more, &[]).await, import(&*files, &large(), &more, &[]).await);
    assert_eq!(seen(store).await, seen(&*files).await);
    assert_eq!(opened.table().0, filled, "a table with rows is never replaced");
}

#[tokio::test]
async fn a_large_import_into_an_empty_table_that_ends_at_any_point_leaves_nothing() {
    let opened = open().await;
    let records = some_records(&mut Dice::new(23), &opened.store, &profiles());
    let (before, counted) = (opened.table(), opened.counted());
    for end in 0..4 {
        give_up_after(end, &opened.store, &large(), &records).await;
        assert_eq!(opened.counted(), counted);
        assert_eq!(opened.table(), before);
    }
    import(&opened.store, &large(), &records, &[]).await;
    assert_ne!(opened.table().0, before.0);
}

#[tokio::test]
async fn a_large_import_does_not_fail_if_somebody_reads_the_empty_table_all_the_time() {
    let opened = open().await;
    let (records, files) =
        (some_records(&mut Dice::new(24), &opened.store, &profiles()), InTempDir::open(SqliteStore::open));
    let before = opened.table();
    let other = client(&opened.url).await;
    other.batch_execute("BEGIN; SELECT 1 FROM contactd.details").await.expect("reads");
    import(&opened.store, &large(), &records, &[]).await;
    import(&*files, &large(), &records, &[]).await;
    assert_eq!(seen(&opened.store).await, seen(&*files).await);
    assert_eq!(opened.table(), before);
    assert_eq!(opened.sql("SELECT to_regclass('contactd.details_loading') IS NULL"), "t");
}

#[tokio::test]
async fn a_large_import_keeps_what_the_owner_of_the_database_added_to_the_table() {
    for added in [
        "GRANT SELECT ON contactd.details TO PUBLIC",
        "ALTER TABLE contactd.details SET (autovacuum_vacuum_scale_factor = 0.01)",
        "CREATE INDEX ON contactd.details (source)",
        "CREATE VIEW contactd.numbers AS SELECT number FROM contactd.details",
        "CREATE STATISTICS contactd.kinds ON kind, label FROM contactd.details",
        "CREATE PUBLICATION elsewhere FOR TABLE contactd.details",
        "COMMENT ON TABLE contactd.details IS 'personal data'",
    ] {
        let opened = open().await;
        opened.sql(added);
        let before = opened.table();
        let records = some_records(&mut Dice::new(25), &opened.store, &profiles());
        import(&opened.store, &large(), &records, &[]).await;
        assert_eq!(opened.table(), before, "{added}");
        assert!(!opened.places().is_empty());
    }
}
