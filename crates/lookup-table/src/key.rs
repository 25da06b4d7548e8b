//! Where a profile's details are in the table, and how a lookup knows them again.

use std::hash::Hasher;

use contactd_core::Kind;
use contactd_core::store::place::kind_number;
use siphasher::sip128::{Hasher128, SipHasher13};

/// The key of the fingerprints in one table. It is in the table's header: it keeps whoever chooses profiles from choosing two with
/// the same fingerprint, not the fingerprints from being computed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) [u8; 16]);

/// A profile and a kind, as a table knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The upper 32 bits of the place in the store. Slots are in this order.
    pub(crate) order: u32,
    pub(crate) fingerprint: [u8; 16],
}

impl Secret {
    /// The key of the details of a kind of the profile with this key, in this place of the store.
    pub(crate) fn key(&self, place: i64, profile: &str, kind: Kind) -> Key {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(profile.as_bytes());
        hasher.write_u8(u8::from(kind_number(kind) != 0));
        Key { order: order_of_place(place), fingerprint: hasher.finish128().as_bytes() }
    }
}

/// What decides where the details of a place are in a table.
pub fn order_of_place(place: i64) -> u32 {
    // A place has 63 bits.
    u32::try_from((place >> 31) & i64::from(u32::MAX)).unwrap_or(u32::MAX)
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}
