-- lock_endpoints: Lock the endpoints of the longest due deliveries, in any state, with their hosts, and returns
-- them as one text, how many deliveries those are, and the ids between which they and their events lie. There is no aggregate of ids before PostgreSQL 18;
-- their texts are in the order of the ids.
WITH waiting AS (
    SELECT account_id, id, endpoint_id, event_id FROM deliveries
    WHERE NOT is_throttled AND due_at <= statement_timestamp() ORDER BY due_at LIMIT %(window)s
), locked_endpoint AS MATERIALIZED (
    SELECT w.account_id, w.id, w.state, w.host, w.consecutive_failures > 0 AS is_failing,
        coalesce(w.next_post_at > statement_timestamp(), false) AS is_waiting
    FROM webhook_endpoints w JOIN webhook_hosts h USING (host)
    WHERE (w.account_id, w.id) IN (SELECT account_id, endpoint_id FROM waiting)
    FOR NO KEY UPDATE OF w, h SKIP LOCKED
)
SELECT count(*) AS waiting, min(id::text COLLATE "C")::uuid AS oldest, max(id::text COLLATE "C")::uuid AS newest,
    min(event_id::text COLLATE "C")::uuid AS oldest_event, max(event_id::text COLLATE "C")::uuid AS newest_event,
    (SELECT json_agg(locked_endpoint)::text FROM locked_endpoint) AS endpoints, statement_timestamp() AS now
FROM waiting

-- count_in_flight: Count the posts in flight of the accounts and at the hosts of the locked endpoints, with a
-- snapshot taken under the locks.
WITH endpoint AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(endpoints)s::json) AS e (account_id uuid, host text)
), in_flight AS (
    SELECT account_id, endpoint_id, lease_host AS host, count(*) AS posts FROM deliveries
    WHERE lease_token IS NOT NULL AND due_at > statement_timestamp()
        AND (account_id IN (SELECT account_id FROM endpoint) OR lease_host IN (SELECT host FROM endpoint))
    GROUP BY account_id, endpoint_id, lease_host
)
SELECT coalesce(json_agg(in_flight)::text, '[]') AS in_flight FROM in_flight

