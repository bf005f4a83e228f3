-- load_creation: Read everything that the decision on a new note needs, under the account's lock: its funds, the
-- key's cap and its usage, the recording, and the note that is in its place.
WITH locked AS MATERIALIZED (
    SELECT a.version, {FUNDS.select} FROM accounts a WHERE a.id = %(account_id)s FOR NO KEY UPDATE
)
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version, k.daily_cap,
    k.first_key_id AS key_first_key_id, u.spent AS usage_spent, u.held AS usage_held
FROM locked
LEFT JOIN api_keys k ON k.id = %(api_key_id)s
LEFT JOIN cap_usage u ON u.account_id = locked.account_id
    AND u.api_key_id = COALESCE(k.first_key_id, %(api_key_id)s) AND u.day = %(day)s

-- load_recording: The recording that notes are wanted of. The account is locked by now.
SELECT {RECORDING.select}, r.files AS recording_files FROM recordings r WHERE r.account_id = %(account_id)s
    AND r.id = %(recording_id)s

-- load_existing: The note that is in the place of a new one. The account is locked by now.
SELECT {NOTE.select}, n.content AS note_content FROM notes n
WHERE n.account_id = %(account_id)s AND n.recording_id = %(recording_id)s AND n.language = %(language)s
    AND n.status IN ('queued', 'processing', 'completed')

-- save_queued: Write a note that waits for a worker, and the credits held for it.
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), note AS (
    INSERT INTO notes ({NOTE.names}, content, hold_id, cause, due_at)
    SELECT {NOTE.values}, %(note_content)s, %(hold_id)s, %(cause)s,
        CASE WHEN %(hold_id)s::uuid IS NOT NULL THEN clock_timestamp() END
    FROM guard
), hold AS (
    INSERT INTO note_holds (account_id, {HOLD.names}) SELECT account_id, {HOLD.values} FROM guard
), usage_with_hold AS (
    INSERT INTO cap_usage (account_id, {USAGE.names}) SELECT account_id, {USAGE.values} FROM guard
    ON CONFLICT (account_id, api_key_id, day) DO UPDATE SET spent = EXCLUDED.spent, held = EXCLUDED.held
), funds AS (
    UPDATE accounts SET ({FUNDS_AFTER.names}) = ({FUNDS_AFTER_PARAMETERS.values}), version = version + 1
    WHERE id = %(account_id)s AND EXISTS (SELECT FROM guard)
)
SELECT 1

