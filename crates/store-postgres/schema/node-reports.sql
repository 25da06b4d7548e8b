-- What a node reports: how many opt-outs and ends of tokens it holds that this database has lost, and by how many milliseconds its
-- clock is ahead of the one here.
ALTER TABLE nodes ADD COLUMN held bigint NOT NULL DEFAULT 0, ADD COLUMN clock_ahead_ms bigint;
