//! How many lookups are in progress, in all workers together. A lookup has a place from its work to the end of its
//! wait for the journal.

use std::sync::atomic::{AtomicUsize, Ordering};

use contactd_core::Caller;

/// Counts the lookups in progress.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: AtomicUsize,
    /// How many tokens have a place.
    tokens: AtomicUsize,
}

/// The place of one lookup. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    places: &'a Places,
    caller: &'a Caller,
}

impl Places {
    /// Takes a place if fewer than `most` are taken. Once half of them are, no token gets more than its equal part.
    pub(crate) fn take<'a>(&'a self, caller: &'a Caller, most: usize) -> Option<Place<'a>> {
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        let own = caller.in_progress().fetch_add(1, Ordering::Relaxed);
        if own == 0 {
            self.tokens.fetch_add(1, Ordering::Relaxed);
        }
        let place = Place { places: self, caller };
        // One part more than there are tokens, so that another token finds a free place.
        let part = most.div_ceil(self.tokens.load(Ordering::Relaxed).max(1) + 1);
        (before < most && (before < most / 2 || own < part)).then_some(place)
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.places.taken.fetch_sub(1, Ordering::Relaxed);
        if self.caller.in_progress().fetch_sub(1, Ordering::Relaxed) == 1 {
            self.places.tokens.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::callers;

    #[test]
    fn a_token_that_takes_all_it_can_leaves_places_for_others() {
        let (places, callers) = (Places::default(), callers(3));
        let take_all = |caller| std::iter::from_fn(|| places.take(caller, 12)).collect::<Vec<_>>();
        let first = take_all(&callers[0]);
        assert_eq!(first.len(), 6);
        let second = take_all(&callers[1]);
        assert_eq!(second.len(), 4);
        let third = take_all(&callers[2]);
        assert_eq!((third.len(), places.taken()), (2, 12));
        drop((first, second, third));
        assert_eq!((places.taken(), places.tokens.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_single_place_can_be_taken() {
        let (places, callers) = (Places::default(), callers(1));
        let place = places.take(&callers[0], 1);
        assert!(place.is_some() && places.take(&callers[0], 1).is_none());
        drop(place);
        assert!(places.take(&callers[0], 1).is_some());
    }
}
