-- work_overview: Read how long the oldest due row of each kind has waited, and how many wait. A meeting in progress
-- is as old as its creation; a cancellation, whose beginning is not kept, by the end of its lease.
SELECT
(SELECT min(due_at) FROM deliveries WHERE due_at IS NOT NULL AND NOT is_throttled) AS deliveries,
    (SELECT min(due_at) FROM provider_events WHERE due_at IS NOT NULL) AS provider_events,
    (SELECT min(due_at) FROM mails WHERE due_at IS NOT NULL) AS mails,
    (SELECT min(created_at) FROM (SELECT created_at, attempts_made FROM mails WHERE due_at IS NOT NULL
        ORDER BY due_at, id LIMIT %(most)s) AS m WHERE attempts_made > 0) AS failing_mails,
    (SELECT min(CASE WHEN status = 'provisioning' THEN created_at ELSE lease_until END) FROM (
        SELECT status, created_at, lease_until FROM meetings WHERE lease_until IS NOT NULL
        ORDER BY lease_until LIMIT 1000) AS m) AS meetings,
    (SELECT count(*) FROM (SELECT FROM deliveries WHERE due_at IS NOT NULL AND NOT is_throttled
        ORDER BY due_at LIMIT %(most)s) AS d) AS pending,
    (SELECT count(*) FROM (SELECT FROM deliveries WHERE status = 'held' ORDER BY held_at
        LIMIT %(most)s) AS d) AS held,
    (SELECT count(*) FROM (SELECT FROM deliveries WHERE is_throttled
        ORDER BY account_id, endpoint_id, due_at LIMIT %(most)s) AS d) AS parked,
    (SELECT max(number) FROM schema_migrations) AS schema_version,
    statement_timestamp() AS now

-- running_over: Count the meetings that are over and that the provider has not been able to end.
SELECT count(*) AS number FROM (SELECT FROM meetings
    WHERE due_at < statement_timestamp() + interval '1 hour'
        AND status IN ('ended', 'cancelled') AND cleared_at IS NULL
        AND end_at < statement_timestamp() - interval '1 minute' LIMIT %(most)s) AS m

-- in_doubt: Count the payments that wait for an operator, by their doubt.
SELECT doubt AS state, count(*) AS number FROM (SELECT doubt FROM payments
    WHERE doubt IS NOT NULL AND doubt_closed_at IS NULL ORDER BY id LIMIT %(most)s) AS p GROUP BY doubt

-- not_removed: Count the deleted recordings whose files the provider keeps.
SELECT count(*) AS number FROM (SELECT status, tries FROM recordings WHERE due_at IS NOT NULL
    ORDER BY due_at LIMIT %(most)s) AS r WHERE status = 'expired' AND tries > {REMOVAL_TRIES}

-- notes: The oldest note in progress of each step: by when it was due, by when it was asked for, and that among
-- those whose last try failed: they are due in the future, each time later.
SELECT step, min(due_at) AS due_at, min(created_at) AS created_at,
    min(created_at) FILTER (WHERE tries > 0) AS failing, statement_timestamp() AS now
FROM (SELECT step, due_at, created_at, tries FROM notes WHERE due_at IS NOT NULL ORDER BY due_at LIMIT %(most)s) AS n
GROUP BY step

-- credits: Sum what the balances of all accounts gained and lost today, by the kind of transfer. A day begins at
-- 00:00 WIB.
SELECT kind AS state, sum(credits)::bigint AS number FROM ledger_day_totals
WHERE day = ((statement_timestamp() AT TIME ZONE 'UTC') + interval '7 hours')::date GROUP BY kind

-- standbys: The standbys that follow: what takes a copy streams, too, and replays nothing. By bytes one that hangs
-- is further and further behind; the lag by time that the server knows ends with what it replayed last.
SELECT pg_has_role('pg_read_all_stats', 'usage') AS is_seen,
    count(*) FILTER (WHERE state = 'streaming' AND replay_lsn IS NOT NULL) AS streaming,
    COALESCE(max(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
            ELSE pg_current_wal_lsn() END,
            replay_lsn)), 0)::float8 AS lag_bytes
FROM pg_stat_replication

