//! `contactd serve`

use std::net::SocketAddr;
use std::process::ExitCode;

use contactd_core::panics;
use contactd_server::Settings;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::ServeArgs;
use crate::config::Config;
use crate::context::Opened;
use crate::demo::Demo;
use crate::serving::{Listeners, Serving};
use crate::{log, output};

/// Files a server has open besides its connections.
const OTHER_FILES: u64 = 200;

pub(crate) async fn run(mut config: Config, args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let serve = config.serve(args)?;
    log::start(&serve.log);
    panics::report_only_where(|location| tracing::error!(location, "panicked"));
    // Held until the server stops: the temporary directory is then deleted.
    let _throw_away = match args.demo && !config.data_is_flag {
        true => {
            let dir = tempfile::Builder::new().prefix("contactd-demo-").tempdir()?;
            config.data = dir.path().to_owned();
            Some(dir)
        }
        false => None,
    };
    let asked_to_stop = asked_to_stop()?;
    let listeners = Listeners::bind(&serve)?;
    let opened = Opened::open(config).await?;
    raise_file_limit(serve.settings.max_connections);
    let (room, settings) = (opened.dir.path().to_owned(), serve.settings.clone());
    let serving = Serving::start(opened, serve, listeners).await?;
    let (public, admin) = serving.addresses()?;
    if args.demo {
        let demo = Demo::prepare(&serving.services, room).await?;
        announce(public, admin, &settings);
        demo.show(reachable(public), &settings.base_path)?;
    } else {
        announce(public, admin, &settings);
    }
    serving.run(asked_to_stop).await?;
    output::words(format_args!("contactd has stopped"));
    Ok(ExitCode::SUCCESS)
}

fn announce(public: SocketAddr, admin: SocketAddr, settings: &Settings) {
    let base = &settings.base_path;
    output::words(format_args!("contactd {} listening on http://{public}{base}", env!("CARGO_PKG_VERSION")));
    output::words(format_args!("documentation at http://{}{base}/docs", reachable(public)));
    output::words(format_args!("admin on http://{admin} (/metrics)"));
}

/// The address at which this machine can reach a listener.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        match address {
            SocketAddr::V4(_) => address.set_ip(std::net::Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(_) => address.set_ip(std::net::Ipv6Addr::LOCALHOST.into()),
        }
    }
    address
}

/// Completes at the first SIGTERM or Ctrl-C.
fn asked_to_stop() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        output::words(format_args!("contactd is stopping: answering the current requests"));
    })
}

/// Raises the open-files limit to what the connection limit needs, if the system allows it.
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
