-- list_key_use: An account's keys, the newest first, with the usage of the cap that each counts against on a day.
SELECT {API_KEY.select}, COALESCE(u.spent + u.held, 0) AS used
FROM api_keys k
LEFT JOIN cap_usage u ON u.account_id = k.account_id AND u.api_key_id = COALESCE(k.first_key_id, k.id)
    AND u.day = %(day)s
WHERE k.account_id = %(account_id)s ORDER BY k.id DESC

-- overview: Read the figures of the overview. Spending is the charges for meetings and notes of each day (WIB),
-- less refunds: four rows for a day at most. An account has few keys and few endpoints. Keys that were rolled share one
-- cap, unless it was changed for one of them. An account is new until it has had a meeting and the days are over.
WITH spending AS (
    SELECT day, COALESCE(-sum(credits) FILTER (WHERE kind <> 'notulen_charge'), 0)::bigint AS meetings,
        COALESCE(-sum(credits) FILTER (WHERE kind = 'notulen_charge'), 0)::bigint AS notes
    FROM ledger_day_totals
    WHERE account_id = %(account_id)s AND day >= %(first_day)s
        AND kind IN ('meeting_charge', 'meeting_refund', 'notulen_charge')
    GROUP BY day
), capped AS (
    SELECT DISTINCT ON (COALESCE(k.first_key_id, k.id), k.daily_cap)
        k.id, k.name, k.daily_cap, COALESCE(u.spent + u.held, 0) AS spent
    FROM api_keys k
    LEFT JOIN cap_usage u ON u.account_id = k.account_id AND u.api_key_id = COALESCE(k.first_key_id, k.id)
        AND u.day = %(day)s
    WHERE k.account_id = %(account_id)s AND k.daily_cap IS NOT NULL AND k.revoked_at IS NULL
        AND (k.expires_at IS NULL OR k.expires_at > statement_timestamp())
    ORDER BY COALESCE(k.first_key_id, k.id), k.daily_cap, k.id DESC
), met AS (
    SELECT EXISTS (SELECT FROM ledger_day_totals WHERE account_id = %(account_id)s AND kind = 'meeting_charge') AS has_met
), first_steps AS (
    SELECT json_build_array((SELECT id FROM webhook_endpoints WHERE account_id = a.id ORDER BY id LIMIT 1), a.entries > 0,
        EXISTS (SELECT FROM api_keys WHERE account_id = a.id),
        EXISTS (SELECT FROM api_keys WHERE account_id = a.id AND last_used_at IS NOT NULL), has_met,
        EXISTS (SELECT FROM deliveries WHERE account_id = a.id AND status = 'succeeded')) AS steps
    FROM accounts a CROSS JOIN met
    WHERE a.id = %(account_id)s AND NOT (has_met AND a.created_at < %(first_day)s::date)
), troubled AS (
    SELECT id, url, consecutive_failures, state = 'disabled' AS is_disabled FROM webhook_endpoints
    WHERE account_id = %(account_id)s AND (state = 'disabled' OR consecutive_failures > 0)
)
SELECT (SELECT json_agg(json_build_array(day, meetings, notes) ORDER BY day) FROM spending) AS spending,
    (SELECT json_agg(json_build_array(name, daily_cap, spent) ORDER BY id DESC) FROM capped) AS capped,
    (SELECT json_agg(json_build_array(id, url, consecutive_failures, is_disabled) ORDER BY id) FROM troubled)
    AS troubled,
    (SELECT low_threshold FROM accounts WHERE id = %(account_id)s) AS low_threshold,
    (SELECT steps FROM first_steps) AS first_steps

-- find_meeting_details: A meeting with its recording, where that is shown, and its notes: one row for each
-- note, and one without where there is none. The account's id is that of the meeting, which stands last.
SELECT {NOTE.select}, n.content AS note_content, {RECORDING.select}, r.files AS recording_files, {MEETING.select}, (
    SELECT h.host_key FROM host_reservations r
    JOIN hosts h ON h.id = r.host_id AND h.max_concurrent = 1 AND h.key_due_at IS NULL
    WHERE r.account_id = m.account_id AND r.meeting_id = m.id AND NOT EXISTS (
        SELECT FROM host_reservations e
        WHERE e.host_id = r.host_id AND e.during && tstzrange(NULL, lower(r.during)))
) AS host_key, CASE m.api_key_id WHEN m.account_id THEN (
    SELECT CASE g.actor_kind WHEN 'member' THEN (SELECT u.email FROM users u WHERE u.id = g.actor_id)
        ELSE g.actor_name END
    FROM audit_log g
    WHERE g.account_id = %(account_id)s AND g.action = 'meeting.created' AND g.target_id = m.id::text
    ORDER BY g.id LIMIT 1
) ELSE (
    SELECT k.name || ' …' || coalesce(k.last_four, '') FROM api_keys k
    WHERE k.account_id = %(account_id)s AND k.id = m.api_key_id
) END AS made_by
FROM meetings m
LEFT JOIN recordings r ON r.account_id = m.account_id AND r.meeting_id = m.id AND r.status <> 'measuring'
LEFT JOIN notes n ON n.account_id = m.account_id AND n.meeting_id = m.id AND n.status <> 'erased'
WHERE m.account_id = %(account_id)s AND m.id = %(id)s
ORDER BY n.id DESC

-- list_titled_notes: A page of an account's notes, with the titles of their meetings and without what they say.
SELECT {NOTE.select}, m.title FROM (
    SELECT * FROM notes n
    WHERE n.account_id = %(account_id)s AND n.id < %(before)s AND n.status <> 'erased'
    ORDER BY n.id DESC LIMIT %(limit)s
) n LEFT JOIN meetings m ON m.account_id = n.account_id AND m.id = n.meeting_id
ORDER BY n.id DESC

