//! The admin API, `/admin/api/v1`, and the console that uses it.
//!
//! Every handler translates its input, calls one service method, and translates the result back. Who may call it is said once,
//! in its [`Endpoint`]: the router refuses everybody else before the handler runs. Services put what is done on record with the
//! actor's name.

mod admin_tokens;
mod attempts;
mod audit;
mod auth;
mod console;
mod disk;
mod endpoint;
mod exports;
mod extract;
mod imports;
mod jobs;
mod me;
mod misfit;
mod nodes;
mod openapi;
mod opt_outs;
mod overview;
mod people;
mod period;
mod permission;
mod personal_files;
mod reading;
mod records;
mod refusal;
mod retention;
mod server_status;
mod session;
mod sessions;
mod tokens;
mod uploads;
mod usage;
mod users;

use std::path::PathBuf;
use std::sync::Arc;

use attempts::Attempts;
pub(crate) use attempts::Origin;
use auth::{Gate, authorize};
use axum::Router;
use axum::middleware;
use axum::routing::get;
use contactd_core::{Clock, DiskBudget, Networks, User};
use contactd_services::Services;
use endpoint::Endpoint;
use jobs::Jobs;

use crate::answer;
pub use personal_files::delete_personal_files;
pub(crate) use refusal::Refusal;
pub use server_status::{LookupTimes, ServerStatus};
use sessions::Sessions;
use uploads::Uploads;

/// Where the API is.
pub(crate) const BASE: &str = "/admin/api/v1";

/// What the API and the console need.
pub struct ApiSettings {
    /// The services.
    pub services: Arc<Services>,
    /// Which profile URLs are accepted.
    pub networks: Networks,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// A directory of this server, as private as the data: for uploaded files, and for what jobs make.
    pub room: PathBuf,
    /// Whether the listener speaks TLS, so that cookies are sent over nothing else.
    pub is_tls: bool,
    /// What the server knows that is not in the store.
    pub status: ServerStatus,
}

/// The API and the console, ready to be served.
#[derive(Clone)]
pub struct Console {
    router: Router,
    api: Arc<Api>,
}

impl Console {
    /// Prepares the API and the console.
    pub fn new(settings: ApiSettings) -> std::io::Result<Self> {
        let ApiSettings { services, networks, clock, room, is_tls, status } = settings;
        let disk = services.imports.disk();
        let api = Arc::new(Api {
            jobs: Jobs::open(&room, &disk, Arc::clone(&clock))?,
            uploads: Uploads::open(&room, &disk, Arc::clone(&clock))?,
            disk,
            services,
            networks,
            clock,
            is_tls,
            status,
            sessions: Sessions::default(),
            attempts: Attempts::new(),
        });
        Ok(Self { router: router(&api), api })
    }

    /// The path, with a secret, that logs this user in once.
    pub fn one_time_link(&self, user: &User) -> Option<String> {
        let secret = self.api.sessions.make_link(&user.name, self.api.clock.now()).ok()?;
        Some(format!("/admin/enter#{secret}"))
    }

    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    /// Deletes uploaded files and files of jobs that are too old.
    pub(crate) fn tidy(&self) {
        self.api.jobs.tidy();
        self.api.uploads.tidy();
    }

    /// Stops running jobs whose owners may not do this any more.
    pub(crate) async fn stop_jobs_without_permission(&self) {
        self.api.stop_jobs_without_permission().await;
    }

    /// Asks running jobs to stop, and waits a moment for them.
    pub(crate) fn finish(&self) {
        self.api.jobs.finish();
    }
}

/// What handlers work with.
pub(crate) struct Api {
    pub(crate) services: Arc<Services>,
    pub(crate) networks: Networks,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) is_tls: bool,
    pub(crate) status: ServerStatus,
    pub(crate) sessions: Sessions,
    pub(crate) attempts: Attempts,
    /// The room for large files.
    pub(crate) disk: DiskBudget,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) uploads: Arc<Uploads>,
}

impl Api {
    async fn stop_jobs_without_permission(&self) {
        if let Err(error) = jobs::stop_those_without_permission(self).await {
            tracing::warn!(target: "contactd::admin", %error, "it cannot be found out whether jobs may go on");
        }
    }
}

/// All endpoints.
fn endpoints() -> Vec<Endpoint> {
    [
        session::endpoints(),
        me::endpoints(),
        users::endpoints(),
        admin_tokens::endpoints(),
        tokens::endpoints(),
        people::endpoints(),
        opt_outs::endpoints(),
        jobs::endpoints(),
        audit::endpoints(),
        usage::endpoints(),
        retention::endpoints(),
        overview::endpoints(),
        nodes::endpoints(),
        uploads::endpoints(),
        imports::endpoints(),
        exports::endpoints(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn router(api: &Arc<Api>) -> Router {
    let document = openapi::document(&endpoints(), api.is_tls).to_string();
    let shown =
        move || async move { answer::of_type(axum::http::StatusCode::OK, "application/json", document) };
    let mut router = Router::new().route(&format!("{BASE}/openapi.json"), get(shown));
    for endpoint in endpoints() {
        let gate = Gate { api: Arc::clone(api), needs: endpoint.needs, is_use: endpoint.is_use };
        let route = endpoint.route.layer(middleware::from_fn_with_state(gate, authorize));
        router = router.route(&format!("{BASE}{}", endpoint.path), route);
    }
    router.with_state(Arc::clone(api)).merge(console::router())
}
