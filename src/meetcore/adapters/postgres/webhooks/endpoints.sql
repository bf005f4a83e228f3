-- find_by_url: The endpoint registered under a normalised URL.
SELECT {ENDPOINT.select} FROM webhook_endpoints w WHERE w.account_id = %(account_id)s AND w.url_key = %(url_key)s

-- count_endpoints: Count an account's endpoints.
SELECT count(*) AS endpoints FROM webhook_endpoints WHERE account_id = %(account_id)s

-- list_disabled: Endpoints of all accounts that failures disabled since an instant.
SELECT {ENDPOINT_WITHOUT_SECRETS.select} FROM webhook_endpoints w
WHERE w.state <> 'active' AND w.disabled_at >= %(since)s ORDER BY w.disabled_at, w.id

-- add_endpoint: Register an endpoint. The unique key on the URL is the last word on "once per account". The rows
-- of its host are locked where they are there, so that they do not go meanwhile.
WITH host AS (
    INSERT INTO webhook_hosts (host) VALUES (%(host)s)
    ON CONFLICT (host) DO UPDATE SET claimed_at = webhook_hosts.claimed_at
), account_host AS (
    INSERT INTO webhook_account_hosts (account_id, host) VALUES (%(account_id)s, %(host)s)
    ON CONFLICT (account_id, host) DO UPDATE SET consecutive_failures = webhook_account_hosts.consecutive_failures
)
INSERT INTO webhook_endpoints ({ENDPOINT.names})
VALUES ({ENDPOINT.values})

-- load_endpoint: An endpoint, locked against deliveries that record their outcome.
SELECT {ENDPOINT.select} FROM webhook_endpoints w
WHERE w.account_id = %(account_id)s AND w.id = %(id)s FOR NO KEY UPDATE

-- save_endpoint: Write an endpoint. A secret that does not open stays as it is until it is rotated, the previous one
-- until its end.
UPDATE webhook_endpoints SET description = %(endpoint_description)s, event_types = %(endpoint_event_types)s,
    state = %(endpoint_state)s, consecutive_failures = %(endpoint_consecutive_failures)s,
    disabled_at = %(endpoint_disabled_at)s, secret = COALESCE(%(endpoint_secret)s, secret),
    previous_secret = CASE WHEN %(endpoint_previous_secret_until)s::timestamptz IS NOT NULL
    THEN COALESCE(%(endpoint_previous_secret)s, previous_secret) END,
    previous_secret_until = %(endpoint_previous_secret_until)s, next_post_at = %(endpoint_next_post_at)s
WHERE account_id = %(account_id)s AND id = %(endpoint_id)s

-- hold_waiting: Hold what waits at an endpoint that is inactive now, the throttled too; a post in flight keeps its claim,
-- is judged when it ends and still counts as in flight if the endpoint is active again by then.
UPDATE deliveries
SET status = 'held', held_at = clock_timestamp(), due_at = NULL, is_throttled = false, lease_token = NULL
WHERE account_id = %(account_id)s AND endpoint_id = %(id)s AND status = 'pending'
    AND (lease_token IS NULL OR due_at <= statement_timestamp())

-- lock_endpoint: Wait for transactions that write or record a delivery to the endpoint: their rows are seen by the
-- statements that follow, and would not be by this one. Its account's row of the host is locked first, as by those
-- who record.
WITH account_host AS MATERIALIZED (
    SELECT h.account_id, h.host FROM webhook_account_hosts h
    WHERE (h.account_id, h.host) IN (
        SELECT account_id, host FROM webhook_endpoints WHERE account_id = %(account_id)s AND id = %(id)s)
    FOR UPDATE
)
SELECT w.host FROM account_host JOIN webhook_endpoints w USING (account_id, host)
WHERE w.account_id = %(account_id)s AND w.id = %(id)s FOR UPDATE OF w

-- remove_endpoint: Forget an endpoint, and its deliveries that wait with what was tried of them.
WITH waiting AS (
    DELETE FROM deliveries
    WHERE account_id = %(account_id)s AND endpoint_id = %(id)s AND status IN ('pending', 'held')
    RETURNING id
), attempt AS (
    DELETE FROM delivery_attempts a USING waiting WHERE a.account_id = %(account_id)s AND a.delivery_id = waiting.id
)
DELETE FROM webhook_endpoints WHERE account_id = %(account_id)s AND id = %(id)s

-- lock_host: Wait for other accounts that register at the host: the next statement sees what they wrote.
SELECT host FROM webhook_hosts WHERE host = %(host)s FOR UPDATE

-- delete_host: Forget a host with the account's last endpoint there, and altogether with the last of all accounts.
WITH account_host AS (
    DELETE FROM webhook_account_hosts h WHERE h.account_id = %(account_id)s AND h.host = %(host)s
        AND NOT EXISTS (SELECT FROM webhook_endpoints w WHERE w.account_id = h.account_id AND w.host = h.host)
    RETURNING h.host
)
DELETE FROM webhook_hosts h USING account_host
WHERE h.host = account_host.host AND NOT EXISTS (
    SELECT FROM webhook_account_hosts a WHERE a.host = h.host AND a.account_id <> %(account_id)s)

