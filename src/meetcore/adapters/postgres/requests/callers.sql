-- find_caller: Read the key of a digest with its account: what authentication needs, and all that GET /me shows. A standby
-- that has this version of the account has all that the caller may know of.
SELECT {API_KEY.select}, {SUMMARY.select}, a.version AS account_version, clock_timestamp() AS read_at
FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.digest = %(digest)s

-- find_callers: Read the same for several callers.
SELECT q.number, {API_KEY.select}, {SUMMARY.select}, a.version AS account_version, clock_timestamp() AS read_at
FROM unnest(%(digests)s::bytea[]) WITH ORDINALITY AS q (digest, number)
JOIN api_keys k ON k.digest = q.digest JOIN accounts a ON a.id = k.account_id

-- find_with_usage: One caller with the usage of the key's cap on a day.
SELECT {API_KEY.select}, {SUMMARY.select}, a.version AS account_version, clock_timestamp() AS read_at,
    u.spent AS usage_spent, u.held AS usage_held
FROM api_keys k JOIN accounts a ON a.id = k.account_id
LEFT JOIN cap_usage u ON u.account_id = k.account_id AND u.api_key_id = COALESCE(k.first_key_id, k.id)
    AND u.day = %(usage_on)s
WHERE k.digest = %(digest)s

-- find_all_with_usage: The same for several callers, each with a day of its own.
SELECT q.number, {API_KEY.select}, {SUMMARY.select}, a.version AS account_version, clock_timestamp() AS read_at,
    u.spent AS usage_spent, u.held AS usage_held
FROM unnest(%(digests)s::bytea[], %(days)s::date[]) WITH ORDINALITY AS q (digest, day, number)
JOIN api_keys k ON k.digest = q.digest JOIN accounts a ON a.id = k.account_id
LEFT JOIN cap_usage u ON u.account_id = k.account_id AND u.api_key_id = COALESCE(k.first_key_id, k.id)
    AND u.day = q.day

-- find_with_state: One caller with the account's funds and their version, for a decision that is tried without a
-- lock.
SELECT {API_KEY.select}, {SUMMARY.select}, {FUNDS.select}, a.version AS account_version, clock_timestamp() AS read_at,
    u.spent AS usage_spent, u.held AS usage_held,
    EXISTS (SELECT FROM idempotency_keys i WHERE i.account_id = k.account_id
            AND i.key = %(key)s::text) AS is_key_known
FROM api_keys k JOIN accounts a ON a.id = k.account_id
LEFT JOIN cap_usage u ON u.account_id = k.account_id AND u.api_key_id = COALESCE(k.first_key_id, k.id)
    AND u.day = %(usage_on)s
WHERE k.digest = %(digest)s

-- find_with_meeting: One caller with one of the account's meetings, if it is there.
SELECT {MEETING.select}, (
    SELECT h.host_key FROM host_reservations r
    JOIN hosts h ON h.id = r.host_id AND h.max_concurrent = 1 AND h.key_due_at IS NULL
    WHERE r.account_id = m.account_id AND r.meeting_id = m.id AND NOT EXISTS (
        SELECT FROM host_reservations e
        WHERE e.host_id = r.host_id AND e.during && tstzrange(NULL, lower(r.during)))
) AS host_key, {API_KEY.select}, {SUMMARY.select}, a.version AS account_version, clock_timestamp() AS read_at
FROM api_keys k JOIN accounts a ON a.id = k.account_id
LEFT JOIN meetings m ON m.account_id = k.account_id AND m.id = %(meeting_id)s
WHERE k.digest = %(digest)s

-- find_all_with_meeting: The same for several callers, each with a meeting of its own account.
SELECT q.number, {MEETING.select}, (
    SELECT h.host_key FROM host_reservations r
    JOIN hosts h ON h.id = r.host_id AND h.max_concurrent = 1 AND h.key_due_at IS NULL
    WHERE r.account_id = m.account_id AND r.meeting_id = m.id AND NOT EXISTS (
        SELECT FROM host_reservations e
        WHERE e.host_id = r.host_id AND e.during && tstzrange(NULL, lower(r.during)))
) AS host_key, {API_KEY.select}, {SUMMARY.select}, a.version AS account_version, clock_timestamp() AS read_at
FROM unnest(%(digests)s::bytea[], %(meeting_ids)s::uuid[]) WITH ORDINALITY AS q (digest, meeting_id, number)
JOIN api_keys k ON k.digest = q.digest JOIN accounts a ON a.id = k.account_id
LEFT JOIN meetings m ON m.account_id = k.account_id AND m.id = q.meeting_id
