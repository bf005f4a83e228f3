-- load_recording: Read the recording of a meeting. The caller holds the account's lock, taken by a statement before
-- this one: the row stays as it is read to the end of the transaction. It is locked, too, against claims, which do not
-- take that lock: an INSERT with ON CONFLICT may miss a row that is being changed, and fail by the other key.
SELECT {RECORDING.select}, r.files AS recording_files FROM recordings r
WHERE r.account_id = %(account_id)s AND r.meeting_id = %(meeting_id)s FOR NO KEY UPDATE

-- load_recording_by_id: The same by its own id.
SELECT {RECORDING.select}, r.files AS recording_files FROM recordings r
WHERE r.account_id = %(account_id)s AND r.id = %(id)s FOR NO KEY UPDATE

-- save_recording: Write a recording whole. A second one of the same meeting is refused by its key. One that needs
-- work is due at once, or when it was; one that has just expired, or needs no work, is released.
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), event AS (
    INSERT INTO events (account_id, id, kind, payload, created_at, subject_id, cause)
    SELECT guard.account_id, e.id, e.kind, e.payload, e.created_at, e.subject_id, e.cause
    FROM guard CROSS JOIN unnest(%(event_ids)s::uuid[], %(event_kinds)s::text[], %(event_payloads)s::bytea[],
            %(event_times)s::timestamptz[], %(event_subjects)s::uuid[], %(event_causes)s::text[])
        AS e (id, kind, payload, created_at, subject_id, cause)
    RETURNING id, kind, created_at
), delivery AS (
    INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, due_at, held_at, created_at)
    SELECT %(account_id)s, (left(e.id::text, 15) || substr(gen_random_uuid()::text, 16))::uuid, w.id, e.id, e.kind,
        CASE w.state WHEN 'active' THEN 'pending' ELSE 'held' END,
        CASE w.state WHEN 'active' THEN clock_timestamp() END,
        CASE w.state WHEN 'active' THEN NULL ELSE clock_timestamp() END, e.created_at
    FROM event e CROSS JOIN LATERAL (SELECT id, state FROM webhook_endpoints
        WHERE account_id = %(account_id)s AND e.kind = ANY (event_types) OFFSET 0) AS w
    RETURNING account_id, status
), recording AS (
    INSERT INTO recordings AS known ({RECORDING.names}, files, due_at)
    VALUES ({RECORDING.values}, %(recording_files)s, CASE WHEN %(needs_work)s THEN clock_timestamp() END)
    ON CONFLICT (account_id, id) DO UPDATE SET status = EXCLUDED.status, files = EXCLUDED.files,
        recorded_at = EXCLUDED.recorded_at, expires_at = EXCLUDED.expires_at,
        due_at = CASE WHEN %(needs_work)s
        AND (EXCLUDED.status <> 'expired' OR known.status = 'expired') THEN COALESCE(known.due_at, EXCLUDED.due_at)
        ELSE EXCLUDED.due_at END,
        lease_token = CASE WHEN %(needs_work)s
        AND (EXCLUDED.status <> 'expired' OR known.status = 'expired') THEN known.lease_token END,
        tries = CASE WHEN %(needs_work)s
        AND (EXCLUDED.status <> 'expired' OR known.status = 'expired') THEN known.tries ELSE 0 END
), account AS (
    UPDATE accounts SET version = version + 1 FROM guard WHERE accounts.id = guard.account_id
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'

-- claim_due_recordings: Take due rows, the longest due first, and skip those that another worker has locked.
WITH due AS (
    SELECT account_id, id, due_at, lease_token IS NOT NULL AS had_lease FROM recordings
    WHERE due_at <= statement_timestamp()
    ORDER BY due_at, id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
), r AS (
    UPDATE recordings SET tries = tries + 1, lease_token = %(token)s,
        due_at = statement_timestamp() + %(lease_s)s * interval '1 second'
    FROM due WHERE recordings.account_id = due.account_id AND recordings.id = due.id
    RETURNING recordings.*, due.due_at AS was_due_at, due.had_lease
)
SELECT {RECORDING.select}, r.files AS recording_files, r.tries, r.misses, r.had_lease FROM r ORDER BY r.was_due_at, r.id

-- postpone_unreadable: Postpone a recording that cannot be read, long enough that it delays no other.
UPDATE recordings SET lease_token = NULL, due_at = clock_timestamp() + interval '1 hour'
WHERE account_id = %(account_id)s AND id = %(recording_id)s

-- set_due: Set when a recording is due next, for the holder of its claim only, which keeps it or gives it back.
UPDATE recordings SET due_at = clock_timestamp() + %(seconds)s * interval '1 second',
    lease_token = CASE WHEN %(keeps)s THEN lease_token END,
    misses = CASE WHEN %(keeps)s THEN misses WHEN %(is_missed)s THEN misses + 1 ELSE 0 END
WHERE account_id = %(account_id)s AND id = %(id)s AND lease_token = %(token)s AND due_at IS NOT NULL

-- find_outlived: Find recordings past their retention, the oldest first. That of a meeting that is not over stays: it
-- may be of a test call, and what is recorded later would be removed with it.
SELECT r.account_id, r.meeting_id FROM recordings r
WHERE r.status <> 'expired' AND r.expires_at <= statement_timestamp() AND NOT EXISTS (
    SELECT FROM meetings m WHERE m.account_id = r.account_id AND m.id = r.meeting_id
        AND m.status IN ('scheduled', 'cancelling', 'started'))
ORDER BY r.expires_at LIMIT %(limit)s
