-- What imports changed or withdrew, as it was before, so that they can be undone. place: first_id(profile, 0).
CREATE TABLE former (
    id           INTEGER PRIMARY KEY,
    import       INTEGER NOT NULL,
    place        INTEGER NOT NULL,
    is_withdrawn INTEGER NOT NULL,
    profile      TEXT NOT NULL,
    kind         INTEGER NOT NULL,
    label        INTEGER NOT NULL,
    confidence   INTEGER NOT NULL,
    observed_at  INTEGER NOT NULL,
    value        TEXT NOT NULL,
    source       INTEGER NOT NULL,
    expires_at   INTEGER,
    basis        TEXT,
    added_by     INTEGER NOT NULL,
    said_by      INTEGER
) STRICT;
CREATE INDEX former_by_import ON former (import, place);
CREATE INDEX former_by_expiry ON former (expires_at) WHERE expires_at IS NOT NULL;

-- The names of an import's files, as a JSON array, and whether it kept what it changed and withdrew. Earlier versions did not.
ALTER TABLE imports ADD COLUMN files TEXT NOT NULL DEFAULT '[]';
ALTER TABLE imports ADD COLUMN is_kept INTEGER NOT NULL DEFAULT FALSE;

CREATE TABLE import_sources (
    import INTEGER NOT NULL,
    source INTEGER NOT NULL,
    PRIMARY KEY (import, source)
) STRICT, WITHOUT ROWID;

-- The names of several sources were joined by commas.
INSERT INTO import_sources
SELECT imports.id, sources.id
FROM imports
JOIN sources ON instr(', ' || imports.source || ', ', ', ' || sources.name || ', ') > 0;
