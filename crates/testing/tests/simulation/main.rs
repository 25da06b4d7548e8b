//! Many short lives of a service in which the store, the journal, the clock and the clients fail, each life from a seed. A model
//! beside it checks what the product promises.
//!
//! `CONTACTD_SIM_RUNS=10000 cargo test --release -p contactd-testing --test simulation` tries more of them. A failing run prints its
//! seed; with `CONTACTD_SIM_SEED=…` it is repeated.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how to repeat it"
)]

mod actions;
mod faulty;
mod model;
mod surroundings;
mod world;

use crate::world::World;

/// So many that a debug build takes seconds.
const RUNS: u64 = 300;
const STEPS: u32 = 80;

/// Prints the seed of a run that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("this run failed; repeat it with CONTACTD_SIM_SEED={}", self.0);
        }
    }
}

fn run(seed: u64) -> u64 {
    let _told = Seed(seed);
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.step();
    }
    world.end()
}

#[expect(clippy::disallowed_methods, reason = "a test that is repeated is told so by the environment")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|number| number.parse().expect("a number"))
}

#[test]
fn every_promise_holds_whatever_store_journal_clock_and_clients_do() {
    if let Some(seed) = number("CONTACTD_SIM_SEED") {
        run(seed);
        return;
    }
    let runs = number("CONTACTD_SIM_RUNS").unwrap_or(RUNS);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let hits: u64 = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads as u64)
            .map(|thread| scope.spawn(move || (thread..runs).step_by(threads).map(run).sum::<u64>()))
            .collect();
        running.into_iter().map(|thread| thread.join().expect("no run fails")).sum()
    });
    assert!(hits > runs / 2, "many runs disclose something: {hits}");
}

#[test]
fn a_hit_counts_also_if_it_is_being_stored_while_its_quota_gets_another_period() {
    for seed in 0..RUNS {
        let _told = Seed(seed);
        assert_eq!(World::new(seed).change_a_period(), 1);
    }
}