-- claim: Take what has room at its endpoint and in its account, the account with the least in flight first. An
-- endpoint that fails has less room, and none until its next post, until one there succeeds; a delivery whose last claim there ended without a
-- record lets the others go first, for the time of a lease: it would take the only place again and again. What has
-- no room at its endpoint is throttled until a post there is recorded; what its account has no room for comes back
-- in a second; what its host has no room for when its turn would come at the pace of the host, so that it is looked
-- at fifty times a second and no more, however much waits there. Among those that wait for a host the account with
-- the least in flight is first, and half of the posts to a host are the most that one has. What is due at an
-- inactive endpoint is held. Claimed rows are not due until their lease ends. All of it is one UPDATE: each mention
-- of a partitioned table is planned for each of its partitions.
WITH endpoint AS MATERIALIZED (
    SELECT *, CASE WHEN is_waiting THEN 0 WHEN is_failing THEN least(%(per_failing)s, %(per_endpoint)s)
        ELSE %(per_endpoint)s END AS room
    FROM json_to_recordset(%(endpoints)s::json)
        AS e (account_id uuid, id uuid, state text, host text, is_failing boolean, is_waiting boolean)
), in_flight AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(in_flight)s::json) AS f (account_id uuid, endpoint_id uuid, host text,
            posts int)
), at_endpoint AS (
    SELECT account_id, endpoint_id, sum(posts) AS posts FROM in_flight GROUP BY account_id, endpoint_id
), of_account AS (
    SELECT account_id, sum(posts) AS posts FROM in_flight GROUP BY account_id
), of_account_at_host AS (
    SELECT host, account_id, sum(posts) AS posts FROM in_flight GROUP BY host, account_id
), at_host AS (
    SELECT host, sum(posts) AS posts FROM in_flight GROUP BY host
), room AS MATERIALIZED (
    SELECT h.host, least(%(per_host)s - coalesce(at_host.posts, 0), %(per_host_per_s)s - (
        SELECT count(*) FROM unnest(h.claimed_at) AS taken (at)
        WHERE taken.at > statement_timestamp() - interval '1 second')) AS free
    FROM webhook_hosts h LEFT JOIN at_host USING (host) WHERE h.host IN (SELECT host FROM endpoint)
), due AS MATERIALIZED (
    SELECT account_id, id, endpoint_id, due_at, lease_token IS NOT NULL AS had_lease FROM deliveries
    WHERE NOT is_throttled AND due_at <= statement_timestamp()
        AND id BETWEEN %(oldest)s AND %(newest)s AND event_id BETWEEN %(oldest_event)s AND %(newest_event)s
    ORDER BY due_at LIMIT %(window)s
), waiting AS MATERIALIZED (
    SELECT due.*, endpoint.state, endpoint.host, endpoint.room, endpoint.is_failing AND due.had_lease AS yields,
        coalesce(at_endpoint.posts, 0) + row_number() OVER (
            PARTITION BY due.account_id, due.endpoint_id, endpoint.is_failing AND due.had_lease
            ORDER BY due.due_at, due.id) AS number
    FROM due JOIN endpoint ON endpoint.account_id = due.account_id AND endpoint.id = due.endpoint_id
    LEFT JOIN at_endpoint ON at_endpoint.account_id = due.account_id AND at_endpoint.endpoint_id = due.endpoint_id
), with_room AS MATERIALIZED (
    SELECT waiting.*, coalesce(of_account.posts, 0) + row_number() OVER (
        PARTITION BY waiting.account_id ORDER BY waiting.due_at, waiting.id) AS turn
    FROM waiting LEFT JOIN of_account USING (account_id)
    WHERE waiting.state = 'active' AND NOT waiting.yields AND waiting.number <= waiting.room
), shared AS (
    SELECT with_room.*, coalesce(of_account_at_host.posts, 0) + row_number() OVER (
        PARTITION BY with_room.host, with_room.account_id
        ORDER BY with_room.turn) - %(per_host_of_account)s AS over_share
    FROM with_room LEFT JOIN of_account_at_host USING (host, account_id) WHERE with_room.turn <= %(per_account)s
), queued AS MATERIALIZED (
    SELECT shared.*, row_number() OVER (
        PARTITION BY shared.host, shared.over_share > 0 ORDER BY shared.turn, shared.due_at, shared.id
    ) - room.free AS over_room
    FROM shared JOIN room USING (host)
), chosen AS MATERIALIZED (
    SELECT account_id, endpoint_id, id, due_at, host, had_lease FROM queued WHERE over_share <= 0 AND over_room <= 0
    ORDER BY turn, due_at, id LIMIT %(total)s
), paced AS (
    UPDATE webhook_hosts h SET claimed_at = array_cat(
        ARRAY(SELECT taken.at FROM unnest(h.claimed_at) AS taken (at)
            WHERE taken.at > statement_timestamp() - interval '1 second'),
        array_fill(statement_timestamp(), ARRAY[taken.posts]))
    FROM (SELECT host, count(*)::int AS posts FROM chosen GROUP BY host) AS taken WHERE h.host = taken.host
), moved AS (
    SELECT account_id, endpoint_id, id, 'held' AS move, NULL::timestamptz AS due_at, NULL AS host, had_lease,
        due_at AS was_due_at
    FROM waiting WHERE state <> 'active'
    UNION ALL
    SELECT account_id, endpoint_id, id, 'throttled', due_at, NULL, had_lease, due_at
    FROM waiting WHERE state = 'active' AND NOT yields AND number > room
    UNION ALL
    SELECT account_id, endpoint_id, id, 'postponed', statement_timestamp() + %(lease_s)s * interval '1 second', NULL,
        had_lease, due_at
    FROM waiting WHERE state = 'active' AND yields
    UNION ALL
    SELECT account_id, endpoint_id, id, 'postponed', statement_timestamp() + interval '1 second', NULL, had_lease, due_at
    FROM with_room WHERE turn > %(per_account)s
    UNION ALL
    SELECT account_id, endpoint_id, id, 'postponed', statement_timestamp()
        + greatest(over_share, over_room) * interval '1 second' / %(per_host_per_s)s, NULL, had_lease, due_at
    FROM queued WHERE over_share > 0 OR over_room > 0
    UNION ALL
    SELECT account_id, endpoint_id, id, 'claimed', statement_timestamp() + %(lease_s)s * interval '1 second', host,
        had_lease, due_at
    FROM chosen
), changed AS (
    UPDATE deliveries d SET
        status = CASE m.move WHEN 'held' THEN 'held' ELSE d.status END,
        held_at = CASE m.move WHEN 'held' THEN clock_timestamp() END,
        is_throttled = m.move = 'throttled',
        due_at = m.due_at,
        lease_token = CASE m.move WHEN 'claimed' THEN %(token)s::uuid END,
        lease_host = m.host
    FROM moved m
    WHERE d.account_id = m.account_id AND d.endpoint_id = m.endpoint_id AND d.id = m.id AND d.due_at IS NOT NULL
        AND d.id BETWEEN %(oldest)s AND %(newest)s
    RETURNING d.account_id, d.id, d.endpoint_id, d.event_id, d.event_kind, m.move, m.was_due_at, m.had_lease
)
SELECT c.account_id, c.id AS delivery_id, c.endpoint_id, c.event_id, c.event_kind, w.url, w.secret, e.payload,
    e.cause, c.had_lease,
    CASE WHEN w.previous_secret_until > statement_timestamp() THEN w.previous_secret END AS previous_secret
