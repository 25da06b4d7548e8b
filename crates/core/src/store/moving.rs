//! What a store hands over when it is moved to another engine: tables whose columns are the same in both.

/// A table that is moved.
#[derive(Debug)]
pub struct MovedTable {
    /// In which part of the local files it is.
    pub part: Part,
    /// Its name there.
    pub from: &'static str,
    /// Its name in the other engine.
    pub to: &'static str,
    /// Its columns.
    pub columns: &'static [&'static str],
    /// Two columns of whole numbers by which it is read in order and in parts; `None` if it is small enough to be read at once.
    pub key: Option<[&'static str; 2]>,
    /// What it is, for people.
    pub what: &'static str,
}

/// A part of the local files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Tokens, accounts and suppressions.
    Access,
    /// Details.
    Details,
    /// The index of the journal.
    Index,
}

/// Where reading a table goes on.
pub type MovedKey = (i64, i64);

/// Rows of a table: as many lines, columns separated by tabs, with the escapes of PostgreSQL's text format of COPY. It has no
/// `Debug`, because it holds personal data.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MovedRows {
    /// The lines, without line ends.
    pub lines: Vec<String>,
    /// Where reading goes on; `None` if these are the last rows.
    pub next: Option<MovedKey>,
}

const fn whole(
    part: Part,
    name: &'static str,
    columns: &'static [&'static str],
    what: &'static str,
) -> MovedTable {
    MovedTable { part, from: name, to: name, columns, key: None, what }
}

/// The columns of tokens, users and admin tokens.
const ENTITY: &[&str] = &["id", "family", "body", "last_used_at"];

/// Everything that is moved, in this order: a move that was interrupted goes on by the number of its table.
pub const MOVED: &[MovedTable] = &[
    whole(Part::Access, "tokens", ENTITY, "tokens"),
    whole(Part::Access, "suppressions", &["digest", "key", "suppressed_at"], "opt-outs"),
    whole(Part::Access, "users", ENTITY, "users"),
    whole(Part::Access, "admin_tokens", ENTITY, "admin tokens"),
    whole(Part::Details, "sources", &["id", "name", "max_age"], "sources"),
    whole(Part::Details, "imports", &["id", "imported_at", "undone_at", "is_kept", "summary"], "imports"),
    whole(Part::Details, "import_sources", &["import", "source"], "sources of imports"),
    whole(Part::Details, "totals", &["source", "kind", "label", "count"], "totals"),
    whole(Part::Details, "profile_total", &["count"], "counts of profiles"),
    MovedTable {
        part: Part::Details,
        from: "details",
        to: "details",
        columns: &[
            "id",
            "profile",
            "kind",
            "label",
            "confidence",
            "observed_at",
            "value",
            "source",
            "expires_at",
            "basis",
            "import",
            "said_by",
        ],
        key: Some(["id", "id"]),
        what: "details",
    },
    MovedTable {
        part: Part::Details,
        from: "former",
        to: "former",
        columns: &[
            "id",
            "import",
            "place",
            "is_withdrawn",
            "profile",
            "kind",
            "label",
            "confidence",
            "observed_at",
            "value",
            "source",
            "expires_at",
            "basis",
            "added_by",
            "said_by",
        ],
        key: Some(["id", "id"]),
        what: "details kept for undo",
    },
    whole(Part::Index, "names", &["id", "name"], "names in the audit index"),
    MovedTable {
        part: Part::Index,
        from: "events",
        to: "events",
        columns: &[
            "node",
            "seq",
            "at",
            "request_id",
            "token",
            "operation",
            "outcome",
            "reason",
            "digest_key",
            "profile",
            "given_id",
            "value",
            "count",
        ],
        key: Some(["node", "seq"]),
        what: "requests in the audit index",
    },
    MovedTable {
        part: Part::Index,
        from: "admin_events",
        to: "admin_events",
        columns: &["node", "seq", "at", "entry", "record"],
        key: Some(["node", "seq"]),
        what: "actions in the audit index",
    },
    MovedTable {
        part: Part::Index,
        from: "usage",
        to: "audit_usage",
        columns: &["node", "token", "day", "hits", "misses", "refused"],
        key: None,
        what: "counts in the audit index",
    },
    whole(Part::Index, "positions", &["node", "segment", "offset", "seq", "chain"], "positions in journals"),
];
