//! `contactd backup`

use std::process::ExitCode;

use crate::cli::BackupArgs;
use crate::config::Config;
use crate::context::Context;
use crate::output;

pub(crate) async fn run(config: Config, args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let context = Context::open(config).await?;
    let made = context.services.health.backup(&context.actor, &args.file).await?;
    if args.json {
        output::json(&made)?;
    }
    let (file, bytes) = (made.file.display(), made.bytes);
    output::changed(
        &context.dir,
        format_args!("{file} contains everything and was verified by reading it back: {bytes} bytes"),
    );
    if made.lacks_keys {
        output::words(format_args!(
            "the backup does not contain the keys that are outside the data directory: keep a copy of them too"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
