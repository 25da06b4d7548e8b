//! The operator's settings for the public listener.

use std::time::Duration;

use crate::{BasePath, ClientLimits, Origin, PublicUrl};

/// Limits and deadlines. The documentation lists the defaults. `base_path`, `public_url`, `workers` and `audit_patience` stay as they
/// were at the start; [`App::reload`](crate::App::reload) can change the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The path prefix of the service: empty, or for example `/contacts`.
    pub base_path: BasePath,
    /// The address at which clients reach the service, if the operator names one.
    pub public_url: Option<PublicUrl>,
    /// The origins of web pages that may call the service from a browser.
    pub allow_origins: Vec<Origin>,
    /// Threads that serve connections.
    pub workers: usize,
    /// Maximum number of open connections; more wait to be accepted.
    pub max_connections: usize,
    /// Maximum number of lookups in progress; more are answered 503.
    pub max_in_flight: usize,
    /// The limits of each client address.
    pub clients: ClientLimits,
    /// Maximum size of a request body, in bytes.
    pub max_body: usize,
    /// Maximum number of lookups in a batch.
    pub max_batch: usize,
    /// Maximum size of the body of a batch, in bytes.
    pub max_batch_body: usize,
    /// Maximum size of the request line and headers together, in bytes.
    pub max_head: usize,
    /// How long the head of a request may take.
    pub head_timeout: Duration,
    /// How long a connection may stay open between two requests.
    pub idle_timeout: Duration,
    /// How long a body may take.
    pub body_timeout: Duration,
    /// How long a graceful stop may take.
    pub stop_timeout: Duration,
    /// How long a lookup waits for its audit line before it is answered 503.
    pub audit_patience: Duration,
    /// Whether every request gets a line in the log.
    pub access_log: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            base_path: BasePath::default(),
            public_url: None,
            allow_origins: Vec::new(),
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            max_connections: 10_000,
            max_in_flight: 2_000,
            clients: ClientLimits::default(),
            max_body: 16 * 1024,
            max_batch: 100,
            max_batch_body: 256 * 1024,
            max_head: 16 * 1024,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(10),
            stop_timeout: Duration::from_secs(30),
            audit_patience: Duration::from_secs(3),
            access_log: false,
        }
    }
}

impl Settings {
    /// The path of the service as clients see it: empty, or starting with `/`. A proxy may add a prefix to the base path
    /// or remove it.
    pub(crate) fn public_path(&self) -> &str {
        self.public_url.as_ref().map_or(self.base_path.as_str(), PublicUrl::path)
    }

    /// The address of the service in its OpenAPI description: the public URL, or a path.
    pub(crate) fn server_url(&self) -> &str {
        match &self.public_url {
            Some(url) => url.as_str(),
            None if self.base_path.as_str().is_empty() => "/",
            None => self.base_path.as_str(),
        }
    }
}
