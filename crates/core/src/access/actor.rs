//! Who performs an administrative action.

use std::fmt;

/// Who asks for an administrative action, and how the request came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The account: a user of this machine, or of the console.
    pub name: String,
    /// How the request came in.
    pub via: Via,
    /// The case for which it is done, if the actor named one.
    pub ticket: Option<String>,
}

/// How an administrative request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A command on this machine.
    CommandLine,
    /// The console.
    Console,
    /// The admin API.
    AdminApi,
    /// The service itself, such as a scheduled sweep.
    Service,
}

impl Via {
    /// The name used in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CommandLine => "command line",
            Self::Console => "console",
            Self::AdminApi => "admin API",
            Self::Service => "service",
        }
    }
}

impl Actor {
    /// Creates the actor for an account.
    pub fn new(name: &str, via: Via) -> Self {
        Self { name: name.to_owned(), via, ticket: None }
    }

    /// The service itself.
    pub fn service() -> Self {
        Self::new("contactd", Via::Service)
    }

    /// The same actor, working on a case.
    #[must_use]
    pub fn for_ticket(mut self, ticket: Option<&str>) -> Self {
        self.ticket = ticket.map(str::to_owned);
        self
    }

    /// Logs that the actor asked for an action, which is named after its command.
    pub fn note(&self, action: &'static str) {
        let (actor, via) = (self.name.as_str(), self.via.name());
        match self.via {
            // Scheduled sweeps, by default every minute.
            Via::Service => tracing::debug!(target: "contactd::admin", actor, via, action, "asked"),
            _ => tracing::info!(target: "contactd::admin", actor, via, action, "asked"),
        }
    }
}

/// The recorded form: the name, and how the request came in unless it was a command.
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.via {
            Via::CommandLine => f.write_str(&self.name),
            via => write!(f, "{} ({})", self.name, via.name()),
        }
    }
}
