-- load_creation: Read everything that the decision on a new meeting needs, under the account's lock: its funds, the
-- key's cap and its usage, what the operation charged before, the idempotency key, and the best fitting free host
-- (`domain.meetings.hosts.choose_host`), locked until the transaction ends. The join on `locked` makes sure that
-- the account is locked before the host; IS NOT FALSE keeps the planner from the index of all active hosts.
-- `is_contended`: a host is free, but locked by another transaction. A larger host is not taken while the smaller ones
-- are only locked: one may be released, and a large meeting would find none. `creations_left` is what the hosts with
-- the seats have left of the day (`domain.meetings.hosts.DayCreations`), `creations_used` what the account used of it.
WITH locked AS MATERIALIZED (
    SELECT a.version, {FUNDS.select} FROM accounts a WHERE a.id = %(account_id)s FOR NO KEY UPDATE
), nearby AS MATERIALIZED (
    SELECT h.id, h.capacity FROM (
        SELECT h.id, h.capacity, h.use_rank, h.max_concurrent FROM hosts h
        WHERE h.is_active AND (h.unavailable_until IS NULL OR h.unavailable_until <= %(now)s)
            AND (%(per_day)s::integer IS NULL OR h.creations_on IS DISTINCT FROM %(today)s
                    OR h.creations < %(per_day)s) AND h.capacity >= %(seats)s
        ORDER BY h.capacity, h.use_rank, h.id LIMIT {MOST_CHECKED_HOSTS}
    ) AS h
    WHERE EXISTS (
        SELECT n FROM (SELECT generate_series(0, h.max_concurrent - 1) AS n) AS slots
        WHERE COALESCE((
            SELECT r.host_id <> h.id OR r.slot <> n OR upper(r.during) <= %(start_at)s FROM host_reservations r
            WHERE (r.host_id, r.slot, lower(r.during)) < (h.id, n, %(end_at)s::timestamptz)
            ORDER BY r.host_id DESC, r.slot DESC, lower(r.during) DESC LIMIT 1), true)
        LIMIT 1)
    ORDER BY h.capacity, h.use_rank, h.id LIMIT {MOST_FREE_HOSTS}
), busy AS (
    SELECT r.host_id, array_agg(r.slot) AS slots FROM host_reservations r
    WHERE NOT EXISTS (SELECT FROM nearby) AND upper(r.during) > %(start_at)s AND lower(r.during) < %(end_at)s
        AND upper(r.during) < %(end_at)s::timestamptz + GREATEST(interval '1 day', (
            SELECT max(upper(during) - lower(during)) FROM host_reservations
            WHERE upper(during) - lower(during) > interval '1 day'))
    GROUP BY r.host_id
), elsewhere AS MATERIALIZED (
    SELECT h.id, h.capacity, h.uses FROM hosts h LEFT JOIN busy b ON b.host_id = h.id
    WHERE NOT EXISTS (SELECT FROM nearby) AND h.is_active
        AND (h.unavailable_until IS NULL OR h.unavailable_until <= %(now)s)
        AND (%(per_day)s::integer IS NULL OR h.creations_on IS DISTINCT FROM %(today)s OR h.creations < %(per_day)s)
        AND h.capacity >= %(seats)s
        AND (b.slots IS NULL OR 0 <> ALL (b.slots)
                OR h.max_concurrent > 1 AND EXISTS (
                    SELECT FROM generate_series(1, h.max_concurrent - 1) AS n WHERE n <> ALL (b.slots)))
), open_hosts AS MATERIALIZED (
    SELECT id, capacity FROM nearby
    UNION ALL
    (SELECT h.id, h.capacity FROM elsewhere h ORDER BY h.capacity, h.uses, h.id LIMIT {MOST_FREE_HOSTS})
), free AS MATERIALIZED (
    SELECT best.* FROM locked CROSS JOIN LATERAL (
        SELECT {HOST.select} FROM hosts h
        WHERE %(needs_host)s AND h.is_active IS NOT FALSE
            AND (h.unavailable_until IS NULL OR h.unavailable_until <= %(now)s)
            AND (%(per_day)s::integer IS NULL OR h.creations_on IS DISTINCT FROM %(today)s
                    OR h.creations < %(per_day)s) AND h.capacity >= %(seats)s
            AND h.id = ANY (ARRAY(
                SELECT id FROM open_hosts WHERE capacity = (SELECT min(capacity) FROM open_hosts)))
        ORDER BY h.capacity, h.uses, h.id LIMIT 1
        FOR NO KEY UPDATE OF h SKIP LOCKED) AS best
)
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
    clock_timestamp() AS now, k.daily_cap, k.first_key_id AS key_first_key_id, u.spent AS usage_spent,
    u.held AS usage_held,
    {TRANSFER.select}, {KEY.select}, i.answer AS key_answer, free.*,
    EXISTS (SELECT FROM account_erasures e WHERE e.account_id = locked.account_id) AS is_erased,
    %(needs_host)s AND free.host_id IS NULL AND EXISTS (SELECT FROM open_hosts) AS is_contended,
    (SELECT COALESCE(sum(c.creations), 0) FROM account_creations c JOIN hosts h ON h.id = c.host_id
        WHERE %(per_day)s::integer IS NOT NULL AND c.account_id = %(account_id)s AND c.day = %(today)s
            AND h.capacity >= %(seats)s) AS creations_used,
    (SELECT COALESCE(sum(%(per_day)s - CASE WHEN h.creations_on = %(today)s THEN h.creations ELSE 0 END), 0)
        FROM hosts h
        WHERE %(per_day)s::integer IS NOT NULL AND h.is_active
            AND (h.unavailable_until IS NULL OR h.unavailable_until <= %(now)s)
            AND (%(per_day)s::integer IS NULL OR h.creations_on IS DISTINCT FROM %(today)s
                    OR h.creations < %(per_day)s) AND h.capacity >= %(seats)s) AS creations_left
