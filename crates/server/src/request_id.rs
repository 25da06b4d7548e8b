//! Request ids: the id sent by the caller, or a new UUIDv7.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use contactd_core::Timestamp;
use uuid::fmt::Hyphenated;

use crate::head::Field;

const MAX_CHARS: usize = 128;

/// The id of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestId<'a> {
    Given(&'a str),
    Made(&'a str),
}

/// Where the text of a new id is kept.
pub(crate) type Text = [u8; Hyphenated::LENGTH];

/// No text yet.
pub(crate) const EMPTY: Text = [0; Hyphenated::LENGTH];

impl<'a> RequestId<'a> {
    /// The id from the request if it is 1 to 128 visible ASCII characters, otherwise a new one.
    pub(crate) fn of(given: Field<'a>, now: Timestamp, text: &'a mut Text) -> Self {
        match given {
            Field::Once(id) if is_acceptable(id) => {
                std::str::from_utf8(id).map_or_else(|_| Self::new(now, text), Self::Given)
            }
            _ => Self::new(now, text),
        }
    }

    /// Generates a new id.
    pub(crate) fn new(now: Timestamp, text: &'a mut Text) -> Self {
        let millis = u64::try_from(now.millis()).unwrap_or(0);
        let id = uuid::Builder::from_unix_timestamp_millis(millis, &random()).into_uuid();
        Self::Made(id.hyphenated().encode_lower(text))
    }

    /// Whether it can be recorded as it is: as a UUID, a ULID or 16 to 64 hexadecimal digits. Anything else may
    /// contain personal data.
    pub(crate) fn is_recordable(self) -> bool {
        match self {
            Self::Given(id) => is_uuid(id) || is_ulid(id) || is_hex(id),
            Self::Made(_) => true,
        }
    }

    pub(crate) fn as_str(self) -> &'a str {
        match self {
            Self::Given(id) | Self::Made(id) => id,
        }
    }
}

fn is_uuid(id: &str) -> bool {
    id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn is_ulid(id: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() && !b"ILOU".contains(&byte.to_ascii_uppercase());
    id.len() == 26 && id.bytes().all(is_digit) && id.as_bytes()[0] <= b'7'
}

fn is_hex(id: &str) -> bool {
    (16..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit())
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
        RequestId::of(given, Timestamp::from_seconds(1_800_000_000), &mut EMPTY.clone()).as_str().to_owned()
    }

    #[test]
    fn only_ids_without_meaning_are_recorded_as_they_are() {
        let given = |id: &str| RequestId::Given(Box::leak(id.to_owned().into_boxed_str())).is_recordable();
        for good in [
            "0190b6a1-7c3e-7abc-8def-0123456789ab",
            "0190B6A1-7C3E-7ABC-8DEF-0123456789AB",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "0123456789abcdef",
            &"f".repeat(64),
        ] {
            assert!(given(good), "{good}");
        }
        for bad in [
            "job-7/row:9",
            "ada@example.com",
            "+14155550123",
            "14155550123",
            "0190b6a17c3e7abc8def0123456789ag",
            "01ARZ3NDEKTSV4RRFFQ69G5FAU",
            "81ARZ3NDEKTSV4RRFFQ69G5FAV",
            "0190b6a1_7c3e_7abc_8def_0123456789ab",
            &"f".repeat(65),
        ] {
            assert!(!given(bad), "{bad}");
        }
        assert!(RequestId::new(Timestamp::from_seconds(1), &mut EMPTY.clone()).is_recordable());
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
