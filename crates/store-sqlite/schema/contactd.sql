-- Times are milliseconds since 1970 UTC; days are whole days since then.

-- Tokens that were made from each other by rotation share one quota: their family is the id of the first of them.
-- lifetime is how long a token was asked to be valid; it is null for ever. expires_at can be earlier, because a rotation ends
-- the old token.
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
    last_used_at INTEGER,
    family       TEXT NOT NULL,
    rotated_from TEXT,
    lifetime     INTEGER
) STRICT;
CREATE INDEX tokens_by_family ON tokens (family);

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

-- Users of the console. password is an Argon2id hash. The columns totp_* are null without a second factor; the secret of one
-- is derived from them with a digest key, which is not in here. generation changes whenever sessions have to end.
CREATE TABLE users (
    name                 TEXT PRIMARY KEY,
    role                 TEXT NOT NULL,
    created_at           INTEGER NOT NULL,
    disabled_at          INTEGER,
    password             TEXT NOT NULL,
    must_change_password INTEGER NOT NULL,
    totp_key             TEXT,
    totp_salt            TEXT,
    totp_last_step       INTEGER,
    last_login_at        INTEGER,
    generation           TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Tokens of the admin API.
CREATE TABLE admin_tokens (
    id           TEXT PRIMARY KEY,
    hash         BLOB NOT NULL UNIQUE,
    name         TEXT NOT NULL,
    role         TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT;