FROM locked
LEFT JOIN api_keys k ON k.id = %(api_key_id)s
LEFT JOIN cap_usage u ON u.account_id = locked.account_id
    AND u.api_key_id = COALESCE(k.first_key_id, %(api_key_id)s) AND u.day = %(day)s
LEFT JOIN ledger_transfers t ON t.account_id = locked.account_id AND t.operation = %(operation)s
LEFT JOIN idempotency_keys i ON i.account_id = locked.account_id AND i.key = %(key)s::text
LEFT JOIN free ON true

-- wait_for_host: Wait for the best fitting host that another transaction holds, the account locked first.
WITH locked AS MATERIALIZED (
    SELECT a.version, {FUNDS.select} FROM accounts a WHERE a.id = %(account_id)s FOR NO KEY UPDATE
), nearby AS MATERIALIZED (
    SELECT h.id, h.capacity FROM (
        SELECT h.id, h.capacity, h.use_rank, h.max_concurrent FROM hosts h
        WHERE h.is_active AND (h.unavailable_until IS NULL OR h.unavailable_until <= %(now)s)
            AND (%(per_day)s::integer IS NULL OR h.creations_on IS DISTINCT FROM %(today)s
                    OR h.creations < %(per_day)s) AND h.capacity >= %(seats)s
        ORDER BY h.capacity, h.use_rank, h.id LIMIT {MOST_CHECKED_HOSTS}
    ) AS h
    WHERE EXISTS (
        SELECT n FROM (SELECT generate_series(0, h.max_concurrent - 1) AS n) AS slots
        WHERE COALESCE((
            SELECT r.host_id <> h.id OR r.slot <> n OR upper(r.during) <= %(start_at)s FROM host_reservations r
            WHERE (r.host_id, r.slot, lower(r.during)) < (h.id, n, %(end_at)s::timestamptz)
            ORDER BY r.host_id DESC, r.slot DESC, lower(r.during) DESC LIMIT 1), true)
        LIMIT 1)
    ORDER BY h.capacity, h.use_rank, h.id LIMIT {MOST_FREE_HOSTS}
), busy AS (
    SELECT r.host_id, array_agg(r.slot) AS slots FROM host_reservations r
    WHERE NOT EXISTS (SELECT FROM nearby) AND upper(r.during) > %(start_at)s AND lower(r.during) < %(end_at)s
        AND upper(r.during) < %(end_at)s::timestamptz + GREATEST(interval '1 day', (
            SELECT max(upper(during) - lower(during)) FROM host_reservations
            WHERE upper(during) - lower(during) > interval '1 day'))
    GROUP BY r.host_id
), elsewhere AS MATERIALIZED (
    SELECT h.id, h.capacity, h.uses FROM hosts h LEFT JOIN busy b ON b.host_id = h.id
    WHERE NOT EXISTS (SELECT FROM nearby) AND h.is_active
        AND (h.unavailable_until IS NULL OR h.unavailable_until <= %(now)s)
        AND (%(per_day)s::integer IS NULL OR h.creations_on IS DISTINCT FROM %(today)s OR h.creations < %(per_day)s)
        AND h.capacity >= %(seats)s
        AND (b.slots IS NULL OR 0 <> ALL (b.slots)
                OR h.max_concurrent > 1 AND EXISTS (
                    SELECT FROM generate_series(1, h.max_concurrent - 1) AS n WHERE n <> ALL (b.slots)))
), open_hosts AS MATERIALIZED (
    SELECT id, capacity FROM nearby
    UNION ALL
    (SELECT h.id, h.capacity FROM elsewhere h ORDER BY h.capacity, h.uses, h.id LIMIT {MOST_FREE_HOSTS})
)
SELECT waited.id FROM locked CROSS JOIN LATERAL (
    SELECT h.id FROM hosts h
    WHERE h.is_active IS NOT FALSE AND (h.unavailable_until IS NULL OR h.unavailable_until <= %(now)s)
        AND (%(per_day)s::integer IS NULL OR h.creations_on IS DISTINCT FROM %(today)s OR h.creations < %(per_day)s)
        AND h.capacity >= %(seats)s
        AND h.id = ANY (ARRAY(
            SELECT id FROM open_hosts WHERE capacity = (SELECT min(capacity) FROM open_hosts)))
    ORDER BY h.capacity, h.uses, h.id LIMIT 1
    FOR NO KEY UPDATE OF h) AS waited

