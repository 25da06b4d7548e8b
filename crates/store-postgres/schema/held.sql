-- How many opt-outs and ends of tokens a node holds that this database has lost.
ALTER TABLE nodes ADD COLUMN held bigint NOT NULL DEFAULT 0;
