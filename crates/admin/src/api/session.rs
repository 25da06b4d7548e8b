//! Logging in and out.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use contactd_core::{Role, Timestamp, User, Via};
use contactd_services::LoginError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::Api;
use crate::api::attempts::{Attempt, Origin};
use crate::api::auth::{Call, cookie_name};
use crate::api::endpoint::{Described, Endpoint};
use crate::api::extract::{Answer, Json, Sent};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;
use crate::api::sessions::Session;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::post("/session", Needs::Nothing, "logIn")
            .does("Log in with a name, a password and, if there is a second factor, a code.", log_in),
        Endpoint::post("/session/link", Needs::Nothing, "logInByLink")
            .does("Log in with a link that works once.", log_in_by_link),
        Endpoint::get("/session", Needs::Session, "session").does("Who is logged in.", show).unused(),
        Endpoint::delete("/session", Needs::Session, "logOut").does("Log out.", log_out),
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
    #[schemars(with = "Vec<String>")]
    permissions: Vec<Permission>,
    /// Whether what the user looks at is put on record; not if this server keeps no journal.
    is_on_record: bool,
    /// To be sent as `X-Contactd-Csrf` with every request that changes something.
    csrf_token: String,
    /// When the session ends in any case.
    ends_at: Timestamp,
    /// When it ends if it is not used.
    idle_ends_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SessionUser {
    name: String,
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
            permissions: Permission::of(user.role),
            is_on_record: api.status.is_journal_on,
            csrf_token: session.csrf.clone(),
            ends_at: session.ends_at(),
            idle_ends_at: session.idle_ends_at(),
        }
    }
}

/// `POST /session`
async fn log_in(
    State(api): State<Arc<Api>>,
    origin: Origin,
    Sent(login): Sent<Login>,
) -> Result<LoggedIn, Refusal> {
    let now = api.clock.now();
    let code = login.code.as_deref().map(str::trim).filter(|code| !code.is_empty());
    let attempt = Attempt::new(&login.name, origin, code.is_some());
    let _turn = api.attempts.turn(&attempt, now).await.map_err(Refusal::too_many_attempts)?;
    match api.services.users.log_in(Via::Console, &login.name, &login.password, code).await {
        Ok(user) => {
            api.attempts.succeeded(&attempt, now);
            begin(&api, &user, false)
        }
        Err(error) => {
            // The page asks for the code only once the password was right. That counts as a failure until the code comes.
            let is_half = matches!(error, LoginError::CodeNeeded) && code.is_none();
            api.attempts.failed(&attempt, is_half, now);
            Err(error.into())
        }
    }
}

/// `POST /session/link`
async fn log_in_by_link(State(api): State<Arc<Api>>, Sent(link): Sent<Link>) -> Result<LoggedIn, Refusal> {
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
fn begin(api: &Api, user: &User, is_by_link: bool) -> Result<LoggedIn, Refusal> {
    let begun = api.sessions.begin(user, is_by_link, api.clock.now());
    let (session, secret) = begun.map_err(|_| Refusal::internal())?;
    Ok(WithCookie { cookie: cookie(api, &secret, ""), answer: Json(SessionShown::of(api, &session, user)) })
}

fn cookie(api: &Api, secret: &str, more: &str) -> String {
    let name = cookie_name(api.is_tls);
    // Browsers accept `__Host-` only with these two.
    let (path, secure) = if api.is_tls { ("/", "; Secure") } else { ("/admin", "") };
    format!("{name}={secret}; Path={path}; HttpOnly; SameSite=Strict{secure}{more}")
}

/// An answer that gives the browser a cookie.
struct WithCookie<T> {
    cookie: String,
    answer: T,
}

type LoggedIn = WithCookie<Json<SessionShown>>;

impl<T: IntoResponse> IntoResponse for WithCookie<T> {
    fn into_response(self) -> Response {
        ([(header::SET_COOKIE, self.cookie)], self.answer).into_response()
    }
}

impl<T: Described> Described for WithCookie<T> {
    fn describe(endpoint: &mut Endpoint) {
        T::describe(endpoint);
    }
}

/// `GET /session`
async fn show(Call { api, who }: Call) -> Answer<SessionShown> {
    let session = who.session()?;
    let user = api.services.users.find(&session.user).await?.ok_or_else(Refusal::unauthorized)?;
    Ok(Json(SessionShown::of(&api, session, &user)))
}

/// `DELETE /session`
async fn log_out(Call { api, who }: Call) -> Result<WithCookie<StatusCode>, Refusal> {
    api.sessions.end(who.session()?);
    Ok(WithCookie { cookie: cookie(&api, "", "; Max-Age=0"), answer: StatusCode::NO_CONTENT })
}
