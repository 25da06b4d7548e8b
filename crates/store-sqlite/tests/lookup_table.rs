//! The lookup table against the details: random imports, removals, sweeps, undone imports, erasures and kills, and whatever can be
//! done to its files. Every lookup says what the details say.

#![expect(clippy::expect_used, reason = "test code: a failed expectation is a failed test")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contactd_core::store::{
    Aged, DetailFilter, Details, ImportPlan, ImportSummary, Importing, LocalRead, Maintenance, SweepPlan,
    Verdict,
};
use contactd_core::{ContactValue, Detail, Kind, Label, Profile, Record, Timestamp};
use contactd_store_sqlite::{AnsweredFrom, SqliteStore};
use contactd_testing::Dice;

/// A server, and another process that changes the same details and reads them without a table.
struct Model {
    dir: tempfile::TempDir,
    server: SqliteStore,
    other: SqliteStore,
    /// How much memory the table of the server may take.
    memory: u64,
    dice: Dice,
    /// Most of them have details.
    profiles: u64,
    clock: i64,
    compared: u64,
    /// How many of them a table has answered.
    by_table: u64,
    older: Vec<(PathBuf, Vec<u8>)>,
}

const PROFILES: u64 = 3_000;

/// What happens to a large import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// It has a profile twice.
    Twice,
    /// Somebody opts out before it commits.
    TakenBack,
    /// An erasure takes the unfinished table away.
    Erasure,
    RolledBack,
}

fn profile(number: u64) -> Profile {
    Profile::from_key(&format!("linkedin.com/in/quell-{number}"))
}

