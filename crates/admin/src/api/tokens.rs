//! Tokens of callers: who may look things up, how much, and until when.

mod asked;

use std::time::Duration;

use asked::{HowManyDays, LookupTokenToCreate, Rotation, TokenChange};
use contactd_core::Token;
use contactd_services::views::{DayLookups, TokenView};
use contactd_services::{AuditError, Days, IssuedToken, TokenError};
use contactd_services::{Changed, Committed};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::Api;
use crate::api::auth::Call;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Answer, Asked, Created, Json, Named, NewAnswer, Sent};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::{Refusal, sentence};

/// How long a new secret waits until the token is in force everywhere.
const SECRET_TIME: Duration = Duration::from_secs(5);

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::Tokens);
    vec![
        Endpoint::get("/tokens", needs, "listTokens").does("All tokens, oldest first, also those that have ended.", list),
        Endpoint::post("/tokens", needs, "createToken").does("Create a token. It is shown once. A name that another token has or had is refused (409).", create),
        Endpoint::patch("/tokens/{id}", needs, "changeToken").does("Change a live token. What is not given stays as it is; what is used of a quota still counts.", change),
        Endpoint::post("/tokens/{id}/rotate", needs, "rotateToken").does("Create a token in place of another one, which may have ended, with the same name, scopes and limits. They share one quota.", rotate),
        Endpoint::post("/tokens/{id}/revoke", needs, "revokeToken").does("Revoke a token now. Doing it again changes nothing.", revoke),
        Endpoint::get("/tokens/{id}/usage", needs, "showTokenUsage").does("The lookups of a token, day by day.", usage),
    ]
}

#[derive(Serialize, JsonSchema)]
struct TokenList {
    tokens: Vec<TokenView>,
}

/// A token that was changed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TokenChanged {
    #[serde(flatten)]
    shown: TokenView,
    /// Whether it is certain that every lookup from now on sees the change.
    in_force: bool,
    /// Whether the journal says so already. If not, the line follows by itself.
    is_on_record: bool,
}

/// A new token, with the secret that is shown once.
#[derive(Serialize, JsonSchema)]
struct TokenWithSecret {
    #[serde(flatten)]
    changed: TokenChanged,
    token: String,
}

#[derive(Serialize, JsonSchema)]
struct TokenUsage {
    /// Oldest first; days without a lookup are there too.
    days: Vec<DayShown>,
}

#[derive(Serialize, JsonSchema)]
struct DayShown {
    /// A UTC day, such as `2026-05-01`.
    day: String,
    hits: u64,
    misses: u64,
    refused: u64,
}

impl TokenChanged {
    /// A change is never reported as failed because what is used of a quota could not be read.
    async fn of(api: &Api, changed: Changed<Token>) -> Self {
        let Changed { done, confirmed, recorded, .. } = changed;
        Self::new(api, done, confirmed.is_ok(), recorded.is_ok()).await
    }

    async fn new(api: &Api, token: Token, in_force: bool, is_on_record: bool) -> Self {
        let used = api.services.tokens.quotas_used(std::slice::from_ref(&token)).await;
        let used = used.ok().and_then(|used| used.get(&token.id).copied());
        Self { in_force, is_on_record, shown: TokenView::of(&token, used, api.clock.now()) }
    }
}

impl TokenWithSecret {
    /// The secret is shown only once, so it is not kept back for long: in a cluster, a node that is away is waited for during a
    /// whole lease, and clients may have given up by then.
    async fn of(api: &Api, issued: Committed<IssuedToken>) -> Self {
        let (shown, token) = (issued.done.token.clone(), issued.done.secret.expose().to_owned());
        let announced = tokio::time::timeout(SECRET_TIME, issued.announce()).await;
        let (in_force, is_on_record) =
            announced.map_or((false, false), |changed| (changed.confirmed.is_ok(), changed.recorded.is_ok()));
        Self { changed: TokenChanged::new(api, shown, in_force, is_on_record).await, token }
    }
}

