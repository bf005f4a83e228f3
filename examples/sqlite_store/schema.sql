-- The whole schema. It is run at every opening, and changes nothing where its tables are there.
-- Ids and days are text, instants are microseconds since 1970 in UTC, lists are JSON, flags are 0 and 1.
-- Columns have the names of the fields that they keep, so that one converter reads them all (rows.py).
-- Everything that belongs to an account is keyed (account_id, ...).
BEGIN IMMEDIATE;

CREATE TABLE IF NOT EXISTS accounts (
    id             TEXT PRIMARY KEY,
    user_id        TEXT NOT NULL,
    email          TEXT NOT NULL,
    full_name      TEXT NOT NULL,
    created_at     INTEGER NOT NULL,
    balance        INTEGER NOT NULL,
    held           INTEGER NOT NULL CHECK (held >= 0),
    low_threshold  INTEGER NOT NULL CHECK (low_threshold >= 0),
    is_low         INTEGER NOT NULL,
    entries        INTEGER NOT NULL CHECK (entries >= 0),
    last_hash      BLOB NOT NULL CHECK (length(last_hash) = 32),
    last_at        INTEGER,
    suspended_at   INTEGER
) STRICT;

CREATE TABLE IF NOT EXISTS api_keys (
    id          TEXT PRIMARY KEY,
    account_id  TEXT NOT NULL REFERENCES accounts,
    digest      BLOB NOT NULL UNIQUE,
    scopes      TEXT NOT NULL,
    daily_cap   INTEGER CHECK (daily_cap >= 0),
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    revoked_at  INTEGER
) STRICT;

-- Double entry. One row is one transfer with both its legs: `amount` leaves the book `source` and
-- arrives in the book `destination`, so that there are no two figures which could fail to sum to zero.
-- The unique keys have the last word: one number, one transfer, one operation, one reversal of each charge.
CREATE TABLE IF NOT EXISTS entries (
    account_id      TEXT NOT NULL REFERENCES accounts,
    number          INTEGER NOT NULL CHECK (number >= 1),
    transfer_id     TEXT NOT NULL,
    operation       TEXT NOT NULL,
    kind            TEXT NOT NULL,
    amount          INTEGER NOT NULL CHECK (amount BETWEEN 1 AND 1000000000000000),
    source          TEXT NOT NULL,
    destination     TEXT NOT NULL CHECK (source <> destination AND 'customer' IN (source, destination)),
    reference_type  TEXT NOT NULL,
    reference_id    TEXT NOT NULL,
    reverses        TEXT,
    api_key_id      TEXT,
    cap_day         TEXT,
    balance_after   INTEGER NOT NULL,
    at              INTEGER NOT NULL,
    hash            BLOB NOT NULL CHECK (length(hash) = 32),
    key_id          BLOB NOT NULL CHECK (length(key_id) IN (0, 4)),
    PRIMARY KEY (account_id, number),
    UNIQUE (account_id, transfer_id),
    UNIQUE (account_id, operation),
    UNIQUE (account_id, reverses)
) STRICT;

CREATE TRIGGER IF NOT EXISTS entries_never_change BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER IF NOT EXISTS entries_never_go BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- How far an account's history may have entries that are chained without a key, fixed under a key.
CREATE TABLE IF NOT EXISTS seals (
    account_id  TEXT PRIMARY KEY REFERENCES accounts,
    entries     INTEGER NOT NULL CHECK (entries >= 1),
    last_hash   BLOB NOT NULL CHECK (length(last_hash) = 32),
    key_id      BLOB NOT NULL CHECK (length(key_id) = 4),
    mac         BLOB NOT NULL CHECK (length(mac) = 32),
    sealed_at   INTEGER NOT NULL
) STRICT;
CREATE TRIGGER IF NOT EXISTS seals_never_change BEFORE UPDATE ON seals
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER IF NOT EXISTS seals_never_go BEFORE DELETE ON seals
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- Open holds only: a row goes when its hold is settled or released.
CREATE TABLE IF NOT EXISTS holds (
    account_id      TEXT NOT NULL REFERENCES accounts,
    id              TEXT NOT NULL,
    operation       TEXT NOT NULL,
    kind            TEXT NOT NULL,
    amount          INTEGER NOT NULL CHECK (amount BETWEEN 1 AND 1000000000000000),
    reference_type  TEXT NOT NULL,
    reference_id    TEXT NOT NULL,
    api_key_id      TEXT NOT NULL,
    cap_day         TEXT NOT NULL,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, operation)
) STRICT;

