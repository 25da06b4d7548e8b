//! `contactd config example`, `contactd config check`

use std::process::ExitCode;

use crate::cli::{ConfigCommand, Everywhere};
use crate::config::{self, ConfigError, EXAMPLE, Origins};
use crate::output;

pub(crate) fn run(command: &ConfigCommand, everywhere: &Everywhere) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Example => output::data(format_args!("{}", EXAMPLE.trim_end()))?,
        ConfigCommand::Check(args) => {
            let (errors, origins) = config::errors(everywhere);
            if args.json {
                output::json(&errors)?;
            } else if !errors.is_empty() {
                show_errors(&errors);
            } else {
                show_origins(everywhere, &origins);
            }
            if !errors.is_empty() {
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show_errors(errors: &[ConfigError]) {
    for error in errors {
        output::words(format_args!("contactd: {error}"));
    }
    output::words(format_args!("{}", output::counted(errors.len() as u64, "error")));
}

fn show_origins(everywhere: &Everywhere, origins: &Origins) {
    match config::file_of(everywhere) {
        Some(file) => output::words(format_args!("{} has no errors", file.display())),
        None => output::words(format_args!("there is no configuration file")),
    }
    let Origins { flags, environment, file } = origins;
    for (what, names) in [("flags", flags), ("the environment", environment), ("the file", file)] {
        if !names.is_empty() {
            output::words(format_args!("from {what}: {}", names.join(", ")));
        }
    }
    output::words(format_args!("everything else has its default"));
}
