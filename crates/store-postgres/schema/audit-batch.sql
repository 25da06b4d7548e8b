-- The place of a lookup in its batch, from 1.
ALTER TABLE events ADD COLUMN place integer;
