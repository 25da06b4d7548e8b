//! `contactd canonicalize`

use crate::service::Site;
use crate::transcript::{check, transcripts};

transcripts! {
    fn lines_arguments_and_json_values_are_answered_in_order_with_the_reason_and_a_hint() { check(&Site::empty(), "canonicalize") }
}
