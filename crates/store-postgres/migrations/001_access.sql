-- Times are milliseconds since 1970 UTC, unless a column says otherwise; days are whole days since then.

-- What the store has to remember about itself, such as the id of its digest key.
CREATE TABLE facts (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- Counters: 'access' for tokens and suppressions, 'details' for details, 'usage' for usage that is added up. A writer locks the
-- row of its counter, so the order of numbers is the order of commits. Nodes follow the first two.
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
CREATE TABLE tokens (
    place        bigint GENERATED ALWAYS AS IDENTITY,
    id           text COLLATE "C" PRIMARY KEY,
    hash         bytea NOT NULL UNIQUE,
    name         text NOT NULL,
    phone        boolean NOT NULL,
    email        boolean NOT NULL,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    revoked_at   bigint,
    rate         text,
    burst        bigint,
    quota        text,
    last_used_at bigint,
    family       text COLLATE "C" NOT NULL,
    rotated_from text,
    lifetime     bigint,
    number       bigint NOT NULL
);
CREATE INDEX tokens_by_family ON tokens (family);
CREATE INDEX tokens_by_number ON tokens (number);

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
