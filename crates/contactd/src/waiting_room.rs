//! A node whose database cannot be used yet. It listens, and answers 503 until it can.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use contactd_core::store::{LocalRead, Stored, Verdict};
use contactd_core::{
    Audit, Callers, Clock, ContactValue, DigestKey, DigestKeys, Kind, Lease, NoAudit, Profile,
    SuppressionList, SystemClock, Timestamp,
};
use contactd_server::{App, AtStop, Notify};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::config::{ServeConfig, Supervisor};
use crate::log;
use crate::opening::Opened;
use crate::serving::Listeners;

/// How long opening may take before callers are told that the node cannot answer.
const QUIET: Duration = Duration::from_secs(1);

/// Waits until the store is open. Callers get 503 meanwhile, if that takes long.
pub(crate) async fn wait_for(
    opening: impl Future<Output = anyhow::Result<Opened>>,
    listeners: &Listeners,
    config: &ServeConfig,
    (notify, supervisor): (&Notify, &Supervisor),
) -> anyhow::Result<Opened> {
    let mut opening = std::pin::pin!(opening);
    if let Ok(opened) = tokio::time::timeout(QUIET, opening.as_mut()).await {
        return opened;
    }
    let room = WaitingRoom::open(listeners, config)?;
    let status = "waiting for the database";
    let attending = tokio::spawn(notify.clone().attend(
        Arc::downgrade(&room.app),
        status.to_owned(),
        supervisor.watchdog,
    ));
    log::say(format_args!(
        "waiting for the database; listening on {}, and answering 503 until then",
        listeners.public.local_addr()?
    ));
    let opened = opening.await;
    attending.abort();
    room.close().await;
    opened
}

/// Serves callers, and refuses all of them.
struct WaitingRoom {
    app: Arc<App<Nobody>>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl WaitingRoom {
    fn open(listeners: &Listeners, config: &ServeConfig) -> anyhow::Result<Self> {
        let clock = Arc::new(SystemClock);
        let reloadable = &config.reloadable;
        let app = App::new(
            Arc::new(Nobody),
            Arc::new(NoAudit) as Arc<dyn Audit>,
            Arc::new(Callers::new(reloadable.token_limits)),
            Arc::new(SuppressionList::new(
                DigestKeys::new(vec![DigestKey::new(&[0; 32])]).context("one key")?,
            )),
            reloadable.networks.clone(),
            Arc::<SystemClock>::clone(&clock) as Arc<dyn Clock>,
            reloadable.settings.clone(),
        );
        // Nobody renews this lease.
        let app = Arc::new(app.with_tls(listeners.tls()).with_lease(Lease::of_node(clock)));
        let listener: TcpListener = listeners.public.try_clone()?;
        let (stop, stopped) = oneshot::channel();
        let serving = contactd_server::serve(
            listener,
            Arc::clone(&app),
            async { drop(stopped.await) },
            AtStop::LeaveWaiting,
        );
        Ok(Self { app, stop, serving: tokio::spawn(serving) })
    }

    /// Ends its connections. Whoever waits to be accepted is left to the server.
    async fn close(self) {
        drop(self.stop);
        let _ = self.serving.await;
    }
}

/// Holds nothing, and is not asked: there is no lease.
struct Nobody;

impl LocalRead for Nobody {
    fn best_personal(
        &self,
        _profile: &Profile,
        _kind: Kind,
        _now: Timestamp,
        _judge: impl Fn(&str) -> Verdict,
    ) -> Stored<Option<ContactValue>> {
        Ok(None)
    }

    fn renew(&self) {}

    fn renew_all(&self) {}
}