-- save_refused: Write a note that failed before it began, and its event; of a meeting without a recording only once.
WITH guard AS MATERIALIZED (
    SELECT %(account_id)s::uuid AS account_id
    WHERE %(note_recording_id)s::uuid IS NOT NULL OR NOT EXISTS (SELECT FROM notes
        WHERE account_id = %(account_id)s AND meeting_id = %(note_meeting_id)s AND recording_id IS NULL)
), note AS (
    INSERT INTO notes ({NOTE.names}, content, hold_id, cause, due_at)
    SELECT {NOTE.values}, %(note_content)s, %(hold_id)s, %(cause)s,
        CASE WHEN %(hold_id)s::uuid IS NOT NULL THEN clock_timestamp() END
    FROM guard
), event AS (
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
), account AS (
    UPDATE accounts SET version = version + 1 FROM guard WHERE accounts.id = guard.account_id
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'

-- load_settlement: A note in progress with its money, under the account's lock, and under a lock of its own: its
-- holder writes steps without the account's.
WITH locked AS MATERIALIZED (
    SELECT a.version, {FUNDS.select} FROM accounts a WHERE a.id = %(account_id)s FOR NO KEY UPDATE
)
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version, {NOTE.select},
    n.content AS note_content,
    {HOLD.select}, u.spent AS usage_spent, u.held AS usage_held,
    k.first_key_id AS key_first_key_id
FROM locked
JOIN notes n ON n.account_id = locked.account_id AND n.id = %(note_id)s AND n.hold_id IS NOT NULL
    AND (%(token)s::uuid IS NULL OR n.lease_token = %(token)s)
JOIN note_holds hold ON hold.account_id = locked.account_id AND hold.id = n.hold_id
LEFT JOIN api_keys k ON k.id = hold.api_key_id
JOIN cap_usage u ON u.account_id = locked.account_id AND u.api_key_id = COALESCE(k.first_key_id, hold.api_key_id)
    AND u.day = hold.cap_day
FOR NO KEY UPDATE OF n

-- save_completed: A note that is there and paid for: the hold becomes the charge, the event goes out.
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), transfer AS (
    INSERT INTO ledger_transfers (account_id, {TRANSFER.names})
    SELECT account_id, {TRANSFER.values} FROM guard
), entry AS (
    INSERT INTO ledger_entries (account_id, number, book, transfer_id, amount, balance_after, at, hash, chain_key)
    SELECT account_id, %(entry_number)s, leg.book, %(transfer_id)s, leg.amount, leg.balance_after,
        %(entry_at)s, leg.hash, leg.chain_key
    FROM guard CROSS JOIN (VALUES
            ('customer', %(entry_amount)s::bigint, %(entry_balance_after)s::bigint, %(entry_hash)s::bytea,
                    %(entry_chain_key)s::bytea),
            (%(system_book)s, -%(entry_amount)s::bigint, NULL, NULL, NULL)
    ) AS leg (book, amount, balance_after, hash, chain_key)
), funds AS (
    UPDATE accounts SET ({FUNDS_AFTER.names}) = ({FUNDS_AFTER_PARAMETERS.values}), version = version + 1
    WHERE id = %(account_id)s AND EXISTS (SELECT FROM guard)
), event AS (
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
), note AS (
    UPDATE notes SET status = %(note_status)s, step = %(note_step)s, duration_s = %(note_duration_s)s,
        tries = %(note_tries)s, content = %(note_content)s, written_by = %(note_written_by)s,
        credits_charged = %(note_credits_charged)s,
        charge_id = %(note_charge_id)s, error = %(note_error)s, completed_at = %(note_completed_at)s,
        hold_id = NULL, due_at = NULL, lease_token = NULL
    FROM guard WHERE notes.account_id = guard.account_id AND notes.id = %(note_id)s
), closed AS (
    DELETE FROM note_holds
    WHERE account_id = %(account_id)s AND id = %(hold_id)s AND EXISTS (SELECT FROM guard)
), usage AS (
    UPDATE cap_usage SET spent = %(usage_spent)s, held = %(usage_held)s
    WHERE account_id = %(account_id)s AND api_key_id = %(usage_api_key_id)s AND day = %(usage_day)s
        AND EXISTS (SELECT FROM guard)
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'

-- save_failed: A note that will not be: the hold is given back, the event goes out.
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), funds AS (
    UPDATE accounts SET ({FUNDS_AFTER.names}) = ({FUNDS_AFTER_PARAMETERS.values}), version = version + 1
    WHERE id = %(account_id)s AND EXISTS (SELECT FROM guard)
), event AS (
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
), note AS (
    UPDATE notes SET status = %(note_status)s, step = %(note_step)s, duration_s = %(note_duration_s)s,
        tries = %(note_tries)s, content = %(note_content)s, written_by = %(note_written_by)s,
        credits_charged = %(note_credits_charged)s,
        charge_id = %(note_charge_id)s, error = %(note_error)s, completed_at = %(note_completed_at)s,
        hold_id = NULL, due_at = NULL, lease_token = NULL
    FROM guard WHERE notes.account_id = guard.account_id AND notes.id = %(note_id)s
), closed AS (
    DELETE FROM note_holds
    WHERE account_id = %(account_id)s AND id = %(hold_id)s AND EXISTS (SELECT FROM guard)
), usage AS (
    UPDATE cap_usage SET spent = %(usage_spent)s, held = %(usage_held)s
    WHERE account_id = %(account_id)s AND api_key_id = %(usage_api_key_id)s AND day = %(usage_day)s
        AND EXISTS (SELECT FROM guard)
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'
