-- Times are milliseconds since 1970 UTC, unless a column says otherwise; days are whole days since then.

-- What the store has to remember about itself, such as the id of its digest key.
CREATE TABLE facts (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- Counters: 'access' for tokens and suppressions, 'details' for details, 'usage' for usage that is added up, users and admin
-- tokens, so that each change of these is made once over a failover. A writer locks the row of its counter, so the order of
-- numbers is the order of commits. Nodes follow the first two.
CREATE TABLE counters (
    counter text COLLATE "C" PRIMARY KEY,
    number  bigint NOT NULL
);
INSERT INTO counters VALUES ('access', 0), ('details', 0), ('usage', 0);

-- Every change, by its number and a random id. A node that knows a number with another id follows another history.
CREATE TABLE changes (
    counter    text COLLATE "C" NOT NULL,
    number     bigint NOT NULL,
    id         bytea NOT NULL UNIQUE,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (counter, number)
);

-- number, in every table below: the change that wrote the row last.

-- Tokens, with their hashes: body is all of one as JSON. Tokens that were made from each other by rotation share one quota: their
-- family is the id of the first of them.
CREATE TABLE tokens (
    place        bigint GENERATED ALWAYS AS IDENTITY,
    id           text COLLATE "C" PRIMARY KEY,
    family       text COLLATE "C",
    body         text NOT NULL,
    last_used_at bigint,
    number       bigint NOT NULL
);
CREATE INDEX tokens_by_family ON tokens (family);
CREATE INDEX tokens_by_number ON tokens (number);

-- Users of the console, in the same columns; id is the name. A password is an Argon2id hash. The secret of a second factor is
-- derived from what is here with a digest key, which is not.
CREATE TABLE users (
    place        bigint GENERATED ALWAYS AS IDENTITY,
    id           text COLLATE "C" PRIMARY KEY,
    family       text COLLATE "C",
    body         text NOT NULL,
    last_used_at bigint,
    number       bigint NOT NULL
);

-- Tokens of the admin API, in the same columns.
CREATE TABLE admin_tokens (
    place        bigint GENERATED ALWAYS AS IDENTITY,
    id           text COLLATE "C" PRIMARY KEY,
    family       text COLLATE "C",
    body         text NOT NULL,
    last_used_at bigint,
    number       bigint NOT NULL
);

-- A suppression that was taken back stays until every node has seen that.
CREATE TABLE suppressions (
    digest        bytea NOT NULL,
    key           text COLLATE "C" NOT NULL,
    suppressed_at bigint NOT NULL,
    is_removed    boolean NOT NULL DEFAULT FALSE,
    number        bigint NOT NULL,
    PRIMARY KEY (digest, key)
);
CREATE INDEX suppressions_by_number ON suppressions (number);

-- node is empty for what was not counted by a node.
CREATE TABLE usage (
    token   text COLLATE "C" NOT NULL,
    day     bigint NOT NULL,
    node    text COLLATE "C" NOT NULL DEFAULT '',
    hits    bigint NOT NULL,
    misses  bigint NOT NULL,
    refused bigint NOT NULL,
    PRIMARY KEY (token, day, node)
);

-- What was done by whom, until it is in a journal: stored in the transaction of the change, so that none is without it.
-- claimed_by is the node that writes it to its journal.
CREATE TABLE outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    entry      text COLLATE "C" NOT NULL UNIQUE,
    record     text NOT NULL,
    claimed_by text
);

-- id: the upper bits are the hash of the profile and the kind, the lower bits count the details of that profile and kind in
-- order of preference, as in a local file. Times here are seconds since 1970 UTC. label: 0 personal, 1 work. kind: 0 phone,
-- 1 email. observed_at is far in the past where the source does not say.
--
-- A place is the range of ids of one hash. Whoever changes one row of a place writes its number to all of them, so that
-- "everything newer than a number" gives whole places.
CREATE TABLE details (
    id          bigint NOT NULL,
    number      bigint NOT NULL,
    observed_at bigint NOT NULL,
    expires_at  bigint,
    import      bigint NOT NULL,
    said_by     bigint,
    source      integer NOT NULL,
    kind        smallint NOT NULL,
    label       smallint NOT NULL,
    confidence  smallint NOT NULL,
    profile     text COLLATE "C" NOT NULL,
    value       text COLLATE "C" NOT NULL,
    basis       text,
    CONSTRAINT details_by_id PRIMARY KEY (id)
);
CREATE INDEX details_by_number ON details (number);
CREATE INDEX details_by_expiry ON details (expires_at) WHERE expires_at IS NOT NULL;

-- Places that have no rows any more, by their first id.
CREATE TABLE tombstones (
    place  bigint PRIMARY KEY,
    number bigint NOT NULL
);
CREATE INDEX tombstones_by_number ON tombstones (number);

-- max_age: how long a source's details are held after they were observed, or imported if that is not known, in seconds.
CREATE TABLE sources (
    id      integer PRIMARY KEY,
    name    text COLLATE "C" NOT NULL UNIQUE,
    max_age bigint,
    number  bigint NOT NULL
);

-- summary: what it did, as JSON. is_kept: whether former has what it changed and withdrew.
CREATE TABLE imports (
    id          bigint PRIMARY KEY,
    imported_at bigint NOT NULL,
    undone_at   bigint,
    is_kept     boolean NOT NULL,
    summary     text NOT NULL
);

