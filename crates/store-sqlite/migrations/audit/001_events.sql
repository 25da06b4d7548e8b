-- What the journal says, so that questions about it need not read it all. All of this can be made anew from the journal.
-- Times are milliseconds since 1970 UTC; days are whole days since then. operation: 0 phone, 1 email.
-- outcome: 0 hit, 1 miss, 2 refused.
CREATE TABLE events (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    node       INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    token      INTEGER NOT NULL,
    operation  INTEGER NOT NULL,
    outcome    INTEGER NOT NULL,
    reason     INTEGER,
    digest_key INTEGER,
    profile    BLOB
) STRICT;

CREATE INDEX events_by_profile ON events (profile) WHERE profile IS NOT NULL;

-- The texts that are said again and again: nodes, tokens, reasons, keys.
CREATE TABLE names (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE usage (
    token   INTEGER NOT NULL,
    day     INTEGER NOT NULL,
    hits    INTEGER NOT NULL,
    misses  INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    PRIMARY KEY (token, day)
) STRICT, WITHOUT ROWID;

-- How far the journal has been read.
CREATE TABLE position (
    segment INTEGER NOT NULL,
    offset  INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    chain   BLOB NOT NULL
) STRICT;
INSERT INTO position VALUES (0, 0, 0, zeroblob(16));
