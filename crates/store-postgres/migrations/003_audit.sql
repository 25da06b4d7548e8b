-- What the journals of all nodes say, so that questions about them need not read them.
-- operation: 0 phone, 1 email. outcome: 0 hit, 1 miss, 2 refused.
CREATE TABLE names (
    id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE events (
    node       integer NOT NULL,
    seq        bigint NOT NULL,
    at         bigint NOT NULL,
    token      integer NOT NULL,
    reason     integer,
    digest_key integer,
    operation  smallint NOT NULL,
    outcome    smallint NOT NULL,
    count      bigint NOT NULL,
    request_id text NOT NULL,
    given_id   bytea,
    profile    bytea,
    value      bytea,
    PRIMARY KEY (node, seq)
);
CREATE INDEX events_by_profile ON events (profile) WHERE profile IS NOT NULL;
CREATE INDEX events_by_value ON events (value) WHERE value IS NOT NULL;
CREATE INDEX events_by_time ON events (at);

-- Administrative actions: record is the whole entry as JSON, entry its id.
CREATE TABLE admin_events (
    node   integer NOT NULL,
    seq    bigint NOT NULL,
    at     bigint NOT NULL,
    entry  text COLLATE "C" NOT NULL,
    record text NOT NULL,
    PRIMARY KEY (node, seq)
);
CREATE INDEX admin_events_by_entry ON admin_events (entry);
CREATE INDEX admin_events_by_time ON admin_events (at);

CREATE TABLE audit_usage (
    node    integer NOT NULL,
    token   integer NOT NULL,
    day     bigint NOT NULL,
    hits    bigint NOT NULL,
    misses  bigint NOT NULL,
    refused bigint NOT NULL,
    PRIMARY KEY (node, token, day)
);

-- How far the journal of each node has been read.
CREATE TABLE positions (
    node    integer PRIMARY KEY,
    segment bigint NOT NULL,
    "offset" bigint NOT NULL,
    seq     bigint NOT NULL,
    chain   bytea NOT NULL
);
