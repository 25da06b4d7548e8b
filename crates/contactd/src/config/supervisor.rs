//! What a service manager such as systemd gives a server through its environment.

use std::ffi::OsString;
use std::net::TcpListener;
use std::time::Duration;

use anyhow::{Context as _, bail};
use listenfd::ListenFd;
use rustix::net::sockopt::socket_acceptconn;

/// What the service manager gives and asks for.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    /// Where it listens for messages.
    pub(crate) notify: Option<OsString>,
    /// How often it wants a sign of life, at least.
    pub(crate) watchdog: Option<Duration>,
    /// The listening sockets that it opened.
    pub(crate) sockets: Sockets,
}

/// Listening sockets of the service manager, which stay open when this process ends.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    pub(crate) public: Option<TcpListener>,
    pub(crate) admin: Option<TcpListener>,
}

const PUBLIC: &str = "public";
const ADMIN: &str = "admin";

impl Supervisor {
    /// Reads the environment. To be called before there is another thread, because the variables about sockets are removed.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let is_for_this_process =
            |name: &str| text(name).is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let micros = text("WATCHDOG_USEC").and_then(|micros| micros.parse().ok());
        let watchdog = micros.filter(|&micros| micros > 0 && is_for_this_process("WATCHDOG_PID"));
        let is_passed = text("LISTEN_PID").is_some() && is_for_this_process("LISTEN_PID");
        Ok(Self {
            notify: variable("NOTIFY_SOCKET").filter(|address| !address.is_empty()),
            watchdog: watchdog.map(Duration::from_micros),
            sockets: if is_passed {
                Sockets::take(text("LISTEN_FDNAMES").as_deref())?
            } else {
                Sockets::default()
            },
        })
    }
}

impl Sockets {
    fn take(names: Option<&str>) -> anyhow::Result<Self> {
        let mut passed = ListenFd::from_env();
        let roles = roles(passed.len(), names)?;
        let mut sockets = Self::default();
        for (at, role) in roles.into_iter().enumerate() {
            let wrong = || {
                format!("the {role} socket that systemd passed (file descriptor {}) cannot be used", at + 3)
            };
            let listener = passed.take_tcp_listener(at).with_context(wrong)?;
            let listener = listener.context("it was passed twice").with_context(wrong)?;
            if !socket_acceptconn(&listener).with_context(wrong)? {
                return Err(anyhow::anyhow!("it does not listen; use ListenStream= in the socket unit")
                    .context(wrong()));
            }
            *(if role == PUBLIC { &mut sockets.public } else { &mut sockets.admin }) = Some(listener);
        }
        Ok(sockets)
    }
}

/// What each of `count` sockets is for: by its name, or if none has one of our names, the first is public, the second admin.
fn roles(count: usize, names: Option<&str>) -> anyhow::Result<Vec<&'static str>> {
    let names: Vec<&str> = names.map(|names| names.split(':').collect()).unwrap_or_default();
    let ours = |name: &&str| [PUBLIC, ADMIN].into_iter().find(|role| role == name);
    let roles: Vec<&str> = match names.iter().any(|name| ours(name).is_some()) {
        true => names.iter().filter_map(ours).collect(),
        false => [PUBLIC, ADMIN].into_iter().take(count).collect(),
    };
    if roles.len() != count || (roles.len() == 2 && roles[0] == roles[1]) {
        bail!(
            "systemd passed {count} sockets, and contactd takes one for callers and one for the admin listener; name them with \
             FileDescriptorName=public and FileDescriptorName=admin in their socket units"
        );
    }
    Ok(roles)
}

fn text(name: &str) -> Option<String> {
    variable(name)?.into_string().ok()
}

#[expect(clippy::disallowed_methods, reason = "this is a part of the configuration")]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_by_name_or_by_order() {
        let found = |count, names| roles(count, names).ok();
        assert_eq!(found(0, None), Some(vec![]));
        assert_eq!(found(1, None), Some(vec![PUBLIC]));
        assert_eq!(found(2, Some("contactd.socket:contactd.socket")), Some(vec![PUBLIC, ADMIN]));
        assert_eq!(found(2, Some("admin:public")), Some(vec![ADMIN, PUBLIC]));
        assert_eq!(found(1, Some("admin")), Some(vec![ADMIN]));
        assert_eq!(found(3, None), None);
        assert_eq!(found(2, Some("public:other")), None);
        assert_eq!(found(2, Some("public:public")), None);
    }
}