CREATE TABLE IF NOT EXISTS cap_usage (
    account_id  TEXT NOT NULL REFERENCES accounts,
    api_key_id  TEXT NOT NULL,
    day         TEXT NOT NULL,
    spent       INTEGER NOT NULL CHECK (spent >= 0),
    held        INTEGER NOT NULL CHECK (held >= 0),
    PRIMARY KEY (account_id, api_key_id, day)
) STRICT;

-- `creations` were made for a host on `creations_on`, a day in UTC. While `key_due_at` is there the key is to be
-- replaced, by whoever bears `key_token`: a new host has been due for ever.
CREATE TABLE IF NOT EXISTS hosts (
    id                TEXT PRIMARY KEY,
    provider_user_id  TEXT NOT NULL UNIQUE,
    capacity          INTEGER NOT NULL CHECK (capacity >= 1),
    max_concurrent    INTEGER NOT NULL CHECK (max_concurrent >= 1),
    uses              INTEGER NOT NULL,
    is_active         INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    creations         INTEGER NOT NULL DEFAULT 0 CHECK (creations >= 0),
    creations_on      TEXT,
    rests_until       INTEGER,
    -- The key and its replacement: due from then on, for whoever bears the token.
    host_key          TEXT,
    key_token         TEXT,
    key_due_at        INTEGER DEFAULT 0
) STRICT;

-- How many meetings were made for an account on a day (UTC) on a host, where the provider limits them.
CREATE TABLE IF NOT EXISTS account_creations (
    account_id  TEXT NOT NULL REFERENCES accounts,
    day         TEXT NOT NULL,
    host_id     TEXT NOT NULL REFERENCES hosts,
    creations   INTEGER NOT NULL CHECK (creations >= 0),
    PRIMARY KEY (account_id, day, host_id)
) STRICT;

CREATE TABLE IF NOT EXISTS meetings (
    account_id           TEXT NOT NULL REFERENCES accounts,
    id                   TEXT NOT NULL,
    api_key_id           TEXT NOT NULL,
    status               TEXT NOT NULL,
    title                TEXT NOT NULL,
    description          TEXT,
    start_at             INTEGER NOT NULL,
    end_at               INTEGER NOT NULL CHECK (end_at > start_at),
    duration             INTEGER NOT NULL,
    capacity             INTEGER,
    pricing_tier_id      TEXT NOT NULL,
    credits              INTEGER NOT NULL,
    with_recording       INTEGER NOT NULL,
    auto_notulen         INTEGER NOT NULL,
    must_login           INTEGER NOT NULL,
    mic_off              INTEGER NOT NULL,
    email_notification   INTEGER NOT NULL,
    host_id              TEXT REFERENCES hosts,
    provider             TEXT NOT NULL,
    created_at           INTEGER NOT NULL,
    password             TEXT,
    join_url             TEXT,
    provider_meeting_id  TEXT,
    charge_id            TEXT,
    credits_refunded     INTEGER,
    -- Work in progress: whose it is, until when, what it holds, which request it answers.
    hold_id              TEXT,
    idempotency_key      TEXT,
    lease_token          TEXT,
    lease_until          INTEGER,
    -- When the clock sees to it, and how often it looked for the recording.
    due_at               INTEGER,
    recording_looks      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, id),
    CHECK ((lease_token IS NULL) = (lease_until IS NULL))
) STRICT;
-- A provider may give an id again when what had it is long over.
CREATE UNIQUE INDEX IF NOT EXISTS meetings_open_at_provider ON meetings (provider, provider_meeting_id)
    WHERE status IN ('scheduled', 'cancelling', 'started');
