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

CREATE TABLE imports (
    id               bigint PRIMARY KEY,
    imported_at      bigint NOT NULL,
    source           text NOT NULL,
    rows             bigint NOT NULL,
    rejected         bigint NOT NULL,
    suppressed       bigint NOT NULL,
    profiles_new     bigint NOT NULL,
    profiles_changed bigint NOT NULL,
    new              bigint NOT NULL,
    changed          bigint NOT NULL,
    unchanged        bigint NOT NULL,
    withdrawn        bigint NOT NULL,
    undone_at        bigint,
    actor            text,
    files            text NOT NULL,
    is_kept          boolean NOT NULL
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
