"""Which deliveries are posted next, in PostgreSQL.

The first statement locks the endpoints that something is due at and their hosts, the second, with a snapshot taken under
those locks, counts what is in flight, and the last takes what there is room for. A transaction that records an attempt
holds the same locks of endpoints, so that nothing is throttled behind a post that is already over.
The lock of a host makes its limits hold over all workers; recording an attempt needs none: it only frees room.

Rows that another worker has locked are skipped until the next round.

Statements are planned once for a connection, for any parameters: to plan the last one takes several times as long as to
execute it. So it takes the ids between which all lies that the first saw due, and the server leaves out all other partitions
when it begins to execute the plan. What the first two found is passed as texts: the planner expects a hundred rows of each,
and so joins them by hashes. The posts in flight are read in one pass, of all workers: to look them up for each account and
host would multiply wherever the plan was made while there were none. The changed rows are joined by their primary key. That
rows are pending is said by `due_at` throughout, since the status would admit the indexes of pending rows in other orders, which
are read from end to end where the planner takes them for empty.
"""

from collections.abc import Sequence
from uuid import UUID

import structlog
from attrs import asdict, evolve

from meetcore.adapters.postgres.columns import Row, readable
from meetcore.adapters.postgres.deliveries.outbox import event_context
from meetcore.adapters.postgres.deliveries.rows import DUE, GIVE_UP, HELD, given_up
from meetcore.adapters.postgres.endpoints.rows import endpoint_context, previous_context
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.ids import first_id
from meetcore.ports.cipher import Cipher, CipherRefused
from meetcore.ports.deliveries import Claimed, ClaimedBatch, ClaimLimits, GiveUpReason
from meetcore.ports.lease import Lease

log = structlog.get_logger("meetcore.postgres")

# How many of the longest due are looked at for each one that may be taken: what has no room is throttled or
# postponed by the same statement, so the next look gets past it. A claim looks again while it finds nothing but
# such, or a backlog at one endpoint would cost everybody behind it a round of the worker for each look.
LOOK_AHEAD = 4
LOOK_AT_LEAST = 200
CLAIM_ROUNDS = 16

# There is no aggregate of ids before PostgreSQL 18; their texts are in the order of the ids.
_LEAST, _GREATEST = 'min({}::text COLLATE "C")::uuid', 'max({}::text COLLATE "C")::uuid'

# Locks the endpoints of the longest due deliveries, in any state, with their hosts, and returns them as one text, how many
# deliveries those are, and the ids between which they and their events lie.
_LOCK_ENDPOINTS = f"""
WITH waiting AS (
    SELECT account_id, id, endpoint_id, event_id FROM deliveries
    WHERE {DUE} ORDER BY due_at LIMIT %(window)s
), locked AS MATERIALIZED (
    SELECT w.account_id, w.id, w.state, w.host, w.consecutive_failures > 0 AS is_failing
    FROM webhook_endpoints w JOIN webhook_hosts h USING (host)
    WHERE (w.account_id, w.id) IN (SELECT account_id, endpoint_id FROM waiting)
    FOR NO KEY UPDATE OF w, h SKIP LOCKED
)
SELECT count(*) AS waiting, {_LEAST.format("id")} AS oldest, {_GREATEST.format("id")} AS newest,
    {_LEAST.format("event_id")} AS oldest_event, {_GREATEST.format("event_id")} AS newest_event,
    (SELECT json_agg(locked)::text FROM locked) AS endpoints
FROM waiting
"""

# Counts the posts in flight of the accounts and at the hosts of the locked endpoints, with a snapshot taken under the locks.
_COUNT_IN_FLIGHT = """
WITH endpoint AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(endpoints)s::json) AS e (account_id uuid, host text)
), in_flight AS (
    SELECT account_id, endpoint_id, lease_host AS host, count(*) AS posts FROM deliveries
    WHERE lease_token IS NOT NULL AND due_at > statement_timestamp()
        AND (account_id IN (SELECT account_id FROM endpoint) OR lease_host IN (SELECT host FROM endpoint))
    GROUP BY account_id, endpoint_id, lease_host
)
SELECT coalesce(json_agg(in_flight)::text, '[]') AS in_flight FROM in_flight
"""

