//! The log of a server: for humans on a terminal, JSON otherwise, unless configured; to stderr or to a file.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use parking_lot::RwLock;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::LogConfig;
use crate::output;
use crate::setting::{LogFormat, LogLevel};

/// What has this target is logged at every level: where the server listens, what a reload did, why it ended.
pub(crate) const ALWAYS: &str = "contactd::server";

/// The log of this process. Commands other than `serve` have none.
static LOG: OnceLock<Log> = OnceLock::new();

struct Log {
    is_human: bool,
    level: reload::Handle<Targets, Registry>,
    output: Arc<Output>,
}

/// Where lines go.
struct Output {
    /// Stderr if `None`.
    file: RwLock<Option<File>>,
    /// Whether lines go to stderr besides the file.
    is_also_stderr: AtomicBool,
}

/// Sets up logging for the rest of the process. If the file cannot be opened, the log is on stderr.
pub(crate) fn start(config: &LogConfig, format: LogFormat) -> anyhow::Result<()> {
    let (file, opened) = match config.file.as_deref().map(open).transpose() {
        Ok(file) => (file, Ok(())),
        Err(error) => (None, Err(error)),
    };
    let is_terminal = io::stderr().is_terminal() && file.is_none();
    let is_human = match format {
        LogFormat::Auto => is_terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let (filter, level) = reload::Layer::new(targets(config.level));
    let output = Arc::new(Output { file: RwLock::new(file), is_also_stderr: AtomicBool::new(false) });
    let lines = tracing_subscriber::fmt::layer().with_writer(Writer(Arc::clone(&output)));
    let registry = tracing_subscriber::registry().with(filter);
    if is_human {
        registry.with(lines.with_ansi(is_terminal).with_target(false)).init();
    } else {
        let lines = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
        registry.with(lines).init();
    }
    let _ = LOG.set(Log { is_human, level, output });
    opened
}

/// A log file that was opened again, and a level, to be used from then on.
pub(crate) struct Reopened {
    file: Option<File>,
    level: LogLevel,
}

/// Opens the file again. Nothing changes yet.
pub(crate) fn reopen(config: &LogConfig) -> anyhow::Result<Reopened> {
    Ok(Reopened { file: config.file.as_deref().map(open).transpose()?, level: config.level })
}

impl Reopened {
    pub(crate) fn put_in_force(self) {
        let Some(log) = LOG.get() else { return };
        *log.output.file.write() = self.file;
        if let Err(error) = log.level.reload(targets(self.level)) {
            tracing::error!(%error, "cannot change the log level");
        }
    }
}

/// Says something to whoever started the server: as plain words, or as a JSON line of the log. In a command, on stderr.
pub(crate) fn say(words: fmt::Arguments<'_>) {
    match LOG.get() {
        Some(log) if log.is_human => drop(writeln!(Writer(Arc::clone(&log.output)), "{words}")),
        Some(_) => tracing::info!(target: ALWAYS, "{words}"),
        None => output::words(words),
    }
}

/// Logs why the server ended, on stderr too. Returns false if this process has no log.
pub(crate) fn fatal(error: &anyhow::Error) -> bool {
    let Some(log) = LOG.get() else { return false };
    log.output.is_also_stderr.store(true, Ordering::Relaxed);
    if log.is_human {
        say(format_args!("contactd: {error:#}"));
    } else {
        tracing::error!(target: ALWAYS, "{error:#}");
    }
    true
}

fn targets(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Targets::new().with_default(level).with_target(ALWAYS, level.max(LevelFilter::INFO))
}

/// Opens a log file to add lines to it.
fn open(path: &Path) -> anyhow::Result<File> {
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    opened.with_context(|| format!("cannot open the log file {}", path.display()))
}

/// Writes lines, each with one call, so that they are not mixed.
struct Writer(Arc<Output>);

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let file = self.0.file.read();
        if file.is_none() || self.0.is_also_stderr.load(Ordering::Relaxed) {
            io::stderr().lock().write_all(line)?;
        }
        if let Some(mut file) = file.as_ref() {
            file.write_all(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
