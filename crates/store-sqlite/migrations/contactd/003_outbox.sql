-- What was done by whom, until it is in the journal: stored in the transaction of the change, so that none is without it.
CREATE TABLE outbox (
    id     INTEGER PRIMARY KEY,
    entry  TEXT NOT NULL UNIQUE,
    record TEXT NOT NULL
) STRICT;
