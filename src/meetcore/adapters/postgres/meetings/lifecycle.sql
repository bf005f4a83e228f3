-- load_locked: A meeting in any state and an idempotency key, under the account's lock.
WITH locked AS MATERIALIZED (
    SELECT a.version, {FUNDS.select} FROM accounts a WHERE a.id = %(account_id)s FOR NO KEY UPDATE
)
SELECT locked.account_id, locked.version, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
    clock_timestamp() AS now, COALESCE(m.lease_until > clock_timestamp(), false) AS is_leased,
    m.due_at IS NOT NULL AS is_due, {MEETING.select}, {KEY.select}, i.answer AS key_answer
FROM locked
JOIN meetings m ON m.account_id = locked.account_id AND m.id = %(meeting_id)s
LEFT JOIN idempotency_keys i ON i.account_id = locked.account_id AND i.key = %(key)s::text

-- claim_key: Claim the key of a request that cancels a meeting.
INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, subject_id, lease_until, created_at)
VALUES (%(account_id)s, %(key)s, %(fingerprint)s, false, %(meeting_id)s,
    clock_timestamp() + %(lease_s)s * interval '1 second', clock_timestamp())
ON CONFLICT (account_id, key) DO UPDATE
SET subject_id = EXCLUDED.subject_id, lease_until = EXCLUDED.lease_until

-- save_cancelling: Mark a meeting as being cancelled, under a lease.
WITH meeting AS (
    UPDATE meetings SET status = %(meeting_status)s, idempotency_key = %(key)s, lease_token = %(lease_token)s,
        lease_until = clock_timestamp() + %(lease_s)s * interval '1 second'
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s

-- save_refunded: The end of a cancellation with the refund of the charge.
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
), meeting AS (
    UPDATE meetings SET status = %(meeting_status)s, credits_refunded = %(meeting_credits_refunded)s,
        idempotency_key = NULL, lease_token = NULL, lease_until = NULL,
        due_at = clock_timestamp() + %(clear_after_s)s * interval '1 second'
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s
), done AS (
    UPDATE idempotency_keys SET is_done = true, answer = %(answer)s, lease_until = NULL
    WHERE account_id = %(account_id)s AND key = %(key)s::text
), usage AS (
    UPDATE cap_usage SET spent = %(usage_spent)s, held = %(usage_held)s
    WHERE account_id = %(account_id)s AND api_key_id = %(usage_api_key_id)s AND day = %(usage_day)s
        AND EXISTS (SELECT FROM guard)
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'

-- save_ended: The end of a meeting, or of a cancellation without a refund.
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
), meeting AS (
    UPDATE meetings SET status = %(meeting_status)s, credits_refunded = %(meeting_credits_refunded)s,
        idempotency_key = NULL, lease_token = NULL, lease_until = NULL,
        due_at = clock_timestamp() + %(clear_after_s)s * interval '1 second'
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s
), done AS (
    UPDATE idempotency_keys SET is_done = true, answer = %(answer)s, lease_until = NULL
    WHERE account_id = %(account_id)s AND key = %(key)s::text
), account AS (
    UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
)
SELECT count(*) AS due FROM delivery WHERE status = 'pending'

