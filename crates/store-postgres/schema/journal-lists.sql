-- The list files of journals: whom an administrative action was about, if they are more people than its line names. Digests of 16
-- bytes, sorted, in parts. A list is whole once its part 0 is there.
CREATE TABLE journal_lists (
    name     text COLLATE "C" NOT NULL,
    part     integer NOT NULL CHECK (part >= 0),
    digests  bytea NOT NULL,
    added_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (name, part)
);
-- Digests cannot be compressed, and only the first and the last of a part are read to find out whether a profile can be in it.
ALTER TABLE journal_lists ALTER COLUMN digests SET STORAGE EXTERNAL;
