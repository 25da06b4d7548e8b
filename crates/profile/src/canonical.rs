//! Runs the steps of canonicalisation in order. The first step that fails gives the reason.

use std::fmt;

use crate::path::Path;
use crate::{Networks, Reason, authority, route, slug, text};

/// One person's profile, identified by its canonical URL.
///
/// A profile URL is personal data: this type does not implement `Display`, and prints as
/// `<redacted>` in `Debug`. Use [`as_str`](Self::as_str) to read it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Profile(String);

impl Profile {
    /// The canonical URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The canonical URL without `https://`: the shortest text that identifies the profile.
    pub fn key(&self) -> &str {
        self.0.strip_prefix("https://").unwrap_or(&self.0)
    }

    /// The profile with this [`key`](Self::key), as stored by an engine.
    pub fn from_key(key: &str) -> Self {
        Self(format!("https://{key}"))
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Profile(<redacted>)")
    }
}

impl Networks {
    /// Returns the canonical form of a profile URL, or the first rule that it breaks.
    pub fn canonicalize(&self, input: &str) -> Result<Profile, Reason> {
        self.usual(input).unwrap_or_else(|| self.any(input)).map(Profile)
    }

    /// As [`any`](Self::any), in a fifth of the time, for a URL that is written as most are: it begins as its canonical form does, or
    /// with `www.` as well, and then has nothing but a slug in ASCII, or a slash after it. No step but those of the slug can refuse
    /// it. `None` for any other URL.
    fn usual(&self, input: &str) -> Option<Result<String, Reason>> {
        let (network, rest) = self.strip_beginning(input)?;
        let text = rest.strip_suffix('/').unwrap_or(rest);
        let may_be_slug = !text.is_empty() && input.len() <= self.max_chars;
        may_be_slug.then(|| slug::plain(network, text)).flatten()
    }

    fn any(&self, input: &str) -> Result<String, Reason> {
        let split = authority::split(text::clean(input, self.max_chars)?)?;
        let found = self.find_host(split.host);
        let is_accepted = found.is_some_and(|(network, subdomain)| network.accepts_subdomain(subdomain));
        // Hosts that are accepted are well-formed, so only others have to be looked at.
        if !is_accepted && !authority::is_host(split.host) {
            return Err(Reason::BadHost);
        }
        let Some((network, _)) = found else {
            return Err(if self.is_short_host(split.host) { Reason::ShortLink } else { Reason::BadHost });
        };
        if split.has_userinfo {
            return Err(Reason::Userinfo);
        }
        if !split.port_is_default {
            return Err(Reason::BadPort);
        }
        if !is_accepted {
            return Err(Reason::UnsupportedSubdomain);
        }
        let route = route::find(network, Path::check(split.path)?)?;
        slug::canonical(network, route)
    }

    /// The name of the network that a profile belongs to, or `None` if that network is disabled.
    pub fn network_of(&self, profile: &Profile) -> Option<&str> {
        let host = profile.key().split('/').next().unwrap_or_default();
        self.find_host(host).map(|(network, _)| network.name())
    }
}
