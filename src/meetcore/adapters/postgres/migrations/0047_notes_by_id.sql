-- online
-- optional
DROP INDEX CONCURRENTLY IF EXISTS notes_by_id;
CREATE INDEX CONCURRENTLY notes_by_id ON notes (id);
