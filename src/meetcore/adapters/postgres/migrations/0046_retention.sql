-- Meetings, recordings and notes that were removed past their retention: ids that answer 410.
CREATE TABLE removed_records (
    account_id  uuid NOT NULL,
    id          uuid NOT NULL,
    removed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (account_id, id)
);
-- How far the removal of each kind is.
CREATE TABLE retention_progress (
    kind        text PRIMARY KEY CHECK (kind IN ('notes', 'meetings')),
    after_id    uuid,
    due_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at  timestamptz
);
INSERT INTO retention_progress (kind) VALUES ('notes'), ('meetings');