CREATE INDEX IF NOT EXISTS meetings_at_provider ON meetings (provider, provider_meeting_id);
CREATE INDEX IF NOT EXISTS meetings_in_progress ON meetings (lease_until) WHERE lease_until IS NOT NULL;

-- Creations whose provider is to be looked at for orphans.
CREATE TABLE IF NOT EXISTS orphan_checks (
    account_id   TEXT NOT NULL,
    meeting_id   TEXT NOT NULL,
    since        INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    failures     INTEGER NOT NULL DEFAULT 0,
    lease_token  TEXT,
    PRIMARY KEY (account_id, meeting_id),
    FOREIGN KEY (account_id, meeting_id) REFERENCES meetings
) STRICT;
CREATE INDEX IF NOT EXISTS orphan_checks_due ON orphan_checks (due_at);

-- One row for each meeting that occupies a host. PostgreSQL says "no two overlap on one slot" by an
-- exclusion constraint; SQLite and MySQL have none, and say it by a trigger.
CREATE TABLE IF NOT EXISTS host_reservations (
    account_id  TEXT NOT NULL,
    meeting_id  TEXT NOT NULL,
    host_id     TEXT NOT NULL REFERENCES hosts,
    slot        INTEGER NOT NULL CHECK (slot >= 0),
    start_at    INTEGER NOT NULL,
    end_at      INTEGER NOT NULL CHECK (end_at > start_at),
    PRIMARY KEY (account_id, meeting_id)
) STRICT;
CREATE INDEX IF NOT EXISTS host_reservations_in_time ON host_reservations (host_id, start_at);
CREATE INDEX IF NOT EXISTS host_reservations_ends ON host_reservations (end_at);

-- Each meeting with the key of its host, where that is in place and the meeting is the first on the host.
CREATE VIEW IF NOT EXISTS meetings_with_keys AS
SELECT m.*, (
    SELECT h.host_key FROM host_reservations r
    JOIN hosts h ON h.id = r.host_id AND h.max_concurrent = 1 AND h.key_due_at IS NULL
    WHERE r.account_id = m.account_id AND r.meeting_id = m.id AND NOT EXISTS (
        SELECT 1 FROM host_reservations e WHERE e.host_id = r.host_id AND e.start_at < r.start_at)
) AS host_key
FROM meetings m;

CREATE TRIGGER IF NOT EXISTS host_reservations_no_overlap BEFORE INSERT ON host_reservations
WHEN EXISTS (
    SELECT 1 FROM host_reservations taken
    WHERE taken.host_id = NEW.host_id AND taken.slot = NEW.slot
        AND taken.start_at < NEW.end_at AND NEW.start_at < taken.end_at)
BEGIN SELECT RAISE(ABORT, 'the slot of this host is taken'); END;
CREATE TRIGGER IF NOT EXISTS host_reservations_never_move BEFORE UPDATE ON host_reservations
BEGIN SELECT RAISE(ABORT, 'a reservation is made or given up, never moved'); END;

CREATE TABLE IF NOT EXISTS endpoints (
    account_id            TEXT NOT NULL REFERENCES accounts,
    id                    TEXT NOT NULL,
    url                   TEXT NOT NULL,
    url_key               TEXT NOT NULL,
    description           TEXT,
    event_types           TEXT NOT NULL,
    state                 TEXT NOT NULL,
    consecutive_failures  INTEGER NOT NULL CHECK (consecutive_failures >= 0),
    disabled_at           INTEGER,
    created_by            TEXT NOT NULL,
    created_at            INTEGER NOT NULL,
    secret                TEXT NOT NULL,
    released_until        INTEGER,
    -- What stands between "https://" and the next slash.
    host                  TEXT NOT NULL AS (substr(url_key, 9, instr(substr(url_key, 9), '/') - 1)),
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, url_key)
) STRICT;
CREATE INDEX IF NOT EXISTS endpoints_by_url ON endpoints (url_key);

