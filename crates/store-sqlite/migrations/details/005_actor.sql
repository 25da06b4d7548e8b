-- Who ran an import.
ALTER TABLE imports ADD COLUMN actor TEXT;
