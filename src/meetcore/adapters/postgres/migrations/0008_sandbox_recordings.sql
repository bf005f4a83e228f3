-- What was removed of the recordings of sandbox meetings; every meeting that has ended has the same files.
CREATE TABLE sandbox_removed_files (
    provider_meeting_id  text NOT NULL,
    provider_file_id     text NOT NULL,
    removed_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (provider_meeting_id, provider_file_id)
);
