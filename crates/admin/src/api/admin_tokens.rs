//! Tokens of this API.

use contactd_core::{Lifetime, Role};
use contactd_services::defaults;
use contactd_services::views::AdminTokenView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::auth::Call;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Answer, Created, Json, Named, NewAnswer, Sent};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::AdminTokens);
    vec![
        Endpoint::get("/admin-tokens", needs, "listAdminTokens")
            .does("All admin tokens, oldest first.", list),
        Endpoint::post("/admin-tokens", needs, "createAdminToken")
            .does("Create an admin token. It is shown once.", create),
        Endpoint::post("/admin-tokens/{id}/revoke", needs, "revokeAdminToken")
            .does("Revoke an admin token now.", revoke),
        Endpoint::post("/admin-tokens/{id}/take-over", needs, "takeOverAdminToken").does(
            "Make an admin token your own. It is accepted while its owner is an admin who can log in.",
            take_over,
        ),
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

async fn list(Call { api, who }: Call) -> Answer<AdminTokenList> {
    let (tokens, now) = (api.services.users.list_admin_tokens(&who.actor).await?, api.clock.now());
    let admin_tokens = tokens.into_iter().map(|token| AdminTokenView::of(token, now)).collect();
    Ok(Json(AdminTokenList { admin_tokens }))
}

async fn create(Call { api, who }: Call, Sent(sent): Sent<TokenToCreate>) -> NewAnswer<AdminTokenWithSecret> {
    let expires = sent.expires.as_deref().unwrap_or(defaults::TOKEN_LIFETIME);
    let lifetime: Lifetime =
        expires.parse().map_err(|_| Refusal::invalid("`expires` is a time such as 12h or 90d, or never."))?;
    let (users, owner) = (&api.services.users, who.user.as_deref());
    let issued = users.create_admin_token(&who.actor, owner, &sent.name, sent.role, lifetime).await?.done;
    let token = issued.secret.expose().to_owned();
    Ok(Created(AdminTokenWithSecret { shown: AdminTokenView::of(issued.token, api.clock.now()), token }))
}

async fn take_over(Call { api, who }: Call, Named(id): Named) -> Answer<AdminTokenView> {
    let taken = api.services.users.take_over_admin_token(&who.actor, who.user.as_deref(), &id).await?;
    Ok(Json(AdminTokenView::of(taken.done, api.clock.now())))
}

async fn revoke(Call { api, who }: Call, Named(id): Named) -> Answer<AdminTokenView> {
    let revoked = api.services.users.revoke_admin_token(&who.actor, &id).await?;
    api.stop_jobs_without_permission().await;
    Ok(Json(AdminTokenView::of(revoked.done, api.clock.now())))
}
