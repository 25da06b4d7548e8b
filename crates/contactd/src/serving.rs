//! A running server: its threads, in the order in which they start and stop.

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Context as _;
use contactd_admin::{Admin, ApiSettings, Console, Hosts};
use contactd_cluster::{ClusterInForce, NodeMeasures};
use contactd_core::metrics::{Measured, Measuring};
use contactd_core::{AccessTables, BootClock, Callers, HitsBefore, InForce, Lease, SuppressionList, User};
use contactd_server::{App, AtStop, Shares};
use contactd_services::{Health, Services};
use contactd_tls::{Tls, Watch};

use crate::answered_from::LookupStatus;
use crate::config::{self, Reloadable, ServeConfig, Sockets};
use crate::control_server::Control;
use crate::engine::Files;
use crate::indexer::Keep;
use crate::node_runtime::NodeRuntime;
use crate::on_record::ActionRecorder;
use crate::opening::Opened;
use crate::recording::Recording;
use crate::refresher::{Refresher, RunningRefresher};
use crate::reloading::Running;
use crate::server_status::StatusSources;
use crate::sweeper::Sweeper;
use crate::usage_counting::{RunningCounting, UsageCounting};

/// How long metrics wait for what is in the store.
const METRICS_TIMEOUT: Duration = Duration::from_secs(2);

/// Two bound listeners, and the certificate of those that speak TLS.
pub(crate) struct Listeners {
    pub(crate) public: TcpListener,
    pub(crate) admin: TcpListener,
    tls: Option<Arc<Tls>>,
    admin_tls: Option<Arc<Tls>>,
    /// What happens at the stop to callers that wait to be accepted.
    at_stop: AtStop,
}

impl Listeners {
    /// Uses the sockets that the service manager opened, and binds what it did not open.
    pub(crate) fn open(config: &ServeConfig, sockets: Sockets) -> anyhow::Result<Self> {
        let bind = |address: SocketAddr, flag: &str| {
            TcpListener::bind(address)
                .with_context(|| format!("cannot listen on {address}; choose another address with {flag}"))
        };
        let pair = config.reloadable.tls.as_ref().map(config::read_pair).transpose()?;
        let tls = pair.map(|pair| Arc::new(Tls::new(pair)));
        // The next server accepts from a socket that stays open.
        let at_stop = if sockets.public.is_some() { AtStop::LeaveWaiting } else { AtStop::AcceptWaiting };
        if let Some(admin) = &sockets.admin {
            let what = "the admin socket that systemd passed,";
            config::check_admin(what, admin.local_addr()?, config.allow_remote)?;
        }
        Ok(Self {
            public: sockets.public.map_or_else(|| bind(config.listen, "--listen"), Ok)?,
            admin: sockets.admin.map_or_else(|| bind(config.admin_listen, "--admin-listen"), Ok)?,
            admin_tls: tls.clone().filter(|_| config.admin_tls),
            tls,
            at_stop,
        })
    }

    /// The certificate of the public listener, if it speaks TLS.
    pub(crate) fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.clone()
    }
}

/// A server that is ready to serve.
pub(crate) struct Serving {
    /// The services, whose changes take effect in this server directly.
    pub(crate) services: Arc<Services>,
    listeners: Listeners,
    app: Arc<App<Files>>,
    admin: Admin,
    refresher: RunningRefresher,
    recording: Recording,
    counting: Option<RunningCounting>,
    sweeper: Sweeper,
    watch: Option<Watch>,
    /// The part of this server that is a node of a cluster.
    node_runtime: Option<NodeRuntime>,
    control: Control,
    /// What a reload changes.
    pub(crate) running: Running,
}

