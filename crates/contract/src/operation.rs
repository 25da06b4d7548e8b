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
    /// Both operations, in the order of the OpenAPI document.
    pub const ALL: [Self; 2] = [Self::FetchPhoneNumber, Self::FetchPersonalEmail];

    /// The path. Error messages contain it too, always without the base path.
    pub const fn path(self) -> &'static str {
        match self {
            Self::FetchPhoneNumber => "/api/fetchPhoneNumber",
            Self::FetchPersonalEmail => "/api/fetchPersonalEmail",
        }
    }

    /// The name, as a lookup of a batch gives it.
    pub fn name(self) -> &'static str {
        self.path().trim_start_matches("/api/")
    }

    /// What the operation looks up, as worded in the not-found message.
    pub const fn sought(self) -> &'static str {
        match self {
            Self::FetchPhoneNumber => "phone number",
            Self::FetchPersonalEmail => "personal e-mail",
        }
    }
}
