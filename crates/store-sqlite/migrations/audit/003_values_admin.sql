-- Digests of the value that was disclosed, and of a request id that is not recorded as it is; how many refused requests a
-- line stands for.
ALTER TABLE events ADD COLUMN given_id BLOB;
ALTER TABLE events ADD COLUMN value BLOB;
ALTER TABLE events ADD COLUMN count INTEGER NOT NULL DEFAULT 1;
CREATE INDEX events_by_value ON events (value) WHERE value IS NOT NULL;

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