# Takes what has room at its endpoint and in its account, the account with the least in flight first. An endpoint that
# fails has less room, until a post there succeeds; a delivery whose last claim there ended without a record lets the
# others go first, for the time of a lease: it would take the only place again and again. What has no room at its
# endpoint is throttled until a post there is recorded; what its account has no room for comes back in a second; what
# its host has no room for when its turn would come at the pace of the host, so that it is looked at fifty times a
# second and no more, however much waits there. Among those that wait for a host the account with the least in flight
# is first, and half of the posts to a host are the most that one has. What is due at an inactive endpoint is held.
# Claimed rows are not due until their lease ends. All of it is one UPDATE: each mention of a partitioned table is
# planned for each of its partitions.
_CLAIM = f"""
WITH endpoint AS MATERIALIZED (
    SELECT *, CASE WHEN is_failing THEN least(%(per_failing)s, %(per_endpoint)s) ELSE %(per_endpoint)s END AS room
    FROM json_to_recordset(%(endpoints)s::json)
        AS e (account_id uuid, id uuid, state text, host text, is_failing boolean)
), in_flight AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(in_flight)s::json) AS f (account_id uuid, endpoint_id uuid, host text, posts int)
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
    WHERE {DUE}
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
        PARTITION BY with_room.host, with_room.account_id ORDER BY with_room.turn) - %(per_host_of_account)s AS over_share
    FROM with_room LEFT JOIN of_account_at_host USING (host, account_id) WHERE with_room.turn <= %(per_account)s
), queued AS MATERIALIZED (
    SELECT shared.*, row_number() OVER (
        PARTITION BY shared.host, shared.over_share > 0 ORDER BY shared.turn, shared.due_at, shared.id
    ) - room.free AS over_room
    FROM shared JOIN room USING (host)
), chosen AS MATERIALIZED (
    SELECT account_id, id, due_at, host, had_lease FROM queued WHERE over_share <= 0 AND over_room <= 0
    ORDER BY turn, due_at, id LIMIT %(total)s
), paced AS (
    UPDATE webhook_hosts h SET claimed_at = array_cat(
        ARRAY(SELECT taken.at FROM unnest(h.claimed_at) AS taken (at)
              WHERE taken.at > statement_timestamp() - interval '1 second'),
        array_fill(statement_timestamp(), ARRAY[taken.posts]))
    FROM (SELECT host, count(*)::int AS posts FROM chosen GROUP BY host) AS taken WHERE h.host = taken.host
), moved AS (
    SELECT account_id, id, 'held' AS move, NULL::timestamptz AS due_at, NULL AS host, had_lease, due_at AS was_due_at
    FROM waiting WHERE state <> 'active'
    UNION ALL
    SELECT account_id, id, 'throttled', due_at, NULL, had_lease, due_at
    FROM waiting WHERE state = 'active' AND NOT yields AND number > room
    UNION ALL
    SELECT account_id, id, 'postponed', statement_timestamp() + %(lease_s)s * interval '1 second', NULL, had_lease, due_at
    FROM waiting WHERE state = 'active' AND yields
    UNION ALL
    SELECT account_id, id, 'postponed', statement_timestamp() + interval '1 second', NULL, had_lease, due_at
    FROM with_room WHERE turn > %(per_account)s
    UNION ALL
    SELECT account_id, id, 'postponed', statement_timestamp()
        + greatest(over_share, over_room) * interval '1 second' / %(per_host_per_s)s, NULL, had_lease, due_at
    FROM queued WHERE over_share > 0 OR over_room > 0
    UNION ALL
    SELECT account_id, id, 'claimed', statement_timestamp() + %(lease_s)s * interval '1 second', host, had_lease, due_at
    FROM chosen
), changed AS (
    UPDATE deliveries d SET
        status = CASE m.move WHEN 'held' THEN '{HELD}' ELSE d.status END,
        held_at = CASE m.move WHEN 'held' THEN clock_timestamp() END,
        is_throttled = m.move = 'throttled',
        due_at = m.due_at,
        lease_token = CASE m.move WHEN 'claimed' THEN %(token)s::uuid END,
        lease_host = m.host
    FROM moved m
    WHERE d.account_id = m.account_id AND d.id = m.id AND d.due_at IS NOT NULL
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
"""