-- save_provisioning: Write a meeting that is about to be made, all or nothing: without the slot of the host that
-- it needs no row is written and no row is returned.
-- The host's key is replaced where the next meeting on it may have shown the key: 15 minutes before it, by a clock that is
-- up to a minute ahead (`domain.meetings.meetings.can_have_shown_host_key`).
WITH reserved AS (
    INSERT INTO host_reservations (account_id, meeting_id, host_id, slot, during)
    SELECT %(account_id)s, %(meeting_id)s, h.id, slot.n, tstzrange(%(start_at)s, %(end_at)s)
    FROM hosts h CROSS JOIN LATERAL (
        SELECT n FROM (SELECT generate_series(0, h.max_concurrent - 1) AS n) AS slots
        WHERE COALESCE((
            SELECT r.host_id <> h.id OR r.slot <> n OR upper(r.during) <= %(start_at)s FROM host_reservations r
            WHERE (r.host_id, r.slot, lower(r.during)) < (h.id, n, %(end_at)s::timestamptz)
            ORDER BY r.host_id DESC, r.slot DESC, lower(r.during) DESC LIMIT 1), true)
        LIMIT 1) AS slot WHERE h.id = %(meeting_host_id)s AND h.is_active
    ON CONFLICT DO NOTHING
    RETURNING host_id
), host AS (
    UPDATE hosts SET uses = uses + 1, creations_on = GREATEST(creations_on, %(today)s::date),
        creations = CASE WHEN creations_on >= %(today)s THEN creations + 1 ELSE 1 END,
        key_due_at = CASE WHEN EXISTS (
            SELECT FROM host_reservations r WHERE r.host_id = hosts.id AND lower(r.during) >= %(end_at)s::timestamptz
                AND lower(r.during) < statement_timestamp() + interval '16 minutes'
        ) THEN statement_timestamp() ELSE key_due_at END
    WHERE id = (SELECT host_id FROM reserved)
), counted AS (
    INSERT INTO account_creations AS known (account_id, day, host_id, creations)
    SELECT %(account_id)s, %(today)s, host_id, 1 FROM reserved WHERE %(counts_creation)s
    ON CONFLICT (account_id, day, host_id) DO UPDATE SET creations = known.creations + 1
), guard AS (
    SELECT %(account_id)s::uuid AS account_id, host_id FROM reserved
    UNION ALL SELECT %(account_id)s::uuid, NULL WHERE %(meeting_host_id)s::uuid IS NULL
), meeting AS (
    INSERT INTO meetings ({MEETING.names}, hold_id, idempotency_key, lease_token, lease_until)
    SELECT {MEETING_ON_HOST}, %(hold_id)s, %(key)s, %(lease_token)s,
        clock_timestamp() + %(lease_s)s * interval '1 second'
    FROM guard
), checked AS (
    INSERT INTO orphan_checks (account_id, meeting_id, since, due_at)
    SELECT account_id, %(meeting_id)s, clock_timestamp() + %(lease_s)s * interval '1 second',
        clock_timestamp() + (%(lease_s)s + %(orphan_window_s)s::float8) * interval '1 second'
    FROM guard WHERE %(orphan_window_s)s::float8 IS NOT NULL
), usage_with_hold AS (
    INSERT INTO cap_usage (account_id, {USAGE.names}) SELECT account_id, {USAGE.values} FROM guard
    ON CONFLICT (account_id, api_key_id, day) DO UPDATE SET spent = EXCLUDED.spent, held = EXCLUDED.held
), claim AS (
    INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, subject_id, lease_until, created_at)
    SELECT account_id, %(key)s, %(fingerprint)s, false, %(meeting_id)s,
        clock_timestamp() + %(lease_s)s * interval '1 second', clock_timestamp()
    FROM guard WHERE %(key)s::text IS NOT NULL
    ON CONFLICT (account_id, key) DO UPDATE
    SET subject_id = EXCLUDED.subject_id, lease_until = EXCLUDED.lease_until
)
UPDATE accounts SET held = %(funds_held)s, is_low = %(funds_is_low)s, version = version + 1
WHERE id = %(account_id)s AND EXISTS (SELECT FROM guard)
RETURNING version, (SELECT host_id FROM guard) AS host_id

