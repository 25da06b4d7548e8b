//! `contactd config example`, `contactd config check`

use std::process::ExitCode;

use crate::cli::{ConfigCommand, Everywhere, ServeArgs};
use crate::config::{self, Config, EXAMPLE};
use crate::output;

pub(crate) fn run(command: &ConfigCommand, everywhere: &Everywhere) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Example => output::data(format_args!("{}", EXAMPLE.trim_end()))?,
        ConfigCommand::Check => {
            let file = config::file_of(everywhere);
            Config::resolve(everywhere)?.serve(&ServeArgs::default())?;
            match file {
                Some(file) => output::words(format_args!("{} has no errors", file.display())),
                None => output::words(format_args!("there is no configuration file; the defaults are used")),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
