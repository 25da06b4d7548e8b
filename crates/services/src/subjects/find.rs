//! Finding people by parts of the slugs of their profiles.

use contactd_core::store::ScanLimits;
use contactd_core::{Actor, MOST_SUBJECTS, Profile, SlugParts, Subject};

use crate::subjects::{SubjectError, Subjects};

/// So that a search ends in time also where very many details are held. There is no index of slugs.
const MOST_DETAILS_READ: u32 = 20_000_000;

/// People who were found by their slugs.
pub struct FoundPeople {
    /// Their profiles, ordered by URL, as many as an entry of the journal names.
    pub profiles: Vec<Profile>,
    /// Whether these are all. If not, more parts of the slug have to be given.
    pub is_complete: bool,
}

impl Subjects {
    /// The people whose slugs have all these parts. Who was found is on record before anybody is shown.
    pub async fn find(&self, actor: &Actor, parts: &SlugParts) -> Result<FoundPeople, SubjectError> {
        let store = &*self.parts.store;
        let limits = ScanLimits { profiles: MOST_SUBJECTS + 1, details: MOST_DETAILS_READ };
        let mut profiles = store.find_by_slug(parts, limits).await?;
        let held: u64 = store.totals().await?.details.iter().map(|total| total.count).sum();
        let is_complete = profiles.len() <= MOST_SUBJECTS && held <= u64::from(MOST_DETAILS_READ);
        profiles.truncate(MOST_SUBJECTS);
        let entry = self.parts.entry_about(actor, "subject search", profiles.iter().map(Subject::Profile));
        self.parts.record_read(&entry.counted(&[("profiles", profiles.len() as u64)])).await?;
        Ok(FoundPeople { profiles, is_complete })
    }
}
