//! Who calls, and whether they may.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use contactd_core::{Actor, Role, Via};

use crate::api::Api;
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;
use crate::api::sessions::Session;

/// The cookie that holds the secret of a session. With TLS its name lets the browser take it from this host only, over TLS only: no other
/// name below the same domain can set one.
pub(crate) const fn cookie_name(is_tls: bool) -> &'static str {
    if is_tls { "__Host-contactd_session" } else { "contactd_session" }
}

/// The header with the session's CSRF token.
const CSRF: &str = "x-contactd-csrf";

/// What the owner of uploads and jobs begins with if it is a user. Else it is the id of an admin token.
pub(crate) const USER: &str = "user ";

/// Who calls: a user of the console, or the holder of an admin token.
#[derive(Clone)]
pub(crate) struct Who {
    /// The actor of what is done.
    pub(crate) actor: Actor,
    pub(crate) role: Role,
    /// The session, if it is a user.
    pub(crate) session: Option<Session>,
    /// To whom uploads and jobs belong.
    pub(crate) owner: String,
    /// The user whose account this is, or whose admin token; none if that was made on the command line.
    pub(crate) user: Option<String>,
}

impl Who {
    /// Whether the role may see what is held about a person.
    pub(crate) fn sees_people(&self) -> bool {
        Permission::People.roles().contains(&self.role)
    }

    /// The actor, working on a case.
    pub(crate) fn actor_for(&self, ticket: Option<&str>) -> Actor {
        self.actor.clone().for_ticket(ticket.map(str::trim).filter(|ticket| !ticket.is_empty()))
    }

    /// The session. Endpoints that take it need one.
    pub(crate) fn session(&self) -> Result<&Session, Refusal> {
        self.session.as_ref().ok_or_else(Refusal::unauthorized)
    }
}

/// A call of an endpoint: the API, and who calls.
pub(crate) struct Call {
    pub(crate) api: Arc<Api>,
    pub(crate) who: Who,
}

impl FromRequestParts<Arc<Api>> for Call {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Refusal> {
        let who = parts.extensions.remove().ok_or_else(Refusal::unauthorized)?;
        Ok(Self { api: Arc::clone(api), who })
    }
}

/// What is checked before an endpoint is called.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) api: Arc<Api>,
    pub(crate) needs: Needs,
    pub(crate) is_use: bool,
}

/// Lets a request through to its endpoint if its caller may use it.
pub(crate) async fn authorize(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if gate.needs == Needs::Nothing {
        return match same_origin(request.headers()) {
            Ok(()) => next.run(request).await,
            Err(refusal) if *request.method() != Method::GET => refusal.into_response(),
            Err(_) => next.run(request).await,
        };
    }
    match check(&gate, request.headers(), request.method()).await {
        Ok(who) => {
            request.extensions_mut().insert(who);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

async fn check(gate: &Gate, headers: &HeaderMap, method: &Method) -> Result<Who, Refusal> {
    let who = match headers.get(header::AUTHORIZATION) {
        Some(authorization) => by_token(&gate.api, authorization).await?,
        None => by_session(gate, headers, method).await?,
    };
    if gate.needs == Needs::Session && who.session.is_none() {
        return Err(Refusal::forbidden(
            "This is about a user who is logged in. An admin token cannot do it.",
        ));
    }
    if !gate.needs.roles().contains(&who.role) {
        let needed = gate.needs.roles().iter().map(|role| role.name()).collect::<Vec<_>>().join(" or ");
        let message = format!("Your role, {}, may not do this. It needs the role {needed}.", who.role.name());
        return Err(Refusal::forbidden(message));
    }
    Ok(who)
}

/// The holder of an admin token.
async fn by_token(api: &Api, authorization: &HeaderValue) -> Result<Who, Refusal> {
    let text = authorization.to_str().unwrap_or_default();
    let secret = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some((_, secret)) = secret else { return Err(Refusal::unauthorized()) };
    let token = api.services.users.recognize(secret.trim()).await?.ok_or_else(Refusal::unauthorized)?;
    // A line is about one token only, whatever its name was, is or will be.
    let actor = Actor::new(&format!("{} ({})", token.name, token.id), Via::AdminApi);
    Ok(Who { actor, role: token.role, session: None, owner: token.id, user: token.owner })
}

/// The user of a session. It ends with whatever changes who the user is.
async fn by_session(gate: &Gate, headers: &HeaderMap, method: &Method) -> Result<Who, Refusal> {
    let api = &gate.api;
    let Some(secret) = cookie(headers, cookie_name(api.is_tls)) else {
        let is_first = gate.needs == Needs::Session && !api.services.users.are_there_any().await?;
        return Err(if is_first { Refusal::no_user() } else { Refusal::unauthorized() });
    };
    let session =
        api.sessions.find(secret, api.clock.now(), gate.is_use).ok_or_else(Refusal::unauthorized)?;
    let user = api.services.users.find(&session.user).await?;
    let user = user.filter(|user| user.disabled_at.is_none() && user.generation == session.generation);
    let Some(user) = user else {
        api.sessions.end(&session);
        return Err(Refusal::unauthorized());
    };
    if *method != Method::GET && *method != Method::HEAD {
        same_origin(headers)?;
        let sent = headers.get(CSRF).map(HeaderValue::as_bytes).unwrap_or_default();
        if !is_equal(sent, session.csrf.as_bytes()) {
            let message = "This request does not come from this console's own page. Load the page again.";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "csrf", message));
        }
    }
    // With a password that somebody else knows, nothing can be done but to choose another one.
    if user.must_change_password && !session.is_by_link && gate.needs != Needs::Session {
        let message = "Choose a password of your own first.";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "password_change_needed", message));
    }
    let actor = Actor::new(&user.name, Via::Console);
    let owner = format!("{USER}{}", user.name);
    Ok(Who { actor, role: user.role, session: Some(session), owner, user: Some(user.name) })
}

/// The secret in the cookie.
fn cookie<'a>(headers: &'a HeaderMap, of: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == of).map(|(_, secret)| secret)
}

/// Refuses what another site's page sent.
fn same_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_foreign = text("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
        || text("origin").is_some_and(|origin| {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_none() || host != text("host")
        });
    if is_foreign {
        let message = "This request comes from the page of another site.";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "csrf", message));
    }
    Ok(())
}

/// Whether two texts are equal, in a time that does not tell where they differ.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
