//! What a service manager is told: `sd_notify`, as `Type=notify` and `Type=notify-reload` of systemd expect it. Without
//! `NOTIFY_SOCKET` nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Weak};
use std::time::Duration;

use contactd_core::store::LocalRead;
use rustix::time::{ClockId, clock_gettime};

use crate::App;

/// How long a message may wait for the service manager.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the workers are asked whether they have started.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Sends messages to the service manager, if there is one.
#[derive(Clone, Debug, Default)]
pub struct Notify(Option<Arc<(UnixDatagram, SocketAddr)>>);

impl Notify {
    /// Sends to this address: a path, or an abstract name that begins with `@`.
    pub fn to(address: Option<&OsStr>) -> Self {
        let open = |address: &OsStr| -> io::Result<_> {
            let socket = UnixDatagram::unbound()?;
            socket.set_write_timeout(Some(NOTIFY_TIMEOUT))?;
            let address = match address.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
                _ => SocketAddr::from_pathname(address)?,
            };
            Ok(Arc::new((socket, address)))
        };
        match address.map(open).transpose() {
            Ok(opened) => Self(opened),
            Err(error) => {
                tracing::warn!(%error, "NOTIFY_SOCKET cannot be used: the service manager is told nothing");
                Self(None)
            }
        }
    }

    /// Both listeners serve.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The configuration is being read again; [`ready`](Self::ready) follows.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=reading the configuration again"));
    }

    /// The service begins to stop.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=answering the current requests");
    }

    fn send(&self, message: &str) {
        let Some((socket, address)) = self.0.as_deref() else { return };
        if let Err(error) = socket.send_to_addr(message.as_bytes(), address) {
            tracing::warn!(%error, "the service manager could not be told");
        }
    }

    /// Says that the service is ready once all workers are at work. Then, if the service manager asks for it, says again and again
    /// that it is alive, at half of the time that is allowed, but only if every worker has shown a sign of life since.
    pub async fn attend<D: LocalRead>(self, app: Weak<App<D>>, status: String, watchdog: Option<Duration>) {
        let beats = || app.upgrade().map(|app| app.beats());
        while beats().is_some_and(|beats| beats.contains(&0)) {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        self.ready(&status);
        let Some(allowed) = watchdog else { return };
        let mut before = Vec::new();
        while let Some(now) = beats() {
            if is_alive(&before, &now) {
                self.send("WATCHDOG=1");
            } else {
                tracing::error!("a worker hangs: the service manager is not told that this server is alive");
            }
            before = now;
            tokio::time::sleep(allowed / 2).await;
        }
    }
}

/// Whether every worker has shown a sign of life since.
fn is_alive(before: &[u64], now: &[u64]) -> bool {
    before.iter().zip(now).all(|(before, now)| before != now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_worker_that_hangs_is_enough_to_be_silent() {
        assert!(is_alive(&[], &[1, 1]), "at first");
        assert!(is_alive(&[1, 1], &[2, 9]));
        assert!(!is_alive(&[2, 9], &[3, 9]));
    }

    #[test]
    fn messages_reach_a_path_and_an_abstract_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let name = format!("contactd-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).expect("an address");
        let receivers = [
            (path.clone().into_os_string(), UnixDatagram::bind(&path).expect("binds")),
            (format!("@{name}").into(), UnixDatagram::bind_addr(&abstract_address).expect("binds")),
        ];
        for (address, receiver) in receivers {
            let notify = Notify::to(Some(&address));
            let received = |receiver: &UnixDatagram| {
                let mut bytes = [0; 200];
                let length = receiver.recv(&mut bytes).expect("receives");
                String::from_utf8(bytes[..length].to_vec()).expect("UTF-8")
            };
            notify.ready("serving");
            assert_eq!(received(&receiver), "READY=1\nSTATUS=serving");
            notify.reloading();
            let text = received(&receiver);
            let micros =
                text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|rest| rest.split_once('\n'));
            let (micros, status) = micros.expect("a time");
            assert!(micros.parse::<u64>().is_ok_and(|micros| micros > 0), "{micros}");
            assert_eq!(status, "STATUS=reading the configuration again");
            notify.stopping();
            assert_eq!(received(&receiver), "STOPPING=1\nSTATUS=answering the current requests");
        }
        Notify::to(None).ready("nobody listens");
    }
}
