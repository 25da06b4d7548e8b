//! Tokens of this API.

use std::sync::Arc;

use axum::extract::State;
use contactd_core::{AdminToken, Lifetime, Role, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::auth::Who;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Created, Json, Named, Sent};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;
use crate::api::{Api, Inside};

/// How long a token is accepted unless something else is asked for.
const DEFAULT_LIFETIME: &str = "90d";

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
            .answers::<AdminTokenShown>(),
    ]
}

/// An admin token.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AdminTokenShown {
    id: String,
    name: String,
    #[schemars(with = "String")]
    role: Role,
    /// `live`, `expired` or `revoked`.
    state: &'static str,
    #[schemars(with = "String")]
    created_at: Timestamp,
    #[schemars(with = "Option<String>")]
    expires_at: Option<Timestamp>,
    #[schemars(with = "Option<String>")]
    last_used_at: Option<Timestamp>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct AdminTokenList {
    admin_tokens: Vec<AdminTokenShown>,
}

/// An admin token, with the secret that is shown once.
#[derive(Serialize, JsonSchema)]
struct AdminTokenWithSecret {
    #[serde(flatten)]
    shown: AdminTokenShown,
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

impl AdminTokenShown {
    fn of(token: AdminToken, now: Timestamp) -> Self {
        let state = match token.revoked_at {
            Some(_) => "revoked",
            None if token.is_live(now) => "live",
            None => "expired",
        };
        Self {
            state,
            id: token.id,
            name: token.name,
            role: token.role,
            created_at: token.created_at,
            expires_at: token.expires_at,
            last_used_at: token.last_used_at,
        }
    }
}

async fn list(State(api): State<Arc<Api>>, who: Who) -> Result<Json<impl Serialize>, Refusal> {
    let (tokens, now) = (api.services.users.list_admin_tokens(&who.actor).await?, api.clock.now());
    let admin_tokens = tokens.into_iter().map(|token| AdminTokenShown::of(token, now)).collect();
    Ok(Json(AdminTokenList { admin_tokens }))
}

async fn create(
    State(api): State<Arc<Api>>,
    who: Who,
    Sent(sent): Sent<TokenToCreate>,
) -> Result<Created<impl Serialize>, Refusal> {
    let expires = sent.expires.as_deref().unwrap_or(DEFAULT_LIFETIME);
    let lifetime: Lifetime =
        expires.parse().map_err(|_| Refusal::invalid("`expires` is a time such as 12h or 90d, or never."))?;
    let issued =
        api.services.users.create_admin_token(&who.actor, &sent.name, sent.role, lifetime).await?.done;
    let token = issued.secret.expose().to_owned();
    Ok(Created(AdminTokenWithSecret { shown: AdminTokenShown::of(issued.token, api.clock.now()), token }))
}

async fn revoke(
    State(api): State<Arc<Api>>,
    who: Who,
    Named(id): Named,
) -> Result<Json<impl Serialize>, Refusal> {
    let revoked = api.services.users.revoke_admin_token(&who.actor, &id).await?;
    api.stop_jobs_without_permission().await;
    Ok(Json(AdminTokenShown::of(revoked.done, api.clock.now())))
}
