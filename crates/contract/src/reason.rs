//! The codes of `X-Invalid-Reason`: why a request was refused with `invalid_profile_url`.

/// One code of the `X-Invalid-Reason` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InvalidReason {
    /// The code, which is stable and meant for programs.
    pub code: &'static str,
    /// What is wrong, in words.
    pub meaning: &'static str,
    /// What to do about it.
    pub hint: &'static str,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident: $code:literal, $meaning:literal, $hint:literal;)*) => {
        impl InvalidReason {
            $($(#[$doc])* #[doc = $meaning]
            pub const $name: Self = Self { code: $code, meaning: $meaning, hint: $hint };)*

            /// Every code: first those about the body, then those about the URL, from the
            /// whole text to the slug.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

reasons! {
    NO_BODY: "no_body", "The request has no body.",
        "Send a JSON object with a profileUrl field.";
    NOT_JSON: "not_json", "The body cannot be read as JSON.",
        "Send valid JSON in UTF-8; check quoting and escapes.";
    NOT_OBJECT: "not_object", "The body is JSON, but not an object.",
        "Wrap the URL: {\"profileUrl\": \"https://…\"}.";
    DUPLICATE: "duplicate", "The body holds profileUrl more than once.",
        "Send profileUrl once; look up one profile per request.";
    MISSING: "missing", "The body has no profileUrl field.",
        "Name the field profileUrl, exactly so.";
    NOT_STRING: "not_string", "profileUrl is not a string.",
        "Send the URL as a JSON string.";
    EMPTY: "empty", "The URL is empty, or only white space.",
        "Skip records that have no profile URL.";
    TOO_LONG: "too_long", "The URL is longer than the limit, 2,048 characters unless the operator set another.",
        "Send the profile's own address, without what was pasted around it.";
    CONTROL_CHAR: "control_char", "A control character or an invisible mark stands inside the URL.",
        "Copy the address again; such characters often come from spreadsheets or PDFs.";
    NOT_A_URL: "not_a_url", "The text is not a web address.",
        "Send the whole address, such as https://www.linkedin.com/in/name, and nothing around it.";
    BAD_SCHEME: "bad_scheme", "The address is neither http nor https.",
        "Send the https:// address of the profile page.";
    USERINFO: "userinfo", "A user name or password stands before the host.",
        "Remove what stands before the @, and the @.";
    BAD_PORT: "bad_port", "The port is not the scheme's own.",
        "Remove the port.";
    BAD_HOST: "bad_host", "The host belongs to no network that this service knows.",
        "Check the spelling of the host; ask the operator which networks are served.";
    UNSUPPORTED_SUBDOMAIN: "unsupported_subdomain", "This part of the network's site holds no public profiles.",
        "Use the address of the public profile, usually on www.";
    SHORT_LINK: "short_link", "A short link, which only the network can resolve.",
        "Open the link and send the address it leads to.";
    EMPTY_SEGMENT: "empty_segment", "The path holds two slashes in a row.",
        "Remove the extra slash.";
    BAD_ENCODING: "bad_encoding", "A percent-escape is malformed, is not UTF-8, or is encoded twice, or the whole address is encoded.",
        "Send the address as the browser shows it, or with its path encoded once, as UTF-8.";
    PATH_TRAVERSAL: "path_traversal", "The path holds . or .. as a segment.",
        "Send the address as the browser shows it.";
    BAD_LEGACY: "bad_legacy", "An old /pub/ address without its three groups of digits.",
        "Open the address and send the /in/ address it leads to.";
    NOT_PERSON: "not_person", "A page of the network, but not a person's profile.",
        "Send a person's profile, not a company, a school, a job or a post.";
    INTERNAL_ID: "internal_id", "An id that only the network itself can resolve to a person.",
        "Open the profile and copy its public link.";
    NO_SLUG: "no_slug", "The address ends before it names a person.",
        "Send the whole address, with the name at its end.";
    BAD_SLUG: "bad_slug", "The name in the address is too short, too long, or holds a character that no such name has.",
        "Compare with the address in the browser; look for punctuation pasted along with it.";
    RESERVED_SLUG: "reserved_slug", "The name in the address is a word of the network's own, such as me.",
        "Send the person's own address, not the one you see when you are logged in as them.";
}
