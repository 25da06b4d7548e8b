//! The two operations.

/// One of the two lookups. Both take the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Returns a person's personal phone number.
    FetchPhoneNumber,
    /// Returns a person's personal e-mail address.
    FetchPersonalEmail,
}

impl Operation {
    /// Both, in the order in which they are described.
    pub const ALL: [Self; 2] = [Self::FetchPhoneNumber, Self::FetchPersonalEmail];

    /// The path, which also stands in error messages, whatever the base path is.
    pub const fn path(self) -> &'static str {
        match self {
            Self::FetchPhoneNumber => "/api/fetchPhoneNumber",
            Self::FetchPersonalEmail => "/api/fetchPersonalEmail",
        }
    }

    /// What the operation looks up, as the not-found message says it.
    pub const fn sought(self) -> &'static str {
        match self {
            Self::FetchPhoneNumber => "phone number",
            Self::FetchPersonalEmail => "personal e-mail",
        }
    }
}
