-- What a node of a cluster holds beside its copy: opt-outs, and tokens that were revoked or restricted, which the database had and
-- lost. They are in force here until `node reconcile` puts them back into the database, or gives them up.
CREATE TABLE held_suppressions (
    digest        BLOB NOT NULL,
    key           TEXT NOT NULL,
    suppressed_at INTEGER NOT NULL,
    PRIMARY KEY (digest, key)
) STRICT, WITHOUT ROWID;

-- The tokens as they were here, in the columns of tokens.
CREATE TABLE held_tokens (
    id           TEXT PRIMARY KEY,
    family       TEXT,
    body         TEXT NOT NULL
) STRICT;
