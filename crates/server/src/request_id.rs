//! Request ids: the caller's, or a new UUIDv7.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use contactd_contract::header;
use contactd_core::Timestamp;
use http::{HeaderMap, HeaderValue};

const MAX_CHARS: usize = 128;

/// The id of a request: taken from it if that is 1 to 128 visible ASCII characters, else
/// made.
pub(crate) fn of(headers: &HeaderMap, now: Timestamp) -> HeaderValue {
    let mut given = headers.get_all(header::REQUEST_ID).iter();
    match (given.next(), given.next()) {
        (Some(id), None) if is_acceptable(id) => id.clone(),
        _ => new(now),
    }
}

fn is_acceptable(id: &HeaderValue) -> bool {
    (1..=MAX_CHARS).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic)
}

fn new(now: Timestamp) -> HeaderValue {
    let millis = u64::try_from(now.millis()).unwrap_or(0);
    let id = uuid::Builder::from_unix_timestamp_millis(millis, &random()).into_uuid();
    let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
    let text = id.hyphenated().encode_lower(&mut text);
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("-"))
}

/// Ten bytes that differ from all others; nobody has to be unable to guess them.
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

    fn of_header(value: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(header::REQUEST_ID, HeaderValue::from_bytes(value).expect("a header value"));
        let id = of(&headers, Timestamp::from_seconds(1_800_000_000));
        id.to_str().expect("ASCII").to_owned()
    }

    #[test]
    fn a_good_id_is_taken_and_a_bad_one_replaced() {
        assert_eq!(of_header(b"job-7/row:9"), "job-7/row:9");
        assert_eq!(of_header(&[b'x'; 128]), "x".repeat(128));
        for bad in [&b""[..], &[b'x'; 129], b"a b", b"\xC3\xA9", b"a\tb"] {
            let id = Uuid::parse_str(&of_header(bad)).expect("a new UUID");
            assert_eq!(id.get_version_num(), 7);
        }
    }

    #[test]
    fn two_ids_are_none() {
        let mut headers = HeaderMap::new();
        headers.append(header::REQUEST_ID, HeaderValue::from_static("a"));
        headers.append(header::REQUEST_ID, HeaderValue::from_static("b"));
        let id = of(&headers, Timestamp::from_seconds(0));
        assert!(Uuid::parse_str(id.to_str().expect("ASCII")).is_ok());
    }

    #[test]
    fn new_ids_differ() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| random()).collect();
        assert_eq!(ids.len(), 1000);
    }
}
