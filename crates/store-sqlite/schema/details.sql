-- Times are seconds since 1970 UTC. label: 0 personal, 1 work. kind: 0 phone, 1 email.
-- observed_at is far in the past where the source does not say.
-- id: the upper bits are the hash of the profile and the kind; the 15 bits that are left count the details of that kind in order
-- of preference, so a lookup reads the first row of its range. Profiles whose hashes are the same share these ids, so a lookup
-- compares the profile too.
-- said_by: the last import that said an undated detail again, where its source has a largest age: it is as old as that import.
CREATE TABLE details (
    id          INTEGER PRIMARY KEY,
    profile     TEXT NOT NULL,
    kind        INTEGER NOT NULL,
    label       INTEGER NOT NULL,
    confidence  INTEGER NOT NULL,
    observed_at INTEGER NOT NULL,
    value       TEXT NOT NULL,
    source      INTEGER NOT NULL,
    expires_at  INTEGER,
    basis       TEXT,
    import      INTEGER NOT NULL,
    said_by     INTEGER
) STRICT;
-- Details that end are found by when they do; those that do not end cost nothing here.
CREATE INDEX details_by_expiry ON details (expires_at) WHERE expires_at IS NOT NULL;

-- max_age: how long a source's details are held after they were observed, or imported if that is not known, in seconds.
CREATE TABLE sources (
    id      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE,
    max_age INTEGER
) STRICT;

-- summary: what it did, as JSON. is_kept: whether `former` has what it changed and withdrew.
CREATE TABLE imports (
    id          INTEGER PRIMARY KEY,
    imported_at INTEGER NOT NULL,
    undone_at   INTEGER,
    is_kept     INTEGER NOT NULL,
    summary     TEXT NOT NULL
) STRICT;

CREATE TABLE import_sources (
    import INTEGER NOT NULL,
    source INTEGER NOT NULL,
    PRIMARY KEY (import, source)
) STRICT, WITHOUT ROWID;

-- Kept up to date by every write, so that counting needs no scan.
CREATE TABLE totals (
    source INTEGER NOT NULL,
    kind   INTEGER NOT NULL,
    label  INTEGER NOT NULL,
    count  INTEGER NOT NULL,
    PRIMARY KEY (source, kind, label)
) STRICT, WITHOUT ROWID;

CREATE TABLE profile_total (count INTEGER NOT NULL) STRICT;
INSERT INTO profile_total VALUES (0);

-- Who did what, until it is in the journal: stored in the transaction of the change, so that no change is without it.
CREATE TABLE outbox (
    id     INTEGER PRIMARY KEY,
    entry  TEXT NOT NULL UNIQUE,
    record TEXT NOT NULL
) STRICT;

-- What imports changed or withdrew, as it was before, so that they can be undone. place: the first id of the profile.
CREATE TABLE former (
    id           INTEGER PRIMARY KEY,
    import       INTEGER NOT NULL,
    place        INTEGER NOT NULL,
    is_withdrawn INTEGER NOT NULL,
    profile      TEXT NOT NULL,
    kind         INTEGER NOT NULL,
    label        INTEGER NOT NULL,
    confidence   INTEGER NOT NULL,
    observed_at  INTEGER NOT NULL,
    value        TEXT NOT NULL,
    source       INTEGER NOT NULL,
    expires_at   INTEGER,
    basis        TEXT,
    added_by     INTEGER NOT NULL,
    said_by      INTEGER
) STRICT;
CREATE INDEX former_by_import ON former (import, place);
CREATE INDEX former_by_expiry ON former (expires_at) WHERE expires_at IS NOT NULL;

-- A node of a cluster keeps a copy of the database here. One row if this is such a copy: the last change of details that it
-- contains. While it is being loaded, number and id are those of the change at which loading began, loaded_through is the id up
-- to which it is loaded, and seen_number and seen_id are those of the newest change that the loaded details contain.
-- wiped_number: the last change whose removed details have left no traces in this file.
CREATE TABLE copy (
    number         INTEGER NOT NULL,
    id             BLOB NOT NULL,
    loaded_through INTEGER,
    wiped_number   INTEGER NOT NULL,
    seen_number    INTEGER,
    seen_id        BLOB
) STRICT;
