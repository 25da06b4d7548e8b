//! Rejects files: where they are written, what may be written over, and that nothing is lost.

use crate::service::Site;
use crate::transcript::{check, transcripts};

transcripts! {
    fn what_is_not_a_rejects_file_is_not_written_over_and_no_link_is_followed() { check(&Site::empty(), "rejects") }
    fn a_source_is_not_replaced_by_rejected_rows_and_the_report_says_what_to_do() { check(&Site::empty(), "rejects_and_sources") }
    fn what_a_spreadsheet_would_run_is_marked_in_an_export_and_comes_back_unchanged() { check(&Site::empty(), "formulas") }
}
