-- save_uses: Write later uses than are stored. The rows are locked in one order, for other processes write the
-- same ones.
WITH due AS MATERIALIZED (
    SELECT k.id, used.at FROM api_keys k
    JOIN unnest(%(ids)s::uuid[], %(times)s::timestamptz[]) AS used (id, at) ON used.id = k.id
    WHERE k.last_used_at IS NULL OR k.last_used_at < used.at
    ORDER BY k.id FOR NO KEY UPDATE OF k
)
UPDATE api_keys k SET last_used_at = GREATEST(k.last_used_at, due.at) FROM due WHERE k.id = due.id

-- save_requests: Write a batch, without requests of accounts that were erased meanwhile; one that is there already
-- stays.
INSERT INTO api_requests (id, account_id, api_key_id, at, method, path, status, duration_ms, code, subject_id,
    client_address, message, details)
SELECT id, account_id, api_key_id, at, method, path, status, duration_ms, code, subject_id, client_address, message,
    string_to_array(details, E'\n')
FROM unnest(%(ids)s::uuid[], %(accounts)s::uuid[], %(keys)s::uuid[], %(times)s::timestamptz[],
        %(methods)s::text[], %(paths)s::text[], %(statuses)s::smallint[], %(durations)s::integer[], %(codes)s::text[],
        %(subjects)s::uuid[], %(addresses)s::text[], %(messages)s::text[], %(details)s::text[])
    AS made (id, account_id, api_key_id, at, method, path, status, duration_ms, code, subject_id, client_address,
        message, details)
WHERE NOT EXISTS (SELECT FROM account_erasures e WHERE e.account_id = made.account_id)
ON CONFLICT (id) DO NOTHING

-- find_request: An account's request, and the name of its key.
SELECT {REQUEST.select}, k.name AS key_name FROM api_requests r
LEFT JOIN api_keys k ON k.account_id = r.account_id AND k.id = r.api_key_id
WHERE r.id = %(id)s AND r.account_id = %(account_id)s

-- find_request_of_any: A request of any account.
SELECT {REQUEST.select} FROM api_requests r WHERE id = %(id)s

-- list_requests: Read the next of an account's requests. The inner limit is for the planner: of a parameter it would expect a
-- tenth of the table.
SELECT {REQUEST.select} FROM (
    SELECT w.* FROM api_requests w
    WHERE w.account_id = %(account_id)s AND w.id < %(before)s AND w.id >= %(first)s{and_more}
    ORDER BY w.id DESC LIMIT {MAX_PAGE}
) AS r ORDER BY r.id DESC LIMIT %(limit)s

-- list_caused: The deliveries of the events that a request caused: those of the time that it took, and of the note that
-- it asked for, which come later. A delivery's id begins as its event's does.
WITH caused AS MATERIALIZED (
    SELECT e.id, e.kind FROM events e
    WHERE e.account_id = %(account_id)s AND e.id >= %(oldest_event)s AND e.id < %(newest_event)s
        AND right(e.cause, 36) = %(request_id)s
    UNION
    SELECT e.id, e.kind FROM events e
    WHERE e.account_id = %(account_id)s AND e.subject_id = %(subject_id)s AND right(e.cause, 36) = %(request_id)s
), sent AS (
    SELECT d.* FROM webhook_endpoints p CROSS JOIN LATERAL (
        SELECT * FROM deliveries d
        WHERE d.account_id = p.account_id AND d.endpoint_id = p.id
            AND d.id >= %(oldest_event)s AND d.id < %(newest_event)s OFFSET 0) AS d
    WHERE p.account_id = %(account_id)s AND d.event_id IN (SELECT id FROM caused)
    UNION
    SELECT d.* FROM deliveries d
    WHERE d.account_id = %(account_id)s AND d.event_kind IN ('note.completed', 'note.failed')
        AND d.event_id IN (SELECT id FROM caused WHERE kind IN ('note.completed', 'note.failed'))
)
SELECT w.id, w.event_id, w.event_kind, w.status, w.created_at,
    w.due_at + greatest(p.next_post_at - w.due_at, interval '0') AS next_attempt_at, w.attempts_made, p.url,
    coalesce(t.status_code, w.success_status_code) AS last_status_code, t.error AS last_error, w.endpoint_id
FROM sent w
JOIN webhook_endpoints p ON p.account_id = w.account_id AND p.id = w.endpoint_id
LEFT JOIN delivery_attempts t ON t.account_id = w.account_id AND t.delivery_id = w.id AND t.number = w.attempts_made
ORDER BY w.id LIMIT {MAX_PAGE}