impl Serving {
    /// Takes the data directory for this server and starts everything but the listeners.
    pub(crate) async fn start(
        opened: Opened,
        config: ServeConfig,
        listeners: Listeners,
        shares: Shares,
    ) -> anyhow::Result<Self> {
        let control = Control::claim(&opened.dir)?;
        let files = opened.files()?;
        if let Some(database) = &opened.database {
            database.take_claim().await?;
        }
        let Reloadable { settings, networks, tls: _, token_limits, audit_keep, sweep_every, log: _ } =
            config.reloadable;
        let callers =
            Callers::new(token_limits).with_leases(opened.database.as_ref().map(|_| Arc::default()));
        let callers = Arc::new(callers);
        let suppressions = Arc::new(SuppressionList::new(opened.keys.clone()));
        let access_tables = Arc::new(AccessTables::new(
            Arc::clone(&files),
            Arc::clone(&callers),
            Arc::clone(&suppressions),
            Arc::<dyn BootClock>::clone(&opened.clock),
        ));
        let recorder = ActionRecorder::new(&opened, true);
        let in_force: Arc<dyn InForce> = match &opened.database {
            Some(database) => Arc::new(ClusterInForce::new(Arc::clone(database))),
            None => Arc::<AccessTables<_>>::clone(&access_tables),
        };
        let services = opened.services(in_force, &recorder);
        let (noted, keep) = (config::noted(&config.named), Keep::new(audit_keep.into()));
        let (index_is_read, reading) = channel();
        let recording =
            Recording::start(&opened, &services, &recorder, &config.audit, &noted, &keep, reading).await?;
        // Before the refresher reads how much of the quotas is used.
        let uncounted = services.audits.uncounted(recording.end()).await?;
        if uncounted.is_some() {
            callers.set_hits_before(HitsBefore::Uncounted);
        }
        let (store, clock) = (Arc::clone(&files), Arc::<dyn BootClock>::clone(&opened.clock));
        let refresher = Refresher { store, access_tables: Arc::clone(&access_tables), clock }.start().await?;
        let node_runtime =
            NodeRuntime::join(&opened, &files, &access_tables, &callers, &services, &recording)?;
        let lease = node_runtime.as_ref().map_or_else(Lease::none, |node_runtime| node_runtime.lease.clone());
        let lookups = Arc::new(LookupStatus {
            files: Arc::clone(&files),
            can_record: recording.can_record(),
            lease: lease.clone(),
        });
        control.listen(
            &opened.dir,
            refresher.requests.clone(),
            Arc::clone(&recorder),
            Arc::clone(&lookups),
            shares.control,
        )?;
        let sweeper = Sweeper::start(Arc::clone(&services), sweep_every)?;
        let tls = listeners.tls.clone();
        let watching = tls.clone().map(|tls| Watch::start(tls, Arc::<dyn BootClock>::clone(&opened.clock)));
        let watch = watching.transpose()?;
        let app = App::new(
            files,
            Arc::clone(&recording.audit),
            Arc::clone(&callers),
            Arc::clone(&suppressions),
            networks,
            Arc::<dyn BootClock>::clone(&opened.clock),
            settings,
        );
        let app = Arc::new(app.with_tls(tls.clone()).with_lease(lease));
        let running = Running {
            app: Arc::downgrade(&app),
            callers: Arc::clone(&callers),
            access_tables: Arc::clone(&access_tables),
            services: Arc::clone(&services),
            keep,
            pace: sweeper.pace(),
            tls: tls.clone(),
        };
        let mut measured: Vec<Arc<dyn Measured>> = vec![
            Arc::<App<_>>::clone(&app),
            Arc::<Callers>::clone(&running.callers),
            Arc::new(ServiceHealth {
                services: Arc::clone(&services),
                node: node_runtime.as_ref().map(|node_runtime| node_runtime.node.measures()),
            }),
            Arc::<ActionRecorder>::clone(&recorder),
            lookups,
        ];
        measured.extend(tls.map(|tls| tls as Arc<dyn Measured>));
        measured.extend(
            node_runtime
                .as_ref()
                .map(|node_runtime| Arc::new(node_runtime.node.measures()) as Arc<dyn Measured>),
        );
        measured.extend(node_runtime.as_ref().map(|node_runtime| node_runtime.shipping.measures()));
        let console = Console::new(ApiSettings {
            services: Arc::clone(&services),
            networks: opened.config.networks.clone(),
            clock: Arc::<dyn BootClock>::clone(&opened.clock),
            room: opened.dir.console(),
            is_tls: listeners.admin_tls.is_some(),
            status: StatusSources {
                running: running.clone(),
                suppressions,
                is_journal_on: recording.end().is_some(),
                database: opened.database.clone(),
                dir: opened.dir.clone(),
                keys: opened.config.keys.clone(),
                clock: Arc::<dyn BootClock>::clone(&opened.clock),
            }
            .status(),
        })?;
        let admin = Admin {
            measured,
            hosts: Hosts::new(config.admin_hosts),
            tls: listeners.admin_tls.clone(),
            clock: opened.clock,
            connections: shares.admin,
            console,
        };
        // Last: the indexer begins after this, and while it adds lines, others wait for the index.
        let counting = uncounted.map(|uncounted| {
            let services = Arc::clone(&services);
            UsageCounting { uncounted, index_is_read, services, recorder, callers, access_tables }.start()
        });
        let counting = counting.transpose()?;
        Ok(Self {
            services,
            listeners,
            app,
            admin,
            refresher,
            recording,
            counting,
            sweeper,
            watch,
            node_runtime,
            control,
            running,
        })
    }

