-- The seal of a change of tokens and suppressions ('access') or of users and admin tokens ('accounts'): the id of its digest key,
-- the sum of the codes of all rows behind a mask, and a tag that leads from the change before to this one.
ALTER TABLE changes ADD COLUMN seal_key text COLLATE "C", ADD COLUMN seal_sum bytea, ADD COLUMN seal_tag bytea;

-- Users and admin tokens have a counter of their own. What was there before is not sealed: `node reconcile` does that.
INSERT INTO counters
    SELECT 'accounts', (EXISTS (SELECT 1 FROM users) OR EXISTS (SELECT 1 FROM admin_tokens))::integer;