-- The outbox: an event with the bytes that every attempt sends, kept once, and one delivery for each
-- endpoint. Claiming a delivery pushes `next_attempt_at` past the lease.
CREATE TABLE IF NOT EXISTS events (
    account_id  TEXT NOT NULL REFERENCES accounts,
    id          TEXT NOT NULL,
    kind        TEXT NOT NULL,
    payload     BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    -- The note that it tells of, whose erasure takes it along.
    subject_id  TEXT,
    PRIMARY KEY (account_id, id)
) STRICT;
CREATE INDEX IF NOT EXISTS events_of_subject ON events (account_id, subject_id) WHERE subject_id IS NOT NULL;

-- What was claimed for a destination host in the last second, for the limit on posts in a second.
CREATE TABLE IF NOT EXISTS host_claims (
    host  TEXT NOT NULL,
    at    INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS host_claims_lately ON host_claims (host, at);

-- Failed deliveries in a row at a host, over all endpoints of an account there.
CREATE TABLE IF NOT EXISTS host_failures (
    account_id            TEXT NOT NULL REFERENCES accounts,
    host                  TEXT NOT NULL,
    consecutive_failures  INTEGER NOT NULL CHECK (consecutive_failures >= 0),
    PRIMARY KEY (account_id, host)
) STRICT;

CREATE TABLE IF NOT EXISTS deliveries (
    account_id       TEXT NOT NULL,
    id               TEXT NOT NULL,
    endpoint_id      TEXT NOT NULL,
    event_id         TEXT NOT NULL,
    event_kind       TEXT NOT NULL,
    status           TEXT NOT NULL,
    attempts_made    INTEGER NOT NULL,
    next_attempt_at  INTEGER,
    held_at          INTEGER,
    lease_token      TEXT,
    created_at       INTEGER NOT NULL,
    PRIMARY KEY (account_id, id),
    -- None to endpoints: what is final outlives the endpoint that it went to.
    FOREIGN KEY (account_id, event_id) REFERENCES events,
    CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL)),
    CHECK ((status = 'held') = (held_at IS NOT NULL))
) STRICT;
CREATE INDEX IF NOT EXISTS deliveries_due ON deliveries (next_attempt_at) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS deliveries_of_endpoint ON deliveries (account_id, endpoint_id, status);
CREATE INDEX IF NOT EXISTS deliveries_of_event ON deliveries (account_id, event_id);
CREATE INDEX IF NOT EXISTS deliveries_listed ON deliveries (account_id, endpoint_id, id);

CREATE TABLE IF NOT EXISTS delivery_attempts (
    account_id        TEXT NOT NULL,
    delivery_id       TEXT NOT NULL,
    number            INTEGER NOT NULL,
    at                INTEGER NOT NULL,
    duration_ms       INTEGER NOT NULL,
    status_code       INTEGER,
    error             TEXT,
    response_excerpt  TEXT,
    address           TEXT,
    PRIMARY KEY (account_id, delivery_id, number),
    FOREIGN KEY (account_id, delivery_id) REFERENCES deliveries
) STRICT;

CREATE TABLE IF NOT EXISTS idempotency_keys (
    account_id   TEXT NOT NULL REFERENCES accounts,
    key          TEXT NOT NULL,
    fingerprint  BLOB NOT NULL,
    is_done      INTEGER NOT NULL,
    subject_id   TEXT,
    lease_until  INTEGER,
    answer       BLOB,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (account_id, key)
) STRICT;
CREATE INDEX IF NOT EXISTS idempotency_keys_age ON idempotency_keys (created_at);

