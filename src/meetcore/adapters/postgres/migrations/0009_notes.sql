-- Recordings that are measured before anybody sees them and removed when their time is over; notes made of them.
ALTER TABLE recordings DROP CONSTRAINT recordings_status_check, DROP CONSTRAINT recordings_duration_s_check,
    DROP COLUMN duration_s,
    ADD COLUMN provider text, ADD COLUMN provider_meeting_id text, ADD COLUMN expires_at timestamptz,
    ADD COLUMN due_at timestamptz, ADD COLUMN lease_token uuid, ADD COLUMN tries integer NOT NULL DEFAULT 0;
UPDATE recordings r SET status = CASE r.status WHEN 'available' THEN 'measuring' ELSE r.status END,
    provider = m.provider, provider_meeting_id = COALESCE(m.provider_meeting_id, ''),
    expires_at = r.recorded_at + interval '90 days',
    -- The latest first, and not all at once: what comes in meanwhile is not to wait behind them.
    due_at = clock_timestamp() + place.nth * interval '2 seconds'
FROM meetings m, (
    SELECT account_id, id, row_number() OVER (ORDER BY recorded_at DESC) AS nth FROM recordings
) AS place
WHERE place.account_id = r.account_id AND place.id = r.id AND m.account_id = r.account_id AND m.id = r.meeting_id;
ALTER TABLE recordings ALTER COLUMN provider SET NOT NULL, ALTER COLUMN provider_meeting_id SET NOT NULL,
    ALTER COLUMN expires_at SET NOT NULL,
    ADD CONSTRAINT recordings_status_check CHECK (status IN ('measuring', 'available', 'expired')),
    ADD CONSTRAINT recordings_tries_check CHECK (tries >= 0);
CREATE INDEX recordings_due ON recordings (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX recordings_outlived ON recordings (expires_at) WHERE status <> 'expired';

ALTER TABLE meetings ADD COLUMN recording_looks integer NOT NULL DEFAULT 0 CHECK (recording_looks >= 0);

CREATE TABLE notes (
    account_id       uuid NOT NULL REFERENCES accounts,
    id               uuid NOT NULL,
    api_key_id       uuid NOT NULL,
    recording_id     uuid NOT NULL,
    meeting_id       uuid NOT NULL,
    language         text NOT NULL CHECK (language IN ('id', 'en')),
    status           text NOT NULL CHECK (status IN ('queued', 'processing', 'completed', 'failed', 'erased')),
    step             text NOT NULL CHECK (step IN ('fetch', 'transcribe', 'write', 'settle')),
    duration_s       integer NOT NULL CHECK (duration_s >= 0),
    created_at       timestamptz NOT NULL,
    tries            integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    content          bytea,
    credits_charged  bigint,
    charge_id        uuid,
    error            text,
    completed_at     timestamptz,
    hold_id          uuid,
    due_at           timestamptz,
    lease_token      uuid,
    deaths           integer NOT NULL DEFAULT 0 CHECK (deaths >= 0),
    PRIMARY KEY (account_id, id),
    CONSTRAINT notes_in_progress_are_due CHECK ((status IN ('queued', 'processing')) = (due_at IS NOT NULL)),
    CONSTRAINT notes_in_progress_are_paid_for CHECK ((status IN ('queued', 'processing')) = (hold_id IS NOT NULL))
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX notes_one_at_a_time ON notes (account_id, recording_id, language)
    WHERE status IN ('queued', 'processing', 'completed');
CREATE INDEX notes_of_recording ON notes (account_id, recording_id);
CREATE INDEX notes_due ON notes (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE heard_pieces (
    account_id    uuid NOT NULL,
    recording_id  uuid NOT NULL,
    source        text NOT NULL,
    piece         integer NOT NULL CHECK (piece >= 0),
    heard         bytea NOT NULL,
    PRIMARY KEY (account_id, recording_id, source, piece)
);

ALTER TABLE events ADD COLUMN subject_id uuid,
    ADD CONSTRAINT events_subjects_are_notes CHECK (subject_id IS NULL OR kind IN ('note.completed', 'note.failed'));
CREATE INDEX events_of_subject ON events (account_id, subject_id) WHERE subject_id IS NOT NULL;
CREATE INDEX deliveries_of_notes ON deliveries (account_id, event_id)
    WHERE event_kind IN ('note.completed', 'note.failed');
