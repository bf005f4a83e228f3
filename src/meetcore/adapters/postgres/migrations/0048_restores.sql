-- Restores of the database, each fenced until an operator releases it, and what refuses writes meanwhile.
CREATE TABLE restores (
    epoch        integer PRIMARY KEY CHECK (epoch >= 1),
    restored_to  timestamptz NOT NULL,
    fenced_at    timestamptz NOT NULL,
    released_at  timestamptz,
    CONSTRAINT restores_in_order CHECK (restored_to <= fenced_at AND released_at >= fenced_at)
);
CREATE UNIQUE INDEX restores_one_fenced ON restores ((released_at IS NULL)) WHERE released_at IS NULL;
-- Read with each idempotency key. Without an index that serves, the planner, which is set to avoid sequential scans,
-- would take all plans of the statement for equally dear.
CREATE INDEX restores_fenced ON restores (fenced_at);

CREATE FUNCTION refuse_while_fenced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('meetcore.passes_fence', true) IS DISTINCT FROM 'on'
            AND EXISTS (SELECT FROM restores WHERE released_at IS NULL) THEN
        RAISE EXCEPTION 'a restore is not released: % on % is refused', TG_OP, TG_TABLE_NAME USING ERRCODE = 'MCF01';
    END IF;
    RETURN NULL;
END $$;
