//! The commands, one file each.

mod canonicalize;
mod completions;
mod config;
mod doctor;
pub(crate) mod import;
mod lookup;
mod put;
mod remove;
mod serve;
mod stats;
mod suppress;
mod token;

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::config::Config;
use crate::context::Context;

/// Does what the command line says.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let everywhere = &cli.everywhere;
    match cli.command {
        Command::Completions { shell } => return completions::run(shell),
        Command::Config(command) => return config::run(&command, everywhere),
        Command::Lookup(args) => return lookup::run(&args),
        Command::Doctor(args) => return doctor::run(everywhere, args.json),
        _ => {}
    }
    let config = Config::resolve(everywhere)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.command {
            Command::Serve(args) => serve::run(config, &args).await,
            Command::Canonicalize(args) => canonicalize::run(&config.networks, &args),
            Command::Token(command) => token::run(&Context::open(config)?, command).await,
            Command::Import(args) => import::run(&Context::open(config)?, &args).await,
            Command::Put(args) => put::run(&Context::open(config)?, &args).await,
            Command::Remove(args) => remove::run(&Context::open(config)?, &args).await,
            Command::Suppress(args) => suppress::run(&Context::open(config)?, &args, suppress::Way::In).await,
            Command::Unsuppress(args) => {
                suppress::run(&Context::open(config)?, &args, suppress::Way::Back).await
            }
            Command::Stats(args) => stats::run(&Context::open(config)?, args.json).await,
            Command::Completions { .. } | Command::Config(_) | Command::Lookup(_) | Command::Doctor(_) => {
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}
