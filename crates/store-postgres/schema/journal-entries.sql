-- A command waits for its line to be in a copy of a journal: it is found by the id of its entry, however many lines came after it.
CREATE INDEX journal_lines_by_entry ON journal_lines (substring(line FROM '"entry":"([0-9a-f]+)"')) WHERE line LIKE '%"actor":%';
