//! Who is logged in to the console.
//!
//! Sessions are in memory: they end when the server stops. What the browser holds is a random secret, of which only the hash is
//! kept here.

use std::collections::HashMap;
use std::time::Duration;

use contactd_core::{Timestamp, TotpSeed, User, hex};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::api::Origin;

/// A session that is not used for so long ends.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// A session ends after so long, however much it is used.
const LONGEST: Duration = Duration::from_secs(12 * 3600);

/// How many sessions a user may have; another one ends the one that was not used for the longest time.
const MOST_PER_USER: usize = 10;

/// How long a link that logs in once can be used.
const LINK_LIFE: Duration = Duration::from_secs(3600);

type SecretHash = [u8; 32];

/// The sessions of the console.
#[derive(Default)]
pub(crate) struct Sessions {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    sessions: HashMap<SecretHash, Session>,
    /// Links that log in once, by the hash of their secret: the user, and when it ends.
    links: HashMap<SecretHash, (String, Timestamp)>,
}

/// A session.
#[derive(Clone)]
pub(crate) struct Session {
    key: SecretHash,
    /// Who is logged in.
    pub(crate) user: String,
    /// The user's generation when the session began. It ends if that changes.
    pub(crate) generation: String,
    /// What every request that changes something has to carry, so that no other page can send one.
    pub(crate) csrf: String,
    /// Whether it began with a link instead of a password.
    pub(crate) is_by_link: bool,
    /// A second factor that is being set up.
    pub(crate) totp: Option<TotpSeed>,
    began_at: Timestamp,
    used_at: Timestamp,
}

impl Session {
    /// When it ends in any case.
    pub(crate) fn ends_at(&self) -> Timestamp {
        self.began_at.plus(LONGEST)
    }

    /// When it ends if it is not used.
    pub(crate) fn idle_ends_at(&self) -> Timestamp {
        self.used_at.plus(IDLE).min(self.ends_at())
    }

    /// Where attempts come from that are made with it.
    pub(crate) const fn origin(&self) -> Origin {
        Origin::Session(self.key)
    }

    fn is_over(&self, now: Timestamp) -> bool {
        // A clock that was set back does not make it longer.
        now >= self.idle_ends_at() || now < self.began_at
    }
}

impl Sessions {
    /// Begins a session. Returns it, and the secret for the browser.
    pub(crate) fn begin(
        &self,
        user: &User,
        is_by_link: bool,
        now: Timestamp,
    ) -> Result<(Session, String), getrandom::Error> {
        let (secret, csrf) = (random()?, random()?);
        let session = Session {
            key: hash(&secret),
            user: user.name.clone(),
            generation: user.generation.clone(),
            csrf,
            is_by_link,
            totp: None,
            began_at: now,
            used_at: now,
        };
        let mut inner = self.inner.lock();
        inner.sessions.retain(|_, session| !session.is_over(now));
        let own = inner.sessions.values().filter(|other| other.user == session.user);
        if own.clone().count() >= MOST_PER_USER
            && let Some(oldest) = own.min_by_key(|other| other.used_at).map(|other| other.key)
        {
            inner.sessions.remove(&oldest);
        }
        inner.sessions.insert(session.key, session.clone());
        Ok((session, secret))
    }

    /// The session with this secret, if it is not over. `is_use`: it is used by this.
    pub(crate) fn find(&self, secret: &str, now: Timestamp, is_use: bool) -> Option<Session> {
        let mut inner = self.inner.lock();
        let key = hash(secret);
        let session = inner.sessions.get_mut(&key)?;
        if session.is_over(now) {
            inner.sessions.remove(&key);
            return None;
        }
        if is_use {
            session.used_at = now;
        }
        Some(session.clone())
    }

    /// Ends a session.
    pub(crate) fn end(&self, session: &Session) {
        self.inner.lock().sessions.remove(&session.key);
    }

    /// Lets a session go on after its user's generation has changed, as the only one.
    pub(crate) fn go_on(&self, session: &Session, generation: &str) {
        let mut inner = self.inner.lock();
        inner.sessions.retain(|key, other| *key == session.key || other.user != session.user);
        if let Some(session) = inner.sessions.get_mut(&session.key) {
            session.generation = generation.to_owned();
            session.is_by_link = false;
        }
    }

    /// Remembers a second factor that is being set up; `None`: it no longer is.
    pub(crate) fn set_totp(&self, session: &Session, totp: Option<TotpSeed>) {
        if let Some(session) = self.inner.lock().sessions.get_mut(&session.key) {
            session.totp = totp;
        }
    }

    /// Makes a link that logs this user in once. Returns its secret.
    pub(crate) fn make_link(&self, user: &str, now: Timestamp) -> Result<String, getrandom::Error> {
        let secret = random()?;
        self.inner.lock().links.insert(hash(&secret), (user.to_owned(), now.plus(LINK_LIFE)));
        Ok(secret)
    }

    /// Uses a link up. Returns whom it logs in.
    pub(crate) fn use_link(&self, secret: &str, now: Timestamp) -> Option<String> {
        let (user, ends_at) = self.inner.lock().links.remove(&hash(secret))?;
        (now < ends_at).then_some(user)
    }
}

fn random() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(hex::encode(&bytes))
}

fn hash(secret: &str) -> SecretHash {
    Sha256::digest(secret).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use contactd_core::{PasswordHash, Role};

    fn user() -> User {
        User::new("ada", Role::Admin, PasswordHash::from_store(String::new()), start()).expect("random")
    }

    fn start() -> Timestamp {
        Timestamp::parse("2026-05-01T12:00:00Z").expect("a time")
    }

    #[test]
    fn a_session_ends_when_it_is_not_used_and_after_half_a_day_however_much_it_is_used() {
        let sessions = Sessions::default();
        let (_, unused) = sessions.begin(&user(), false, start()).expect("random");
        let (_, used) = sessions.begin(&user(), false, start()).expect("random");
        let mut now = start();
        while now.plus(Duration::from_secs(20 * 60)) < start().plus(LONGEST) {
            now = now.plus(Duration::from_secs(20 * 60));
            assert!(sessions.find(&used, now, true).is_some());
            // Asking whether it goes on is not using it.
            assert_eq!(sessions.find(&unused, now, false).is_some(), now < start().plus(IDLE));
        }
        assert!(sessions.find(&used, start().plus(LONGEST), true).is_none());
    }

    #[test]
    fn a_user_has_ten_sessions_at_most_and_the_one_that_waited_longest_ends() {
        let sessions = Sessions::default();
        let begin = |second| {
            let now = start().plus(Duration::from_secs(second));
            sessions.begin(&user(), false, now).expect("random").1
        };
        let secrets: Vec<String> = (0..=MOST_PER_USER as u64).map(begin).collect();
        let now = start().plus(Duration::from_secs(60));
        let alive: Vec<bool> =
            secrets.iter().map(|secret| sessions.find(secret, now, false).is_some()).collect();
        assert!(!alive[0] && alive[1..].iter().all(|is_alive| *is_alive), "{alive:?}");
    }

    #[test]
    fn a_link_logs_in_once_and_within_an_hour() {
        let sessions = Sessions::default();
        let link = sessions.make_link("demo", start()).expect("random");
        assert_eq!(sessions.use_link(&link, start()).as_deref(), Some("demo"));
        assert_eq!(sessions.use_link(&link, start()), None);
        let late = sessions.make_link("demo", start()).expect("random");
        assert_eq!(sessions.use_link(&late, start().plus(LINK_LIFE)), None);
    }
}
