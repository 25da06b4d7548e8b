-- Times are milliseconds since 1970 UTC; days are whole days since then.
CREATE TABLE tokens (
    id           TEXT PRIMARY KEY,
    hash         BLOB NOT NULL UNIQUE,
    name         TEXT NOT NULL,
    phone        INTEGER NOT NULL,
    email        INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    rate         TEXT,
    burst        INTEGER,
    quota        TEXT,
    last_used_at INTEGER
) STRICT;

CREATE TABLE suppressions (
    digest        BLOB NOT NULL,
    key           TEXT NOT NULL,
    suppressed_at INTEGER NOT NULL,
    PRIMARY KEY (digest, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
    token   TEXT NOT NULL,
    day     INTEGER NOT NULL,
    hits    INTEGER NOT NULL,
    misses  INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    PRIMARY KEY (token, day)
) STRICT, WITHOUT ROWID;

-- What the store has to remember about itself, such as the id of its digest key.
CREATE TABLE facts (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
