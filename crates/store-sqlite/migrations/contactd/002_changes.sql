-- Goes up with every change to tokens or suppressions, in the same transaction, so that a server notices them. Usage does
-- not count.
CREATE TABLE changes (number INTEGER NOT NULL) STRICT;
INSERT INTO changes VALUES (0);
