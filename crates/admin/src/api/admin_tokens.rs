//! Tokens of this API.

use std::sync::Arc;

use axum::extract::State;
use contactd_core::{Lifetime, Role};
use contactd_services::defaults;
use contactd_services::views::AdminTokenView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Api;
use crate::api::auth::Who;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Created, Json, Named, Sent};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::AdminTokens);
    vec![
        Endpoint::get("/admin-tokens", needs, "listAdminTokens", list)
            .says("All admin tokens, oldest first.")
            .answers::<AdminTokenList>(),
        Endpoint::post("/admin-tokens", needs, "createAdminToken", create)
            .says("Create an admin token. It is shown once.")
            .takes::<TokenToCreate>()
            .with_status(201)
            .answers::<AdminTokenWithSecret>(),
        Endpoint::post("/admin-tokens/{id}/revoke", needs, "revokeAdminToken", revoke)
            .says("Revoke an admin token now.")
            .answers::<AdminTokenView>(),
    ]
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AdminTokenList {
    admin_tokens: Vec<AdminTokenView>,
}

/// An admin token, with the secret that is shown once.
#[derive(Serialize, JsonSchema)]
struct AdminTokenWithSecret {
    #[serde(flatten)]
    shown: AdminTokenView,
    token: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TokenToCreate {
    /// What it is for.
    name: String,
    #[schemars(extend("enum" = ["admin", "operator", "privacy", "auditor"]), with = "String")]
    role: Role,
    /// How long it is accepted, such as `90d`, or `never`. 90 days unless it is given.
    #[serde(default)]
    expires: Option<String>,
}

async fn list(State(api): State<Arc<Api>>, who: Who) -> Result<Json<impl Serialize>, Refusal> {
    let (tokens, now) = (api.services.users.list_admin_tokens(&who.actor).await?, api.clock.now());
    let admin_tokens = tokens.into_iter().map(|token| AdminTokenView::of(token, now)).collect();
    Ok(Json(AdminTokenList { admin_tokens }))
}

async fn create(
    State(api): State<Arc<Api>>,
    who: Who,
    Sent(sent): Sent<TokenToCreate>,
) -> Result<Created<impl Serialize>, Refusal> {
    let expires = sent.expires.as_deref().unwrap_or(defaults::TOKEN_LIFETIME);
    let lifetime: Lifetime =
        expires.parse().map_err(|_| Refusal::invalid("`expires` is a time such as 12h or 90d, or never."))?;
    let issued =
        api.services.users.create_admin_token(&who.actor, &sent.name, sent.role, lifetime).await?.done;
    let token = issued.secret.expose().to_owned();
    Ok(Created(AdminTokenWithSecret { shown: AdminTokenView::of(issued.token, api.clock.now()), token }))
}

async fn revoke(
    State(api): State<Arc<Api>>,
    who: Who,
    Named(id): Named,
) -> Result<Json<impl Serialize>, Refusal> {
    let revoked = api.services.users.revoke_admin_token(&who.actor, &id).await?;
    api.stop_jobs_without_permission().await;
    Ok(Json(AdminTokenView::of(revoked.done, api.clock.now())))
}