FROM changed c
JOIN webhook_endpoints w ON w.account_id = c.account_id AND w.id = c.endpoint_id
LEFT JOIN events e ON e.account_id = c.account_id AND e.id = c.event_id AND e.id >= %(events_since)s
    AND e.id BETWEEN %(oldest_event)s AND %(newest_event)s
WHERE c.move = 'claimed'
ORDER BY c.was_due_at, c.id

-- give_up: Fail claimed deliveries whose events are past their retention.
UPDATE deliveries d SET status = 'failed', due_at = NULL, failed_at = clock_timestamp(), lease_token = NULL,
    lease_host = NULL
FROM unnest(%(account_ids)s::uuid[], %(endpoint_ids)s::uuid[], %(ids)s::uuid[]) AS purged (account_id, endpoint_id, id)
WHERE d.account_id = purged.account_id AND d.endpoint_id = purged.endpoint_id AND d.id = purged.id
    AND d.due_at IS NOT NULL

-- lock_endpoints_of_attempts: Endpoints with the failures at their hosts, all locked: the hosts first, then the endpoints, each
-- in one order, so that no two batches wait for each other crosswise. A host that fails changes endpoints that are
-- not in the batch: no other transaction records an attempt at them meanwhile. OFFSET keeps the planner, which
-- takes ids of a text for few, from joining by account alone.
WITH posted_to AS MATERIALIZED (
    SELECT p.account_id, p.id, w.host
    FROM json_to_recordset(%(endpoints)s::json) AS p (account_id uuid, id uuid)
    CROSS JOIN LATERAL (
        SELECT w.host FROM webhook_endpoints w WHERE w.account_id = p.account_id AND w.id = p.id OFFSET 0) AS w
), host AS MATERIALIZED (
    SELECT h.account_id, h.host, h.consecutive_failures, h.failing_since
    FROM (SELECT DISTINCT account_id, host FROM posted_to) AS p JOIN webhook_account_hosts h USING (account_id, host)
    ORDER BY h.account_id, h.host FOR NO KEY UPDATE OF h
)
SELECT {ENDPOINT_WITHOUT_SECRETS.select}, p.failures AS host_failures, p.failing_since
FROM (
    SELECT p.account_id, p.id, p.host, host.consecutive_failures AS failures, host.failing_since
    FROM posted_to p JOIN host USING (account_id, host) OFFSET 0) AS p