    /// The addresses of the public and the admin listener.
    pub(crate) fn addresses(&self) -> std::io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.listeners.public.local_addr()?, self.listeners.admin.local_addr()?))
    }

    /// The URL that opens the console once, as this user.
    pub(crate) fn console_link(&self, user: &User) -> anyhow::Result<String> {
        let (admin, scheme) = (self.listeners.admin.local_addr()?, self.schemes().1);
        let path = self.admin.console.one_time_link(user).context("cannot make a link to the console")?;
        Ok(format!("{scheme}://{}{path}", reachable(admin)))
    }

    /// How both are spoken to: `http` or `https`.
    pub(crate) fn schemes(&self) -> (&'static str, &'static str) {
        let scheme = |tls: &Option<Arc<Tls>>| if tls.is_some() { "https" } else { "http" };
        (scheme(&self.listeners.tls), scheme(&self.listeners.admin_tls))
    }

    /// Serves until `stop` is ready, then stops everything in order.
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let admin = contactd_admin::start(self.listeners.admin, self.admin)?;
        contactd_server::serve(self.listeners.public, self.app, stop, self.listeners.at_stop).await?;
        // No lookup is answered any more, so no command needs to wait for this node.
        let shipping = match self.node_runtime {
            Some(node_runtime) => Some(node_runtime.leave().await),
            None => None,
        };
        admin.finish();
        self.watch.into_iter().for_each(Watch::finish);
        self.sweeper.finish();
        // A worker that was cut off may still use something.
        let is_over = self.running.app.strong_count() == 0;
        self.counting.into_iter().for_each(RunningCounting::finish);
        let is_counted = self.running.callers.hits_before() != HitsBefore::Uncounted;
        let end = self.recording.end().filter(|_| is_over && is_counted);
        self.recording.finish();
        let is_stored = self.refresher.finish();
        if let Some(end) = end.filter(|_| is_stored) {
            self.services.audits.usage_is_stored(end).await?;
        }
        if let Some(shipping) = shipping {
            shipping.ship_last().await;
        }
        // Last, so that the next server finds everything written and closed.
        drop(self.control);
        Ok(())
    }
}

/// The address at which this machine can reach a listener.
pub(crate) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        match address {
            SocketAddr::V4(_) => address.set_ip(std::net::Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(_) => address.set_ip(std::net::Ipv6Addr::LOCALHOST.into()),
        }
    }
    address
}

/// The measurements of the services, shared with the listener that shows them.
struct ServiceHealth {
    services: Arc<Services>,
    /// The node of this server, if it is one.
    node: Option<NodeMeasures>,
}

impl Measured for ServiceHealth {
    fn families(&self) -> Measuring<'_> {
        Box::pin(async {
            let health = &self.services.health;
            let follows = self.node.as_ref().map(NodeMeasures::does_follow);
            if follows == Some(false) {
                return Health::unanswered(false);
            }
            // The other metrics do not wait for a database that is away.
            match tokio::time::timeout(METRICS_TIMEOUT, health.families()).await {
                Ok(families) => families,
                Err(_) => Health::unanswered(follows.is_some()),
            }
        })
    }
}