-- save_cancel_failed: Put a meeting back whose cancellation the provider refused; the request's key may try again.
WITH meeting AS (
    UPDATE meetings SET status = %(meeting_status)s, idempotency_key = NULL, lease_token = NULL, lease_until = NULL
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s
), bound AS (
    UPDATE idempotency_keys SET subject_id = NULL, lease_until = NULL
    WHERE account_id = %(account_id)s AND key = %(key)s::text
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s

-- claim_expired: Take over work with an expired lease, the longest expired first.
WITH expired AS (
    SELECT account_id, id FROM meetings WHERE lease_until <= statement_timestamp()
    ORDER BY lease_until LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE meetings m
    SET lease_token = %(token)s, lease_until = clock_timestamp() + %(lease_s)s * interval '1 second'
    FROM expired WHERE m.account_id = expired.account_id AND m.id = expired.id
    RETURNING m.account_id, m.id, m.lease_token, m.lease_until, m.idempotency_key
), prolonged AS (
    UPDATE idempotency_keys i SET lease_until = taken.lease_until
    FROM taken
    WHERE i.account_id = taken.account_id AND i.key = taken.idempotency_key AND i.lease_until IS NOT NULL
)
SELECT account_id, id, lease_token FROM taken

-- claim_one_expired: Take over one meeting, if its lease ran out.
WITH expired AS (
    SELECT account_id, id FROM meetings
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s AND lease_until <= clock_timestamp()
    FOR UPDATE
), taken AS (
    UPDATE meetings m
    SET lease_token = %(token)s, lease_until = clock_timestamp() + %(lease_s)s * interval '1 second'
    FROM expired WHERE m.account_id = expired.account_id AND m.id = expired.id
    RETURNING m.account_id, m.id, m.lease_token, m.lease_until, m.idempotency_key
), prolonged AS (
    UPDATE idempotency_keys i SET lease_until = taken.lease_until
    FROM taken
    WHERE i.account_id = taken.account_id AND i.key = taken.idempotency_key AND i.lease_until IS NOT NULL
)
SELECT account_id, id, lease_token FROM taken

-- take_one: Take over one meeting in progress, also while another process has it.
WITH expired AS (
    SELECT account_id, id FROM meetings
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s AND lease_until IS NOT NULL
    FOR UPDATE
), taken AS (
    UPDATE meetings m
    SET lease_token = %(token)s, lease_until = clock_timestamp() + %(lease_s)s * interval '1 second'
    FROM expired WHERE m.account_id = expired.account_id AND m.id = expired.id
    RETURNING m.account_id, m.id, m.lease_token, m.lease_until, m.idempotency_key
), prolonged AS (
    UPDATE idempotency_keys i SET lease_until = taken.lease_until
    FROM taken
    WHERE i.account_id = taken.account_id AND i.key = taken.idempotency_key AND i.lease_until IS NOT NULL
)
SELECT account_id, id, lease_token FROM taken

-- claim_due: Take the meetings whose time has come, the longest due first; each comes again unless it is ended.
WITH due AS (
    SELECT account_id, id, due_at AS was_due_at FROM meetings WHERE due_at <= statement_timestamp()
    ORDER BY due_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
), m AS (
    UPDATE meetings m SET due_at = clock_timestamp() + %(again_s)s * interval '1 second',
        recording_checks = recording_checks
            + CASE WHEN m.status = 'ended' AND m.cleared_at IS NOT NULL THEN 1 ELSE 0 END
    FROM due WHERE m.account_id = due.account_id AND m.id = due.id
    RETURNING m.*, due.was_due_at
)
SELECT {MEETING.select}, COALESCE(h.provider_user_id, '') AS provider_user_id, m.recording_checks,
    m.cleared_at IS NOT NULL AS is_cleared
FROM m LEFT JOIN hosts h ON h.id = m.host_id ORDER BY m.was_due_at

-- schedule_next_check: Schedule the next check of a meeting in so many seconds, or none, unless it was cleared, or
-- something began to run under it, since it was read.
UPDATE meetings SET due_at = clock_timestamp() + %(again_s)s::float8 * interval '1 second'
WHERE account_id = %(account_id)s AND id = %(meeting_id)s AND (cleared_at IS NOT NULL) = %(is_cleared)s

-- find_account_at_provider: The account of the meeting that a provider names, the latest that had the id; nothing
-- is locked yet.
SELECT account_id, id FROM (
    SELECT account_id, id FROM meetings
    WHERE provider = %(provider)s AND provider_meeting_id = %(provider_meeting_id)s
        AND status IN ('scheduled', 'cancelling', 'started')
    UNION ALL
    SELECT account_id, id FROM meetings
    WHERE provider = %(provider)s AND provider_meeting_id = %(provider_meeting_id)s
        AND status NOT IN ('scheduled', 'cancelling', 'started')
) AS m ORDER BY id DESC LIMIT 1

-- find_recorded: Meetings of any account by their ids, at a provider or here, each part by an index of its own: what
-- is being made is under a lease.
SELECT {MEETING.select} FROM meetings m
WHERE (m.provider = %(provider)s AND m.provider_meeting_id = ANY(%(names)s)
        AND m.status IN ('scheduled', 'cancelling', 'started'))
    OR (m.provider = %(provider)s AND m.provider_meeting_id = ANY(%(names)s)
        AND m.status NOT IN ('scheduled', 'cancelling', 'started'))
    OR (m.id = ANY(%(ids)s) AND m.status <> 'provisioning') OR (m.id = ANY(%(ids)s) AND m.lease_until IS NOT NULL)

-- list_scheduled: A page of a provider's scheduled meetings, by the index of the open ones.
SELECT {MEETING.select} FROM meetings m
WHERE (m.account_id, m.id) > (%(account_id)s, %(meeting_id)s) AND m.status = 'scheduled'
    AND m.provider = %(provider)s AND m.start_at > %(since)s
ORDER BY m.account_id, m.id LIMIT %(limit)s

-- load_sessions: The sessions of a meeting in the order of time.
SELECT provider_session_id, started_at, ended_at FROM meeting_sessions
WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s
ORDER BY LEAST(started_at, ended_at), provider_session_id

-- save_session: A session of a meeting, as far as it is known now.
INSERT INTO meeting_sessions (account_id, meeting_id, provider_session_id, started_at, ended_at)
VALUES (%(account_id)s, %(meeting_id)s, %(session_id)s, %(started_at)s, %(ended_at)s)
ON CONFLICT (account_id, meeting_id, provider_session_id)
DO UPDATE SET started_at = EXCLUDED.started_at, ended_at = EXCLUDED.ended_at

-- save_progress: The status that its sessions give a meeting, and when it is due next.
WITH meeting AS (
    UPDATE meetings SET status = %(meeting_status)s, due_at = %(due_at)s
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s

-- save_uncleared: Something runs at the provider under a meeting that is over: it is to be ended.
UPDATE meetings SET cleared_at = NULL, due_at = clock_timestamp()
WHERE account_id = %(account_id)s AND id = %(meeting_id)s

-- save_cleared: Nothing of a meeting that is over runs at the provider. Its host is free, and its recording is looked for.
WITH meeting AS (
    UPDATE meetings SET cleared_at = clock_timestamp(),
        due_at = CASE WHEN status = 'ended' AND with_recording THEN clock_timestamp() END
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s
), freed AS (
    DELETE FROM host_reservations WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s
    RETURNING host_id, lower(during) AS start_at
), exposed AS (
    UPDATE hosts h SET host_key = NULL, key_token = NULL, key_due_at = clock_timestamp()
    FROM freed
    WHERE %(invalidates_host_key)s AND h.id = freed.host_id AND h.max_concurrent = 1 AND NOT EXISTS (
        SELECT FROM host_reservations r
        WHERE r.host_id = freed.host_id AND r.during && tstzrange(NULL, freed.start_at))
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s

-- keep_host: The host of a meeting that is over stays reserved for so many seconds more, unless it was sold before.
UPDATE host_reservations r
SET during = tstzrange(lower(r.during), clock_timestamp() + %(seconds)s * interval '1 second')
WHERE r.account_id = %(account_id)s AND r.meeting_id = %(meeting_id)s
    AND upper(r.during) < clock_timestamp() + %(seconds)s * interval '1 second'
    AND NOT EXISTS (
        SELECT FROM host_reservations o
        WHERE o.host_id = r.host_id AND o.slot = r.slot AND o.meeting_id <> r.meeting_id
            AND o.during && tstzrange(upper(r.during), clock_timestamp() + %(seconds)s * interval '1 second'))
