//! Answering lookups: the order in which things are checked, and what must be in force before.

mod find;
mod in_force;
mod lease;
mod live;

pub use find::{LookupError, Lookups, Request, Sealed};
pub use in_force::{Affected, Announcing, InForce, NodeNote, NotConfirmed};
pub use lease::{ClockReading, Lease};
pub use live::{Live, RefreshError};