-- load_state: Read what decisions on an account's money need, under its lock: its funds, a key's cap and its usage.
WITH locked AS MATERIALIZED (
    SELECT a.version, {FUNDS.select} FROM accounts a WHERE a.id = %(account_id)s FOR NO KEY UPDATE
)
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
    k.daily_cap, k.first_key_id AS key_first_key_id, u.spent AS usage_spent, u.held AS usage_held
FROM locked
LEFT JOIN api_keys k ON k.id = %(api_key_id)s
LEFT JOIN cap_usage u ON u.account_id = locked.account_id
    AND u.api_key_id = COALESCE(k.first_key_id, %(api_key_id)s) AND u.day = %(day)s

-- save_if_unchanged: Write the same for an account that need not be locked, if it is as it was read, the
-- idempotency key and the charge are unknown, and a fitting host is free at once; the host is chosen and locked as
-- `load_creation` does, among those that are looked at first. The conditions on other tables name no column of the account:
-- they are read once, by their keys.
WITH unchanged AS MATERIALIZED (
    SELECT a.id FROM accounts a
    WHERE a.id = %(account_id)s AND a.version = COALESCE(%(version)s::bigint, a.version)
        AND NOT EXISTS (SELECT FROM idempotency_keys WHERE account_id = %(account_id)s AND key = %(key)s::text)
        AND NOT EXISTS (SELECT FROM ledger_transfers WHERE account_id = %(account_id)s AND operation = %(operation)s)
        AND NOT EXISTS (SELECT FROM account_erasures WHERE account_id = %(account_id)s)
    FOR NO KEY UPDATE OF a SKIP LOCKED
), nearby AS MATERIALIZED (
    SELECT h.id, h.capacity FROM (
        SELECT h.id, h.capacity, h.use_rank, h.max_concurrent FROM hosts h
        WHERE h.is_active AND (h.unavailable_until IS NULL OR h.unavailable_until <= %(now)s)
            AND (%(per_day)s::integer IS NULL OR h.creations_on IS DISTINCT FROM %(today)s
                    OR h.creations < %(per_day)s) AND h.capacity >= %(seats)s
        ORDER BY h.capacity, h.use_rank, h.id LIMIT {MOST_CHECKED_HOSTS}
    ) AS h
    WHERE EXISTS (
        SELECT n FROM (SELECT generate_series(0, h.max_concurrent - 1) AS n) AS slots
        WHERE COALESCE((
            SELECT r.host_id <> h.id OR r.slot <> n OR upper(r.during) <= %(start_at)s FROM host_reservations r
            WHERE (r.host_id, r.slot, lower(r.during)) < (h.id, n, %(end_at)s::timestamptz)
            ORDER BY r.host_id DESC, r.slot DESC, lower(r.during) DESC LIMIT 1), true)
        LIMIT 1)
    ORDER BY h.capacity, h.use_rank, h.id LIMIT {MOST_FREE_HOSTS}
), free AS MATERIALIZED (
    SELECT best.* FROM unchanged CROSS JOIN LATERAL (
        SELECT h.id, h.provider_user_id, h.max_concurrent FROM hosts h
        WHERE %(needs_host)s AND h.is_active IS NOT FALSE
            AND (h.unavailable_until IS NULL OR h.unavailable_until <= %(now)s)
            AND (%(per_day)s::integer IS NULL OR h.creations_on IS DISTINCT FROM %(today)s
                    OR h.creations < %(per_day)s) AND h.capacity >= %(seats)s
            AND h.id = ANY (ARRAY(
                SELECT id FROM nearby WHERE capacity = (SELECT min(capacity) FROM nearby)))
        ORDER BY h.capacity, h.uses, h.id LIMIT 1
        FOR NO KEY UPDATE OF h SKIP LOCKED) AS best
), reserved AS (
    INSERT INTO host_reservations (account_id, meeting_id, host_id, slot, during)
    SELECT %(account_id)s, %(meeting_id)s, h.id, slot.n, tstzrange(%(start_at)s, %(end_at)s)
    FROM free h CROSS JOIN LATERAL (
        SELECT n FROM (SELECT generate_series(0, h.max_concurrent - 1) AS n) AS slots
        WHERE COALESCE((
            SELECT r.host_id <> h.id OR r.slot <> n OR upper(r.during) <= %(start_at)s FROM host_reservations r
            WHERE (r.host_id, r.slot, lower(r.during)) < (h.id, n, %(end_at)s::timestamptz)
            ORDER BY r.host_id DESC, r.slot DESC, lower(r.during) DESC LIMIT 1), true)
        LIMIT 1) AS slot
    ON CONFLICT DO NOTHING
    RETURNING host_id
), host AS (
    UPDATE hosts SET uses = uses + 1, creations_on = GREATEST(creations_on, %(today)s::date),
        creations = CASE WHEN creations_on >= %(today)s THEN creations + 1 ELSE 1 END,
        key_due_at = CASE WHEN EXISTS (
            SELECT FROM host_reservations r WHERE r.host_id = hosts.id AND lower(r.during) >= %(end_at)s::timestamptz
                AND lower(r.during) < statement_timestamp() + interval '16 minutes'
        ) THEN statement_timestamp() ELSE key_due_at END
    WHERE id = (SELECT host_id FROM reserved)
), guard AS (
    SELECT %(account_id)s::uuid AS account_id, host_id FROM reserved
    UNION ALL SELECT id, NULL FROM unchanged WHERE NOT %(needs_host)s
), meeting AS (
    INSERT INTO meetings ({MEETING.names}, hold_id, idempotency_key, lease_token, lease_until)
    SELECT {MEETING_ON_HOST}, %(hold_id)s, %(key)s, %(lease_token)s,
        clock_timestamp() + %(lease_s)s * interval '1 second'
    FROM guard
), checked AS (
    INSERT INTO orphan_checks (account_id, meeting_id, since, due_at)
    SELECT account_id, %(meeting_id)s, clock_timestamp() + %(lease_s)s * interval '1 second',
        clock_timestamp() + (%(lease_s)s + %(orphan_window_s)s::float8) * interval '1 second'
    FROM guard WHERE %(orphan_window_s)s::float8 IS NOT NULL
), usage_with_hold AS (
    INSERT INTO cap_usage (account_id, {USAGE.names}) SELECT account_id, {USAGE.values} FROM guard
    ON CONFLICT (account_id, api_key_id, day) DO UPDATE SET spent = EXCLUDED.spent, held = EXCLUDED.held
), claim AS (
    INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, subject_id, lease_until, created_at)
    SELECT account_id, %(key)s, %(fingerprint)s, false, %(meeting_id)s,
        clock_timestamp() + %(lease_s)s * interval '1 second', clock_timestamp()
    FROM guard WHERE %(key)s::text IS NOT NULL
    ON CONFLICT (account_id, key) DO UPDATE
    SET subject_id = EXCLUDED.subject_id, lease_until = EXCLUDED.lease_until
)
UPDATE accounts SET held = %(funds_held)s, is_low = %(funds_is_low)s, version = version + 1
WHERE id = %(account_id)s AND EXISTS (SELECT FROM guard)
RETURNING version, (SELECT host_id FROM guard) AS host_id, (SELECT provider_user_id FROM free) AS provider_user_id

