-- What providers tell, kept until it is worked on, and what was recorded of meetings.
CREATE TABLE provider_events (
    id           uuid PRIMARY KEY,
    provider     text NOT NULL,
    digest       bytea NOT NULL CHECK (length(digest) = 32),
    kind         text NOT NULL,
    payload      bytea,
    received_at  timestamptz NOT NULL,
    tries        integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    due_at       timestamptz,
    lease_token  uuid,
    UNIQUE (provider, digest),
    CHECK ((payload IS NULL) = (due_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX provider_events_due ON provider_events (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX provider_events_done ON provider_events (received_at) WHERE due_at IS NULL;

CREATE TABLE recordings (
    account_id   uuid NOT NULL REFERENCES accounts,
    id           uuid NOT NULL,
    meeting_id   uuid NOT NULL,
    status       text NOT NULL CHECK (status IN ('available', 'expired')),
    files        bytea NOT NULL,
    recorded_at  timestamptz NOT NULL,
    created_at   timestamptz NOT NULL,
    duration_s   integer CHECK (duration_s >= 0),
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, meeting_id)
);
