//! `contactd serve`

use std::process::ExitCode;
use std::sync::Arc;

use contactd_core::panics;
use contactd_server::{Notify, OpenFiles, Settings};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::{Everywhere, ServeArgs};
use crate::config::{self, Config, LogConfig, ServeConfig, Supervisor};
use crate::data_dir::DataDir;
use crate::demo::Demo;
use crate::keys::ExposedKeys;
use crate::log;
use crate::misuse::Misuse;
use crate::opening::Opened;
use crate::opening::Purpose;
use crate::reloading::Reloader;
use crate::serving::{Listeners, Serving, reachable};
use crate::waiting_room;

pub(crate) async fn run(everywhere: &Everywhere, args: &ServeArgs) -> anyhow::Result<ExitCode> {
    // First of all: from now on, a SIGHUP does not kill.
    let hangups = signal(SignalKind::hangup())?;
    let configured = configure(everywhere, args).and_then(|configured| Ok((configured, Supervisor::find()?)));
    let ((mut config, mut serve), mut supervisor) = match configured {
        Ok(configured) => configured,
        Err(error) => {
            // So that this error has the format of the log too.
            log::start(&LogConfig::default(), config::log_format(everywhere, args))?;
            return Err(error);
        }
    };
    log::start(&serve.reloadable.log, serve.log_format)?;
    panics::report_only_where(|location| tracing::error!(location, "panicked"));
    let notify = Notify::to(supervisor.notify.as_deref());
    let files = OpenFiles::before_start(serve.reloadable.settings.workers);
    let shares = files.share(serve.reloadable.settings.max_connections)?;
    serve.reloadable.settings.max_connections = shares.public;
    if args.demo && config.is_cluster() {
        return Err(Misuse("--demo has a store of its own: leave --store out".to_owned()).into());
    }
    // Held until the server stops: the temporary directory is then deleted.
    let _throw_away = match args.demo && !config.data_is_flag {
        true => {
            let dir = tempfile::Builder::new().prefix("contactd-demo-").tempdir()?;
            config.data = dir.path().to_owned();
            Some(dir)
        }
        false => None,
    };
    let mut asked_to_stop = Box::pin(asked_to_stop(notify.clone())?);
    ExposedKeys::find(&config.data.join("keys"), &config.keys).refuse()?;
    let listeners = Listeners::open(&serve, std::mem::take(&mut supervisor.sockets))?;
    let opening = Opened::open(config, Purpose::Server);
    let opened = tokio::select! {
        opened = waiting_room::wait_for(opening, &listeners, &serve, (&notify, &supervisor)) => opened?,
        () = &mut asked_to_stop => return Ok(ExitCode::SUCCESS),
    };
    let settings = serve.reloadable.settings.clone();
    let (dir, named) = (opened.dir.clone(), serve.named.clone());
    let follows = opened.database.is_some().then(|| opened.place.clone());
    let serving = Serving::start(opened, serve, listeners, shares).await?;
    let url = if args.demo {
        let demo = Demo::prepare(&serving.services, dir.path().to_owned()).await?;
        let url = announce(&serving, &settings, &dir)?;
        demo.show(&url, &serving.console_link(&demo.user)?)?;
        url
    } else {
        announce(&serving, &settings, &dir)?
    };
    if let Some(database) = follows {
        log::say(format_args!("follows {database}; answers lookups once its copy is complete"));
    }
    let reloader = Reloader::new(everywhere.clone(), args.clone(), serving.running.clone(), named, files);
    let status = format!("serving {url}");
    let reloading = tokio::spawn(reload_always(hangups, Arc::new(reloader), notify.clone(), status.clone()));
    let attending = tokio::spawn(notify.attend(serving.running.app.clone(), status, supervisor.watchdog));
    serving.run(asked_to_stop).await?;
    reloading.abort();
    attending.abort();
    log::say(format_args!("contactd has stopped"));
    Ok(ExitCode::SUCCESS)
}

fn configure(everywhere: &Everywhere, args: &ServeArgs) -> anyhow::Result<(Config, ServeConfig)> {
    let config = Config::resolve(everywhere)?;
    let serve = config.serve(args)?;
    Ok((config, serve))
}

/// Reloads at every SIGHUP, in a task of its own: accepting connections does not wait for it.
async fn reload_always(mut hangups: Signal, reloader: Arc<Reloader>, notify: Notify, status: String) {
    while hangups.recv().await.is_some() {
        notify.reloading();
        let reloader = Arc::clone(&reloader);
        if tokio::spawn(async move { reloader.reload().await }).await.is_err() {
            tracing::error!(target: log::ALWAYS, "cannot reload, because of an internal error");
        }
        notify.ready(&status);
    }
}

/// Says where the server listens. Returns the URL at which this machine can reach it.
fn announce(serving: &Serving, settings: &Settings, dir: &DataDir) -> anyhow::Result<String> {
    let ((public, admin), (scheme, admin_scheme)) = (serving.addresses()?, serving.schemes());
    let base = settings.base_path.as_str();
    let url = format!("{scheme}://{}{base}", reachable(public));
    log::say(format_args!(
        "contactd {} listening on {scheme}://{public}{base} (documentation at {url}/docs)",
        env!("CARGO_PKG_VERSION")
    ));
    if scheme == "http" && !public.ip().to_canonical().is_loopback() && settings.clients.proxies.is_none() {
        tracing::warn!(
            "serving plain HTTP on {public}: whoever can read the network reads tokens and personal data; set [tls], or put a proxy \
             that speaks TLS in front and name it in clients.proxies"
        );
    }
    if admin_scheme == "http" && !admin.ip().to_canonical().is_loopback() {
        tracing::warn!(
            "serving the console over plain HTTP on {admin}: whoever can read the network reads passwords and personal data; set [tls]"
        );
    }
    log::say(format_args!("data directory {}", dir.shown()));
    log::say(format_args!(
        "admin on {admin_scheme}://{admin} (/metrics, console at {admin_scheme}://{}/admin/)",
        reachable(admin)
    ));
    Ok(url)
}

/// Completes at the first SIGTERM or Ctrl-C.
fn asked_to_stop(notify: Notify) -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        notify.stopping();
        log::say(format_args!("contactd is stopping: answering the current requests"));
    })
}
