//! Excel workbooks (`.xlsx`), read cell by cell. Only what is really there takes memory, not what the file declares.

mod book;
mod dates;
mod header;
mod rows;
mod strings;
mod writer;

pub(crate) use book::{Workbook, refused};
pub(crate) use header::Headed;
pub(crate) use writer::SheetWriter;
