-- Questions are answered newest first, without sorting everything.
CREATE INDEX events_by_time ON events (at);
CREATE INDEX admin_events_by_time ON admin_events (at);