-- endpoints: Endpoints that are not active, and all by the server's own statistics.
SELECT state, count(*) AS number FROM (
    SELECT state FROM webhook_endpoints WHERE state <> 'active' ORDER BY state LIMIT %(most)s) AS e GROUP BY state
UNION ALL SELECT 'all', pg_stat_get_live_tuples('webhook_endpoints'::regclass)

-- hosts: Hosts by what they can take now.
SELECT CASE WHEN NOT h.is_active THEN 'disabled' WHEN h.unavailable_until > statement_timestamp() THEN 'unavailable'
    WHEN r.meetings >= h.max_concurrent THEN 'busy' ELSE 'free' END AS state, count(*) AS number
FROM hosts h CROSS JOIN LATERAL (
    SELECT count(*) AS meetings FROM host_reservations r
    WHERE r.host_id = h.id AND r.during @> statement_timestamp()) AS r
GROUP BY 1

-- ledger: Read the result of the last verification of the ledger.
SELECT verified_at, is_sound FROM ledger_verification

-- retention: Read how long the present round of each removal has run.
SELECT kind, started_at, statement_timestamp() AS now FROM retention_progress

-- search: Find the accounts that any part of a search matches, each part by an index of its own. A beginning is a
-- range, which a plan for any parameter can take from an index, as it cannot a pattern. An event is found by the
-- instant of its id.
SELECT {ACCOUNT.select} FROM accounts a WHERE a.id IN (
    (SELECT id FROM accounts
        WHERE lower(email) ~>=~ lower(%(text)s) AND lower(email) ~<~ (lower(%(text)s) || chr(1114111)) LIMIT 1000)
    UNION ALL
    (SELECT id FROM accounts
        WHERE lower(full_name) ~>=~ lower(%(text)s)
            AND lower(full_name) ~<~ (lower(%(text)s) || chr(1114111)) LIMIT 1000)
    UNION ALL
    (SELECT b.account_id FROM users u JOIN memberships b ON b.user_id = u.id WHERE lower(u.email) = lower(%(text)s)
        LIMIT 1000)
    UNION ALL
    (SELECT account_id FROM api_keys WHERE last_four = %(last_four)s LIMIT 1000)
    UNION ALL SELECT account_id FROM api_keys WHERE digest = %(key_digest)s
    UNION ALL SELECT id FROM accounts WHERE id = %(id)s
    UNION ALL SELECT account_id FROM memberships WHERE user_id = %(id)s
    UNION ALL SELECT account_id FROM api_keys WHERE id = %(id)s
    UNION ALL SELECT account_id FROM meetings WHERE id = %(id)s AND status <> 'provisioning'
    UNION ALL SELECT account_id FROM meetings WHERE id = %(id)s AND lease_until IS NOT NULL
    UNION ALL SELECT account_id FROM api_requests WHERE id = %(id)s
    UNION ALL SELECT account_id FROM payments WHERE id = %(id)s
    UNION ALL SELECT account_id FROM payments WHERE reference = %(text)s
    UNION ALL SELECT account_id FROM payments WHERE transaction_id = %(text)s
    UNION ALL SELECT account_id FROM receipts WHERE year = %(receipt_year)s AND number = %(receipt_number)s
    UNION ALL SELECT account_id FROM events
    WHERE created_at >= %(made_from)s AND created_at <= %(made_before)s AND id = %(id)s
)
ORDER BY a.id DESC LIMIT %(limit)s