JOIN webhook_endpoints w ON w.account_id = p.account_id AND w.id = p.id AND w.host = p.host
ORDER BY w.account_id, w.id FOR NO KEY UPDATE OF w

-- find_claimed: Deliveries that are still claimed with their tokens. Its snapshot is taken under the locks of their
-- endpoints, which a claim and a change of an endpoint take, too: no claim can end from here on, and no lock of a
-- row is needed.
SELECT d.*, c.token, clock_timestamp() AS now
FROM json_to_recordset(%(claimed)s::json) AS c (account_id uuid, endpoint_id uuid, id uuid, token uuid)
CROSS JOIN LATERAL (
    SELECT {DELIVERY.select} FROM deliveries d
    WHERE d.account_id = c.account_id AND d.endpoint_id = c.endpoint_id AND d.id = c.id AND d.lease_token = c.token
    OFFSET 0) AS d

-- put_off: End claims without an attempt. The pauses differ, so that what failed together does not come back together.
UPDATE deliveries d
SET due_at = statement_timestamp() + %(seconds)s * (1 + random() / 2) * interval '1 second', lease_token = NULL,
    lease_host = NULL
FROM json_to_recordset(%(claimed)s::json) AS c (account_id uuid, endpoint_id uuid, id uuid, token uuid)
WHERE d.account_id = c.account_id AND d.endpoint_id = c.endpoint_id AND d.id = c.id AND d.lease_token = c.token
    AND d.due_at IS NOT NULL

-- save_deliveries: Record attempts and what became of their deliveries. A delivery may be erased meanwhile: then
-- it has no attempt, either.
WITH changed AS (
    UPDATE deliveries d SET status = made.status, attempts_made = made.number, due_at = made.due_at,
        held_at = made.held_at, failed_at = made.failed_at, lease_token = NULL, lease_host = NULL,
        success_at = made.success_at, success_duration_ms = made.success_duration_ms,
        success_status_code = made.success_status_code, success_response_excerpt = made.success_response_excerpt,
        success_address = made.success_address
    FROM json_to_recordset(%(made)s::json) AS made (account_id uuid, endpoint_id uuid, delivery_id uuid, status text,
            number int, due_at timestamptz, held_at timestamptz, failed_at timestamptz, success_at timestamptz,
            success_duration_ms int, success_status_code int, success_response_excerpt text, success_address text)
    WHERE d.account_id = made.account_id AND d.endpoint_id = made.endpoint_id AND d.id = made.delivery_id
    RETURNING d.account_id, d.id
)
INSERT INTO delivery_attempts
SELECT failed.* FROM json_populate_recordset(NULL::delivery_attempts, %(failed)s::json) AS failed
JOIN changed ON changed.account_id = failed.account_id AND changed.id = failed.delivery_id
ON CONFLICT DO NOTHING