CREATE TABLE import_sources (
    import bigint NOT NULL,
    source integer NOT NULL,
    PRIMARY KEY (import, source)
);

-- Kept up to date by every write, so that counting needs no scan.
CREATE TABLE totals (
    source integer NOT NULL,
    kind   smallint NOT NULL,
    label  smallint NOT NULL,
    count  bigint NOT NULL,
    PRIMARY KEY (source, kind, label)
);
CREATE TABLE profile_total (count bigint NOT NULL);
INSERT INTO profile_total VALUES (0);

-- What imports changed or withdrew, as it was before, so that they can be undone.
CREATE TABLE former (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    import       bigint NOT NULL,
    place        bigint NOT NULL,
    is_withdrawn boolean NOT NULL,
    profile      text COLLATE "C" NOT NULL,
    kind         smallint NOT NULL,
    label        smallint NOT NULL,
    confidence   smallint NOT NULL,
    observed_at  bigint NOT NULL,
    value        text COLLATE "C" NOT NULL,
    source       integer NOT NULL,
    expires_at   bigint,
    basis        text,
    added_by     bigint NOT NULL,
    said_by      bigint
);
CREATE INDEX former_by_import ON former (import, place);
CREATE INDEX former_by_place ON former (place);
CREATE INDEX former_by_expiry ON former (expires_at) WHERE expires_at IS NOT NULL;

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

-- The nodes of the cluster. lease_ms: how long the node may serve after its last heartbeat; 0 while it may not, -1 if it has given its lease
-- back. The numbers are those of the last change that its copy contains; wiped_number is the last change of details whose
-- traces it has removed from its files. process is a random id of the process that runs as this node, NULL if none does; beat
-- rises with everything that process says, so that what comes late changes nothing. data_dir names a data directory in which only one
-- process can run: another process from there is the next one.
CREATE TABLE nodes (
    id             text COLLATE "C" PRIMARY KEY,
    name           text NOT NULL,
    version        text NOT NULL,
    joined_at      timestamptz NOT NULL DEFAULT now(),
    seen_at        timestamptz NOT NULL DEFAULT now(),
    lease_ms       bigint NOT NULL DEFAULT 0,
    is_ready       boolean NOT NULL DEFAULT FALSE,
    access_number  bigint NOT NULL DEFAULT 0,
    details_number bigint NOT NULL DEFAULT 0,
    wiped_number   bigint NOT NULL DEFAULT 0,
    process        bytea,
    beat           bigint NOT NULL DEFAULT 0,
    data_dir       bytea
);

-- Quotas, by family of tokens and period: 'day' or 'month', and its first day. Whoever gives units out or takes them back locks
-- the row of the quota.
CREATE TABLE quotas (
    family    text COLLATE "C" NOT NULL,
    period    text COLLATE "C" NOT NULL,
    first_day bigint NOT NULL,
    PRIMARY KEY (family, period, first_day)
);

-- What is leased of a quota. units: how many hits the node may have in the period, all in all; used: how many of them it has had
-- for good, as it last said. wanted_at: when it asked for more than there was.
CREATE TABLE quota_leases (
    family    text COLLATE "C" NOT NULL,
    period    text COLLATE "C" NOT NULL,
    first_day bigint NOT NULL,
    node      text COLLATE "C" NOT NULL,
    units     bigint NOT NULL,
    used      bigint NOT NULL,
    wanted_at timestamptz,
    PRIMARY KEY (family, period, first_day, node)
);
CREATE INDEX quota_leases_by_node ON quota_leases (node);
CREATE INDEX quota_leases_wanted ON quota_leases (wanted_at) WHERE wanted_at IS NOT NULL;

-- Copies of the journals of all nodes, line by line as they were written. A node ships its journal in steps; a step moves the
-- position and adds its lines in one transaction, so every line is there once. If the journal of a node does not continue what
-- was shipped, another copy begins, and the one before is kept. Lines up to removed_through were removed by the node after their
-- retention period: nobody reads them, and they are deleted bit by bit.
CREATE TABLE journal_copies (
    id              integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node            text COLLATE "C" NOT NULL,
    name            text NOT NULL,
    shipped_at      timestamptz NOT NULL DEFAULT now(),
    segment         bigint NOT NULL DEFAULT 0,
    "offset"        bigint NOT NULL DEFAULT 0,
    seq             bigint NOT NULL DEFAULT 0,
    chain           bytea NOT NULL DEFAULT decode(repeat('00', 16), 'hex'),
    removed_through bigint NOT NULL DEFAULT 0
);
CREATE INDEX journal_copies_by_node ON journal_copies (node, id);

CREATE TABLE journal_lines (
    copy           integer NOT NULL,
    seq            bigint NOT NULL CHECK (seq > 0),
    begins_segment boolean NOT NULL,
    line           text COLLATE "C" NOT NULL,
    PRIMARY KEY (copy, seq)
);
CREATE INDEX journal_lines_by_segment ON journal_lines (copy, seq) WHERE begins_segment;

-- Copies of the seals, which outlast their lines: they lead from the root of a journal to the keys that signed its lines.
CREATE TABLE journal_seals (
    copy integer NOT NULL,
    seq  bigint NOT NULL CHECK (seq > 0),
    line text COLLATE "C" NOT NULL,
    PRIMARY KEY (copy, seq)
);
