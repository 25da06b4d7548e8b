-- Copies of the journals of all nodes, line by line as they were written. A node ships its journal in steps; a step moves the
-- position and adds its lines in one transaction, so every line is there once. If the journal of a node does not continue what
-- was shipped, another copy begins, and the one before is kept. Lines up to removed_through were removed by the node after their
-- retention period: nobody reads them, and they are deleted bit by bit.
CREATE TABLE journal_copies (
    id              integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node            text COLLATE "C" NOT NULL,
    name            text NOT NULL,
    shipped_at      timestamptz NOT NULL DEFAULT now(),
    segment         bigint NOT NULL DEFAULT 0,
    "offset"        bigint NOT NULL DEFAULT 0,
    seq             bigint NOT NULL DEFAULT 0,
    chain           bytea NOT NULL DEFAULT decode(repeat('00', 16), 'hex'),
    removed_through bigint NOT NULL DEFAULT 0
);
CREATE INDEX journal_copies_by_node ON journal_copies (node, id);

CREATE TABLE journal_lines (
    copy           integer NOT NULL,
    seq            bigint NOT NULL CHECK (seq > 0),
    begins_segment boolean NOT NULL,
    line           text COLLATE "C" NOT NULL,
    PRIMARY KEY (copy, seq)
);
CREATE INDEX journal_lines_by_segment ON journal_lines (copy, seq) WHERE begins_segment;

-- Copies of the seals, which outlast their lines: they lead from the root of a journal to the keys that signed its lines.
CREATE TABLE journal_seals (
    copy integer NOT NULL,
    seq  bigint NOT NULL CHECK (seq > 0),
    line text COLLATE "C" NOT NULL,
    PRIMARY KEY (copy, seq)
);
