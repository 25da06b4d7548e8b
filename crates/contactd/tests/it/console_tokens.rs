//! Tokens of callers, through the admin API.

use crate::admin_api::AdminApi;
use crate::fixture::ADA;
use crate::service::{PHONE, Service, eventually};
use crate::transcript::check_api;

#[test]
fn a_token_is_created_used_changed_rotated_and_revoked() {
    let (service, token) = Service::with_people();
    check_api(&service, &token, "operator", "api_tokens");
}

#[test]
fn the_use_of_a_token_is_counted() {
    let (service, token) = Service::with_people();
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    let operator = AdminApi::with_role(&service, "operator");
    eventually("its use is counted", || operator.get("/tokens").json()["tokens"][0]["hits"] == 1);
}
