//! Tokens of callers, through the admin API.

use crate::service::Service;
use crate::transcript::{check_api, transcripts};

transcripts! {
    fn a_token_is_created_used_changed_rotated_and_revoked() { check_api(&Service::with_people(), "operator", "api_tokens") }
}
