-- Tables and columns under the names that the code and the field have for them. Nothing is rewritten.
ALTER TABLE heard_pieces RENAME TO transcript_chunks;
ALTER TABLE transcript_chunks RENAME COLUMN piece TO number;
ALTER TABLE transcript_chunks RENAME COLUMN heard TO transcript;
ALTER TABLE transcript_chunks RENAME CONSTRAINT heard_pieces_pkey TO transcript_chunks_pkey;
ALTER TABLE transcript_chunks RENAME CONSTRAINT heard_pieces_piece_check TO transcript_chunks_number_check;

ALTER TABLE notes RENAME COLUMN deaths TO lease_expirations;
ALTER TABLE notes RENAME CONSTRAINT notes_deaths_check TO notes_lease_expirations_check;

ALTER TABLE meetings RENAME COLUMN recording_looks TO recording_checks;
ALTER TABLE meetings RENAME CONSTRAINT meetings_recording_looks_check TO meetings_recording_checks_check;

ALTER TABLE hosts RENAME COLUMN rests_until TO unavailable_until;

ALTER TABLE deliveries RENAME COLUMN is_parked TO is_throttled;
ALTER TABLE deliveries RENAME CONSTRAINT deliveries_parked_waits TO deliveries_throttled_waits;
ALTER INDEX deliveries_parked RENAME TO deliveries_throttled;

-- From PostgreSQL 18 on, NOT NULL is a constraint with a name, which a rename of its table or column leaves as it was.
DO $$
DECLARE
    stale record;
BEGIN
    FOR stale IN
        SELECT r.relname, c.conname, concat(r.relname, '_', a.attname, '_not_null') AS wanted
        FROM pg_constraint c
        JOIN pg_class r ON r.oid = c.conrelid
        JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        WHERE c.contype = 'n' AND r.relnamespace = current_schema()::regnamespace
            AND r.relname IN ('transcript_chunks', 'notes', 'meetings', 'hosts', 'deliveries')
            AND c.conname <> concat(r.relname, '_', a.attname, '_not_null')
    LOOP
        EXECUTE format('ALTER TABLE %I RENAME CONSTRAINT %I TO %I', stale.relname, stale.conname, stale.wanted);
    END LOOP;
END
$$;
