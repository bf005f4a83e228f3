"""Which hosts are free for a range of time, as pieces of statements that choose one.

Nearly always one of the first hosts is free: those few are checked one by one. Only where none of
them is, everything that is reserved in the range is read once and set against all hosts. So a busy hour costs
one pass over its meetings, and any other hour does not depend on how many hosts or reservations there are.

Nothing is locked: a host is free in the statement's snapshot, and the reservation checks again.
"""

from meetcore.adapters.postgres.columns import Columns
from meetcore.domain.meetings.hosts import Host

HOST = Columns(Host, "h", "host_")

# How many hosts are checked one by one, and how many free ones are returned: more than requests that hold one.
MOST_CHECKED_HOSTS = 32
MOST_FREE_HOSTS = 8

# Whether a host may be given a meeting at all (`domain.meetings.hosts.Host.can_take`).
CAN_TAKE = """h.is_active AND (h.unavailable_until IS NULL OR h.unavailable_until <= %(now)s)
            AND (%(per_day)s::integer IS NULL OR h.creations_on IS DISTINCT FROM %(today)s
                OR h.creations < %(per_day)s)"""

FITS = f"{CAN_TAKE} AND h.capacity >= %(seats)s"

# The order of `domain.meetings.hosts.choose_host`, and of the index `hosts_best_fit`.
BEST_FIRST = "h.capacity, h.uses, h.id"

# A host is free for a range when one of its slots is. Reservations of a slot do not overlap, so the last one that
# begins before the range ends is the only one that can reach into it. It is looked for as the one before a place in the
# order of `host_reservations_starts`, of whatever slot: an equation of host and slot could also be read in the index
# of the exclusion constraint, which a planner without statistics takes, and that reads all that the host has.
FREE_SLOT = """
    SELECT n FROM generate_series(0, h.max_concurrent - 1) AS n
    WHERE COALESCE((
        SELECT r.host_id <> h.id OR r.slot <> n OR upper(r.during) <= %(start_at)s FROM host_reservations r
        WHERE (r.host_id, r.slot, lower(r.during)) < (h.id, n, %(end_at)s::timestamptz)
        ORDER BY r.host_id DESC, r.slot DESC, lower(r.during) DESC LIMIT 1), true)
    ORDER BY n LIMIT 1"""

# The best of the fitting hosts that are free, `open_hosts`; empty only if there is none. What reaches into the range
# ends within the length of the longest reservation after it. `elsewhere` is materialized for the planner: under a
# limit it would take nested loops.
OPEN_HOSTS = f"""
    nearby AS MATERIALIZED (
        SELECT h.id, h.capacity FROM (
            SELECT h.id, h.capacity, h.uses, h.max_concurrent FROM hosts h
            WHERE {FITS} ORDER BY {BEST_FIRST} LIMIT {MOST_CHECKED_HOSTS}
        ) AS h
        WHERE EXISTS ({FREE_SLOT}) ORDER BY {BEST_FIRST} LIMIT {MOST_FREE_HOSTS}
    ), busy AS (
        SELECT r.host_id, array_agg(r.slot) AS slots FROM host_reservations r
        WHERE NOT EXISTS (SELECT FROM nearby) AND upper(r.during) > %(start_at)s AND lower(r.during) < %(end_at)s
            AND upper(r.during) < %(end_at)s::timestamptz
                + (SELECT max(upper(during) - lower(during)) FROM host_reservations)
        GROUP BY r.host_id
    ), elsewhere AS MATERIALIZED (
        SELECT h.id, h.capacity, h.uses FROM hosts h LEFT JOIN busy b ON b.host_id = h.id
        WHERE NOT EXISTS (SELECT FROM nearby) AND {FITS} AND (
            b.slots IS NULL OR 0 <> ALL (b.slots)
            OR h.max_concurrent > 1 AND EXISTS (
                SELECT FROM generate_series(1, h.max_concurrent - 1) AS n WHERE n <> ALL (b.slots)))
    ), open_hosts AS MATERIALIZED (
        SELECT id, capacity FROM nearby
        UNION ALL
        (SELECT h.id, h.capacity FROM elsewhere h ORDER BY {BEST_FIRST} LIMIT {MOST_FREE_HOSTS})
    )"""
