-- Tokens that were made from each other by rotation share one quota: their family is the id of the first of them.
-- lifetime is how long a token was asked to be valid, in milliseconds; it is null for ever. expires_at can be earlier,
-- because a rotation ends the old token.
ALTER TABLE tokens ADD COLUMN family TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN rotated_from TEXT;
ALTER TABLE tokens ADD COLUMN lifetime INTEGER;
UPDATE tokens SET family = id, lifetime = expires_at - created_at;
CREATE INDEX tokens_by_family ON tokens (family);
