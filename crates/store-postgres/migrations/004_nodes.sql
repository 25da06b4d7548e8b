-- The nodes of the cluster. lease_ms: how long the node may serve after its last heartbeat; 0 while it may not, -1 if it has given its lease
-- back. The numbers are those of the last change that its copy contains; wiped_number is the last change of details whose
-- traces it has removed from its files. process is a random id of the process that runs as this node, NULL if none does; beat
-- rises with everything that process says, so that what comes late changes nothing. home tells a data directory in which only one
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
    home           bytea
);
