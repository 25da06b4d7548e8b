//! The machine and its surroundings: clock, threads, units, texts.

mod blocking;
mod clock;
mod disk;
mod finding;
pub mod hex;
pub mod metrics;
mod page_file;
pub mod panics;
mod printable;
mod priority;
mod progress;
mod repeats;
mod span;
mod text_schema;

pub use blocking::{blocking, wait_for};
pub use clock::{BootClock, Clock, ClockJump, ClockWatch, ManualClock, SystemClock, Timestamp};
pub use disk::{BudgetedFile, DiskBudget, Reservation, WatchedGrowth};
pub use finding::{Finding, Severity};
pub use page_file::{FileForm, file_tag};
pub use printable::is_printable;
pub use priority::{give_way_to_lookups, work_in_background};
pub use progress::{Cancel, Observer, Progress, unobserved};
pub use repeats::Repeats;
pub use span::{Lifetime, Moment, Span};
