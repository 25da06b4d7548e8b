-- The key is the order of preference: a lookup reads the first row of its range.
-- Times are seconds since 1970 UTC. label: 0 personal, 1 work. kind: 0 phone, 1 email.
-- observed_at is far in the past where the source does not say.
CREATE TABLE details (
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
    PRIMARY KEY (profile, kind, label, confidence DESC, observed_at DESC, value, source)
) STRICT, WITHOUT ROWID;

CREATE TABLE sources (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE imports (
    id               INTEGER PRIMARY KEY,
    imported_at      INTEGER NOT NULL,
    source           TEXT NOT NULL,
    rows             INTEGER NOT NULL,
    rejected         INTEGER NOT NULL,
    suppressed       INTEGER NOT NULL,
    profiles_new     INTEGER NOT NULL,
    profiles_changed INTEGER NOT NULL,
    new              INTEGER NOT NULL,
    changed          INTEGER NOT NULL,
    unchanged        INTEGER NOT NULL
) STRICT;

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