# Fails claimed deliveries whose events are past their retention.
_GIVE_UP = f"""
UPDATE deliveries d SET {GIVE_UP}
FROM unnest(%(account_ids)s::uuid[], %(ids)s::uuid[]) AS purged (account_id, id)
WHERE d.account_id = purged.account_id AND d.id = purged.id AND d.due_at IS NOT NULL
"""


class DeliveryClaims(Repository):
    """Deliveries that a worker takes."""

    async def claim_due(self, limits: ClaimLimits, lease: Lease) -> ClaimedBatch:
        """Take due deliveries; one whose event is past its retention is given up instead.

        One whose secret or payload does not open is logged and left to its lease, so that a key that
        went missing stops what was sealed under it and nothing else.
        """
        found: list[Row] = []
        for _ in range(CLAIM_ROUNDS):
            taken, is_all = await self._look(evolve(limits, total=limits.total - len(found)), lease)
            found += taken
            if is_all or len(found) >= limits.total:
                break
        purged = [row for row in found if row["payload"] is None]
        await self._give_up(purged)
        opened = _opened([row for row in found if row["payload"] is not None], self._cipher, lease.token)
        return ClaimedBatch(opened, given_up(purged, GiveUpReason.PAST_RETENTION))

    async def _give_up(self, purged: Sequence[Row]) -> None:
        """Fail what was claimed of events that are past their retention: there is nothing to post."""
        if purged:
            ids = {
                "account_ids": [row["account_id"] for row in purged],
                "ids": [row["delivery_id"] for row in purged],
            }
            await self._connection.execute(_GIVE_UP, ids)

    async def _look(self, limits: ClaimLimits, lease: Lease) -> tuple[Sequence[Row], bool]:
        """Take what has room among the longest due; whether those were all that is due, or is free to look at."""
        window = max(LOOK_AT_LEAST, limits.total * LOOK_AHEAD)
        seen = await self._one(_LOCK_ENDPOINTS, {"window": window})
        if seen is None or seen["endpoints"] is None:
            return [], True
        in_flight = await self._one(_COUNT_IN_FLIGHT, seen) or {}
        parameters = {
            **asdict(limits), **seen, **in_flight,
            "per_host_of_account": limits.per_host_of_account,
            "window": window,
            "events_since": first_id(limits.events_since),
            "token": lease.token,
            "lease_s": lease.seconds,
        }  # fmt: skip
        return await self._all(_CLAIM, parameters), seen["waiting"] < window


def _opened(rows: Sequence[Row], cipher: Cipher, token: UUID) -> list[Claimed]:
    """Open secrets and payloads, that of an event once for all its endpoints."""
    secrets: dict[UUID, tuple[str, str | None]] = {}
    bodies: dict[UUID, bytes] = {}
    opened = []
    for row in rows:
        account_id, endpoint_id, event_id = row["account_id"], row["endpoint_id"], row["event_id"]
        try:
            if endpoint_id not in secrets:
                secrets[endpoint_id] = _secrets(row, cipher)
            if event_id not in bodies:
                bodies[event_id] = cipher.open(row["payload"], event_context(account_id, event_id))
        except CipherRefused:
            log.exception("delivery does not open", delivery_id=str(row["delivery_id"]))
            continue
        secret, previous = secrets[endpoint_id]
        opened.append(Claimed(
            account_id, row["delivery_id"], endpoint_id, event_id, row["event_kind"], row["url"], secret,
            bodies[event_id], token, row["had_lease"], previous, row["cause"],
        ))  # fmt: skip
    return opened


def _secrets(row: Row, cipher: Cipher) -> tuple[str, str | None]:
    """Open the secret of an endpoint, and the one before while it still signs."""
    name = row["account_id"], row["endpoint_id"]
    secret = cipher.open(row["secret"], endpoint_context(*name)).decode()
    previous = row["previous_secret"]
    return secret, None if previous is None else readable(cipher, previous, previous_context(*name))