-- save_endpoints: Save the effect of attempts on their endpoints and hosts. At one that is inactive now all that
-- waits is held, but for the posts in flight, which are judged when they end. At an active one as many of the
-- throttled are released as posts were recorded, or more where it has recovered, the longest due first; none while it
-- waits for its next post. Returns how many may be claimed at once.
WITH seen AS (
    SELECT * FROM jsonb_to_recordset(%(seen)s::jsonb)
        AS s (account_id uuid, id uuid, state text, failures int, disabled_at timestamptz, released int,
            next_post_at timestamptz)
), inactive AS (
    SELECT account_id, id AS endpoint_id FROM seen WHERE state <> 'active'
), endpoint AS (
    UPDATE webhook_endpoints w
    SET state = seen.state, consecutive_failures = seen.failures, disabled_at = seen.disabled_at,
        next_post_at = seen.next_post_at
    FROM seen WHERE w.account_id = seen.account_id AND w.id = seen.id
        AND (w.state, w.consecutive_failures, w.next_post_at)
            IS DISTINCT FROM (seen.state, seen.failures, seen.next_post_at)
), host AS (
    UPDATE webhook_account_hosts h SET consecutive_failures = s.failures, failing_since = s.failing_since
    FROM jsonb_to_recordset(%(hosts)s::jsonb)
        AS s (account_id uuid, host text, failures int, failing_since timestamptz)
    WHERE h.account_id = s.account_id AND h.host = s.host
        AND (h.consecutive_failures, h.failing_since) IS DISTINCT FROM (s.failures, s.failing_since)
), waiting AS MATERIALIZED (
    SELECT p.* FROM inactive AS e CROSS JOIN LATERAL (
        SELECT account_id, endpoint_id, id FROM deliveries
        WHERE account_id = e.account_id AND endpoint_id = e.endpoint_id AND status = 'pending'
            AND (lease_token IS NULL OR due_at <= statement_timestamp())
        OFFSET 0) AS p
), held AS (
    UPDATE deliveries d SET status = 'held', held_at = clock_timestamp(), due_at = NULL, is_throttled = false,
        lease_token = NULL
    FROM waiting
    WHERE d.account_id = waiting.account_id AND d.endpoint_id = waiting.endpoint_id AND d.id = waiting.id
        AND d.due_at IS NOT NULL AND (d.lease_token IS NULL OR d.due_at <= statement_timestamp())
), following AS MATERIALIZED (
    SELECT seen.account_id, seen.id AS endpoint_id, throttled.id FROM seen CROSS JOIN LATERAL (
        SELECT p.id FROM deliveries p
        WHERE p.account_id = seen.account_id AND p.endpoint_id = seen.id AND p.is_throttled
        ORDER BY p.due_at LIMIT seen.released) AS throttled
    WHERE seen.state = 'active' AND (seen.next_post_at IS NULL OR seen.next_post_at <= statement_timestamp())
), released AS (
    UPDATE deliveries d SET is_throttled = false FROM following f
    WHERE d.account_id = f.account_id AND d.endpoint_id = f.endpoint_id AND d.id = f.id
    RETURNING 1
)
SELECT (SELECT count(*) FROM released) AS due

-- disable_at_hosts: Disable what fails at hosts that have failed too often in a row, and holds what waits there;
-- returns which endpoints those are. The endpoints of the batch have been saved before.
WITH failing AS (
    SELECT * FROM jsonb_to_recordset(%(hosts)s::jsonb) AS f (account_id uuid, host text)
), disabled AS (
    UPDATE webhook_endpoints w
    SET state = %(disabled)s, consecutive_failures = %(failures)s, disabled_at = clock_timestamp(), next_post_at = NULL
    FROM failing WHERE w.account_id = failing.account_id AND w.host = failing.host
        AND w.state = %(active)s AND w.consecutive_failures > 0
    RETURNING {ENDPOINT_WITHOUT_SECRETS.select}
), waiting AS MATERIALIZED (
    SELECT p.* FROM disabled AS e CROSS JOIN LATERAL (
        SELECT account_id, endpoint_id, id FROM deliveries
        WHERE account_id = e.account_id AND endpoint_id = e.endpoint_id AND status = 'pending'
            AND (lease_token IS NULL OR due_at <= statement_timestamp())
        OFFSET 0) AS p
), held AS (
    UPDATE deliveries d SET status = 'held', held_at = clock_timestamp(), due_at = NULL, is_throttled = false,
        lease_token = NULL
    FROM waiting
    WHERE d.account_id = waiting.account_id AND d.endpoint_id = waiting.endpoint_id AND d.id = waiting.id
        AND d.due_at IS NOT NULL AND (d.lease_token IS NULL OR d.due_at <= statement_timestamp())
)
SELECT * FROM disabled

