//! What a store hands over when it is moved to another engine: tables with all columns that they have in the local files. The other
//! engine has columns of the same names.

/// A table that is moved.
#[derive(Debug)]
pub struct MovedTable {
    /// In which part of the local files it is.
    pub part: Part,
    /// Its name there.
    pub from: &'static str,
    /// Its name in the other engine.
    pub to: &'static str,
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
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The lines, without line ends.
    pub lines: Vec<String>,
    /// Where reading goes on; `None` if these are the last rows.
    pub next: Option<MovedKey>,
}

/// A table that is read at once, and has the same name in both engines.
const fn whole(part: Part, name: &'static str, what: &'static str) -> MovedTable {
    MovedTable { part, from: name, to: name, key: None, what }
}

/// A table that is read in parts.
const fn long(part: Part, name: &'static str, key: [&'static str; 2], what: &'static str) -> MovedTable {
    MovedTable { key: Some(key), ..whole(part, name, what) }
}

/// Everything that is moved, in this order: a move that was interrupted goes on by the number of its table.
pub const MOVED: &[MovedTable] = &[
    whole(Part::Access, "tokens", "tokens"),
    whole(Part::Access, "suppressions", "opt-outs"),
    whole(Part::Access, "users", "users"),
    whole(Part::Access, "admin_tokens", "admin tokens"),
    whole(Part::Details, "sources", "sources"),
    whole(Part::Details, "imports", "imports"),
    whole(Part::Details, "import_sources", "sources of imports"),
    whole(Part::Details, "totals", "totals"),
    whole(Part::Details, "profile_total", "counts of profiles"),
    long(Part::Details, "details", ["id", "id"], "details"),
    long(Part::Details, "former", ["id", "id"], "details kept for undo"),
    whole(Part::Index, "names", "names in the audit index"),
    long(Part::Index, "events", ["node", "seq"], "requests in the audit index"),
    long(Part::Index, "admin_events", ["node", "seq"], "actions in the audit index"),
    MovedTable { to: "audit_usage", ..whole(Part::Index, "usage", "counts in the audit index") },
    whole(Part::Index, "positions", "positions in journals"),
];
