//! Answering lookups: the order in which things are checked, and what must be in force before.

mod access_tables;
mod find;
mod in_force;
mod lease;
mod sandbox;

pub use access_tables::{AccessTables, RefreshError};
pub use find::{LookupError, Lookups, PendingAnswer, Request};
pub use in_force::{Affected, Announcing, InForce, NodeNote, NotConfirmed};
pub use lease::{ClockReading, Lease};
pub use sandbox::SandboxTrouble;