-- release_one: Release the first portion at one endpoint, if anything is held there.
WITH at AS (
    SELECT account_id, endpoint_id FROM deliveries
    WHERE account_id = %(account_id)s AND endpoint_id = %(id)s AND status = 'held' LIMIT 1
), free AS (
    SELECT account_id, id FROM webhook_endpoints
    WHERE (account_id, id) IN (SELECT account_id, endpoint_id FROM at) AND state = 'active'
        AND (released_until IS NULL OR released_until <= statement_timestamp())
    FOR NO KEY UPDATE SKIP LOCKED
), reactivated AS (
    UPDATE webhook_endpoints w
    SET released_until = statement_timestamp() + %(portion)s * %(every_s)s * interval '1 second'
    FROM free WHERE w.account_id = free.account_id AND w.id = free.id
    RETURNING w.account_id, w.id
), following AS MATERIALIZED (
    SELECT r.account_id, r.id AS endpoint_id, held.id, held.number FROM reactivated r CROSS JOIN LATERAL (
        SELECT p.id, row_number() OVER (ORDER BY p.id) AS number FROM deliveries p
        WHERE p.account_id = r.account_id AND p.endpoint_id = r.id AND p.status = 'held'
        ORDER BY p.id LIMIT %(portion)s) AS held
), released AS (
    UPDATE deliveries d SET status = 'pending', held_at = NULL,
        due_at = statement_timestamp() + (f.number - 1) * %(every_s)s * interval '1 second'
    FROM following f
    WHERE d.account_id = f.account_id AND d.endpoint_id = f.endpoint_id AND d.id = f.id AND d.held_at IS NOT NULL
    RETURNING 1
)
SELECT count(*) AS due FROM released

-- recover: Hold what failed or expired at an endpoint since an instant, for release; what failed first before the
-- rest. The bound of rows keeps the lock of the endpoint short. They do not wait for the endpoint.
WITH endpoint AS (
    UPDATE webhook_endpoints SET next_post_at = NULL
    WHERE account_id = %(account_id)s AND id = %(id)s AND next_post_at IS NOT NULL
), failed AS MATERIALIZED (
    SELECT f.id FROM deliveries f
    WHERE f.account_id = %(account_id)s AND f.endpoint_id = %(id)s AND f.failed_at >= %(since)s
        AND f.status IN ('failed', 'expired') AND f.attempts_made < {MAX_ATTEMPTS_RECOVERED}
        AND EXISTS (SELECT FROM events e WHERE e.account_id = f.account_id AND e.id = f.event_id)
    ORDER BY f.failed_at LIMIT %(most)s FOR NO KEY UPDATE OF f SKIP LOCKED
)
UPDATE deliveries d SET status = 'held', held_at = clock_timestamp(), failed_at = NULL,
    attempts_before_recovery = d.attempts_made
FROM failed WHERE d.account_id = %(account_id)s AND d.endpoint_id = %(id)s AND d.id = failed.id

-- expire: Give up what was held for too long.
UPDATE deliveries d SET status = 'expired', held_at = NULL, failed_at = clock_timestamp()
FROM (
    SELECT account_id, endpoint_id, id FROM deliveries
    WHERE status = 'held' AND held_at <= statement_timestamp() - %(held_s)s * interval '1 second'
    ORDER BY held_at LIMIT %(portion)s FOR UPDATE SKIP LOCKED
) AS old
WHERE d.account_id = old.account_id AND d.endpoint_id = old.endpoint_id AND d.id = old.id
RETURNING d.account_id, d.id AS delivery_id, d.endpoint_id, d.event_id

