-- Lookups read a table made from the details: the file lookup-<id>.table, where id is the one named here; NULL if there is none.
-- number rises with every change of details. lookup_changed has every place that was changed after complete_from: so a table made
-- of the details as they were at that number, or later, and what is in these places now, is all that lookups need.
CREATE TABLE lookup_table (
    id            BLOB,
    number        INTEGER NOT NULL,
    complete_from INTEGER NOT NULL
) STRICT;
INSERT INTO lookup_table VALUES (NULL, 0, 0);

-- place: the first id of a profile.
CREATE TABLE lookup_changed (
    number INTEGER NOT NULL,
    place  INTEGER NOT NULL,
    PRIMARY KEY (number, place)
) STRICT, WITHOUT ROWID;
