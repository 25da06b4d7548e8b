//! The lookup table: a file made for lookups, which read one place of it each.
//!
//! It is derived from the store and can be thrown away at any time. A flat hash table of slots of 64 bytes, in the order of the
//! store, so that it is written from beginning to end while the store is read in its order. Every slot has a checksum, which
//! every lookup verifies: whatever is wrong with the file, a lookup is told so ([`Unsure`]) and asks the store.
//!
//! `docs/lookup-table.md` describes every byte.

mod header;
mod key;
mod reading;
mod slot;
mod values;
mod wiping;
mod writing;

pub use header::TableId;
pub use key::order_of_place;
pub(crate) use key::{Key, Secret};
pub use reading::{Table, Unsure};
pub use values::{Content, Value, Values};
pub use wiping::wipe;
pub use writing::{Room, Unfinished, Writer};