-- find_note_details: A note with its meeting and its recording. The account's id is that of the note, which stands
-- last.
SELECT {RECORDING.select}, r.files AS recording_files, {MEETING.select}, {NOTE.select}, n.content AS note_content
FROM notes n
LEFT JOIN meetings m ON m.account_id = n.account_id AND m.id = n.meeting_id
LEFT JOIN recordings r ON r.account_id = n.account_id AND r.id = n.recording_id
WHERE n.account_id = %(account_id)s AND n.id = %(id)s

-- describe_entries: The titles of the meetings that entries are about, with the members who made them by hand, and all
-- keys of the account, of which there are few.
SELECT (SELECT json_agg(json_build_array(k.id, k.name, k.last_four) ORDER BY k.id DESC)
        FROM api_keys k WHERE k.account_id = %(account_id)s) AS keys,
    (SELECT json_agg(json_build_array(r.number, m.title, g.name))
        FROM unnest(%(numbers)s::bigint[], %(types)s::text[], %(ids)s::uuid[]) AS r (number, type, id)
        CROSS JOIN LATERAL (
            SELECT m.id, m.title, m.api_key_id FROM meetings m
            WHERE m.account_id = %(account_id)s AND m.id = CASE r.type WHEN 'meeting' THEN r.id ELSE (
                SELECT n.meeting_id FROM notes n WHERE n.account_id = %(account_id)s AND n.id = r.id) END OFFSET 0
        ) m
        LEFT JOIN LATERAL (
            SELECT CASE g.actor_kind WHEN 'member' THEN (SELECT u.email FROM users u WHERE u.id = g.actor_id)
                ELSE g.actor_name END AS name
            FROM audit_log g
            WHERE g.account_id = %(account_id)s AND g.action = 'meeting.created' AND g.target_id = m.id::text
            ORDER BY g.id LIMIT 1
        ) g ON m.api_key_id = %(account_id)s) AS sources

-- spending: The months of an account by kind, from the totals of days; and one month by kind and payer, from its newest
-- entries. The offset keeps the planner from joining whole tables: it looks up one entry after another.
WITH RECURSIVE first_at_made_from (low, high) AS (
    SELECT 1::bigint, a.entries + 1 FROM accounts a WHERE a.id = %(account_id)s
    UNION ALL
    SELECT CASE WHEN e.at < %(made_from)s THEN e.number + 1 ELSE s.low END,
        CASE WHEN e.at < %(made_from)s THEN s.high ELSE e.number END
    FROM first_at_made_from s CROSS JOIN LATERAL (
        SELECT number, at FROM ledger_entries
        WHERE account_id = %(account_id)s AND number = (s.low + s.high) / 2 AND book = 'customer'
    ) e
    WHERE s.low < s.high
), first_at_made_before (low, high) AS (
    SELECT 1::bigint, a.entries + 1 FROM accounts a WHERE a.id = %(account_id)s
    UNION ALL
    SELECT CASE WHEN e.at < %(made_before)s THEN e.number + 1 ELSE s.low END,
        CASE WHEN e.at < %(made_before)s THEN s.high ELSE e.number END
    FROM first_at_made_before s CROSS JOIN LATERAL (
        SELECT number, at FROM ledger_entries
        WHERE account_id = %(account_id)s AND number = (s.low + s.high) / 2 AND book = 'customer'
    ) e
    WHERE s.low < s.high
), summed AS MATERIALIZED (
    SELECT w.transfer_id, w.amount FROM ledger_entries w
    WHERE w.account_id = %(account_id)s AND w.book = 'customer'
        AND w.number >= (SELECT low FROM first_at_made_from WHERE low = high)
        AND w.number < (SELECT low FROM first_at_made_before WHERE low = high)
    ORDER BY w.number DESC LIMIT {MAX_ENTRIES_SUMMED}
), of_payers AS (
    SELECT t.kind, t.api_key_id, g.name AS member, sum(s.amount)::bigint AS credits, count(*) AS entries
    FROM summed s CROSS JOIN LATERAL (
        SELECT kind, api_key_id, reference_type, reference_id FROM ledger_transfers
        WHERE account_id = %(account_id)s AND id = s.transfer_id OFFSET 0
    ) t
    LEFT JOIN LATERAL (
        SELECT CASE g.actor_kind WHEN 'member' THEN (SELECT u.email FROM users u WHERE u.id = g.actor_id)
            ELSE g.actor_name END AS name
        FROM audit_log g
        WHERE g.account_id = %(account_id)s AND g.action = 'meeting.created'
            AND g.target_id = CASE t.reference_type WHEN 'note' THEN (
                SELECT n.meeting_id::text FROM notes n
                WHERE n.account_id = %(account_id)s AND n.id = t.reference_id::uuid) ELSE t.reference_id END
        ORDER BY g.id LIMIT 1
    ) g ON t.api_key_id = %(account_id)s
    GROUP BY 1, 2, 3
), of_months AS (
    SELECT date_trunc('month', day)::date AS month, kind, sum(credits)::bigint AS credits FROM ledger_day_totals
    WHERE account_id = %(account_id)s AND day >= %(first_day)s GROUP BY 1, 2
)
SELECT (SELECT at FROM ledger_entries WHERE account_id = %(account_id)s AND number = 1 AND book = 'customer') AS first_at,
    (SELECT json_agg(json_build_array(month, kind, credits)) FROM of_months) AS months,
    (SELECT json_agg(json_build_array(kind, api_key_id, member, credits, entries)) FROM of_payers) AS payers,
    (SELECT json_agg(json_build_array(k.id, k.name, k.last_four) ORDER BY k.id DESC)
        FROM api_keys k WHERE k.account_id = %(account_id)s) AS keys
