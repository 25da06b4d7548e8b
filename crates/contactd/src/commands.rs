//! The commands, one file each.

pub(crate) mod audit;
mod backup;
mod canonicalize;
mod completions;
mod config;
mod doctor;
mod enrich;
mod erase;
mod export;
pub(crate) mod import;
mod imports;
mod lookup;
mod put;
mod remove;
mod restore;
mod serve;
mod stats;
mod subject;
mod suppress;
mod sweep;
mod token;
mod usage;

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::config::Config;
use crate::context::Context;

/// Does what the command line says.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let everywhere = &cli.everywhere;
    let config = || Config::resolve(everywhere);
    let open = || Context::open(config()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.command {
            Command::Completions { shell } => completions::run(shell),
            Command::Config(command) => config::run(&command, everywhere),
            Command::Lookup(args) => lookup::run(&args),
            Command::Enrich(args) => enrich::run(&args),
            Command::Doctor(args) => doctor::run(everywhere, args.json).await,
            Command::Serve(args) => serve::run(config()?, &args).await,
            Command::Canonicalize(args) => canonicalize::run(&config()?.networks, &args),
            Command::Token(command) => token::run(&open()?, command).await,
            Command::Import(args) => import::run(&open()?, &args).await,
            Command::Export(args) => export::run(&open()?, &args).await,
            Command::Imports(args) => imports::run(&open()?, &args).await,
            Command::Backup(args) => backup::run(config()?, &args),
            Command::Restore(args) => restore::run(&config()?, &args),
            Command::Put(args) => put::run(&open()?, &args).await,
            Command::Remove(args) => remove::run(&open()?, &args).await,
            Command::Suppress(args) => suppress::run(&open()?, &args, suppress::Way::In).await,
            Command::Unsuppress(args) => suppress::run(&open()?, &args, suppress::Way::Back).await,
            Command::Subject(args) => subject::run(&open()?, &args).await,
            Command::Erase(args) => erase::run(&open()?, &args).await,
            Command::Audit(command) => audit::run(&open()?, &command).await,
            Command::Usage(args) => usage::run(&open()?, &args).await,
            Command::Sweep(args) => sweep::run(&open()?, &args).await,
            Command::Stats(args) => stats::run(&open()?, args.json).await,
        }
    })
}
