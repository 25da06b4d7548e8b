-- Details that an import took away because their source no longer holds them.
ALTER TABLE imports ADD COLUMN withdrawn INTEGER NOT NULL DEFAULT 0;
