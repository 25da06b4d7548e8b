//! Users of the console.

use axum::http::StatusCode;
use contactd_core::Role;
use contactd_services::views::UserView;
use contactd_services::{LoginError, NewUser, UserError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::auth::Call;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Answer, Created, Json, Named, NewAnswer, Sent};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::{Refusal, sentence};

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::Users);
    vec![
        Endpoint::get("/users", needs, "listUsers").does("All users.", list),
        Endpoint::post("/users", needs, "createUser")
            .does("Create a user, with a password that works until they choose their own.", create),
        Endpoint::post("/users/{name}/password", needs, "resetPassword").does(
            "Make a new password that works until the user chooses their own. Their sessions end.",
            reset_password,
        ),
        Endpoint::post("/users/{name}/role", needs, "changeRole")
            .does(
                "Give a user another role. Their sessions end, and the admin tokens of who is no admin any more are refused.",
                change_role,
            ),
        Endpoint::post("/users/{name}/disable", needs, "disableUser")
            .does("Disable a user. Their sessions end, and their admin tokens are refused.", disable),
        Endpoint::post("/users/{name}/enable", needs, "enableUser").does("Enable a user again.", enable),
        Endpoint::post("/users/{name}/reset-totp", needs, "resetTotp")
            .does("Remove the second factor of a user who has lost it. Their sessions end.", reset_totp),
    ]
}

#[derive(Serialize, JsonSchema)]
struct UserList {
    users: Vec<UserView>,
}

/// A user, with a password that is shown once.
#[derive(Serialize, JsonSchema)]
struct UserWithPassword {
    #[serde(flatten)]
    user: UserView,
    password: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UserToCreate {
    /// Small letters, digits, `.`, `_` and `-`; at most 64.
    name: String,
    #[schemars(extend("enum" = ["admin", "operator", "privacy", "auditor"]), with = "String")]
    role: Role,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RoleChange {
    #[schemars(extend("enum" = ["admin", "operator", "privacy", "auditor"]), with = "String")]
    role: Role,
}

impl From<NewUser> for UserWithPassword {
    fn from(new: NewUser) -> Self {
        Self { user: new.user.into(), password: new.password }
    }
}

async fn list(Call { api, who }: Call) -> Answer<UserList> {
    let users = api.services.users.list(&who.actor).await?;
    Ok(Json(UserList { users: users.into_iter().map(UserView::from).collect() }))
}

async fn create(Call { api, who }: Call, Sent(sent): Sent<UserToCreate>) -> NewAnswer<UserWithPassword> {
    let created = api.services.users.create(&who.actor, &sent.name, sent.role).await?;
    Ok(Created(UserWithPassword::from(created.done)))
}

async fn reset_password(Call { api, who }: Call, Named(name): Named) -> Answer<UserWithPassword> {
    let reset = api.services.users.reset_password(&who.actor, &name).await?;
    Ok(Json(UserWithPassword::from(reset.done)))
}

async fn change_role(
    Call { api, who }: Call,
    Named(name): Named,
    Sent(sent): Sent<RoleChange>,
) -> Answer<UserView> {
    let changed = api.services.users.set_role(&who.actor, &name, sent.role).await?;
    api.stop_jobs_without_permission().await;
    Ok(Json(UserView::from(changed.done)))
}

async fn disable(Call { api, who }: Call, Named(name): Named) -> Answer<UserView> {
    let disabled = api.services.users.disable(&who.actor, &name).await?;
    api.stop_jobs_without_permission().await;
    Ok(Json(UserView::from(disabled.done)))
}

async fn enable(Call { api, who }: Call, Named(name): Named) -> Answer<UserView> {
    Ok(Json(UserView::from(api.services.users.enable(&who.actor, &name).await?.done)))
}

async fn reset_totp(Call { api, who }: Call, Named(name): Named) -> Answer<UserView> {
    Ok(Json(UserView::from(api.services.users.reset_totp(&who.actor, &name).await?.done)))
}

impl From<UserError> for Refusal {
    fn from(error: UserError) -> Self {
        let bad = |code, message: &str| Self::new(StatusCode::BAD_REQUEST, code, message);
        match error {
            UserError::Name(error) => Self::invalid(sentence(&error.to_string())),
            UserError::Exists(_) => {
                Self::conflict("There is a user with this name already. Choose another name.")
            }
            UserError::Unknown => Self::not_found("There is no user with this name."),
            UserError::LastAdmin(name) => Self::conflict(format!(
                "{name} is the last admin who can log in. Make somebody else an admin first."
            )),
            UserError::WrongPassword => bad("wrong_password", "The current password is wrong."),
            UserError::WrongCode => bad(
                "wrong_code",
                "The code is wrong or was used before. Check the clock of the phone, and give the next code.",
            ),
            error @ (UserError::TooShort
            | UserError::TooLong
            | UserError::SamePassword
            | UserError::TokenName(_)
            | UserError::NoLifetime) => Self::invalid(sentence(&error.to_string())),
            UserError::TokenTaken(id) => Self::conflict(format!(
                "{id} has this name, or had it, and what it did is on record under it. Choose another name."
            )),
            UserError::Outdated => {
                Self::conflict("Somebody else has changed this user meanwhile. Try again.")
            }
            UserError::UnknownToken => Self::not_found("There is no admin token with this id."),
            UserError::AmbiguousToken { .. } => {
                Self::conflict("Several admin tokens have this name. Give the id of the one you mean.")
            }
            UserError::Store(error) => error.into(),
            UserError::Key(error) => {
                tracing::error!(target: "contactd::admin", %error, "a second factor cannot be set up");
                Self::second_factor_unavailable()
            }
            error @ (UserError::Hash | UserError::Random(_)) => {
                tracing::error!(target: "contactd::admin", %error, "a call of the admin API failed");
                Self::internal()
            }
        }
    }
}

impl Refusal {
    /// The key of second factors is missing here.
    fn second_factor_unavailable() -> Self {
        let message = "The server lacks the key of second factors. Ask the operator to look at its log, which says what to do.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "second_factor_unavailable", message)
    }
}

impl From<LoginError> for Refusal {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Wrong => {
                let message = "The name or the password is wrong.";
                Self::new(StatusCode::UNAUTHORIZED, "wrong_credentials", message)
            }
            LoginError::CodeNeeded => {
                let message = "The code is missing, wrong, or was used before. Wait for the next one.";
                Self::new(StatusCode::UNAUTHORIZED, "code_needed", message)
            }
            LoginError::Key(error) => {
                tracing::error!(target: "contactd::admin", %error, "a second factor cannot be checked, so its user is not logged in");
                Self::second_factor_unavailable()
            }
            LoginError::Store(error) => error.into(),
        }
    }
}
