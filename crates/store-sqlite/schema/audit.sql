-- What the journal says, so that questions about it need not read all of it. All of this can be made anew from the journal.
-- Times are milliseconds since 1970 UTC; days are whole days since then. operation: 0 phone, 1 email.
-- outcome: 0 hit, 1 miss, 2 refused.

-- Every node has a journal of its own: a line is identified by its node and its number. given_id: the digest of a request id
-- that is not recorded as it is. value: the digest of the value that was disclosed. count: how many refused requests a line
-- stands for.
CREATE TABLE events (
    node       INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    token      INTEGER NOT NULL,
    operation  INTEGER NOT NULL,
    outcome    INTEGER NOT NULL,
    reason     INTEGER,
    digest_key INTEGER,
    profile    BLOB,
    given_id   BLOB,
    value      BLOB,
    count      INTEGER NOT NULL,
    PRIMARY KEY (node, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX events_by_profile ON events (profile) WHERE profile IS NOT NULL;
CREATE INDEX events_by_value ON events (value) WHERE value IS NOT NULL;
-- Questions are answered newest first, without sorting everything.
CREATE INDEX events_by_time ON events (at);

-- Administrative actions: record is the whole entry as JSON, entry its id.
CREATE TABLE admin_events (
    node   INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    entry  TEXT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (node, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX admin_events_by_entry ON admin_events (entry);
CREATE INDEX admin_events_by_time ON admin_events (at);

-- The texts that occur again and again: nodes, tokens, reasons, keys.
CREATE TABLE names (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE usage (
    node    INTEGER NOT NULL,
    token   INTEGER NOT NULL,
    day     INTEGER NOT NULL,
    hits    INTEGER NOT NULL,
    misses  INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    PRIMARY KEY (node, token, day)
) STRICT, WITHOUT ROWID;

-- How far the journal of each node has been read.
CREATE TABLE positions (
    node    INTEGER PRIMARY KEY,
    segment INTEGER NOT NULL,
    offset  INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    chain   BLOB NOT NULL
) STRICT;