-- account_page: An account with what belongs to it, as JSON: an account has few members and some keys.
SELECT {ACCOUNT.select},
    (SELECT json_agg(json_build_object('user', row_to_json(u), 'membership', row_to_json(b))
        ORDER BY b.created_at, b.user_id)
        FROM memberships b JOIN users u ON u.id = b.user_id WHERE b.account_id = a.id) AS members,
    (SELECT json_agg(k ORDER BY k.id DESC) FROM (
        SELECT {API_KEY.names} FROM api_keys WHERE account_id = a.id
        ORDER BY revoked_at IS NULL AND (expires_at IS NULL OR expires_at > statement_timestamp()) DESC, id DESC
        LIMIT %(keys)s) AS k) AS keys,
    (SELECT json_agg(e ORDER BY e.number DESC) FROM (
        SELECT w.number, w.at, t.kind, t.reference_id, w.amount, w.balance_after, t.reference_type,
            CASE WHEN t.reference_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN CASE t.reference_type
            WHEN 'meeting' THEN (SELECT title FROM meetings
                WHERE account_id = t.account_id AND id = t.reference_id::uuid)
            WHEN 'note' THEN (SELECT m.title FROM notes n
                JOIN meetings m ON m.account_id = n.account_id AND m.id = n.meeting_id
                WHERE n.account_id = t.account_id AND n.id = t.reference_id::uuid)
            END END AS title
        FROM ledger_entries w JOIN ledger_transfers t ON t.account_id = w.account_id AND t.id = w.transfer_id
        WHERE w.account_id = a.id AND w.book = 'customer' AND w.number > a.entries - %(last)s
            AND w.number <= a.entries) AS e) AS entries,
    (SELECT json_agg(d ORDER BY d.id DESC) FROM (
        SELECT w.id, w.event_id, w.event_kind, w.status, w.created_at, w.attempts_made,
            w.due_at + greatest(p.next_post_at - w.due_at, interval '0') AS next_attempt_at,
            p.url, coalesce(t.status_code, w.success_status_code) AS last_status_code, t.error AS last_error, w.endpoint_id
        FROM (
            WITH RECURSIVE posted_to AS (
                (SELECT endpoint_id FROM deliveries WHERE account_id = a.id ORDER BY endpoint_id LIMIT 1)
                UNION ALL
                SELECT next.endpoint_id FROM posted_to p CROSS JOIN LATERAL (
                    SELECT endpoint_id FROM deliveries WHERE account_id = a.id AND endpoint_id > p.endpoint_id
                    ORDER BY endpoint_id LIMIT 1) AS next
            )
            SELECT d.* FROM posted_to p CROSS JOIN LATERAL (
                SELECT * FROM deliveries WHERE account_id = a.id AND endpoint_id = p.endpoint_id
                ORDER BY id DESC LIMIT %(last)s) AS d
            ORDER BY d.id DESC LIMIT %(last)s) AS w
        LEFT JOIN webhook_endpoints p ON p.account_id = w.account_id AND p.id = w.endpoint_id
        LEFT JOIN delivery_attempts t
            ON t.account_id = w.account_id AND t.delivery_id = w.id
            AND t.number = w.attempts_made) AS d) AS deliveries
FROM accounts a WHERE a.id = %(id)s

-- doubts: Meetings in progress, removals that failed, and recordings whose files the provider keeps, the longest
-- first. Of the first there are as many as are being made or cancelled now, of the second a check is open for the
-- minutes after a creation; a recording is due while there is work on it.
SELECT (SELECT json_agg(d ORDER BY d.lease_until) FROM (
    SELECT m.account_id, a.full_name AS account_name, m.id, m.title, m.status, m.credits, m.created_at, m.start_at,
        m.provider, m.provider_meeting_id, m.lease_until, m.idempotency_key IS NOT NULL AS can_deliver
    FROM meetings m JOIN accounts a ON a.id = m.account_id
    WHERE m.lease_until IS NOT NULL AND (m.status <> 'provisioning' OR m.created_at < %(made_before)s)
    ORDER BY m.lease_until LIMIT %(limit)s) AS d) AS meetings,
    (SELECT json_agg(d ORDER BY d.since) FROM (
        SELECT c.account_id, a.full_name AS account_name, c.meeting_id, m.title, m.start_at, m.provider, c.failures,
            c.since, c.due_at
        FROM orphan_checks c JOIN meetings m ON m.account_id = c.account_id AND m.id = c.meeting_id
        JOIN accounts a ON a.id = c.account_id
        WHERE c.failures > 0 ORDER BY c.due_at LIMIT %(limit)s) AS d) AS removals,
    (SELECT json_agg(d ORDER BY d.due_at) FROM (
        SELECT r.account_id, a.full_name AS account_name, r.id, r.meeting_id, r.recorded_at, r.provider,
            r.provider_meeting_id, r.tries, r.due_at
        FROM recordings r JOIN accounts a ON a.id = r.account_id
        WHERE r.due_at IS NOT NULL AND r.status = 'expired' AND r.tries > {REMOVAL_TRIES}
        ORDER BY r.due_at LIMIT %(limit)s) AS d) AS recordings