-- load_leased: The meeting in progress with its money, under the account's lock, for the holder of the lease only.
-- The meeting's row is locked too, because an expired lease is taken over without the account's lock. Its hold is as
-- `ledger_holds` has it.
WITH locked AS MATERIALIZED (
    SELECT a.version, {FUNDS.select} FROM accounts a WHERE a.id = %(account_id)s FOR NO KEY UPDATE
)
SELECT locked.*, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
    {MEETING.select}, COALESCE(h.provider_user_id, '') AS provider_user_id, {TRANSFER.select}, {HOLD.select},
    k.first_key_id AS key_first_key_id, u.spent AS usage_spent, u.held AS usage_held, i.key, i.fingerprint
FROM locked
JOIN meetings m ON m.account_id = locked.account_id AND m.id = %(meeting_id)s
    AND COALESCE(m.lease_token, '00000000-0000-0000-0000-000000000000') = %(token)s::uuid
LEFT JOIN hosts h ON h.id = m.host_id
LEFT JOIN LATERAL (
    SELECT m.hold_id AS id, COALESCE('meeting:key:' || m.idempotency_key, 'meeting:' || m.id) AS operation,
        'meeting_charge' AS kind, m.credits AS amount, 'meeting' AS reference_type, m.id::text AS reference_id,
        m.api_key_id, ((m.created_at AT TIME ZONE 'UTC') + interval '7 hours')::date AS cap_day
    WHERE m.hold_id IS NOT NULL) AS hold ON true
