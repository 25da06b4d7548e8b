//! Request ids: the id sent by the caller, or a new UUIDv7.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use contactd_core::Timestamp;
use uuid::fmt::Hyphenated;

use crate::head::Field;

const MAX_CHARS: usize = 128;

/// The id of a request.
#[derive(Debug)]
pub(crate) enum RequestId<'a> {
    Given(&'a str),
    Made([u8; Hyphenated::LENGTH]),
}

impl<'a> RequestId<'a> {
    /// The id from the request if it is 1 to 128 visible ASCII characters, otherwise a new one.
    pub(crate) fn of(given: Field<'a>, now: Timestamp) -> Self {
        match given {
            Field::Once(id) if is_acceptable(id) => {
                std::str::from_utf8(id).map_or_else(|_| Self::new(now), Self::Given)
            }
            _ => Self::new(now),
        }
    }

    /// Generates a new id.
    pub(crate) fn new(now: Timestamp) -> Self {
        let millis = u64::try_from(now.millis()).unwrap_or(0);
        let id = uuid::Builder::from_unix_timestamp_millis(millis, &random()).into_uuid();
        let mut text = [0; Hyphenated::LENGTH];
        id.hyphenated().encode_lower(&mut text);
        Self::Made(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Given(id) => id,
            Self::Made(id) => std::str::from_utf8(id).unwrap_or_default(),
        }
    }
}

fn is_acceptable(id: &[u8]) -> bool {
    (1..=MAX_CHARS).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// Ten random bytes. They should be unique but need not be unpredictable.
fn random() -> [u8; 10] {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(std::thread::current().id()));
    }
    let next = || {
        STATE.with(|state| {
            // SplitMix64.
            let seed = state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
            state.set(seed);
            let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        })
    };
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&next().to_le_bytes());
    bytes[8..].copy_from_slice(&next().to_le_bytes()[..2]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn of(given: Field<'_>) -> String {
        RequestId::of(given, Timestamp::from_seconds(1_800_000_000)).as_str().to_owned()
    }

    #[test]
    fn a_good_id_is_taken_and_a_bad_one_replaced() {
        assert_eq!(of(Field::Once(b"job-7/row:9")), "job-7/row:9");
        assert_eq!(of(Field::Once(&[b'x'; 128])), "x".repeat(128));
        for bad in [&b""[..], &[b'x'; 129], b"a b", b"\xC3\xA9", b"a\tb"] {
            let id = Uuid::parse_str(&of(Field::Once(bad))).expect("a new UUID");
            assert_eq!(id.get_version_num(), 7);
        }
    }

    #[test]
    fn two_ids_are_none() {
        assert!(Uuid::parse_str(&of(Field::Repeated)).is_ok());
        assert!(Uuid::parse_str(&of(Field::Absent)).is_ok());
    }

    #[test]
    fn new_ids_differ() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| random()).collect();
        assert_eq!(ids.len(), 1000);
    }
}