async fn list(Call { api, who }: Call) -> Answer<TokenList> {
    let tokens = api.services.tokens.list(&who.actor).await?;
    let used = api.services.tokens.quotas_used(&tokens).await?;
    let shown = |token: Token| {
        let used = used.get(&token.id).copied();
        TokenView::of(&token, used, api.clock.now())
    };
    Ok(Json(TokenList { tokens: tokens.into_iter().map(shown).collect() }))
}

async fn create(
    Call { api, who }: Call,
    Sent(sent): Sent<LookupTokenToCreate>,
) -> NewAnswer<TokenWithSecret> {
    let new = sent.read()?;
    let issued = api.services.tokens.create(&who.actor, new).await?;
    Ok(Created(TokenWithSecret::of(&api, issued).await))
}

async fn change(
    Call { api, who }: Call,
    Named(id): Named,
    Sent(sent): Sent<TokenChange>,
) -> Answer<TokenChanged> {
    let update = sent.read()?;
    let changed = api.services.tokens.update(&who.actor, &id, &update).await?;
    Ok(Json(TokenChanged::of(&api, changed.map(|done| done.after)).await))
}

async fn rotate(
    Call { api, who }: Call,
    Named(id): Named,
    Sent(sent): Sent<Rotation>,
) -> NewAnswer<TokenWithSecret> {
    let overlap = sent.overlap()?;
    let issued = api.services.tokens.rotate(&who.actor, &id, overlap, None).await?;
    Ok(Created(TokenWithSecret::of(&api, issued).await))
}

async fn revoke(Call { api, who }: Call, Named(id): Named) -> Answer<TokenChanged> {
    let revoked = api.services.tokens.revoke(&who.actor, &id).await?;
    Ok(Json(TokenChanged::of(&api, revoked).await))
}

async fn usage(
    Call { api, who }: Call,
    Named(id): Named,
    Asked(asked): Asked<HowManyDays>,
) -> Answer<TokenUsage> {
    let days = asked.read()?;
    let days = Days::last(days.into(), api.clock.now());
    let listed = api.services.audits.days_of_token(&who.actor, &id, &days).await.map_err(unread)?;
    let shown = |DayLookups { day, hits, misses, refused }| DayShown { day, hits, misses, refused };
    Ok(Json(TokenUsage { days: listed.into_iter().map(shown).collect() }))
}

fn unread(error: AuditError) -> Refusal {
    match error {
        AuditError::UnknownToken(_) => unknown(),
        AuditError::Store(error) => error.into(),
        error @ (AuditError::UnknownNode { .. } | AuditError::WhichNode { .. } | AuditError::Journal(_)) => {
            tracing::error!(target: "contactd::admin", %error, "the usage of a token could not be read");
            Refusal::internal()
        }
    }
}

fn unknown() -> Refusal {
    Refusal::not_found("There is no token with this id.")
}

impl From<TokenError> for Refusal {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Name(error) => Self::invalid(sentence(&error.to_string())),
            TokenError::Taken(id) => Self::conflict(format!(
                "{id} has this name, or had it, and its lookups are on record under it. Rotate {id}, also if it has ended, to continue it. For another recipient, choose another name."
            )),
            TokenError::NoLifetime => {
                Self::invalid("The token would have expired already. Give it a longer time, such as 90d.")
            }
            TokenError::Unknown(_) => unknown(),
            TokenError::Ambiguous { .. } => {
                Self::conflict("Several tokens have this name. Give the id of the one you mean.")
            }
            TokenError::Ended(_) => {
                Self::conflict("This token has ended, so it cannot be changed. Rotate it to continue it.")
            }
            TokenError::NoRate(_) => {
                Self::invalid("This token has no rate of its own, so a burst needs a rate too.")
            }
            TokenError::QuotaInSandbox => Self::invalid(
                "A token of the sandbox has no quota, because nothing that it receives counts. Leave out the quota.",
            ),
            TokenError::Scopes(fault) => Self::invalid(sentence(&fault.to_string())),
            TokenError::Store(error) => error.into(),
            error @ TokenError::Random(_) => {
                tracing::error!(target: "contactd::admin", %error, "a token could not be created");
                Self::internal()
            }
        }
    }
}