LEFT JOIN ledger_transfers t ON t.account_id = locked.account_id AND t.id = m.charge_id
LEFT JOIN api_keys k ON k.id = COALESCE(hold.api_key_id, t.api_key_id)
LEFT JOIN cap_usage u ON u.account_id = locked.account_id
    AND u.api_key_id = COALESCE(k.first_key_id, hold.api_key_id, t.api_key_id)
    AND u.day = COALESCE(hold.cap_day, t.cap_day)
LEFT JOIN idempotency_keys i ON i.account_id = locked.account_id AND i.key = m.idempotency_key
FOR NO KEY UPDATE OF m

-- save_scheduled: The hold becomes the charge, the meeting, which is the key's answer, gets its link, the events go out;
-- all of it or nothing, if the account is unchanged since the decision and the lease is still held.
WITH guard AS MATERIALIZED (
    SELECT a.id AS account_id
    FROM accounts a JOIN meetings m ON m.account_id = a.id AND m.id = %(meeting_id)s
    WHERE a.id = %(account_id)s AND a.version = COALESCE(%(version)s::bigint, a.version) AND m.lease_token = %(token)s
    FOR NO KEY UPDATE
), transfer AS (
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
), usage AS (
    UPDATE cap_usage SET spent = %(usage_spent)s, held = %(usage_held)s
    WHERE account_id = %(account_id)s AND api_key_id = %(usage_api_key_id)s AND day = %(usage_day)s
        AND EXISTS (SELECT FROM guard)
), meeting AS (
    UPDATE meetings SET status = %(meeting_status)s, provider_meeting_id = %(meeting_provider_meeting_id)s,
        join_url = %(meeting_join_url)s, password = %(meeting_password)s,
        charge_id = %(transfer_id)s, hold_id = NULL, idempotency_key = NULL, lease_token = NULL, lease_until = NULL,
        due_at = end_at
    WHERE account_id = %(account_id)s AND id = %(meeting_id)s AND EXISTS (SELECT FROM guard)
), answered AS (
    UPDATE idempotency_keys SET is_done = true, lease_until = NULL
    WHERE account_id = %(account_id)s AND key = %(key)s::text AND EXISTS (SELECT FROM guard)
)
SELECT (SELECT count(*) FROM delivery WHERE status = 'pending') AS due FROM guard

