//! Networks as data: which hosts and routes belong to a person's profile.

use crate::MAX_CHARS;

/// One professional network, with everything that canonicalisation knows about it.
#[derive(Clone, Debug)]
pub struct Network {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) subdomains: Vec<String>,
    /// Whether any two letters are also a sub-domain: `uk.`, `de.`.
    pub(crate) country_subdomains: bool,
    pub(crate) short_hosts: Vec<String>,
    /// Path prefixes that are ignored: they do not change which person the URL means.
    pub(crate) wrappers: Vec<Vec<String>>,
    /// The words before the slug. The first route is the canonical one.
    pub(crate) routes: Vec<Vec<String>>,
    /// Routes that identify a person by an id that only the network can resolve. `*` matches
    /// any number of segments.
    pub(crate) internal: Vec<Vec<String>>,
    pub(crate) reserved: Vec<String>,
    pub(crate) case: Case,
    /// Whether to accept LinkedIn's old form `/pub/<name>/<a>/<b>/<c>`.
    pub(crate) legacy_pub: bool,
    /// Whether slugs can be LinkedIn's 39-character member ids, which are case-sensitive.
    pub(crate) member_ids: bool,
    /// `https://<host>/<route>/`, computed once.
    pub(crate) prefix: String,
}

/// Whether two slugs that differ only in case are the same person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// The same person: the canonical form is lower-case.
    Lower,
    /// Different people: case is kept.
    Keep,
}

/// What is wrong with a network's description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The host is not a lower-case domain name with a dot in it.
    #[error("`{0}` is not a host: write it in lower case, like people.example.com")]
    Host(String),
    /// The route is not `/words/{slug}`.
    #[error("`{0}` is not a route: write it like /in/{{slug}}, with {{slug}} last")]
    Route(String),
    /// A sub-domain is not a lower-case label.
    #[error("`{0}` is not a sub-domain: write one lower-case label, like www")]
    Subdomain(String),
    /// The name contains something other than lower-case letters, digits and hyphens, or is empty.
    #[error("`{0}` is not a network name: use lower-case letters, digits and hyphens")]
    Name(String),
    /// Two networks have this name or this host.
    #[error("`{0}` is described twice")]
    Twice(String),
}

impl Network {
    /// A network with one route, the sub-domain `www`, and slugs whose case does not matter.
    pub fn new(name: &str, host: &str, route: &str) -> Result<Self, NetworkError> {
        let is_name_char = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if name.is_empty() || !name.bytes().all(is_name_char) {
            return Err(NetworkError::Name(name.to_owned()));
        }
        if !host.contains('.') || !host.split('.').all(is_label) {
            return Err(NetworkError::Host(host.to_owned()));
        }
        let mut network = Self {
            name: name.to_owned(),
            host: host.to_owned(),
            subdomains: vec!["www".to_owned()],
            country_subdomains: false,
            short_hosts: Vec::new(),
            wrappers: Vec::new(),
            routes: Vec::new(),
            internal: Vec::new(),
            reserved: ["me", "null", "undefined", "unavailable"].map(str::to_owned).to_vec(),
            case: Case::Lower,
            legacy_pub: false,
            member_ids: false,
            prefix: String::new(),
        };
        network.add_route(route)?;
        network.prefix = format!("https://{host}/");
        for word in &network.routes[0] {
            network.prefix.push_str(word);
            network.prefix.push('/');
        }
        Ok(network)
    }

    /// The network's name in answers and in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds another accepted route to the same profiles, such as an older one.
    pub fn add_route(&mut self, route: &str) -> Result<(), NetworkError> {
        let is_word_char = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(is_word_char);
        let bad = || NetworkError::Route(route.to_owned());
        let words = route.strip_prefix('/').and_then(|r| r.strip_suffix("{slug}")).ok_or_else(bad)?;
        let words: Vec<String> = match words.strip_suffix('/') {
            None if words.is_empty() => Vec::new(),
            None => return Err(bad()),
            Some(words) => words.split('/').map(str::to_owned).collect(),
        };
        if !words.iter().all(|word| is_word(word)) {
            return Err(bad());
        }
        self.routes.push(words);
        Ok(())
    }

    /// Replaces the accepted sub-domains.
    pub fn set_subdomains(&mut self, labels: &[String]) -> Result<(), NetworkError> {
        if let Some(label) = labels.iter().find(|label| !is_label(label)) {
            return Err(NetworkError::Subdomain(label.clone()));
        }
        self.subdomains = labels.to_vec();
        Ok(())
    }

    /// Sets whether any two letters are accepted as a sub-domain.
    pub fn set_country_subdomains(&mut self, accepted: bool) {
        self.country_subdomains = accepted;
    }

    /// Sets whether slugs that differ only in case are the same person.
    pub fn set_case(&mut self, case: Case) {
        self.case = case;
    }

    /// Adds reserved words: nobody's slug can be one of them.
    pub fn reserve(&mut self, words: &[String]) {
        self.reserved.extend(words.iter().map(|word| word.to_lowercase()));
    }

    /// Whether this is a sub-domain with profiles. No sub-domain is one.
    pub(crate) fn accepts_subdomain(&self, subdomain: &str) -> bool {
        let is_country = subdomain.len() == 2 && subdomain.bytes().all(|b| b.is_ascii_alphabetic());
        subdomain.is_empty()
            || (self.country_subdomains && is_country)
            || self.subdomains.iter().any(|label| label.eq_ignore_ascii_case(subdomain))
    }
}