-- What providers told. Null in `due_at` means done, and then only the digest is left, by which a double is known.
CREATE TABLE IF NOT EXISTS provider_events (
    id           TEXT PRIMARY KEY,
    provider     TEXT NOT NULL,
    digest       BLOB NOT NULL CHECK (length(digest) = 32),
    kind         TEXT NOT NULL,
    payload      BLOB,
    received_at  INTEGER NOT NULL,
    tries        INTEGER NOT NULL,
    due_at       INTEGER,
    lease_token  TEXT,
    UNIQUE (provider, digest),
    CHECK ((payload IS NULL) = (due_at IS NULL))
) STRICT;
CREATE INDEX IF NOT EXISTS provider_events_due ON provider_events (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS provider_events_done ON provider_events (received_at) WHERE due_at IS NULL;

-- `due_at` is when anyone may go to the provider for a recording next; taking one pushes it past the lease.
CREATE TABLE IF NOT EXISTS recordings (
    account_id           TEXT NOT NULL REFERENCES accounts,
    id                   TEXT NOT NULL,
    meeting_id           TEXT NOT NULL,
    provider             TEXT NOT NULL,
    provider_meeting_id  TEXT NOT NULL,
    status               TEXT NOT NULL CHECK (status IN ('measuring', 'available', 'expired')),
    files                BLOB NOT NULL,
    recorded_at          INTEGER NOT NULL,
    created_at           INTEGER NOT NULL,
    expires_at           INTEGER NOT NULL,
    due_at               INTEGER,
    lease_token          TEXT,
    tries                INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, id),
    UNIQUE (account_id, meeting_id)
) STRICT;
CREATE INDEX IF NOT EXISTS recordings_due ON recordings (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS recordings_outlived ON recordings (expires_at) WHERE status <> 'expired';

-- A note in progress is due at every moment: now, later, or when the lease of its worker runs out, which it did
-- `deaths` times; and credits are held for it.
CREATE TABLE IF NOT EXISTS notes (
    account_id       TEXT NOT NULL REFERENCES accounts,
    id               TEXT NOT NULL,
    api_key_id       TEXT NOT NULL,
    recording_id     TEXT NOT NULL,
    meeting_id       TEXT NOT NULL,
    language         TEXT NOT NULL,
    status           TEXT NOT NULL CHECK (status IN ('queued', 'processing', 'completed', 'failed', 'erased')),
    step             TEXT NOT NULL,
    duration_s       INTEGER NOT NULL CHECK (duration_s >= 0),
    created_at       INTEGER NOT NULL,
    tries            INTEGER NOT NULL,
    content          BLOB,
    credits_charged  INTEGER,
    charge_id        TEXT,
    error            TEXT,
    completed_at     INTEGER,
    hold_id          TEXT,
    due_at           INTEGER,
    lease_token      TEXT,
    deaths           INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (account_id, id),
    CHECK ((status IN ('queued', 'processing')) = (due_at IS NOT NULL)),
    CHECK ((status IN ('queued', 'processing')) = (hold_id IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS notes_one_at_a_time ON notes (account_id, recording_id, language)
    WHERE status IN ('queued', 'processing', 'completed');
CREATE INDEX IF NOT EXISTS notes_of_recording ON notes (account_id, recording_id);
CREATE INDEX IF NOT EXISTS notes_due ON notes (due_at) WHERE due_at IS NOT NULL;

-- What was heard of a recording, piece by piece: whoever goes on hears only the rest.
CREATE TABLE IF NOT EXISTS heard_pieces (
    account_id    TEXT NOT NULL,
    recording_id  TEXT NOT NULL,
    source        TEXT NOT NULL,
    piece         INTEGER NOT NULL,
    heard         BLOB NOT NULL,
    PRIMARY KEY (account_id, recording_id, source, piece)
) STRICT;

COMMIT;
