-- Every node has a journal of its own: a line is identified by its node and its number. Until now there was one journal, so
-- everything belongs to the node of its newest line. If there is no line, the node's name is empty until it is known.
INSERT INTO names (name) SELECT '' WHERE NOT EXISTS (SELECT 1 FROM events);

CREATE TABLE events_by_node (
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
    PRIMARY KEY (node, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO events_by_node
SELECT (SELECT node FROM events ORDER BY seq DESC LIMIT 1),
       seq, at, request_id, token, operation, outcome, reason, digest_key, profile
FROM events ORDER BY seq;

CREATE TABLE usage_by_node (
    node    INTEGER NOT NULL,
    token   INTEGER NOT NULL,
    day     INTEGER NOT NULL,
    hits    INTEGER NOT NULL,
    misses  INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    PRIMARY KEY (node, token, day)
) STRICT, WITHOUT ROWID;
INSERT INTO usage_by_node
SELECT coalesce((SELECT node FROM events ORDER BY seq DESC LIMIT 1), (SELECT id FROM names WHERE name = '')),
       token, day, hits, misses, refused
FROM usage;

CREATE TABLE positions (
    node    INTEGER PRIMARY KEY,
    segment INTEGER NOT NULL,
    offset  INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    chain   BLOB NOT NULL
) STRICT;
INSERT INTO positions
SELECT coalesce((SELECT node FROM events ORDER BY seq DESC LIMIT 1), (SELECT id FROM names WHERE name = '')),
       segment, offset, seq, chain
FROM position;

DROP TABLE events;
DROP TABLE usage;
DROP TABLE position;
ALTER TABLE events_by_node RENAME TO events;
ALTER TABLE usage_by_node RENAME TO usage;
CREATE INDEX events_by_profile ON events (profile) WHERE profile IS NOT NULL;
