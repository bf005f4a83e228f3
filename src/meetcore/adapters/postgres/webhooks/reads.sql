-- find_by_url: The endpoints registered for a URL.
SELECT {ENDPOINT.select} FROM webhook_endpoints w WHERE w.url_key = %(url_key)s

-- find_endpoint: One of an account's webhook endpoints.
SELECT {ENDPOINT.select} FROM webhook_endpoints w WHERE w.account_id = %(account_id)s AND w.id = %(id)s

-- list_endpoints: A page of an account's webhook endpoints, by the primary key backwards.
SELECT {ENDPOINT.select} FROM webhook_endpoints w
WHERE w.account_id = %(account_id)s AND w.id < %(before)s ORDER BY w.id DESC LIMIT %(limit)s

-- list_deliveries: A page of the deliveries to an endpoint, each with its latest attempts: a row for each that failed, and one
-- without a delivery where the endpoint has none. The inner limit is for the planner: of a parameter it would expect a
-- tenth of the table, and sort that instead of reading an index backwards. The attempts are sorted inside, which keeps
-- the planner from joining whole tables: it looks them up for one delivery after another.
SELECT w.account_id, w.id AS endpoint_id, w.next_post_at AS waits_until, d.*, a.*
FROM webhook_endpoints w
LEFT JOIN LATERAL (
    SELECT * FROM (
        SELECT {DELIVERY.select}, {SHOWN_SUCCESS.select} FROM deliveries d
        WHERE d.account_id = w.account_id AND d.endpoint_id = w.id AND d.id < %(before)s AND d.id >= %(first)s{and_status}
        ORDER BY d.id DESC LIMIT {most}
    ) d{chosen} LIMIT %(limit)s
) d ON true
LEFT JOIN LATERAL (
    SELECT a.number, {LISTED_ATTEMPT.select} FROM delivery_attempts a WHERE a.account_id = w.account_id
        AND a.delivery_id = d.delivery_id
    ORDER BY a.number DESC LIMIT {MAX_ATTEMPTS_READ}
) a ON true
WHERE w.account_id = %(account_id)s AND w.id = %(endpoint_id)s
ORDER BY d.delivery_id DESC, a.number

-- find_delivery: One delivery with its latest attempts, if its endpoint is still there.
SELECT w.account_id, w.id AS endpoint_id, w.next_post_at AS waits_until, d.*, a.*
FROM webhook_endpoints w
CROSS JOIN LATERAL (
    SELECT {DELIVERY.select}, {SHOWN_SUCCESS.select} FROM deliveries d
    WHERE d.account_id = w.account_id AND d.endpoint_id = w.id AND d.id = %(id)s
) d
LEFT JOIN LATERAL (
    SELECT a.number, {ATTEMPT.select} FROM delivery_attempts a WHERE a.account_id = w.account_id
        AND a.delivery_id = d.delivery_id
    ORDER BY a.number DESC LIMIT {MAX_ATTEMPTS_READ}
) a ON true
WHERE w.account_id = %(account_id)s AND w.id = %(endpoint_id)s
ORDER BY a.number

-- find_event: One event of an account.
SELECT e.account_id, e.id, e.kind, e.payload, e.created_at FROM events e
WHERE e.account_id = %(account_id)s AND e.id = %(id)s

-- list_events: A page of an account's events, the newest first.
SELECT * FROM (
    SELECT * FROM (
        SELECT e.account_id, e.id, e.kind, e.payload, e.created_at FROM events e
        WHERE e.account_id = %(account_id)s AND e.id < %(before)s
        ORDER BY e.id DESC LIMIT {MAX_PAGE}
    ) AS walked LIMIT %(limit)s
) AS page WHERE page.id >= %(first)s ORDER BY page.id DESC

-- list_of_creations: The same of the kind that is at every turn, and so in no index of its own.
SELECT * FROM (
    SELECT * FROM (
        SELECT e.account_id, e.id, e.kind, e.payload, e.created_at FROM events e
        WHERE e.account_id = %(account_id)s AND e.id < %(before)s AND e.kind = 'meeting.created'
        ORDER BY e.id DESC LIMIT {MAX_PAGE}
    ) AS walked LIMIT %(limit)s
) AS page WHERE page.id >= %(first)s ORDER BY page.id DESC

-- list_of_kind: The same of another kind.
SELECT * FROM (
    SELECT * FROM (
        SELECT e.account_id, e.id, e.kind, e.payload, e.created_at FROM events e
        WHERE e.account_id = %(account_id)s AND e.id < %(before)s AND e.kind = %(kind)s
            AND e.kind <> 'meeting.created'
        ORDER BY e.id DESC LIMIT {MAX_PAGE}
    ) AS walked LIMIT %(limit)s
) AS page WHERE page.id >= %(first)s ORDER BY page.id DESC
