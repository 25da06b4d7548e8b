//! The account of whoever is logged in.

use axum::http::StatusCode;
use contactd_core::{Role, Timestamp, User};
use contactd_services::{Changed, UserError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Api;
use crate::api::attempts::{Attempt, Turn};
use crate::api::auth::{Call, Who};
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Answer, Json, Sent};
use crate::api::permission::Needs;
use crate::api::refusal::Refusal;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::get("/me", Needs::Session, "showMe").does("Your own account.", show),
        Endpoint::post("/me/password", Needs::Session, "changePassword")
            .does("Choose another password. Your other sessions end.", change_password),
        Endpoint::post("/me/totp", Needs::Session, "beginTotp")
            .does("Begin to set up a second factor.", begin_totp),
        Endpoint::post("/me/totp/confirm", Needs::Session, "confirmTotp").does(
            "Set up the second factor, with your password and a code that shows that it works.",
            confirm_totp,
        ),
        Endpoint::delete("/me/totp", Needs::Session, "removeTotp")
            .does("Remove the second factor.", remove_totp),
    ]
}

/// A user's own account.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Me {
    name: String,
    role: Role,
    has_totp: bool,
    must_change_password: bool,
    session_ends_at: Timestamp,
    last_login_at: Option<Timestamp>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PasswordChange {
    old: String,
    /// At least 12 characters.
    new: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TotpConfirmation {
    password: String,
    /// Six digits of the authenticator app.
    code: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Password {
    password: String,
}

#[derive(Serialize, JsonSchema)]
struct TotpBegun {
    /// The secret for the authenticator app, in base 32.
    secret: String,
    /// The same as `otpauth://…`.
    uri: String,
}

async fn show(Call { api, who }: Call) -> Answer<Me> {
    let session = who.session()?;
    let user = api.services.users.find(&session.user).await?.ok_or_else(Refusal::unauthorized)?;
    Ok(Json(Me {
        name: user.name,
        role: user.role,
        has_totp: user.totp.is_some(),
        must_change_password: user.must_change_password && !session.is_by_link,
        session_ends_at: session.ends_at(),
        last_login_at: user.last_login_at,
    }))
}

async fn change_password(
    Call { api, who }: Call,
    Sent(change): Sent<PasswordChange>,
) -> Result<StatusCode, Refusal> {
    let _turn = attempt(&api, &who).await?;
    let (name, users) = (&who.session()?.user, &api.services.users);
    go_on(&api, &who, users.change_password(&who.actor, name, &change.old, &change.new).await)
}

async fn begin_totp(Call { api, who }: Call) -> Answer<TotpBegun> {
    let session = who.session()?;
    let user = api.services.users.find(&session.user).await?.ok_or_else(Refusal::unauthorized)?;
    if user.must_change_password && !session.is_by_link {
        return Err(Refusal::forbidden("Choose a password of your own first."));
    }
    if user.totp.is_some() {
        return Err(Refusal::conflict("There is a second factor. Switch it off first, with your password."));
    }
    let setup = api.services.users.begin_totp(&who.actor, &session.user).await?;
    api.sessions.set_totp(session, Some(setup.seed));
    Ok(Json(TotpBegun { secret: setup.secret_base32, uri: setup.uri }))
}

async fn confirm_totp(
    Call { api, who }: Call,
    Sent(sent): Sent<TotpConfirmation>,
) -> Result<StatusCode, Refusal> {
    let _turn = attempt(&api, &who).await?;
    let session = who.session()?;
    let Some(seed) = session.totp.clone() else {
        return Err(Refusal::conflict(
            "Begin again: the second factor that was being set up is not known any more.",
        ));
    };
    let (name, users) = (&session.user, &api.services.users);
    let confirmed = users.confirm_totp(&who.actor, name, &sent.password, seed, &sent.code).await;
    let done = go_on(&api, &who, confirmed)?;
    api.sessions.set_totp(session, None);
    Ok(done)
}

async fn remove_totp(Call { api, who }: Call, Sent(sent): Sent<Password>) -> Result<StatusCode, Refusal> {
    let _turn = attempt(&api, &who).await?;
    let (name, users) = (&who.session()?.user, &api.services.users);
    go_on(&api, &who, users.remove_totp(&who.actor, name, &sent.password).await)
}

/// Waits for the turn to check a password. Whoever takes over a session cannot guess it without limit.
async fn attempt(api: &Api, who: &Who) -> Result<Turn, Refusal> {
    api.attempts.turn(&of_session(who)?, api.clock.now()).await.map_err(Refusal::too_many_attempts)
}

/// Attempts of a session are counted by themselves: nobody who has none slows it.
fn of_session(who: &Who) -> Result<Attempt, Refusal> {
    Ok(Attempt::new(&who.actor.name, who.session()?.origin(), false))
}

/// Lets the session go on after a change of its user, or notes that the password was wrong.
fn go_on(api: &Api, who: &Who, changed: Result<Changed<User>, UserError>) -> Result<StatusCode, Refusal> {
    if matches!(changed, Err(UserError::WrongPassword)) {
        api.attempts.failed(&of_session(who)?, false, api.clock.now());
    }
    api.sessions.go_on(who.session()?, &changed?.done.generation);
    Ok(StatusCode::NO_CONTENT)
}
