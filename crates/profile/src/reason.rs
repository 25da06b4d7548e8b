//! The reasons for refusing a URL.

/// Why a URL was refused: the first rule that it broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}", self.code())]
pub enum Reason {
    /// Nothing is left after trimming.
    Empty,
    /// Longer than the limit, which is [`MAX_CHARS`](crate::MAX_CHARS) characters by default.
    TooLong,
    /// Contains a control character or an invisible mark.
    ControlChar,
    /// Not a web address at all: a bare id, a site-relative path, text around a URL.
    NotAUrl,
    /// A scheme other than http or https.
    BadScheme,
    /// A user name or password before the host.
    Userinfo,
    /// A port other than the default port of the scheme.
    BadPort,
    /// A host that is malformed or does not belong to a known network.
    BadHost,
    /// A sub-domain of a known network that has no public profiles.
    UnsupportedSubdomain,
    /// A short link, which only the network can resolve.
    ShortLink,
    /// An empty path segment before the end.
    EmptySegment,
    /// A percent-escape that is malformed, is not UTF-8, or encodes a percent sign, or a URL that is encoded as a whole.
    BadEncoding,
    /// `.` or `..` as a path segment, encoded or not.
    PathTraversal,
    /// The old `/pub/` form without its three groups of hex digits.
    BadLegacy,
    /// A page of the network that is not a person's profile.
    NotPerson,
    /// An id that only the network itself can resolve to a person.
    InternalId,
    /// The profile route without a slug.
    NoSlug,
    /// A slug that is too short, too long, or contains a character that is not allowed.
    BadSlug,
    /// A word that the network uses for something else, such as `me`.
    ReservedSlug,
}

impl Reason {
    /// Every reason, from those about the whole text to those about the slug.
    pub const ALL: [Self; 19] = [
        Self::Empty,
        Self::TooLong,
        Self::ControlChar,
        Self::NotAUrl,
        Self::BadScheme,
        Self::Userinfo,
        Self::BadPort,
        Self::BadHost,
        Self::UnsupportedSubdomain,
        Self::ShortLink,
        Self::EmptySegment,
        Self::BadEncoding,
        Self::PathTraversal,
        Self::BadLegacy,
        Self::NotPerson,
        Self::InternalId,
        Self::NoSlug,
        Self::BadSlug,
        Self::ReservedSlug,
    ];

    /// The code that is sent to clients.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLong => "too_long",
            Self::ControlChar => "control_char",
            Self::NotAUrl => "not_a_url",
            Self::BadScheme => "bad_scheme",
            Self::Userinfo => "userinfo",
            Self::BadPort => "bad_port",
            Self::BadHost => "bad_host",
            Self::UnsupportedSubdomain => "unsupported_subdomain",
            Self::ShortLink => "short_link",
            Self::EmptySegment => "empty_segment",
            Self::BadEncoding => "bad_encoding",
            Self::PathTraversal => "path_traversal",
            Self::BadLegacy => "bad_legacy",
            Self::NotPerson => "not_person",
            Self::InternalId => "internal_id",
            Self::NoSlug => "no_slug",
            Self::BadSlug => "bad_slug",
            Self::ReservedSlug => "reserved_slug",
        }
    }
}
