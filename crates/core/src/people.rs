//! Contact details, whom they belong to, and who opted out.

mod csv_cell;
mod date_format;
mod detail;
mod email;
mod phone;
mod record;
mod spreadsheet;
mod subject_name;
pub(crate) mod suppression;

pub use csv_cell::{csv_cell, csv_row, unmarked};
pub use date_format::{DateFormat, DateFormatError};
pub use detail::{ContactValue, Detail, Kind, Label};
pub use email::EmailError;
pub use phone::{PhoneError, is_phone_region};
pub use record::{COLUMNS, RawRecord, ReadDetails, Record, RecordError, RowRules};
pub use subject_name::{SubjectList, SubjectName, SubjectNameError, subject_lines};
pub use suppression::{
    DigestKey, DigestKeys, Subject, SubjectCheck, SubjectDigest, SuppressionList, UnknownKey,
};
