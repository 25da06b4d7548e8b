//! Stopping jobs: because somebody asked for it, because their account may not do it any more, or with the server.

use contactd_core::Role;
use contactd_services::UserError;

use crate::api::Api;
use crate::api::auth::USER;
use crate::api::jobs::Failed;
use crate::api::jobs::after_restart::{INTERRUPTED, INTERRUPTED_MESSAGE};

/// Why a job was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// Its owner asked for it.
    ByOwner,
    /// Its owner may not do this any more.
    WithoutPermission,
    /// The server stops.
    WithTheServer,
}

impl Stopped {
    /// What a job says that was stopped.
    pub(super) fn explain(self, failed: Failed) -> Failed {
        match self {
            Self::ByOwner => failed,
            Self::WithoutPermission => Failed {
                message: "Stopped, because this account was disabled, or its role or token changed. Nothing was changed."
                    .to_owned(),
                ..failed
            },
            Self::WithTheServer => Failed::new(INTERRUPTED, INTERRUPTED_MESSAGE),
        }
    }
}

/// Stops the running jobs whose owners are disabled, revoked or have another role by now that may not do this.
pub(crate) async fn stop_those_without_permission(api: &Api) -> Result<(), UserError> {
    for job in api.jobs.running() {
        let role = role_of(api, &job.owner).await?;
        if role.is_none_or(|role| !job.kind().rules().needs.roles().contains(&role)) {
            job.stop(Stopped::WithoutPermission);
        }
    }
    Ok(())
}

/// The role of whom a job belongs to; `None` if the account is disabled, or the token revoked or suspended.
async fn role_of(api: &Api, owner: &str) -> Result<Option<Role>, UserError> {
    let users = &api.services.users;
    Ok(match owner.strip_prefix(USER) {
        Some(name) => users.find(name).await?.filter(|user| user.disabled_at.is_none()).map(|user| user.role),
        None => {
            let token = users.find_admin_token(owner).await?;
            token.filter(|token| token.revoked_at.is_none() && !token.is_suspended).map(|token| token.role)
        }
    })
}
