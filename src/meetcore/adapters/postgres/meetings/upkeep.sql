-- claim_due_keys: Take hosts whose keys are due; what another transaction holds has its turn in the next round. A
-- disabled host is taken while it has meetings: the key of one that is over would open the next. The first two
-- conditions are those of the index over them.
WITH due AS (
    SELECT h.id FROM hosts h
    WHERE h.key_due_at IS NOT NULL AND h.max_concurrent = 1 AND h.key_due_at <= clock_timestamp()
        AND (h.is_active OR (SELECT true FROM host_reservations r WHERE r.host_id = h.id LIMIT 1))
    ORDER BY h.key_due_at LIMIT %(limit)s FOR NO KEY UPDATE OF h SKIP LOCKED
)
UPDATE hosts h
SET host_key = NULL, key_token = %(token)s, key_due_at = clock_timestamp() + %(lease_s)s * interval '1 second'
FROM due WHERE h.id = due.id RETURNING h.id AS host_id, h.provider_user_id

-- save_host_key: The key is in place, unless it became due again.
UPDATE hosts SET host_key = %(host_key)s, key_token = NULL, key_due_at = NULL
WHERE id = %(host_id)s AND key_token = %(token)s

-- postpone_host_key: Make the host due later, for the holder of the token only.
UPDATE hosts SET key_token = NULL, key_due_at = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE id = %(host_id)s AND key_token = %(token)s

-- open_orphan_check: Make the check of a meeting due now, as if an orphan had just been seen. A worker that holds
-- it loses it.
INSERT INTO orphan_checks (account_id, meeting_id, since, due_at)
VALUES (%(account_id)s, %(meeting_id)s, clock_timestamp(), clock_timestamp())
ON CONFLICT (account_id, meeting_id) DO UPDATE
SET since = EXCLUDED.since, due_at = EXCLUDED.due_at, failures = 0, lease_token = NULL

-- claim_due_orphan_checks: Take the checks that are due, the longest due first. The bound is the statement's time:
-- a volatile one could not bound the scan of the index.
WITH due AS (
    SELECT account_id, meeting_id, due_at FROM orphan_checks WHERE due_at <= statement_timestamp()
    ORDER BY due_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE orphan_checks c
    SET lease_token = %(token)s, due_at = clock_timestamp() + %(lease_s)s * interval '1 second'
    FROM due WHERE c.account_id = due.account_id AND c.meeting_id = due.meeting_id
    RETURNING c.account_id, c.meeting_id, c.since, c.failures, due.due_at AS was_due_at
)
SELECT {MEETING.select}, COALESCE(h.provider_user_id, '') AS provider_user_id, claimed.failures,
    extract(epoch FROM statement_timestamp() - claimed.since)::float8 AS age_s
FROM claimed JOIN meetings m ON m.account_id = claimed.account_id AND m.id = claimed.meeting_id
LEFT JOIN hosts h ON h.id = m.host_id ORDER BY claimed.was_due_at

-- postpone_orphan_check: Make a check due again, for the holder of its lease only.
UPDATE orphan_checks SET lease_token = NULL, failures = %(failures)s,
    due_at = clock_timestamp() + %(after_s)s::float8 * interval '1 second',
    since = CASE WHEN %(is_sighting)s THEN clock_timestamp() ELSE since END
WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s AND lease_token = %(token)s

-- close_orphan_check: End a check, for the holder of its lease only.
DELETE FROM orphan_checks
WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s AND lease_token = %(token)s

-- add_provider_event: Take an event in, unless the same bytes are known.
INSERT INTO provider_events (id, provider, digest, kind, payload, received_at, due_at)
VALUES (%(id)s, %(provider)s, %(digest)s, %(kind)s, %(payload)s, clock_timestamp(), clock_timestamp())
ON CONFLICT (provider, digest) DO NOTHING

-- claim_provider_events: Take due rows, the longest due first, and skip those that another worker has locked.
WITH due AS (
    SELECT id, due_at, lease_token IS NOT NULL AS had_lease FROM provider_events WHERE due_at <= statement_timestamp()
    ORDER BY due_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE provider_events e SET tries = e.tries + 1, lease_token = %(token)s,
        due_at = statement_timestamp() + %(lease_s)s * interval '1 second'
    FROM due WHERE e.id = due.id
    RETURNING e.id, e.payload, e.tries, due.due_at AS was_due_at, due.had_lease
)
SELECT id, payload, tries, had_lease FROM claimed ORDER BY was_due_at, id

-- postpone_provider_event: Give an event back until later, for the holder of its claim only.
UPDATE provider_events
SET lease_token = NULL, due_at = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE id = %(id)s AND lease_token = %(token)s

-- finish_provider_event: Leave the digest of an event, for the holder of its claim only.
UPDATE provider_events SET payload = NULL, lease_token = NULL, due_at = NULL
WHERE id = %(id)s AND lease_token = %(token)s