fn is_label(label: &str) -> bool {
    !label.is_empty() && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// The enabled networks, and the maximum length of a URL.
#[derive(Clone, Debug)]
pub struct Networks {
    list: Vec<Network>,
    /// What most URLs begin with, up to the slug, and the number of their network in `list`.
    beginnings: Vec<(String, usize)>,
    pub(crate) max_chars: usize,
}

impl Networks {
    /// LinkedIn and XING.
    pub fn built_in() -> Self {
        let list = vec![linkedin(), xing()];
        let mut networks = Self { list, beginnings: Vec::new(), max_chars: MAX_CHARS };
        networks.note_beginnings();
        networks
    }

    /// Adds a network. Its name and its host must not be in use yet.
    pub fn add(&mut self, network: Network) -> Result<(), NetworkError> {
        for known in &self.list {
            if known.name == network.name {
                return Err(NetworkError::Twice(network.name));
            }
            if known.host == network.host {
                return Err(NetworkError::Twice(network.host));
            }
        }
        self.list.push(network);
        self.note_beginnings();
        Ok(())
    }

    /// Removes a network. Returns false if no network has this name.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.list.len();
        self.list.retain(|network| network.name != name);
        self.note_beginnings();
        self.list.len() < before
    }

    /// Must be called whenever `list` has changed.
    fn note_beginnings(&mut self) {
        let beginning = |number: usize, network: &Network, subdomain: &str| {
            let host = format!("{subdomain}{}", network.host);
            let (found, subdomain) = self.find_host(&host)?;
            // A sub-domain can be another network.
            (found.host == network.host && found.accepts_subdomain(subdomain))
                .then(|| (network.prefix.replacen(&network.host, &host, 1), number))
        };
        let networks = self.list.iter().enumerate();
        self.beginnings = networks
            .flat_map(|(number, network)| ["www.", ""].map(|subdomain| beginning(number, network, subdomain)))
            .flatten()
            .collect();
    }

    /// Accepts URLs of up to `chars` characters instead of [`MAX_CHARS`].
    pub fn set_max_chars(&mut self, chars: usize) {
        self.max_chars = chars;
    }

    /// The enabled networks.
    pub fn iter(&self) -> impl Iterator<Item = &Network> {
        self.list.iter()
    }

    /// The network that a host belongs to, and the sub-domain (empty if there is none). The most
    /// specific network wins. Hosts are compared by whole labels.
    pub(crate) fn find_host<'h>(&self, host: &'h str) -> Option<(&Network, &'h str)> {
        self.list
            .iter()
            .filter_map(|network| Some((network, subdomain_of(host, &network.host)?)))
            .min_by_key(|(_, subdomain)| subdomain.len())
    }

    /// The network of a URL that begins as most do, and what follows this beginning.
    pub(crate) fn strip_beginning<'u>(&self, url: &'u str) -> Option<(&Network, &'u str)> {
        let after = |(beginning, number): &(String, usize)| Some((*number, url.strip_prefix(beginning)?));
        let (number, rest) = self.beginnings.iter().find_map(after)?;
        Some((self.list.get(number)?, rest))
    }

    pub(crate) fn is_short_host(&self, host: &str) -> bool {
        let mut short_hosts = self.list.iter().flat_map(|network| &network.short_hosts);
        short_hosts.any(|short| subdomain_of(host, short).is_some())
    }
}

/// The sub-domain part of `host` below `domain`: empty if they are equal, `None` if `host` is not below it.
fn subdomain_of<'h>(host: &'h str, domain: &str) -> Option<&'h str> {
    let (subdomain, tail) = host.split_at_checked(host.len().checked_sub(domain.len())?)?;
    // Most are in lower case, and comparing them is faster.
    if tail != domain && !tail.eq_ignore_ascii_case(domain) {
        return None;
    }
    if subdomain.is_empty() {
        return Some("");
    }
    subdomain.strip_suffix('.').filter(|subdomain| !subdomain.is_empty())
}

fn linkedin() -> Network {
    Network {
        name: "linkedin".to_owned(),
        host: "linkedin.com".to_owned(),
        subdomains: words("www m touch mobile"),
        country_subdomains: true,
        short_hosts: words("lnkd.in"),
        wrappers: routes(&["mwlite profile", "mwlite", "m", "comm", "incareer"]),
        routes: routes(&["in"]),
        internal: routes(&[
            "sales lead",
            "sales people",
            "sales profile",
            "talent * profile",
            "recruiter profile",
            "profile view",
        ]),
        reserved: words("me null undefined unavailable"),
        case: Case::Lower,
        legacy_pub: true,
        member_ids: true,
        prefix: "https://linkedin.com/in/".to_owned(),
    }
}

fn xing() -> Network {
    Network {
        name: "xing".to_owned(),
        host: "xing.com".to_owned(),
        subdomains: words("www m touch"),
        country_subdomains: false,
        short_hosts: words("xing.to"),
        wrappers: Vec::new(),
        routes: routes(&["profile", "hp"]),
        internal: Vec::new(),
        reserved: words("me null undefined unavailable my_profile"),
        case: Case::Keep,
        legacy_pub: false,
        member_ids: false,
        prefix: "https://xing.com/profile/".to_owned(),
    }
}

fn routes(list: &[&str]) -> Vec<Vec<String>> {
    list.iter().map(|route| words(route)).collect()
}

fn words(list: &str) -> Vec<String> {
    list.split(' ').map(str::to_owned).collect()
}
