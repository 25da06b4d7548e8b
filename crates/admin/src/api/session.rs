//! Logging in and out.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contactd_core::{Role, Timestamp, User, Via};
use contactd_services::LoginError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Api;
use crate::api::auth::{COOKIE, Who};
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Json, Sent};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;
use crate::api::sessions::Session;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::post("/session", Needs::Nothing, "logIn", log_in)
            .says("Log in with a name, a password and, if there is a second factor, a code.")
            .takes::<Login>()
            .answers::<SessionShown>(),
        Endpoint::post("/session/link", Needs::Nothing, "logInByLink", log_in_by_link)
            .says("Log in with a link that works once.")
            .takes::<Link>()
            .answers::<SessionShown>(),
        Endpoint::get("/session", Needs::Session, "session", show)
            .says("Who is logged in.")
            .answers::<SessionShown>()
            .unused(),
        Endpoint::delete("/session", Needs::Session, "logOut", log_out).says("Log out.").with_status(204),
    ]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Login {
    name: String,
    password: String,
    /// The code of the authenticator app, if there is a second factor.
    #[serde(default)]
    code: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Link {
    link: String,
}

/// A session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SessionShown {
    user: SessionUser,
    /// What the user's role may do.
    permissions: Vec<&'static str>,
    /// Whether what the user looks at is put on record; not if this server keeps no journal.
    is_on_record: bool,
    /// To be sent as `X-Contactd-Csrf` with every request that changes something.
    csrf_token: String,
    /// When the session ends in any case.
    #[schemars(with = "String")]
    ends_at: Timestamp,
    /// When it ends if it is not used.
    #[schemars(with = "String")]
    idle_ends_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SessionUser {
    name: String,
    #[schemars(with = "String")]
    role: Role,
    has_totp: bool,
    must_change_password: bool,
}

impl SessionShown {
    fn of(api: &Api, session: &Session, user: &User) -> Self {
        Self {
            user: SessionUser {
                name: user.name.clone(),
                role: user.role,
                has_totp: user.totp.is_some(),
                must_change_password: user.must_change_password && !session.is_by_link,
            },
            permissions: Permission::names_of(user.role),
            is_on_record: api.status.is_journal_on,
            csrf_token: session.csrf.clone(),
            ends_at: session.ends_at(),
            idle_ends_at: session.idle_ends_at(),
        }
    }
}

/// `POST /session`
async fn log_in(State(api): State<Arc<Api>>, Sent(login): Sent<Login>) -> Result<Response, Refusal> {
    let now = api.clock.now();
    let turn = api.attempts.turn(&login.name, now).await.map_err(Refusal::too_many_attempts)?;
    let _turn = turn;
    let code = login.code.as_deref().map(str::trim).filter(|code| !code.is_empty());
    match api.services.users.log_in(Via::Console, &login.name, &login.password, code).await {
        Ok(user) => {
            api.attempts.succeeded(&login.name);
            begin(&api, &user, false)
        }
        Err(error) => {
            // The page asks for the code only once the password was right, which is not an attempt that failed.
            if !matches!(error, LoginError::CodeNeeded) || code.is_some() {
                api.attempts.failed(&login.name, now);
            }
            Err(error.into())
        }
    }
}

/// `POST /session/link`
async fn log_in_by_link(State(api): State<Arc<Api>>, Sent(link): Sent<Link>) -> Result<Response, Refusal> {
    let logged_in = match api.sessions.use_link(&link.link, api.clock.now()) {
        Some(name) => api.services.users.log_in_by_link(Via::Console, &name).await,
        None => Err(LoginError::Wrong),
    };
    match logged_in {
        Ok(user) => begin(&api, &user, true),
        Err(LoginError::Wrong) => {
            let message = "This link was used before, or has ended. Log in with your name and password.";
            Err(Refusal::new(StatusCode::UNAUTHORIZED, "wrong_credentials", message))
        }
        Err(error) => Err(error.into()),
    }
}

/// Begins a session and gives its secret to the browser.
fn begin(api: &Api, user: &User, is_by_link: bool) -> Result<Response, Refusal> {
    let begun = api.sessions.begin(user, is_by_link, api.clock.now());
    let (session, secret) = begun.map_err(|_| Refusal::internal())?;
    let mut response = Json(SessionShown::of(api, &session, user)).into_response();
    set_cookie(api, &mut response, &secret, "");
    Ok(response)
}

fn set_cookie(api: &Api, response: &mut Response, secret: &str, more: &str) {
    let secure = if api.is_tls { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={secret}; Path=/admin; HttpOnly; SameSite=Strict{secure}{more}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

/// `GET /session`
async fn show(State(api): State<Arc<Api>>, who: Who) -> Result<Json<impl Serialize>, Refusal> {
    let session = who.session()?;
    let user = api.services.users.find(&session.user).await?.ok_or_else(Refusal::unauthorized)?;
    Ok(Json(SessionShown::of(&api, session, &user)))
}

/// `DELETE /session`
async fn log_out(State(api): State<Arc<Api>>, who: Who) -> Result<Response, Refusal> {
    api.sessions.end(who.session()?);
    let mut response = StatusCode::NO_CONTENT.into_response();
    set_cookie(&api, &mut response, "", "; Max-Age=0");
    Ok(response)
}
