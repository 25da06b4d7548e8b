-- How a request came, if not as usual: `sandbox`.
ALTER TABLE events ADD COLUMN via text;
