//! Where a profile's details are in the tables of an engine, and the numbers that stand for what they are.
//!
//! A detail's `id` is 47 bits of its profile's hash, one bit for its kind, and 15 bits that count the
//! details of that profile and kind in order of preference. So all rows of a profile are adjacent, the
//! best detail of each kind first. Two profiles may have the same hash: they share the range of ids,
//! and every reader also compares the profile.
//!
//! The hash is XXH3 of [`Profile::key`], which is specified and does not change.

use crate::store::StoreError;
use crate::{Detail, Kind, Label, Profile, Timestamp};

const ORDER_BITS: u32 = 15;

/// The maximum number of details of one kind under one hash.
pub const IDS_OF_KIND: i64 = 1 << ORDER_BITS;

/// The same for both kinds together.
pub const IDS_OF_PLACE: i64 = 2 * IDS_OF_KIND;

/// Why there is no id left for another detail.
pub fn no_room() -> StoreError {
    let what =
        format!("one profile would have more than {IDS_OF_KIND} details of one kind; nothing was changed");
    StoreError::Engine(what)
}

/// The first id of the range for a profile's details of a kind.
pub fn first_id(profile: &Profile, kind: Kind) -> i64 {
    first_id_of_key(profile.key(), kind_number(kind))
}

/// Like [`first_id`], with the profile and kind as they are stored in the table.
pub fn first_id_of_key(profile: &str, kind: i64) -> i64 {
    let hash = twox_hash::XxHash3_64::oneshot(profile.as_bytes()) >> (ORDER_BITS + 2);
    (hash.cast_signed() << (ORDER_BITS + 1)) | (kind << ORDER_BITS)
}

/// Whether a detail of this profile can have this id. If not, the row is damaged.
pub fn is_place_of(id: i64, profile: &str) -> bool {
    place_of(id) == first_id_of_key(profile, 0)
}

/// The first id of the place of a row: the range of ids of one hash.
pub const fn place_of(id: i64) -> i64 {
    id & !(IDS_OF_PLACE - 1)
}

/// Stored for a missing `observed_at`, which counts as oldest.
pub const NEVER_OBSERVED: i64 = -(1 << 39);

/// When a detail was observed, as it is stored.
pub fn observed(detail: &Detail) -> i64 {
    detail.observed_at.map_or(NEVER_OBSERVED, Timestamp::seconds)
}

/// The number of a kind.
pub const fn kind_number(kind: Kind) -> i64 {
    match kind {
        Kind::Phone => 0,
        Kind::Email => 1,
    }
}

/// The number of a label.
pub const fn label_number(label: Label) -> i64 {
    match label {
        Label::Personal => 0,
        Label::Work => 1,
    }
}

/// The kind with this number.
pub const fn kind(number: i64) -> Kind {
    if number == kind_number(Kind::Phone) { Kind::Phone } else { Kind::Email }
}

/// The label with this number.
pub const fn label(number: i64) -> Label {
    if number == label_number(Label::Personal) { Label::Personal } else { Label::Work }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_do_not_change_between_versions() {
        let profile = Profile::from_key("linkedin.com/in/ada-quell-1a2b3c");
        let phone = first_id(&profile, Kind::Phone);
        assert_eq!(phone, 0x53f9_e131_bb65_0000);
        assert_eq!(first_id(&profile, Kind::Email), phone + IDS_OF_KIND);
    }

    #[test]
    fn the_hash_is_the_specified_one() {
        assert_eq!(twox_hash::XxHash3_64::oneshot(b""), 0x2D06_8005_38D3_94C2);
    }

    #[test]
    fn first_ids_are_not_negative_and_end_in_zero_bits() {
        for number in 0..10_000 {
            let id = first_id_of_key(&format!("linkedin.com/in/quell-{number}"), number % 2);
            assert!(id >= 0 && id % IDS_OF_KIND == 0);
        }
    }
}
