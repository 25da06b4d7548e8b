//! The binary: configuration, wiring, commands.

mod archive;
mod cli;
mod client;
mod commands;
mod config;
mod context;
mod control;
mod data_dir;
mod demo;
mod durable;
mod indexer;
mod keeper;
mod keys;
mod log;
mod misuse;
mod output;
mod panics;
mod progress;
mod recording;
mod span;
mod sweeper;
mod unfinished;

use std::process::ExitCode;

/// About 5 % of a request's CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    panics::tell_only_where();
    // Whatever this program writes holds personal data or secrets: for its owner only.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    match commands::run(cli::Cli::read()) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::words(format_args!("contactd: {error:#}"));
            if error.is::<misuse::Misuse>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
