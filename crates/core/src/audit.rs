//! What goes on record.

mod admin_entry;
mod chain;
mod event;
mod file_name;
mod on_record;

pub use admin_entry::{AdminEntry, AdminOutcome, AdminRecord, MOST_SUBJECTS};
pub use chain::{Chain, RootKey, SignedLine};
pub use event::{
    Asked, Audit, AuditEvent, AuditHealth, AuditOutcome, AuditPosition, AuditRecord, Batch, Fate,
    NOT_RECORDED, NoAudit, RefusedKind, RequestVia, ShortDigest, Ticket,
};
pub use file_name::recordable_file_name;
pub use on_record::{NotRecorded, OnRecord, Recording};