-- save_abandoned: Give up a meeting: hold, cap and host are given back, and the key may try again. A meeting that
-- the provider did not make is not counted in the day of host and account; the host may be paused, and an orphan
-- check may be opened.
WITH guard AS MATERIALIZED (SELECT %(account_id)s::uuid AS account_id), funds AS (
    UPDATE accounts SET ({FUNDS_AFTER.names}) = ({FUNDS_AFTER_PARAMETERS.values}), version = version + 1
    WHERE id = %(account_id)s AND EXISTS (SELECT FROM guard)
), usage AS (
    UPDATE cap_usage SET spent = %(usage_spent)s, held = %(usage_held)s
    WHERE account_id = %(account_id)s AND api_key_id = %(usage_api_key_id)s AND day = %(usage_day)s
        AND EXISTS (SELECT FROM guard)
), given_back AS (
    DELETE FROM host_reservations WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s
    RETURNING host_id
), host AS (
    UPDATE hosts SET unavailable_until = GREATEST(unavailable_until, %(unavailable_until)s::timestamptz),
        creations = GREATEST(creations - CASE WHEN creations_on = %(today)s AND NOT %(was_made)s THEN 1 ELSE 0 END, 0)
    WHERE id = (SELECT host_id FROM given_back)
), uncounted AS (
    UPDATE account_creations SET creations = GREATEST(creations - 1, 0)
    WHERE account_id = %(account_id)s AND day = %(today)s AND host_id = (SELECT host_id FROM given_back)
        AND NOT %(was_made)s
), bound AS (
    UPDATE idempotency_keys SET subject_id = NULL, lease_until = NULL
    WHERE account_id = %(account_id)s AND key = %(key)s::text
), checked AS (
    INSERT INTO orphan_checks (account_id, meeting_id, since, due_at)
    SELECT %(account_id)s, %(meeting_id)s, clock_timestamp(),
        clock_timestamp() + %(look_again_s)s::float8 * interval '1 second'
    WHERE %(look_again_s)s::float8 IS NOT NULL
    ON CONFLICT (account_id, meeting_id) DO UPDATE
    SET due_at = EXCLUDED.due_at, failures = 0, lease_token = NULL
), unchecked AS (
    DELETE FROM orphan_checks
    WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s AND %(look_again_s)s::float8 IS NULL
)
UPDATE meetings SET status = %(meeting_status)s, hold_id = NULL, idempotency_key = NULL, lease_token = NULL,
    lease_until = NULL
WHERE account_id = %(account_id)s AND id = %(meeting_id)s
