-- Times are milliseconds since 1970 UTC; days are whole days since then.

-- Tokens, with their hashes: body is all of one as JSON. Tokens that were made from each other by rotation share one quota: their
-- family is the id of the first of them.
CREATE TABLE tokens (
    id           TEXT PRIMARY KEY,
    family       TEXT,
    body         TEXT NOT NULL,
    last_used_at INTEGER
) STRICT;
CREATE INDEX tokens_by_family ON tokens (family);

-- Users of the console, in the same columns; id is the name. A password is an Argon2id hash. The secret of a second factor is
-- derived from what is here with a digest key, which is not.
CREATE TABLE users (
    id           TEXT PRIMARY KEY,
    family       TEXT,
    body         TEXT NOT NULL,
    last_used_at INTEGER
) STRICT;

-- Tokens of the admin API, in the same columns.
CREATE TABLE admin_tokens (
    id           TEXT PRIMARY KEY,
    family       TEXT,
    body         TEXT NOT NULL,
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

-- Increases with every change to tokens or suppressions, in the same transaction, so that a server notices them. Usage does
-- not count.
CREATE TABLE changes (number INTEGER NOT NULL) STRICT;
INSERT INTO changes VALUES (0);

-- Who did what, until it is in the journal: stored in the transaction of the change, so that no change is without it.
CREATE TABLE outbox (
    id     INTEGER PRIMARY KEY,
    entry  TEXT NOT NULL UNIQUE,
    record TEXT NOT NULL
) STRICT;

-- A node of a cluster keeps a copy of the database here. One row if this is such a copy: of which database, and the last
-- change of tokens and suppressions that it contains; id is empty before the first. Without a row, this is no copy.
CREATE TABLE copy (
    lineage TEXT NOT NULL,
    number  INTEGER NOT NULL,
    id      BLOB NOT NULL
) STRICT;