impl Model {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        let memory = if seed.is_multiple_of(2) { u64::MAX } else { 0 };
        let (server, other) = (serve(dir.path(), memory), SqliteStore::open(dir.path()).expect("opens"));
        let (compared, by_table, older) = (0, 0, Vec::new());
        Self {
            dir,
            server,
            other,
            memory,
            dice: Dice::new(seed),
            profiles: PROFILES,
            clock: 1_000,
            compared,
            by_table,
            older,
        }
    }

    fn detail(&mut self) -> Detail {
        let dice = &mut self.dice;
        let (kind, value) = match dice.below(2) {
            0 => (Kind::Phone, format!("+141555501{:02}", dice.below(100))),
            _ => {
                let length = if dice.one_in(9) { 200 } else { 9 };
                (Kind::Email, format!("{}{}@example.com", "e".repeat(length), dice.below(100)))
            }
        };
        let source = *dice.pick(&["crm", "hr", "ats"]);
        Detail {
            label: if dice.one_in(4) { Label::Work } else { Label::Personal },
            confidence: u8::try_from(dice.below(100)).expect("small"),
            expires_at: dice
                .one_in(3)
                .then(|| Timestamp::from_seconds(self.clock + i64::try_from(dice.below(40)).expect("small"))),
            ..Detail::new(kind, ContactValue::from_store(value), source)
        }
    }

    async fn import(&mut self, profiles: u64) {
        let mut records = Vec::new();
        for _ in 0..profiles {
            let most = if self.dice.one_in(50) { 20 } else { 4 };
            let details = (0..=self.dice.below(most)).map(|_| self.detail()).collect();
            records.push(Record { profile: profile(self.dice.below(self.profiles)), details });
        }
        records.sort_by_key(|record| self.other.sort_key(&record.profile));
        let replaced = if self.dice.one_in(4) { vec!["hr".to_owned()] } else { Vec::new() };
        let plan = ImportPlan {
            replaced,
            keep_former: true,
            ..ImportPlan::of(records.len() as u64, Timestamp::from_seconds(self.clock))
        };
        let mut import = self.other.begin_import(&plan).await.expect("begins");
        import.put(records).await.expect("puts");
        import.finish().await.expect("finishes");
        if !self.dice.one_in(8) {
            import.commit(&ImportSummary::default(), None).await.expect("commits");
        }
    }

    /// An import into the empty store, large enough to make a table of the rows that it inserts.
    async fn first_import(&mut self, meanwhile: Meanwhile) {
        self.profiles = 21_000;
        // The last two have the same hash.
        let numbers = (0..self.profiles).chain([1_620_615, 8_174_454]);
        let mut records: Vec<Record> = Vec::new();
        for number in numbers {
            let details = (0..=self.dice.below(3)).map(|_| self.detail()).collect();
            records.push(Record { profile: profile(number), details });
        }
        records.sort_by_key(|record| self.other.sort_key(&record.profile));
        if meanwhile == Meanwhile::Twice {
            let again = Record { profile: records[9].profile.clone(), details: vec![self.detail()] };
            records.insert(10, again);
        }
        let plan = ImportPlan::of(records.len() as u64, Timestamp::from_seconds(self.clock));
        let taken_back =
            (records[5].profile.clone(), records[5].details[0].kind, records[5].details[0].value.clone());
        let mut import = self.other.begin_import(&plan).await.expect("begins");
        while !records.is_empty() {
            let rest = records.split_off(records.len().min(1_000));
            import.put(std::mem::replace(&mut records, rest)).await.expect("puts");
            if meanwhile == Meanwhile::Erasure && records.len() < 10_000 {
                self.server.wipe_removed().await.expect("wipes");
            }
        }
        import.finish().await.expect("finishes");
        match meanwhile {
            Meanwhile::TakenBack => import.take_back(&[taken_back]).await.expect("takes back"),
            Meanwhile::RolledBack => return,
            _ => {}
        }
        import.commit(&ImportSummary::default(), None).await.expect("commits");
    }

    async fn change(&mut self) {
        self.clock += i64::try_from(self.dice.below(5)).expect("small");
        match self.dice.below(12) {
            0 | 1 => self.import(400).await,
            2..=4 => {
                let few = 1 + self.dice.below(5);
                self.import(few).await;
            }
            5 | 6 => {
                let of = profile(self.dice.below(self.profiles));
                self.other.remove_details(&of, &DetailFilter::all(), None).await.expect("removes");
            }
            7 => {
                let hr = DetailFilter { source: Some("hr".to_owned()), ..DetailFilter::all() };
                let of = profile(self.dice.below(self.profiles));
                self.other.remove_details(&of, &hr, None).await.expect("removes");
            }
            8 => {
                let now = Timestamp::from_seconds(self.clock);
                let aged = Aged::Source("ats", Duration::from_secs(60));
                let plan = SweepPlan { now, aged, former_before: Timestamp::from_seconds(0) };
                self.other.sweep(plan, None).await.expect("sweeps");
            }
            9 => {
                let imports = self.other.list_imports().await.expect("lists");
                if let Some(last) = imports.iter().rfind(|import| import.undone_at.is_none()) {
                    self.other
                        .undo_import(last.id, Timestamp::from_seconds(self.clock), None)
                        .await
                        .expect("undoes");
                }
            }
            10 => self.other.wipe_removed().await.expect("wipes"),
            _ => {}
        }
        // What an erasure does, in whichever process.
        if self.dice.one_in(10) {
            let gone = profile(self.dice.below(self.profiles));
            self.other.remove_details(&gone, &DetailFilter::all(), None).await.expect("removes");
            self.other.wipe_removed().await.expect("wipes");
        }
        // What a command waits for before it returns.
        self.server.renew_all();
    }

    fn tables(&self) -> Vec<PathBuf> {
        let entries =
            std::fs::read_dir(self.dir.path()).expect("lists").map(|entry| entry.expect("an entry").path());
        entries.filter(|path| path.extension().is_some_and(|end| end == "table")).collect()
    }

    /// Does something to the files of tables, or starts the server again.
    fn meddle(&mut self) {
        let tables = self.tables();
        let Some(path) = tables.first() else { return };
        let what = self.dice.below(8);
        let file = File::options().read(true).write(true).open(path).expect("opens");
        let length = file.metadata().expect("reads").len();
        let at = self.dice.below(length.max(1));
        match what {
            0 => file.write_all_at(&[u8::try_from(at % 256).expect("small")], at).expect("writes"),
            1 => file.set_len(at).expect("truncates"),
            2 => std::fs::remove_file(path).expect("removes"),
            3 => self.older.push((path.clone(), std::fs::read(path).expect("reads"))),
            4 => {
                // A table of an older state, under its own name or under that of the one in use.
                if let Some((from, bytes)) = self.older.last() {
                    let to = if self.dice.one_in(2) { from } else { path };
                    std::fs::write(to, bytes).expect("writes");
                }
            }
            5 => {
                // One of another store.
                let other = tempfile::tempdir().expect("a directory");
                let store = serve(other.path(), 0);
                now(store.tidy()).expect("tidies");
                let entries = std::fs::read_dir(other.path()).expect("lists");
                let mut paths = entries.map(|entry| entry.expect("an entry").path());
                let table =
                    paths.find(|path| path.extension().is_some_and(|end| end == "table")).expect("a table");
                std::fs::copy(table, path).expect("copies");
            }
            _ => self.server = serve(self.dir.path(), self.memory),
        }
        if self.dice.one_in(2) {
            self.server = serve(self.dir.path(), self.memory);
        }
    }

    fn compare(&mut self, lookups: u64) {
        for _ in 0..lookups {
            let of = profile(self.dice.below(self.profiles + 500));
            self.compare_profile(&of);
        }
    }

    fn compare_profile(&mut self, of: &Profile) {
        let status = self.server.table_status();
        let kind = *self.dice.pick(&Kind::ALL);
        let at = Timestamp::from_seconds(self.clock + i64::try_from(self.dice.below(60)).expect("small"));
        // Some values have opted out.
        let out = u32::try_from(self.dice.below(3)).expect("small");
        let asked = |store: &SqliteStore| {
            let judge = |value: &str| {
                let number: u32 = value.bytes().map(u32::from).sum();
                if number % 3 < out { Verdict::Next } else { Verdict::Take }
            };
            let found = store.best_personal(of, kind, at, judge).expect("reads");
            found.map(|value| value.expose().to_owned())
        };
        assert_eq!(asked(&self.server), asked(&self.other), "{} {kind:?} {status:?}", of.key());
        self.compared += 1;
        self.by_table += u64::from(status.from != AnsweredFrom::Store);
    }
}

