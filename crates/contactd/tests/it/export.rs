//! An export can be imported again.

use crate::service::Site;
use crate::transcript::{check, transcripts};

transcripts! {
    fn an_export_imported_elsewhere_gives_the_same_export() { check(&Site::empty(), "export") }
}
