//! A thread that looks at the files every few seconds.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use contactd_core::Clock;

use crate::expiry::Warnings;
use crate::pair::{FilesState, Pair};
use crate::tls::Tls;

const LOOK_PAUSE: Duration = Duration::from_secs(2);

/// Replaces the pair when its files have changed, and warns before the certificate ends.
pub struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Starts the thread.
    pub fn start(tls: Arc<Tls>, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("certificate".to_owned()).spawn(move || {
            let (mut warnings, mut unfit) = (Warnings::default(), Unfit::default());
            loop {
                if let Some(warning) = warnings.due(&tls.pair(), clock.now()) {
                    tracing::warn!("{warning}");
                }
                if stopped.recv_timeout(LOOK_PAUSE) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                unfit.look(&tls);
            }
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread.
    pub fn finish(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// Files that have changed and cannot be used.
#[derive(Default)]
struct Unfit {
    state: Option<FilesState>,
    is_reported: bool,
}

impl Unfit {
    /// Takes over files that have changed. If they cannot be used, says so once for each change.
    fn look(&mut self, tls: &Tls) {
        let (files, in_use) = tls.files();
        let state = FilesState::of(&files);
        if state == in_use {
            *self = Self::default();
            return;
        }
        match Pair::read(&files) {
            Ok(pair) => {
                let ends = pair.ends();
                if tls.replace(pair) {
                    tracing::info!(
                        "the certificate has changed; new connections get the new one, which ends {ends}"
                    );
                }
            }
            // The second file often follows a moment after the first: it is an error if it does not.
            Err(_) if self.state != Some(state) => *self = Self { state: Some(state), is_reported: false },
            Err(error) => {
                if !self.is_reported {
                    tracing::warn!(
                        "the certificate has changed and cannot be used, so the one that ends {} stays in use: {error}",
                        tls.ends()
                    );
                }
                self.is_reported = true;
            }
        }
    }
}
