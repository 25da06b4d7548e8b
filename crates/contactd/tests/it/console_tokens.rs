//! Tokens of callers, through the admin API.

use crate::service::Service;
use crate::transcript::check_api;

#[test]
fn a_token_is_created_used_changed_rotated_and_revoked() {
    let (service, token) = Service::with_people();
    check_api(&service, &token, "operator", "api_tokens");
}
