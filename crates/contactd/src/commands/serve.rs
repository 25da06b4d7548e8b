//! `contactd serve`

use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use contactd_admin::{Admin, Hosts};
use contactd_core::metrics::{Measured, Measuring};
use contactd_core::services::Services;
use contactd_core::{Callers, Live, SuppressionList, panics};
use contactd_server::{App, Settings};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::ServeArgs;
use crate::config::Config;
use crate::context::{Opened, Store};
use crate::control::Control;
use crate::demo::Demo;
use crate::keeper::Keeper;
use crate::recording::Recording;
use crate::sweeper::Sweeper;
use crate::{log, output};

/// Files a server has open besides its connections.
const OTHER_FILES: u64 = 200;

pub(crate) async fn run(mut config: Config, args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let serve = config.serve(args)?;
    log::start(&serve.log);
    panics::report_only_where(|location| tracing::error!(location, "panicked"));
    // Held to the end: a throw-away directory goes when the server does.
    let _throw_away = match args.demo && !config.data_is_flag {
        true => {
            let dir = tempfile::Builder::new().prefix("contactd-demo-").tempdir()?;
            config.data = dir.path().to_owned();
            Some(dir)
        }
        false => None,
    };
    let asked_to_stop = asked_to_stop()?;
    let public_listener = bind(serve.listen, "--listen")?;
    let admin_listener = bind(serve.admin_listen, "--admin-listen")?;
    let opened = Opened::open(config).await?;
    let control = Control::claim(&opened.dir)?;
    raise_file_limit(serve.settings.max_connections);

    let callers = Arc::new(Callers::new(serve.default_rate, serve.default_quota));
    let suppressions = Arc::new(SuppressionList::new(opened.keys.clone()));
    let live = Arc::new(Live::new(
        Arc::clone(&opened.store),
        Arc::clone(&callers),
        Arc::clone(&suppressions),
        Arc::clone(&opened.clock),
    ));
    let services = Arc::new(opened.services(Arc::<Live<_>>::clone(&live)));
    let demo = match args.demo {
        true => Some(Demo::prepare(&services, opened.dir.path().to_owned()).await?),
        false => None,
    };
    let keeper = Keeper { store: Arc::clone(&opened.store), live }.start().await?;
    control.listen(&opened.dir, keeper.requests.clone())?;
    let recording = Recording::start(&opened, &services, &serve.audit).await?;
    let sweeper = Sweeper::start(Arc::clone(&services), serve.sweep_every)?;
    let (public, admin) = (public_listener.local_addr()?, admin_listener.local_addr()?);
    announce(public, admin, &serve.settings);
    if let Some(demo) = demo {
        demo.show(reachable(public), &serve.settings.base_path)?;
    }

    let app = Arc::new(App::new(
        Arc::clone(&opened.store),
        Arc::clone(&recording.audit),
        callers,
        suppressions,
        opened.networks,
        Arc::clone(&opened.clock),
        serve.settings,
    ));
    let admin = Admin {
        measured: vec![Arc::<App<_>>::clone(&app), Arc::new(ServiceHealth(services))],
        hosts: Hosts::new(serve.admin_hosts),
        clock: Arc::clone(&opened.clock),
    };
    let admin = contactd_admin::start(admin_listener, admin)?;
    contactd_server::serve(public_listener, app, asked_to_stop).await?;
    admin.finish();
    sweeper.finish();
    recording.finish();
    keeper.finish();
    // Last of all: whoever serves next finds everything written and closed.
    drop(control);
    output::words(format_args!("contactd has stopped"));
    Ok(ExitCode::SUCCESS)
}

fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address}; choose another address with {flag}"))
}

/// What the services measure, shared with whoever shows it.
struct ServiceHealth(Arc<Services<Store>>);

impl Measured for ServiceHealth {
    fn families(&self) -> Measuring<'_> {
        self.0.health.families()
    }
}

fn announce(public: SocketAddr, admin: SocketAddr, settings: &Settings) {
    let base = &settings.base_path;
    output::words(format_args!("contactd {} listening on http://{public}{base}", env!("CARGO_PKG_VERSION")));
    output::words(format_args!("documentation at http://{}{base}/docs", reachable(public)));
    output::words(format_args!("admin on http://{admin} (/metrics)"));
}

/// The address to reach a listener by, from this machine.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        match address {
            SocketAddr::V4(_) => address.set_ip(std::net::Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(_) => address.set_ip(std::net::Ipv6Addr::LOCALHOST.into()),
        }
    }
    address
}

/// Ready at the first SIGTERM or Ctrl-C.
fn asked_to_stop() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        output::words(format_args!("contactd is stopping: answering what is under way"));
    })
}

/// Lets the process open as many files as the connection limit needs, if it may.
fn raise_file_limit(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let wanted = connections as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let current = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum });
    if raised.is_err() || current < wanted {
        tracing::warn!(
            open_files = current,
            connections,
            "the open-files limit is too low for the connection limit; raise it (ulimit -n), or lower limits.connections"
        );
    }
}
