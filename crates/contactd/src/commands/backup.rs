//! `contactd backup`

use std::process::ExitCode;

use anyhow::bail;

use crate::cli::BackupArgs;
use crate::config::Config;
use crate::context::Context;
use crate::output;

pub(crate) async fn run(config: Config, args: &BackupArgs) -> anyhow::Result<ExitCode> {
    if !config.data.join("contactd.db").is_file() {
        bail!("there is no store in {}; name its directory with --data", config.data.display());
    }
    let context = Context::open(config).await?;
    let made = context.services.health.backup(&context.actor, &args.file).await?;
    if args.json {
        output::json(&made)?;
    }
    let (file, bytes) = (made.file.display(), made.bytes);
    output::words(format_args!("{file} holds everything and was read back: {bytes} bytes"));
    if made.lacks_keys {
        output::words(format_args!(
            "except the keys that are not in the data directory: keep a copy of them too"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
