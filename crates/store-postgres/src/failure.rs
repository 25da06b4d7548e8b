//! What can go wrong with a statement, and what to do about it.

use std::error::Error;
use std::io;
use std::time::Duration;

use contactd_core::store::StoreError;
use tokio_postgres::error::SqlState;

use crate::condition::slow_words;

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// PostgreSQL refused, or the connection was lost.
    Postgres(tokio_postgres::Error),
    /// There was no answer in time. The connection cannot be used any more.
    Silent,
    /// An answer takes this long, so that there was no time for all of them.
    Slow(Duration),
    /// Every host answers, and none can be written to.
    NoPrimary,
    /// The host that can be written to was replaced by another one, which does not answer.
    Replaced,
    /// Something that repeating does not change.
    Store(StoreError),
}

/// What came of an attempt.
pub(crate) type Tried<T> = Result<T, Failure>;

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        failure.into_store_error()
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Conditions that end by themselves: another server becomes the primary, or a conflicting transaction ends.
const PASSING: &[SqlState] = &[
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    SqlState::CANNOT_CONNECT_NOW,
    SqlState::READ_ONLY_SQL_TRANSACTION,
    // A primary that has just become a standby has no position any more.
    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::TOO_MANY_CONNECTIONS,
    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
];

/// What to do about the disk of the database.
pub(crate) const DISK_FULL: &str = "the database's disk is full: make room on the machine of the database";

/// What an operator can do something about, and what that is.
fn in_words(code: &SqlState) -> Option<&'static str> {
    Some(match *code {
        SqlState::INVALID_PASSWORD => {
            "wrong user or password: put the right ones into the URL (store in the configuration file, CONTACTD_STORE or --store) and \
             restart contactd, or set the old password again in PostgreSQL"
        }
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "it does not let this user connect: check the user in the URL, whether the server wants TLS (sslrootcert), and its pg_hba.conf"
        }
        SqlState::INVALID_CATALOG_NAME => {
            "there is no such database: check its name in the URL, or create it"
        }
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "this user may not do that: it has to own the database, and the schema contactd and its tables if they exist"
        }
        SqlState::TOO_MANY_CONNECTIONS => {
            "no connection is left, for everybody (max_connections) or for this user or database (CONNECTION LIMIT): SELECT usename, \
             application_name, count(*) FROM pg_stat_activity GROUP BY 1, 2 shows who has them. End some, or raise the limit"
        }
        SqlState::DISK_FULL => DISK_FULL,
        _ => return None,
    })
}

/// Whether the server asked for a password, and the URL has none.
fn lacks_password(error: &tokio_postgres::Error) -> bool {
    // The driver has no other sign of it.
    error.code().is_none() && error.source().is_some_and(|cause| cause.to_string() == "password missing")
}

/// Whether the name of a host could not be resolved. The standard library has no kind for it.
fn is_unknown_host(cause: &io::Error) -> bool {
    cause.to_string().starts_with("failed to lookup address information")
}

impl Failure {
    /// Whether it is worth trying again, with another connection.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Silent | Self::Slow(_) | Self::NoPrimary | Self::Replaced => true,
            Self::Store(_) => false,
            Self::Postgres(error) if lacks_password(error) => false,
            Self::Postgres(error) => match error.code() {
                Some(code) => PASSING.contains(code) || code.code().starts_with("08"),
                // Not an answer of the server: the connection failed.
                None => true,
            },
        }
    }

    /// Whether the server said so itself.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::Postgres(error) if error.code().is_some())
    }

    /// A row that we did not write like this.
    pub(crate) fn damaged(what: &str) -> Self {
        Self::Store(StoreError::Damaged(format!(
            "{what} in the database cannot be read; restore it from a backup"
        )))
    }

    /// Whether it says that another transaction holds a lock.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Postgres(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
    }

    /// What happened, without any text of the server: that can contain data.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::Silent => {
                "it did not answer in time: PostgreSQL or its machine hangs, or the network in between; look at each".to_owned()
            }
            Self::Slow(round_trip) => slow_words(*round_trip),
            Self::NoPrimary => "every host is read-only; no primary was found".to_owned(),
            Self::Replaced => "the host that answers is not the primary any more".to_owned(),
            Self::Store(error) => error.to_string(),
            Self::Postgres(error) => match error.code() {
                Some(code) => match in_words(code) {
                    Some(words) => format!("{words} (error {})", code.code()),
                    None => format!("it answered with error {}", code.code()),
                },
                None if error.is_closed() => "the connection was closed".to_owned(),
                None if lacks_password(error) => {
                    "the database asks for a password: put it into the URL".to_owned()
                }
                None => match (error.source().and_then(|cause| cause.downcast_ref()), self.is_read_only()) {
                    (_, true) => "the host is read-only".to_owned(),
                    (Some(cause), _) if is_unknown_host(cause) => {
                        "the name of a host is not found: check the hosts in the URL".to_owned()
                    }
                    (Some(cause), _) if cause.kind() == io::ErrorKind::ConnectionRefused => {
                        "connection refused: PostgreSQL does not run there, or listens elsewhere; start it, or check host and port"
                            .to_owned()
                    }
                    (Some(cause), _) => {
                        format!("the connection failed ({}): check host, port and network", cause.kind())
                    }
                    (None, _) => "the connection failed: look at the log of PostgreSQL".to_owned(),
                },
            },
        }
    }

    /// Whether the server asked for a password, and the URL has none.
    pub(crate) fn lacks_password(&self) -> bool {
        matches!(self, Self::Postgres(error) if lacks_password(error))
    }

    /// Whether the host answers and cannot be written to.
    pub(crate) fn is_read_only(&self) -> bool {
        let Self::Postgres(error) = self else { return false };
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        // The driver has no other sign of it.
        cause.is_some_and(|cause| cause.to_string() == "database does not allow writes")
    }

    /// As an error of the store, when it is not tried again.
    pub(crate) fn into_store_error(self) -> StoreError {
        if self.is_busy() {
            return StoreError::Busy;
        }
        let is_passing = self.is_passing();
        match self {
            Self::Store(error) => error,
            failure if is_passing => StoreError::Unavailable(format!("PostgreSQL: {}", failure.what())),
            failure => StoreError::Engine(format!("PostgreSQL: {}", failure.what())),
        }
    }

    /// As an error of the store, after which a change that took long is discarded as a whole.
    pub(crate) fn into_discarded(self) -> StoreError {
        if self.is_passing() {
            let what = format!("PostgreSQL: {}; nothing was changed, try again", self.what());
            return StoreError::Unavailable(what);
        }
        self.into_store_error()
    }
}