-- liability: Sum the balances of all accounts, and the totals of the ledger by month. A row of totals is of an
-- account, a day and a kind; summed by day first, they are brought to months but once a day.
SELECT count(*) AS accounts, COALESCE(sum(balance), 0)::bigint AS balance, COALESCE(sum(held), 0)::bigint AS held,
    COALESCE(-sum(balance) FILTER (WHERE balance < 0), 0)::bigint AS debt,
    (SELECT json_agg(m) FROM (
        SELECT date_trunc('month', day)::date AS month, kind, sum(credits)::bigint AS credits,
            sum(entries)::bigint AS entries
        FROM (SELECT day, kind, sum(credits) AS credits, sum(entries) AS entries FROM ledger_day_totals
            GROUP BY day, kind) AS d
        GROUP BY 1, 2 ORDER BY 1, 2) AS m) AS months
FROM accounts

-- bookings: List the reservations of each host in a range of time. A host has few meetings in a week; the index of
-- the constraint that keeps two meetings from overlapping finds them.
SELECT r.host_id, r.account_id, (SELECT full_name FROM accounts WHERE id = r.account_id) AS account_name,
    r.meeting_id,
    (SELECT title FROM meetings WHERE account_id = r.account_id AND id = r.meeting_id) AS title,
    lower(r.during) AS starts_at, upper(r.during) AS ends_at
FROM hosts h CROSS JOIN LATERAL (
    SELECT * FROM host_reservations w
    WHERE w.host_id = h.id AND w.during && tstzrange(%(begins_at)s, %(ends_at)s) LIMIT {MAX_PAGE}
) AS r
ORDER BY lower(r.during), r.meeting_id LIMIT %(limit)s

-- proposals: Proposals that can be decided, the first to expire first.
SELECT {PROPOSAL.select}, (SELECT full_name FROM accounts WHERE id = p.account_id) AS account_name
FROM credit_proposals p
WHERE p.is_approved IS NULL AND NOT p.is_replaced AND p.expires_at > %(now)s ORDER BY p.expires_at LIMIT %(limit)s

-- queues: Read every queue, the database's time, its schema, and its oldest transaction of those that the role may
-- see.
SELECT clock_timestamp() AS now, (SELECT max(number) FROM schema_migrations) AS schema,
    (SELECT min(xact_start) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid())
    AS oldest_transaction_at,
    (SELECT json_agg(q) FROM (
        SELECT 'deliveries' AS name, count(*) AS due, min(at) AS oldest_due_at FROM (
            SELECT due_at AS at FROM deliveries WHERE due_at <= statement_timestamp() AND NOT is_throttled
            ORDER BY due_at LIMIT 1001) AS w UNION ALL
        SELECT 'mails' AS name, count(*) AS due, min(at) AS oldest_due_at FROM (
            SELECT due_at AS at FROM mails WHERE due_at <= statement_timestamp() AND true
            ORDER BY due_at LIMIT 1001) AS w UNION ALL
        SELECT 'notes' AS name, count(*) AS due, min(at) AS oldest_due_at FROM (
            SELECT due_at AS at FROM notes WHERE due_at <= statement_timestamp() AND true
            ORDER BY due_at LIMIT 1001) AS w UNION ALL
        SELECT 'recordings' AS name, count(*) AS due, min(at) AS oldest_due_at FROM (
            SELECT due_at AS at FROM recordings WHERE due_at <= statement_timestamp() AND true
            ORDER BY due_at LIMIT 1001) AS w UNION ALL
        SELECT 'provider_events' AS name, count(*) AS due, min(at) AS oldest_due_at FROM (
            SELECT due_at AS at FROM provider_events WHERE due_at <= statement_timestamp() AND true
            ORDER BY due_at LIMIT 1001) AS w UNION ALL
        SELECT 'meetings' AS name, count(*) AS due, min(at) AS oldest_due_at FROM (
            SELECT lease_until AS at FROM meetings WHERE lease_until <= statement_timestamp() AND true
            ORDER BY lease_until LIMIT 1001) AS w UNION ALL
        SELECT 'removals' AS name, count(*) AS due, min(at) AS oldest_due_at FROM (
            SELECT due_at AS at FROM orphan_checks WHERE due_at <= statement_timestamp() AND true
            ORDER BY due_at LIMIT 1001) AS w) AS q) AS queues