-- release_all: Release the next portion at every active endpoint that anything is held at, found by a loose scan
-- of the index: deliveries left of a reactivation, and those that a race between an event and a change of its endpoint set
-- aside.
WITH RECURSIVE at AS (
    (SELECT account_id, endpoint_id FROM deliveries WHERE status = 'held'
        ORDER BY account_id, endpoint_id LIMIT 1)
    UNION ALL
    SELECT next.account_id, next.endpoint_id FROM at CROSS JOIN LATERAL (
        SELECT account_id, endpoint_id FROM deliveries
        WHERE status = 'held' AND (account_id, endpoint_id) > (at.account_id, at.endpoint_id)
        ORDER BY account_id, endpoint_id LIMIT 1) AS next
), free AS (
    SELECT account_id, id FROM webhook_endpoints
    WHERE (account_id, id) IN (SELECT account_id, endpoint_id FROM at) AND state = 'active'
        AND (released_until IS NULL OR released_until <= statement_timestamp())
    FOR NO KEY UPDATE SKIP LOCKED
), reactivated AS (
    UPDATE webhook_endpoints w
    SET released_until = statement_timestamp() + %(portion)s * %(every_s)s * interval '1 second'
    FROM free WHERE w.account_id = free.account_id AND w.id = free.id
    RETURNING w.account_id, w.id
), following AS MATERIALIZED (
    SELECT r.account_id, r.id AS endpoint_id, held.id, held.number FROM reactivated r CROSS JOIN LATERAL (
        SELECT p.id, row_number() OVER (ORDER BY p.id) AS number FROM deliveries p
        WHERE p.account_id = r.account_id AND p.endpoint_id = r.id AND p.status = 'held'
        ORDER BY p.id LIMIT %(portion)s) AS held
), released AS (
    UPDATE deliveries d SET status = 'pending', held_at = NULL,
        due_at = statement_timestamp() + (f.number - 1) * %(every_s)s * interval '1 second'
    FROM following f
    WHERE d.account_id = f.account_id AND d.endpoint_id = f.endpoint_id AND d.id = f.id AND d.held_at IS NOT NULL
    RETURNING 1
)
SELECT count(*) AS due FROM released

-- release_throttled: Each endpoint that anything is throttled at, by a loose scan. Where no post is in flight any
-- more, the next come out: the process that throttled them crashed, or the endpoint has been idle since, or has waited
-- for its next post.
WITH RECURSIVE throttled_at AS (
    (SELECT account_id, endpoint_id FROM deliveries WHERE is_throttled ORDER BY account_id, endpoint_id LIMIT 1)
    UNION ALL
    SELECT next.account_id, next.endpoint_id FROM throttled_at CROSS JOIN LATERAL (
        SELECT account_id, endpoint_id FROM deliveries
        WHERE is_throttled AND (account_id, endpoint_id) > (throttled_at.account_id, throttled_at.endpoint_id)
        ORDER BY account_id, endpoint_id LIMIT 1) AS next
), following AS MATERIALIZED (
    SELECT t.*, throttled.id FROM throttled_at t CROSS JOIN LATERAL (
        SELECT p.id FROM deliveries p
        WHERE p.account_id = t.account_id AND p.endpoint_id = t.endpoint_id AND p.is_throttled
        ORDER BY p.due_at LIMIT 1) AS throttled
    WHERE NOT EXISTS (
        SELECT FROM deliveries b
        WHERE b.account_id = t.account_id AND b.endpoint_id = t.endpoint_id AND b.lease_token IS NOT NULL
            AND b.due_at > statement_timestamp())
        AND NOT EXISTS (
            SELECT FROM webhook_endpoints w
            WHERE w.account_id = t.account_id AND w.id = t.endpoint_id AND w.next_post_at > statement_timestamp())
), released AS (
    UPDATE deliveries d SET is_throttled = false FROM following f
    WHERE d.account_id = f.account_id AND d.endpoint_id = f.endpoint_id AND d.id = f.id AND d.is_throttled
    RETURNING 1
)
SELECT count(*) AS due FROM released

-- drop_orphans: Drop what waits for an endpoint that is no more: written while it was being removed.
DELETE FROM deliveries d
    USING (
        SELECT account_id, endpoint_id, id FROM deliveries
        WHERE NOT is_throttled AND due_at <= statement_timestamp() - interval '5 seconds'
        ORDER BY due_at LIMIT %(portion)s FOR UPDATE SKIP LOCKED
    ) AS old
WHERE d.account_id = old.account_id AND d.endpoint_id = old.endpoint_id AND d.id = old.id
    AND NOT EXISTS (SELECT FROM webhook_endpoints w WHERE w.account_id = d.account_id AND w.id = d.endpoint_id)
