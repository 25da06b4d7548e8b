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