fn serve(dir: &Path, memory: u64) -> SqliteStore {
    let store = SqliteStore::open(dir).expect("opens").with_lookup_table(memory);
    store.renew_all();
    store
}

/// Runs a future of this engine, which is ready at once.
fn now<T>(ready: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(ready)
}

#[test]
fn a_lookup_by_table_says_what_the_details_say() {
    for seed in 0..2 {
        let mut model = Model::new(seed);
        now(model.import(2_000));
        for step in 0..120 {
            now(model.change());
            model.other.renew_all();
            if model.dice.one_in(3) {
                // A server does this every second.
                now(model.server.tidy()).expect("tidies");
            }
            if model.dice.one_in(6) {
                model.meddle();
            }
            model.compare(100);
            assert!(model.tables().len() <= 1 + model.older.len(), "step {step}: {:?}", model.tables());
        }
        let [compared, by_table] = [model.compared, model.by_table];
        assert!(by_table * 2 > compared, "seed {seed}: of {compared} lookups, a table answered {by_table}");
    }
}

#[test]
fn a_table_made_while_an_empty_store_is_filled_says_what_the_details_say() {
    use Meanwhile::{Erasure, Nothing, RolledBack, TakenBack, Twice};
    for (seed, meanwhile) in (0..).zip([Nothing, Twice, TakenBack, Erasure, RolledBack]) {
        let mut model = Model::new(seed);
        now(model.first_import(meanwhile));
        model.server.renew_all();
        model.other.renew_all();
        let expected = if meanwhile == RolledBack { AnsweredFrom::Store } else { AnsweredFrom::File };
        assert_eq!(model.server.table_status().from, expected, "{meanwhile:?}");
        model.compare(20_000);
        for same_hash in [1_620_615, 8_174_454].repeat(10) {
            model.compare_profile(&profile(same_hash));
        }
        drop(model.server);
        assert_eq!(
            model.dir.path().read_dir().expect("lists").filter(is_table).count(),
            usize::from(meanwhile != RolledBack)
        );
    }
}

#[test]
fn a_large_import_brings_its_table_and_lookups_read_it_from_its_commit_on() {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let (server, other) = (serve(dir.path(), u64::MAX), SqliteStore::open(dir.path()).expect("opens"));
    now(server.tidy()).expect("tidies");
    let before = server.table_status();
    let phone = Detail::new(Kind::Phone, ContactValue::from_store("+14155550101".to_owned()), "crm");
    let mut records: Vec<Record> =
        (0..25_000).map(|n| Record { profile: profile(n), details: vec![phone.clone()] }).collect();
    records.sort_by_key(|record| other.sort_key(&record.profile));
    let plan = ImportPlan::of(25_000, Timestamp::from_seconds(0));
    let mut import = now(other.begin_import(&plan)).expect("begins");
    now(import.put(records)).expect("puts");
    now(import.finish()).expect("finishes");
    assert_eq!(server.table_status(), before);
    now(import.commit(&ImportSummary::default(), None)).expect("commits");
    server.renew_all();
    let after = server.table_status();
    assert_eq!((after.from, after.records, after.changed), (AnsweredFrom::File, 25_000, 0));
    now(server.tidy()).expect("tidies");
    assert_eq!(server.table_status().from, AnsweredFrom::Memory);
    assert_eq!(
        std::fs::read_dir(dir.path()).expect("lists").filter(is_table).count(),
        1,
        "the last one is removed"
    );
}

#[test]
fn what_a_killed_process_left_is_removed_and_what_is_being_written_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = serve(dir.path(), 0);
    let (left, written) = (dir.path().join("lookup-00.table"), dir.path().join("lookup-01.table"));
    std::fs::write(&left, "half of a table").expect("writes");
    let writer = File::create_new(&written).expect("creates");
    writer.lock().expect("locks");
    now(server.tidy()).expect("tidies");
    assert!(!left.exists() && written.exists());
}

fn is_table(entry: &std::io::Result<std::fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "table"))
}
