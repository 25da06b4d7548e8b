//! Changing a user: only what is named changes.

use crate::{PasswordHash, Role, Timestamp, TotpSeed, User};

/// What to change about a user. `None` leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserChange {
    /// Only if the user still has this generation: it is what the change was decided on.
    pub if_generation: Option<String>,
    /// The role.
    pub role: Option<Role>,
    /// When the account was disabled, or that it is not. The first time counts.
    pub disabled_at: Option<Option<Timestamp>>,
    /// The password.
    pub password: Option<NewPassword>,
    /// The second factor, or that there is none.
    pub totp: Option<Option<TotpSeed>>,
    /// The step of the code that was accepted; only if no code of this step or a later one was accepted before.
    pub totp_step: Option<i64>,
    /// When the user logged in.
    pub last_login_at: Option<Timestamp>,
    /// The new generation, if something else changes.
    pub generation: Option<String>,
}

/// A new password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPassword {
    /// Its hash.
    pub hash: PasswordHash,
    /// Whether it has to be changed before anything else is done.
    pub must_change: bool,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserChanged {
    /// It was made. The user as it is now.
    Done(User),
    /// There is no such user.
    Unknown,
    /// Nothing was changed: no admin who can log in would be left.
    LastAdmin,
    /// Nothing was changed: the user has another generation by now, or the code was used.
    Outdated,
}

impl UserChange {
    /// What becomes of this change of one of all users. An engine calls it in the transaction in which it stores the
    /// result, with everybody else kept out, so that two changes cannot each rely on the other admin.
    pub fn decide(&self, users: &[User], name: &str) -> UserChanged {
        let Some(before) = users.iter().find(|user| user.name == name) else { return UserChanged::Unknown };
        let Some(after) = self.apply(before) else { return UserChanged::Outdated };
        let has_other = || users.iter().any(|user| user.name != name && user.is_enabled_admin());
        if before.is_enabled_admin() && !after.is_enabled_admin() && !has_other() {
            return UserChanged::LastAdmin;
        }
        UserChanged::Done(after)
    }

    /// The user as it is after the change; `None` if it was decided on something that is not true any more.
    fn apply(&self, before: &User) -> Option<User> {
        if self.if_generation.as_ref().is_some_and(|generation| *generation != before.generation) {
            return None;
        }
        let mut after = before.clone();
        after.role = self.role.unwrap_or(before.role);
        after.disabled_at = match self.disabled_at {
            None => before.disabled_at,
            Some(None) => None,
            Some(at) => before.disabled_at.or(at),
        };
        if let Some(NewPassword { hash, must_change }) = &self.password {
            after.password = hash.clone();
            after.must_change_password = *must_change;
        }
        if let Some(totp) = &self.totp {
            after.totp.clone_from(totp);
        }
        if let Some(step) = self.totp_step {
            let seed = after.totp.as_mut().filter(|seed| step > seed.last_step)?;
            seed.last_step = step;
        }
        after.last_login_at = self.last_login_at.or(before.last_login_at);
        if let Some(generation) = self.generation.as_ref().filter(|_| after != *before) {
            after.generation.clone_from(generation);
        }
        Some(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, role: Role) -> User {
        let password = PasswordHash::from_store("hash".to_owned());
        User::new(name, role, password, Timestamp::from_millis(1)).expect("randomness")
    }

    #[test]
    fn a_change_that_changes_nothing_ends_no_session() {
        let olga = user("olga", Role::Operator);
        let generation = Some("gen_new".to_owned());
        let role =
            |role| UserChange { role: Some(role), generation: generation.clone(), ..UserChange::default() };
        assert_eq!(
            role(Role::Operator).decide(std::slice::from_ref(&olga), "olga"),
            UserChanged::Done(olga.clone())
        );
        let UserChanged::Done(after) = role(Role::Privacy).decide(std::slice::from_ref(&olga), "olga") else {
            panic!("it is made")
        };
        assert_eq!(after, User { role: Role::Privacy, generation: "gen_new".to_owned(), ..olga });
    }
}
