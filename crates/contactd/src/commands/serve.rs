//! `contactd serve`

use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use contactd_core::{Callers, SuppressionList};
use contactd_server::{App, Listeners, Settings};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::ServeArgs;
use crate::config::{Config, ServeConfig};
use crate::context::Context;
use crate::control::Control;
use crate::demo::Demo;
use crate::keeper::Keeper;
use crate::recording::Recording;
use crate::sweeper::Sweeper;
use crate::{log, output};

/// Files a server has open besides its connections.
const OTHER_FILES: u64 = 200;

pub(crate) async fn run(mut config: Config, args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let serve = config.serve(args);
    log::start(&serve.log);
    contactd_server::log_panics_without_their_message();
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
    let listeners = listen(&serve)?;
    let context = Context::open(config)?;
    let control = Control::claim(&context.dir)?;
    let demo = if args.demo { Some(Demo::prepare(&context).await?) } else { None };
    raise_file_limit(serve.settings.max_connections);

    let callers = Arc::new(Callers::new(serve.default_rate, serve.default_quota));
    let suppressions = Arc::new(SuppressionList::new(context.keys.clone()));
    let keeper = Keeper {
        store: Arc::clone(&context.store),
        callers: Arc::clone(&callers),
        suppressions: Arc::clone(&suppressions),
        clock: Arc::clone(&context.clock),
    }
    .start()
    .await?;
    control.listen(&context.dir, keeper.requests.clone())?;
    let recording = Recording::start(&context, &serve.audit)?;
    let sweeper = Sweeper::start(Arc::clone(&context.store), Arc::clone(&context.clock), serve.sweep_every)?;
    let (public, admin) = (listeners.public.local_addr()?, listeners.admin.local_addr()?);
    announce(public, admin, &serve.settings);
    if let Some(demo) = demo {
        demo.show(reachable(public), &serve.settings.base_path)?;
    }

    let app = Arc::new(App::new(
        Arc::clone(&context.store),
        Arc::clone(&recording.audit),
        callers,
        suppressions,
        context.networks,
        context.clock,
        serve.settings,
    ));
    contactd_server::serve(listeners, app, asked_to_stop).await?;
    sweeper.finish();
    recording.finish();
    keeper.finish();
    // Last of all: whoever serves next finds everything written and closed.
    drop(control);
    output::words(format_args!("contactd has stopped"));
    Ok(ExitCode::SUCCESS)
}

fn listen(serve: &ServeConfig) -> anyhow::Result<Listeners> {
    let bind = |address: SocketAddr, flag: &str| {
        TcpListener::bind(address)
            .with_context(|| format!("cannot listen on {address}; choose another address with {flag}"))
    };
    Ok(Listeners {
        public: bind(serve.listen, "--listen")?,
        admin: bind(serve.admin_listen, "--admin-listen")?,
    })
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
