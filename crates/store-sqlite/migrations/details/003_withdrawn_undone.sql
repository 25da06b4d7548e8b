-- Details that an import took away because their source no longer holds them; and when an import was undone, if it was.
ALTER TABLE imports ADD COLUMN withdrawn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE imports ADD COLUMN undone_at INTEGER;
