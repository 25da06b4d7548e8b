//! The domain of contactd, independent of storage and HTTP.
//!
//! # Glossary
//!
//! Each concept has one word, the same in types, columns, JSON, flags, log fields and docs.
//!
//! ## Data
//!
//! - **profile**: one person's page on a professional network, identified by its canonical URL ([`Profile`]).
//! - **detail**: one way to contact the person of a profile ([`Detail`]). It has a **kind** (phone or email), a
//!   **label** (personal or work), a **value** and a source.
//! - **source**: where a detail came from. The same value from two sources is two details.
//! - **import**: one load of details, applied completely or not at all.
//! - **engine**: the storage behind all this ([`store`]). Every engine passes the same conformance suite, in the
//!   crate `contactd-testing`.
//!
//! ## Lookups
//!
//! - **token**: the secret that a client sends with a request ([`TokenSecret`]). The store keeps only its hash
//!   ([`TokenHash`]) and a record about it ([`Token`]).
//! - **caller**: the client, once its token has been recognised ([`Caller`]).
//! - **scope**: a kind of detail that a token may look up ([`Scopes`]).
//! - **rate**: how often a token may send requests ([`Rate`]). **quota**: how many hits it may have in a day or
//!   month ([`Quota`]).
//! - **family**: a token and those that were made from it by rotation. They share one quota.
//! - **lookup**: a caller's request for the best personal detail of one kind ([`Lookups`]).
//! - **hit**: a lookup that found a detail. **miss**: a lookup that found none.
//!
//! ## Privacy
//!
//! - **subject**: a person, a phone number or an e-mail address ([`Subject`]).
//! - **suppression**, or opt-out: a subject that must never be disclosed. It is stored as a keyed **digest**
//!   ([`SubjectDigest`]), not in clear.
//! - **erase**: suppress a person and remove everything about them.
//! - **sweep**: remove details that have expired or are too old.
//!
//! ## Audit
//!
//! - **journal**: the log of all requests with a recognised token, in files called **segments**.
//! - **audit line**: the entry for one request in the journal ([`AuditEvent`]). It says what was asked and with
//!   which outcome. A **mark** is a line about the journal itself.
//! - **checkpoint**: a line that signs the lines before it. **epoch**: the time for which one key signs. **seal**: the
//!   checkpoint that ends an epoch. **root**: the key of the first epoch ([`RootKey`]).
//! - **sealed**: the result of a lookup, which can be opened only once its audit line is written ([`Sealed`]). A
//!   **ticket** tells when that is ([`Ticket`]).
//!
//! ## Administration
//!
//! - **actor**: who performs an administrative action ([`Actor`]).
//! - **user**: somebody who logs in to the console ([`User`]). **admin token**: the secret that a program sends to the admin
//!   API ([`AdminToken`]). Both have a **role**, which says what they may do ([`Role`]).
//! - **one-time password**: one that was made for a user, who has to change it at the first log-in. **second factor**: codes of
//!   an authenticator app, or TOTP ([`TotpSeed`]).
//! - **session**: the time between a log-in and its end. It ends early when the user's **generation** changes.
//! - **service**: the code that carries out administrative actions ([`services`]).
//! - **on record**: an action is on record when its line is in the journal ([`OnRecord`]). The **outbox** keeps the
//!   entries of changes until then.
//! - **in force**: a change is in force when every lookup that starts from now on sees it ([`InForce`]).
//! - **node**: a server of a cluster, which answers from its own copy of the database. **lease**: how long it may do so
//!   without hearing from the database ([`Lease`]).

mod account;
mod actor;
mod admin_entry;
mod audit;
mod blocking;
mod caller;
mod clock;
mod csv_cell;
mod date_format;
mod detail;
mod email;
mod first_bytes;
pub mod hex;
mod in_force;
mod journal_files;
mod journal_report;
mod lease;
mod leased;
mod limit;
mod live;
mod lookup;
pub mod metrics;
mod on_record;
pub mod panics;
mod phone;
mod printable;
mod priority;
mod progress;
mod record;
mod repeats;
pub mod services;
mod span;
mod spreadsheet;
pub mod store;
mod subject_name;
mod suppression;
mod token;
mod token_metrics;
mod token_update;

pub use account::{
    AdminToken, MOST_PASSWORD_BYTES, NewPassword, PasswordHash, Role, SHORTEST_PASSWORD, ShownAdminToken,
    TotpSeed, UnknownRole, UnknownTotpKey, User, UserChange, UserChanged, UserName, UserNameError,
};
pub use actor::{Actor, Via};
pub use admin_entry::{AdminEntry, AdminOutcome, AdminRecord, MOST_SUBJECTS};
pub use audit::{
    Audit, AuditEvent, AuditHealth, AuditOutcome, AuditPosition, AuditRecord, Batch, Fate, NOT_RECORDED,
    NoAudit, RefusedKind, ShortDigest, Ticket,
};
pub use blocking::blocking;
pub use caller::{Caller, Callers, DefaultLimits, NotACaller, TokenKey, UsageDelta};
pub use clock::{BootClock, Clock, ClockJump, ClockWatch, ManualClock, SystemClock, Timestamp};
pub use contactd_profile::{Case, Network, NetworkError, Networks, Profile, Reason};
pub use csv_cell::{csv_cell, csv_row, unmarked};
pub use date_format::{DateFormat, DateFormatError};
pub use detail::{ContactValue, Detail, Kind, Label};
pub use email::EmailError;
pub use in_force::{Affected, Announcing, Changed, Committed, InForce, NodeNote, NotConfirmed};
pub use journal_files::{
    Chain, CopiedFiles, JournalCopy, JournalError, JournalFault, JournalFiles, JournalHead, JournalLine,
    JournalLines, KnownLine, NotedHead, Outage, ProofMade, RootKey, RootSource, Roots, Seen, SignedLine,
    SignedLines, Verification,
};
pub use lease::{ClockReading, Lease};
pub use leased::{HeldUnits, LeasedQuota, LeasedUnits, QuotaLeases};
pub use limit::{Allowance, Allowances, Bucket, LimitExceeded, LimitSyntax, OrNone, Period, Quota, Rate};
pub use live::{Live, RefreshError};
pub use lookup::{LookupError, Lookups, Request, Sealed};
pub use on_record::{NotRecorded, OnRecord, Recording};
pub use phone::{PhoneError, is_phone_region};
pub use printable::is_printable;
pub use priority::{give_way_to_lookups, work_in_background};
pub use progress::{Cancel, Observer, Progress, unobserved};
pub use record::{COLUMNS, RawRecord, ReadDetails, Record, RecordError, RowRules};
pub use repeats::Repeats;
pub use span::{Lifetime, Moment, Span};
pub use subject_name::{SubjectList, SubjectName, SubjectNameError, subject_lines};
pub use suppression::{
    DigestKey, DigestKeys, Subject, SubjectCheck, SubjectDigest, SuppressionList, UnknownKey,
};
pub use token::{Scopes, Token, TokenHash, TokenSecret};
pub use token_metrics::quota_families;
pub use token_update::{TokenUpdate, UpdatedToken};
