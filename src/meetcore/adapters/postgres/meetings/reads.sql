-- find_meeting: Read one of an account's meetings, with the key of its host where that is in place and the meeting is the
-- first on the host: its reservation is there, and no reservation begins before.
SELECT {MEETING.select}, (
    SELECT h.host_key FROM host_reservations r
    JOIN hosts h ON h.id = r.host_id AND h.max_concurrent = 1 AND h.key_due_at IS NULL
    WHERE r.account_id = m.account_id AND r.meeting_id = m.id AND NOT EXISTS (
        SELECT FROM host_reservations e
        WHERE e.host_id = r.host_id AND e.during && tstzrange(NULL, lower(r.during)))
) AS host_key FROM meetings m
WHERE m.account_id = %(account_id)s AND m.id = %(id)s

-- next_free_start: The instant that was wished for, if a fitting host is free then after all; else the first end of
-- a reservation at which that slot of a fitting host stays free for as long as it takes.
WITH nearby AS MATERIALIZED (
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
SELECT at FROM (
    SELECT %(start_at)s AS at WHERE %(start_at)s <= %(latest)s AND EXISTS (SELECT FROM open_hosts)
    UNION ALL
    (SELECT upper(r.during) FROM (
        SELECT host_id, slot, during FROM host_reservations
        WHERE upper(during) > %(start_at)s AND upper(during) <= %(latest)s
        ORDER BY upper(during) LIMIT {MAX_ENDS_LOOKED_AT}
    ) AS r JOIN hosts h ON h.id = r.host_id
        WHERE h.is_active AND (h.unavailable_until IS NULL OR h.unavailable_until <= %(now)s)
            AND (%(per_day)s::integer IS NULL OR h.creations_on IS DISTINCT FROM %(today)s
                    OR h.creations < %(per_day)s) AND h.capacity >= %(seats)s
            AND r.slot < h.max_concurrent AND NOT EXISTS (
                SELECT FROM host_reservations o WHERE o.host_id = r.host_id AND o.slot = r.slot
                    AND o.during && tstzrange(upper(r.during), upper(r.during) + %(length)s))
        ORDER BY upper(r.during) LIMIT 1)
) AS free ORDER BY at LIMIT 1

-- next_creation: Return when a host with the seats may be given a meeting, free or not
-- (`domain.meetings.hosts.Host.next_creation_at`). Of an instant the day in UTC decides, as the connection's time
-- zone is UTC.
SELECT min(CASE WHEN h.creations_on = first::date AND h.creations >= %(per_day)s
        THEN (first::date + 1)::timestamptz ELSE first END) AS at
FROM hosts h CROSS JOIN LATERAL (SELECT GREATEST(h.unavailable_until, %(now)s::timestamptz) AS first) AS rested
WHERE h.is_active AND h.capacity >= %(seats)s

-- find_at_provider: The meeting that a provider names, the latest that had the id.
SELECT {MEETING.select} FROM (
    SELECT * FROM meetings WHERE provider = %(provider)s AND provider_meeting_id = %(provider_meeting_id)s
        AND status IN ('scheduled', 'cancelling', 'started')
    UNION ALL
    SELECT * FROM meetings WHERE provider = %(provider)s AND provider_meeting_id = %(provider_meeting_id)s
        AND status NOT IN ('scheduled', 'cancelling', 'started')
) AS m ORDER BY m.id DESC LIMIT 1

-- is_in_progress: Return whether a process works on a meeting now. Polled by duplicate requests: it locks nothing.
SELECT 1 FROM meetings WHERE account_id = %(account_id)s AND id = %(id)s AND lease_until > clock_timestamp()

-- page_by_title: Read the newest of an account's meetings by words of their titles, in a range of starts. The offset keeps
-- the planner from reading the whole table and sorting it for the few meetings that it expects. A scan in the order of the
-- ids matches by patterns, without working out the words of each title.
WITH newest AS MATERIALIZED (
    SELECT m.id FROM (
        SELECT * FROM meetings m WHERE m.account_id = %(account_id)s AND m.id < %(before)s
        ORDER BY m.id DESC LIMIT {NEWEST_LOOKED_AT}
    ) m WHERE lower(m.title) ~ ALL (%(patterns)s::text[]) AND ({stands})
        AND m.start_at + interval '0' >= %(from)s AND m.start_at + interval '0' < %(to)s
    ORDER BY m.id DESC LIMIT %(limit)s
), found AS MATERIALIZED (
    SELECT m.account_id, m.id, m.status, m.start_at, m.end_at FROM meetings m
    WHERE (SELECT count(*) FROM newest) < %(limit)s
        AND m.status NOT IN ('provisioning', 'abandoned')
        AND title_words(m.account_id, m.title) @@ %(words)s::tsquery LIMIT {MOST_SORTED} + 1
), page AS (
    SELECT id FROM newest WHERE (SELECT count(*) FROM newest) >= %(limit)s
    UNION ALL
    (SELECT m.id FROM found m
    WHERE (SELECT count(*) FROM found) <= {MOST_SORTED} AND m.account_id = %(account_id)s AND m.id < %(before)s
        AND ({stands}) AND m.start_at + interval '0' >= %(from)s AND m.start_at + interval '0' < %(to)s
    ORDER BY m.id DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT m.id FROM (
        SELECT * FROM meetings m WHERE m.account_id = %(account_id)s AND m.id < %(before)s ORDER BY m.id DESC OFFSET 0
    ) m WHERE (SELECT count(*) FROM found) > {MOST_SORTED} AND lower(m.title) ~ ALL (%(patterns)s::text[])
        AND ({stands}) AND m.start_at + interval '0' >= %(from)s AND m.start_at + interval '0' < %(to)s
    ORDER BY m.id DESC LIMIT %(limit)s)
)
SELECT {MEETING.select}, (
    SELECT h.host_key FROM host_reservations r
    JOIN hosts h ON h.id = r.host_id AND h.max_concurrent = 1 AND h.key_due_at IS NULL
    WHERE r.account_id = m.account_id AND r.meeting_id = m.id AND NOT EXISTS (
        SELECT FROM host_reservations e
        WHERE e.host_id = r.host_id AND e.during && tstzrange(NULL, lower(r.during)))
) AS host_key
FROM page JOIN meetings m ON m.account_id = %(account_id)s AND m.id = page.id ORDER BY m.id DESC

-- page_by_id: Read the next of an account's meetings, by the ids backwards. The inner limit is for the planner: of a
-- parameter it would expect a tenth of the table, and sort that instead of reading an index backwards.
SELECT {MEETING.select}, (
    SELECT h.host_key FROM host_reservations r
    JOIN hosts h ON h.id = r.host_id AND h.max_concurrent = 1 AND h.key_due_at IS NULL
    WHERE r.account_id = m.account_id AND r.meeting_id = m.id AND NOT EXISTS (
        SELECT FROM host_reservations e
        WHERE e.host_id = r.host_id AND e.during && tstzrange(NULL, lower(r.during)))
) AS host_key
FROM (SELECT * FROM (
        SELECT m.id FROM meetings m WHERE m.account_id = %(account_id)s AND m.id < %(before)s AND ({stands})
        ORDER BY m.id DESC LIMIT {MAX_PAGE}
    ) AS walked LIMIT %(limit)s) AS page
JOIN meetings m ON m.account_id = %(account_id)s AND m.id = page.id ORDER BY m.id DESC

-- page_by_start: A page of an account's meetings in the order of their starts, merged from one walk of the index for each status.
SELECT {MEETING.select}
FROM (SELECT * FROM ({parts}) AS parts ORDER BY start_at {order}, id {order} LIMIT %(limit)s) AS page
JOIN meetings m ON m.account_id = %(account_id)s AND m.id = page.id
ORDER BY m.start_at {order}, m.id {order}

-- page_in_time: Read the next of an account's meetings in a range of starts: of all there are, or by a scan that skips those
-- outside. In the scan the start is hidden from the planner, which takes any range for a small one and would sort it.
WITH probe AS MATERIALIZED (
    SELECT count(*) <= {READ_WHOLE} AS is_small FROM ({counted}) AS counted
), page AS (
    (SELECT * FROM ({whole}) AS whole ORDER BY id DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT * FROM (
        SELECT m.id FROM meetings m WHERE m.account_id = %(account_id)s AND m.id < %(before)s
            AND NOT (SELECT is_small FROM probe) AND ({stands})
            AND m.start_at + interval '0' >= %(from)s AND m.start_at + interval '0' < %(to)s
        ORDER BY m.id DESC LIMIT {MAX_PAGE}
    ) AS walked LIMIT %(limit)s)
)
SELECT {MEETING.select}, (
    SELECT h.host_key FROM host_reservations r
    JOIN hosts h ON h.id = r.host_id AND h.max_concurrent = 1 AND h.key_due_at IS NULL
    WHERE r.account_id = m.account_id AND r.meeting_id = m.id AND NOT EXISTS (
        SELECT FROM host_reservations e
        WHERE e.host_id = r.host_id AND e.during && tstzrange(NULL, lower(r.during)))
) AS host_key
FROM page JOIN meetings m ON m.account_id = %(account_id)s AND m.id = page.id ORDER BY m.id DESC
