//! `contactd backup`

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use crate::backups::BackupTarget;
use crate::cli::BackupArgs;
use crate::config::Config;
use crate::context::Context;
use crate::misuse::Misuse;
use crate::output;
use crate::progress::Working;

pub(crate) async fn run(config: Config, args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let is_stream = args.file == Path::new("-");
    if is_stream && args.json {
        return Err(
            Misuse("the backup goes to standard output, so --json cannot: leave it out".to_owned()).into()
        );
    }
    if is_stream && io::stdout().is_terminal() {
        let how = "a backup is not text: send it to a file or a command, such as `contactd backup - > FILE`";
        return Err(Misuse(how.to_owned()).into());
    }
    let context = Context::open(config).await?;
    context.require_node()?;
    let mut stdout = io::stdout();
    let target = if is_stream { BackupTarget::Stream(&mut stdout) } else { BackupTarget::File(&args.file) };
    let working = Working::start("copying the databases");
    let make = async |at| context.make_backup(target, at, &|step| working.show(step)).await;
    let made = context.services.health.backup(&context.actor, make).await;
    drop(working);
    let made = made?;
    if args.json {
        output::json(&made)?;
    }
    let bytes = made.bytes;
    match &made.file {
        Some(file) => output::changed(
            &context.place,
            format_args!(
                "{} contains everything and was verified by reading it back: {bytes} bytes",
                file.display()
            ),
        ),
        None => output::changed(
            &context.place,
            format_args!(
                "everything was written to standard output: {bytes} bytes; unlike a file, it was not read back"
            ),
        ),
    }
    if context.database.is_some() {
        output::words(format_args!(
            "this is the backup of a node: its journal, its keys and its copy. Back up the database with its own tools"
        ));
    }
    if made.lacks_keys {
        output::words(format_args!(
            "the backup does not contain the keys that are outside the data directory: keep a copy of them too"
        ));
    }
    if let Some(error) = &made.not_noted {
        output::words(format_args!(
            "contactd: the backup is complete, but the store did not note when, so the metrics show an older one: {error}"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
