//! The thread that changes the keys: it makes those of the next epoch, and destroys the old ones once the seal is
//! on disk. The writer only writes the seal, so no line waits for this.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contactd_core::{Clock, work_in_background};

use crate::JournalError;
use crate::epoch::EpochKeys;
use crate::file::failed;
use crate::key_dir::KeyDir;
use crate::rotation::EndedEpoch;
use crate::seals;
use crate::shared::Shared;

/// How long to wait before the end of an epoch is finished.
const AGAIN: Duration = Duration::from_secs(1);
/// How long to wait after a failure.
const RETRY: Duration = Duration::from_secs(30);

/// Changes the keys after every `length`, until the rotation is closed.
pub(crate) struct Epochs {
    pub(crate) keys: KeyDir,
    pub(crate) current: EpochKeys,
    pub(crate) length: Duration,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) shared: Arc<Shared>,
}

impl Epochs {
    pub(crate) fn run(mut self) {
        work_in_background();
        let age = self.clock.now().millis().saturating_sub(self.current.begun_at.millis());
        let age = u64::try_from(age).map_or(self.length, Duration::from_millis);
        // A clock that went back says nothing about the age.
        let mut due = Instant::now() + self.length.saturating_sub(age);
        let mut is_handed_over = false;
        let mut unfinished: Option<EndedEpoch> = None;
        loop {
            let wait = match is_handed_over {
                _ if unfinished.is_some() => AGAIN,
                true => Duration::from_secs(3600),
                false => due.saturating_duration_since(Instant::now()),
            };
            let rotation = &self.shared.rotation;
            let mut state = rotation.state.lock();
            rotation.wake.wait_while_for(
                &mut state,
                |state| state.sealed.is_none() && !state.is_closed,
                wait,
            );
            let (sealed, is_closed) = (state.sealed.take(), state.is_closed);
            drop(state);
            if let Some(sealed) = sealed {
                is_handed_over = false;
                due = Instant::now() + self.length;
                self.current = sealed.current.clone();
                unfinished = Some(sealed);
            }
            // Until the seal has its copy and the old keys are gone, no other epoch begins: seals are copied in order.
            if let Some(sealed) = &unfinished {
                match self.finish(sealed) {
                    Ok(()) => unfinished = None,
                    Err(error) => {
                        tracing::error!(%error, "the end of an epoch of the audit journal is not finished; trying again");
                    }
                }
            }
            if is_closed {
                return;
            }
            if !is_handed_over && unfinished.is_none() && Instant::now() >= due {
                match self.hand_over() {
                    Ok(()) => is_handed_over = true,
                    Err(error) => {
                        tracing::error!(%error, "the next keys of the audit journal cannot be made; this epoch goes on");
                        due = Instant::now() + RETRY;
                    }
                }
            }
        }
    }

    fn hand_over(&self) -> Result<(), JournalError> {
        // If the data directory was moved, the keys would be stored where nobody finds them.
        self.check_place()?;
        let next = EpochKeys::generate(Some(&self.current), self.clock.now())?;
        self.keys.store(&next)?;
        self.shared.rotation.state.lock().next = Some(next);
        self.shared.queue.poke();
        Ok(())
    }

    /// The seal first goes to disk, then the old keys are destroyed.
    fn finish(&self, sealed: &EndedEpoch) -> Result<(), JournalError> {
        let dir = self.shared.dir.path();
        sealed.file.sync_data().map_err(failed("cannot sync", dir))?;
        self.check_place()?;
        seals::append(dir, &sealed.seal)?;
        self.keys.destroy(sealed.epoch)
    }

    fn check_place(&self) -> Result<(), JournalError> {
        let dir = &self.shared.dir;
        dir.check_place().map_err(failed("cannot use", dir.path()))
    }
}
