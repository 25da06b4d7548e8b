//! The commands, one file each.

mod admin_token;
mod audit;
mod backup;
mod canonicalize;
mod completions;
mod config;
mod doctor;
mod enrich;
mod erase;
mod export;
mod import;
mod imports;
mod lookup;
mod mcp;
mod migrate;
mod node;
mod put;
mod remove;
mod restore;
mod retention;
mod serve;
mod stats;
mod subject;
mod suppress;
mod sweep;
mod token;
mod usage;
mod user;

use std::process::ExitCode;

use crate::cli::{Cli, Command, TokenCommand, UserCommand};
use crate::config::Config;
use crate::context::Context;

/// Runs the command of the command line.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let everywhere = &cli.everywhere;
    let config = || Config::resolve(everywhere);
    let open = async || Context::open(config()?).await;
    let open_or_make = async || Context::open_or_make(config()?).await;
    let open_cluster = async || Context::open_cluster(config()?).await;
    // Several threads, so that a store that blocks holds up nothing else.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let done = runtime.block_on(async {
        match cli.command {
            Command::Completions { shell } => completions::run(shell),
            Command::Config(command) => config::run(&command, everywhere),
            Command::Lookup(args) => lookup::run(&args),
            Command::Mcp(args) => mcp::run(&args),
            Command::Enrich(args) => enrich::run(&args),
            Command::Doctor(args) => doctor::run(everywhere, args.json).await,
            Command::Serve(args) => serve::run(everywhere, &args).await,
            Command::Canonicalize(args) => canonicalize::run(&config()?.networks, &args),
            Command::Token(TokenCommand::Create(args)) => {
                let new = token::asked(&args)?;
                token::create(&open_or_make().await?, new, args.json).await
            }
            Command::Token(command) => token::run(&open().await?, command).await,
            Command::User(command @ UserCommand::Create(_)) => {
                user::run(&open_or_make().await?, command).await
            }
            Command::User(command) => user::run(&open().await?, command).await,
            Command::AdminToken(command) => admin_token::run(&open().await?, command).await,
            Command::Import(args) => import::run(&open_or_make().await?, &args).await,
            Command::Export(args) => export::run(&open().await?, &args).await,
            Command::Imports(args) => imports::run(&open().await?, &args).await,
            Command::Backup(args) => backup::run(config()?, &args).await,
            Command::Restore(args) => restore::run(config()?, &args).await,
            Command::Put(args) => put::run(&open_or_make().await?, &args).await,
            Command::Remove(args) => remove::run(&open().await?, &args).await,
            Command::Suppress(args) => suppress::suppress(&open().await?, &args).await,
            Command::Unsuppress(args) => suppress::unsuppress(&open().await?, &args).await,
            Command::Subject(args) => subject::run(&open().await?, &args).await,
            Command::Erase(args) => erase::run(&open().await?, &args).await,
            Command::Audit(command) => audit::run(config()?, &command).await,
            Command::Usage(args) => usage::run(&open().await?, &args).await,
            Command::Retention(args) => retention::run(config()?, args.json).await,
            Command::Sweep(args) => sweep::run(&open().await?, &args).await,
            Command::Migrate(args) => migrate::run(config()?, &args).await,
            Command::Node(command) => node::run(&open_cluster().await?, &command).await,
            Command::Stats(args) => stats::run(&open().await?, args.json).await,
        }
    });
    // Threads that are cut off at the end of a server may still wait for it.
    std::mem::forget(runtime);
    done
}
