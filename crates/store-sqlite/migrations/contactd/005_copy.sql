-- A node of a cluster keeps a copy of the database here. One row if this is such a copy: of which database, and the last
-- change of tokens and suppressions that it contains; id is empty before the first. Without a row, this is no copy.
CREATE TABLE copy (
    lineage TEXT NOT NULL,
    number  INTEGER NOT NULL,
    id      BLOB NOT NULL
) STRICT;
