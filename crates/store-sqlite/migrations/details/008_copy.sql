-- A node of a cluster keeps a copy of the database here. One row if this is such a copy: the last change of details that it
-- contains. While it is being loaded, number and id are those of the change at which loading began, loaded_through is the id up
-- to which it is loaded, and seen_number and seen_id are those of the newest change that the loaded details contain.
-- wiped_number: the last change whose removed details have left no traces in this file.
CREATE TABLE copy (
    number         INTEGER NOT NULL,
    id             BLOB NOT NULL,
    loaded_through INTEGER,
    wiped_number   INTEGER NOT NULL,
    seen_number    INTEGER,
    seen_id        BLOB
) STRICT;
