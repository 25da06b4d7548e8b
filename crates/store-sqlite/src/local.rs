//! The read side of a lookup.

use std::sync::atomic::Ordering;

use contactd_core::store::{LocalRead, Stored, Verdict};
use contactd_core::{ContactValue, Kind, Profile, Timestamp};

use crate::SqliteStore;
use crate::reader::Reader;

impl LocalRead for SqliteStore {
    fn best_personal(
        &self,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> Stored<Option<ContactValue>> {
        let generation = self.generation.load(Ordering::SeqCst);
        let reader = self.readers.get_or_try(|| Reader::open(&self.details_file()))?;
        reader.best_personal(generation, profile, kind, now, judge)
    }

    fn renew(&self) {
        if let Some(reader) = self.readers.get() {
            reader.renew();
        }
    }

    fn renew_all(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}
