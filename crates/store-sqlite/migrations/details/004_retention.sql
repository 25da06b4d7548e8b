-- Details that end are found by when they do; those that do not end cost nothing here.
CREATE INDEX details_by_expiry ON details (expires_at) WHERE expires_at IS NOT NULL;

-- How long a source's details are held after they were observed, or imported if that is not known, in seconds.
ALTER TABLE sources ADD COLUMN max_age INTEGER;

-- The last import that said an undated detail again, where its source has a largest age: it is as old as that import.
ALTER TABLE details ADD COLUMN said_by INTEGER;