-- load_for_event: An endpoint that something is to be sent to, locked, and the store's time.
SELECT {ENDPOINT.select}, clock_timestamp() AS now FROM webhook_endpoints w
WHERE w.account_id = %(account_id)s AND w.id = %(id)s FOR NO KEY UPDATE

-- load_for_delivery: The same with the delivery that is to be sent again. Only the endpoint is locked: what is read
-- of the delivery never changes.
SELECT {ENDPOINT.select}, {DELIVERY.select}, clock_timestamp() AS now
FROM webhook_endpoints w JOIN deliveries d ON d.account_id = w.account_id AND d.endpoint_id = w.id
WHERE w.account_id = %(account_id)s AND w.id = %(id)s AND d.id = %(delivery_id)s
FOR NO KEY UPDATE OF w

-- add_event_for_endpoint: Write an event for one endpoint only, and its delivery, which does not wait for the endpoint.
WITH endpoint AS (
    UPDATE webhook_endpoints SET next_post_at = NULL
    WHERE account_id = %(account_id)s AND id = %(delivery_endpoint_id)s AND next_post_at IS NOT NULL
), new_event AS (
    INSERT INTO events (account_id, id, kind, payload, created_at, cause)
    VALUES (%(account_id)s, %(delivery_event_id)s, %(delivery_event_kind)s, %(payload)s, %(event_created_at)s,
            %(cause)s)
)
INSERT INTO deliveries ({DELIVERY.names})
VALUES ({DELIVERY.values})

-- redeliver: Write another delivery of an event, if the event is still there: locked, so that it is not purged
-- before the delivery can be seen. It does not wait for the endpoint, either.
WITH endpoint AS (
    UPDATE webhook_endpoints SET next_post_at = NULL
    WHERE account_id = %(account_id)s AND id = %(delivery_endpoint_id)s AND next_post_at IS NOT NULL
)
INSERT INTO deliveries ({DELIVERY.names})
SELECT {DELIVERY.values}
FROM events e WHERE e.account_id = %(account_id)s AND e.id = %(delivery_event_id)s FOR KEY SHARE

-- list_health: An account's endpoints with their health.
SELECT {ENDPOINT.select}, h.*
FROM (SELECT * FROM webhook_endpoints WHERE account_id = %(account_id)s ORDER BY id DESC LIMIT {MAX_PAGE}) w
CROSS JOIN LATERAL (
    SELECT count(*) AS attempts, count(*) FILTER (WHERE a.error IS NULL) AS successes,
        percentile_disc(0.95) WITHIN GROUP (ORDER BY a.duration_ms) AS p95_ms,
        max(a.at) FILTER (WHERE a.error IS NOT NULL) AS last_failure_at,
        (array_agg(a.error ORDER BY a.at DESC) FILTER (WHERE a.error IS NOT NULL))[1] AS last_error
    FROM (
        SELECT d.id, d.success_at, d.success_duration_ms FROM deliveries d
        WHERE d.account_id = w.account_id AND d.endpoint_id = w.id AND d.id >= %(since)s
        ORDER BY d.id DESC LIMIT {HEALTH_SAMPLE}
    ) d CROSS JOIN LATERAL (
        (SELECT a.at, a.duration_ms, a.error FROM delivery_attempts a
        WHERE a.account_id = w.account_id AND a.delivery_id = d.id ORDER BY a.number DESC LIMIT {MAX_ATTEMPTS_READ})
        UNION ALL
        SELECT d.success_at, d.success_duration_ms, NULL WHERE d.success_at IS NOT NULL
    ) a
) h
ORDER BY w.id DESC

-- find_health: One endpoint with its health.
SELECT {ENDPOINT.select}, h.*
FROM webhook_endpoints w CROSS JOIN LATERAL (
    SELECT count(*) AS attempts, count(*) FILTER (WHERE a.error IS NULL) AS successes,
        percentile_disc(0.95) WITHIN GROUP (ORDER BY a.duration_ms) AS p95_ms,
        max(a.at) FILTER (WHERE a.error IS NOT NULL) AS last_failure_at,
        (array_agg(a.error ORDER BY a.at DESC) FILTER (WHERE a.error IS NOT NULL))[1] AS last_error
    FROM (
        SELECT d.id, d.success_at, d.success_duration_ms FROM deliveries d
        WHERE d.account_id = w.account_id AND d.endpoint_id = w.id AND d.id >= %(since)s
        ORDER BY d.id DESC LIMIT {HEALTH_SAMPLE}
    ) d CROSS JOIN LATERAL (
        (SELECT a.at, a.duration_ms, a.error FROM delivery_attempts a
        WHERE a.account_id = w.account_id AND a.delivery_id = d.id ORDER BY a.number DESC LIMIT {MAX_ATTEMPTS_READ})
        UNION ALL
        SELECT d.success_at, d.success_duration_ms, NULL WHERE d.success_at IS NOT NULL
    ) a
) h
WHERE w.account_id = %(account_id)s AND w.id = %(id)s
