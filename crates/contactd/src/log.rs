//! Logging: for humans on a terminal, JSON otherwise, unless configured; always to stderr.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;

use crate::config::LogConfig;
use crate::setting::{LogFormat, LogLevel};

/// Sets up logging for the rest of the process.
pub(crate) fn start(config: &LogConfig) {
    let level = match config.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let is_terminal = std::io::stderr().is_terminal();
    let human = match config.format {
        LogFormat::Auto => is_terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    if human {
        builder.with_ansi(is_terminal).with_target(false).init();
    } else {
        builder.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
    }
}
