//! The cost of one lookup in the store: `cargo bench -p contactd-store-sqlite`
#![expect(clippy::expect_used, reason = "a benchmark fails by panicking")]

use contactd_core::store::{ImportPlan, ImportSummary, Importing, LocalRead, Verdict};
use contactd_core::{ContactValue, Detail, Kind, Networks, Profile, Record, Timestamp};
use contactd_store_sqlite::SqliteStore;
use divan::Bencher;

const PROFILES: u32 = 200_000;

fn main() {
    divan::main();
}

fn profile(number: u32) -> Profile {
    let url = format!("https://linkedin.com/in/bench-quell-{:08x}", number.wrapping_mul(2_654_435_761));
    Networks::built_in().canonicalize(&url).expect("a profile")
}

fn store() -> &'static (tempfile::TempDir, SqliteStore) {
    static STORE: std::sync::OnceLock<(tempfile::TempDir, SqliteStore)> = std::sync::OnceLock::new();
    STORE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(dir.path()).expect("opens");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut records: Vec<Record> = (0..PROFILES)
            .map(|number| {
                let value = ContactValue::from_store(format!("+1415555{:04}", 100 + number % 100));
                let details = vec![Detail::new(Kind::Phone, value, "bench")];
                Record { profile: profile(number), details }
            })
            .collect();
        records.sort_by_key(|record| store.sort_key(&record.profile));
        let plan = ImportPlan::of(PROFILES.into(), Timestamp::from_seconds(0));
        let mut import = runtime.block_on(store.begin_import(&plan)).expect("begins");
        runtime.block_on(import.put(records)).expect("puts");
        runtime.block_on(import.commit(&ImportSummary::default(), None)).expect("commits");
        (dir, store)
    })
}

fn read(bencher: Bencher<'_, '_>, first: u32, held: bool) {
    let store = &store().1;
    let mut number = 0;
    bencher
        .with_inputs(|| {
            number = (number + 7_919) % PROFILES;
            profile(first + number)
        })
        .bench_local_refs(|profile| {
            if !held {
                store.renew();
            }
            store.best_personal(profile, Kind::Phone, Timestamp::from_seconds(1), |_| Verdict::Take)
        });
}

/// In a snapshot that is kept, as between two ticks of a worker.
#[divan::bench(sample_count = 100, sample_size = 1000)]
fn hit(bencher: Bencher<'_, '_>) {
    read(bencher, 0, true);
}

#[divan::bench(sample_count = 100, sample_size = 1000)]
fn miss(bencher: Bencher<'_, '_>) {
    read(bencher, PROFILES, true);
}

/// With a new snapshot for every lookup.
#[divan::bench(sample_count = 100, sample_size = 1000)]
fn hit_in_a_new_snapshot(bencher: Bencher<'_, '_>) {
    read(bencher, 0, false);
}
