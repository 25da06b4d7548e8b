//! What an operator can set about the listeners.

use std::time::Duration;

/// Limits and deadlines. The defaults are those of the documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the service stands on its host: empty, or like `/contacts`.
    pub base_path: String,
    /// Threads that serve connections.
    pub workers: usize,
    /// Connections at once on the public listener; more wait to be accepted.
    pub max_connections: usize,
    /// Requests at once that wait for their body; more are answered 503.
    pub max_in_flight: usize,
    /// Largest request body, in bytes.
    pub max_body: usize,
    /// Largest block of request line and headers, in bytes.
    pub max_head: usize,
    /// How long the head of a request may take.
    pub head_timeout: Duration,
    /// How long a connection may stay between two requests.
    pub idle_timeout: Duration,
    /// How long a body may take.
    pub body_timeout: Duration,
    /// How long a graceful stop may take.
    pub stop_timeout: Duration,
    /// How long a lookup waits for its audit line before it is answered 500.
    pub audit_patience: Duration,
    /// Whether every request gets a line in the log.
    pub access_log: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            base_path: String::new(),
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            max_connections: 10_000,
            max_in_flight: 2_000,
            max_body: 16 * 1024,
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
