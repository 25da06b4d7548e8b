//! The binary: configuration, wiring, commands.

mod abandoned_backups;
mod actor;
mod answered_from;
mod approval;
mod archive;
mod backups;
mod cli;
mod client;
mod commands;
mod config;
mod context;
mod control;
mod control_server;
mod data_dir;
mod demo;
mod durable;
mod engine;
#[cfg(test)]
#[path = "../tests/in_process/mod.rs"]
mod in_process;
mod indexer;
mod keys;
mod log;
mod memory;
mod migrating;
mod misuse;
mod node_runtime;
mod on_record;
mod opening;
mod output;
mod progress;
mod recording;
mod refresher;
mod reloading;
mod restoring;
mod server_status;
mod serving;
mod setting;
mod surroundings;
mod sweeper;
mod unfinished;
mod usage_counting;
mod waiting_room;

use std::process::ExitCode;

/// Saves about 5 % of a request's CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    contactd_core::panics::report_only_where(|place| {
        output::words(format_args!("contactd: internal error at {place}; please report it"));
    });
    // With huge pages, the allocator has about 20 MiB more, and nothing here is faster.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    // The files this program writes contain personal data or secrets: only their owner may read them.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    match commands::run(cli::Cli::read()) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            if !log::fatal(&error) {
                output::words(format_args!("contactd: {error:#}"));
            }
            if error.is::<misuse::Misuse>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
