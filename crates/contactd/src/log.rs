//! Logs: human on a terminal, JSON otherwise, always on stderr.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;

use crate::config::{LogConfig, LogFormat, LogLevel};

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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    /// What was logged.
    #[derive(Clone, Default)]
    struct Logged(Arc<Mutex<Vec<u8>>>);

    impl Write for Logged {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("a lock").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_tells_where_it_was_and_nothing_of_what_it_said() {
        let logged = Logged::default();
        let writer = logged.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .finish();
        let before = std::panic::take_hook();
        tracing::subscriber::with_default(subscriber, || {
            contactd_server::log_panics_without_their_message();
            let panicked = std::panic::catch_unwind(|| panic!("no such number: {}", "+14155550123"));
            assert!(panicked.is_err());
        });
        std::panic::set_hook(before);
        let text = String::from_utf8(logged.0.lock().expect("a lock").clone()).expect("UTF-8");
        assert!(text.contains("panicked") && text.contains("log.rs"), "{text}");
        assert!(!text.contains("4155550123") && !text.contains("no such number"), "{text}");
    }
}
