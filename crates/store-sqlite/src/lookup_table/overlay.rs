//! What has changed since a table was made, in memory.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use contactd_core::Kind;
use contactd_core::store::place::{IDS_OF_PLACE, is_place_of, kind};
use contactd_lookup_table::{Content, Values};
use rusqlite::{Connection, Result};

use super::state::changed_after;
use super::timestamp;
use crate::connection;

/// The details, as they are now, of every place that has changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay(HashMap<i64, Arc<[Held]>, BuildHasherDefault<PlaceHasher>>);

/// What is held of a kind for a profile.
#[derive(Debug)]
struct Held {
    profile: Box<str>,
    kind: Kind,
    content: Content,
}

impl Overlay {
    /// Reads the places that were changed after this number.
    pub(crate) fn read_changed(&mut self, connection: &Connection, after: i64) -> Result<()> {
        for place in changed_after(connection, after)? {
            self.0.insert(place, read_place(connection, place)?);
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What is held for a profile and kind, if its place has changed.
    pub(crate) fn find(&self, place: i64, profile: &str, kind: Kind) -> Option<Option<Values<'_>>> {
        let changed = self.0.get(&place)?;
        let held = changed.iter().find(|held| held.kind == kind && &*held.profile == profile);
        Some(held.map(|held| held.content.values()))
    }
}

fn read_place(connection: &Connection, place: i64) -> Result<Arc<[Held]>> {
    let mut find = connection.prepare_cached(
        "SELECT profile, kind, value, expires_at, id FROM details
         WHERE id >= ?1 AND id < ?2 AND label = 0 ORDER BY id",
    )?;
    let mut rows = find.query((place, place + IDS_OF_PLACE))?;
    let mut all: Vec<Held> = Vec::new();
    while let Some(row) = rows.next()? {
        let (profile, kind) = (row.get_ref(0)?.as_str()?, kind(row.get(1)?));
        if !is_place_of(row.get(4)?, profile) {
            return Err(connection::damaged());
        }
        let known = all.iter().position(|held| held.kind == kind && &*held.profile == profile);
        let at = known.unwrap_or_else(|| {
            all.push(Held { profile: profile.into(), kind, content: Content::default() });
            all.len() - 1
        });
        all[at].content.add(row.get_ref(2)?.as_str()?, timestamp(row.get(3)?));
    }
    Ok(all.into())
}

/// Places are hashes already, with zeros at the end.
#[derive(Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    fn write_i64(&mut self, place: i64) {
        self.0 = (place.cast_unsigned() >> 16).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
