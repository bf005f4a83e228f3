"""Claim due deliveries, record the attempts at them, and release, expire and clean up the others.

A claim is three statements. The first locks the endpoints of what is due and their hosts; the second, with a snapshot taken
under those locks, counts the posts in flight; the third takes what there is room for. A transaction that records an attempt
holds the same locks of endpoints, so nothing is throttled behind a post that is already over. The lock of a host makes its
limits hold over all workers; recording an attempt needs none: it only frees room. Rows that another worker has locked are
skipped until the next round.

Statements are planned once for a connection, for any parameters: planning the third takes several times as long as executing
it. So it takes the ids between which lies all that the first saw due, and the server leaves out all other partitions when it
begins to execute the plan. The results of the first two are passed as texts: the planner expects a hundred rows of each, and
so joins them by hashes. The posts in flight are read in one pass, of all workers: looking them up for each account and host
would multiply wherever the plan was made while there were none. Changed rows are joined by their primary key. Pending rows
are recognised by `due_at` throughout, since the status would admit the indexes of pending rows in other orders, which are
read from end to end where the planner takes them for empty.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from uuid import UUID

import msgspec
import structlog
from attrs import asdict, evolve, fields

from meetcore.adapters.postgres.columns import Row, readable, utc
from meetcore.adapters.postgres.repository import Repository, load_statements
from meetcore.adapters.postgres.webhooks.rows import (
    DELIVERY,
    ENDPOINT_WITHOUT_SECRETS,
    SUCCESS,
    endpoint_context,
    event_context,
    given_up,
    previous_secret_context,
)
from meetcore.domain.ids import first_id
from meetcore.domain.machine import step
from meetcore.domain.webhooks import deliveries, views
from meetcore.domain.webhooks.endpoints import (
    DISABLE_AFTER_FAILURES,
    TRANSITIONS,
    Endpoint,
    EndpointEvent,
    EndpointState,
    HostFailures,
)
from meetcore.ports.runtime import Cipher, CipherRefused, Lease

log = structlog.get_logger("meetcore.postgres")

SQL = load_statements(
    __file__, DELIVERY=DELIVERY, ENDPOINT_WITHOUT_SECRETS=ENDPOINT_WITHOUT_SECRETS,
    MAX_ATTEMPTS_RECOVERED=deliveries.MAX_ATTEMPTS_RECOVERED,
)  # fmt: skip


# How many of the longest due are looked at for each one that may be taken: what has no room is throttled or
# postponed by the same statement, so the next look gets past it. A claim looks again while it finds nothing but
# such, or a backlog at one endpoint would cost everybody behind it a round of the worker for each look.
LOOK_AHEAD = 4
LOOK_AT_LEAST = 200
CLAIM_ROUNDS = 16


RELEASED_AT_RECOVERY = 100
"""Throttled deliveries of a recovered endpoint that may be claimed at once: those without room are throttled again."""

UNREADABLE_FOR_S = 60
"""How long what no key opens is put off: other workers may have the key, or this one after its next start."""

# `domain.webhooks.endpoints.disable_with_host`, for many rows at once.
_DISABLING = {
    "active": EndpointState.ACTIVE.value,
    "disabled": step(TRANSITIONS, EndpointState.ACTIVE, EndpointEvent.DISABLE).value,
    "failures": DISABLE_AFTER_FAILURES,
}

_ATTEMPT_FIELDS = tuple(field.name for field in fields(deliveries.Attempt))
_fields_of = attrgetter(*_ATTEMPT_FIELDS)


SWEPT_AT_ONCE = 1_000


class PostgresDeliveryRepository(Repository):
    """Deliveries as the worker sees them."""

    async def claim_due(self, limits: views.ClaimLimits, lease: Lease) -> views.ClaimedBatch:
        """Take due deliveries; one whose event is past its retention is given up instead.

        One that does not open is logged and put off without a lease: it takes no room at its endpoint and its host.
        """
        found: list[Row] = []
        for _ in range(CLAIM_ROUNDS):
            taken, is_all = await self._look(evolve(limits, total=limits.total - len(found)), lease)
            found += taken
            if is_all or len(found) >= limits.total:
                break
        purged = [row for row in found if row["payload"] is None]
        await self._give_up(purged)
        kept = [row for row in found if row["payload"] is not None]
        opened, unreadable = _opened(kept, self._cipher, lease.token)
        if unreadable:
            log.error("deliveries do not open", number=len(unreadable), delivery_id=str(unreadable[0]["id"]))
            await self._run(SQL["put_off"], claimed=_json(unreadable), seconds=UNREADABLE_FOR_S)
        return views.ClaimedBatch(
            opened, given_up(purged, views.GiveUpReason.PAST_RETENTION), len(unreadable)
        )

    async def _give_up(self, purged: Sequence[Row]) -> None:
        """Fail what was claimed of events that are past their retention: there is nothing to post."""
        if purged:
            ids = {
                "account_ids": [row["account_id"] for row in purged],
                "endpoint_ids": [row["endpoint_id"] for row in purged],
                "ids": [row["delivery_id"] for row in purged],
            }
            await self._run(SQL["give_up"], ids)

    async def _look(self, limits: views.ClaimLimits, lease: Lease) -> tuple[Sequence[Row], bool]:
        """Take what has room among the longest due; whether those were all that is due, or is free to look at."""
        window = max(LOOK_AT_LEAST, limits.total * LOOK_AHEAD)
        seen = await self._one(SQL["lock_endpoints"], window=window)
        if seen is None or seen["endpoints"] is None:
            return [], True
        in_flight = await self._one(SQL["count_in_flight"], seen) or {}
        parameters = {
            **asdict(limits), **seen, **in_flight,
            "per_host_of_account": limits.per_host_of_account,
            "window": window,
            "events_since": first_id(utc(seen["now"]) - limits.events_kept),
            "token": lease.token,
            "lease_s": lease.seconds,
        }  # fmt: skip
        return await self._all(SQL["claim"], parameters), seen["waiting"] < window

    async def load_claimed(self, claimed: Sequence[views.Claimed]) -> Sequence[views.ClaimedView]:
        posted_to = {(one.account_id, one.endpoint_id) for one in claimed}
        named = _json([{"account_id": account_id, "id": id_} for account_id, id_ in posted_to])
        endpoints: dict[UUID, tuple[Endpoint, HostFailures]] = {}
        for row in await self._all(SQL["lock_endpoints_of_attempts"], endpoints=named):
            endpoint = ENDPOINT_WITHOUT_SECRETS.read(row, secret=None)
            since = row["failing_since"]
            failures = HostFailures(
                endpoint.account_id, endpoint.host, row["host_failures"], since and utc(since)
            )
            endpoints[endpoint.id] = endpoint, failures
        found = await self._all(SQL["find_claimed"], claimed=_tokens(claimed))
        return [
            views.ClaimedView(
                DELIVERY.read(row), *endpoints[row["delivery_endpoint_id"]], utc(row["now"]), row["token"]
            )
            for row in found
            if row["delivery_endpoint_id"] in endpoints
        ]

    async def put_off(self, claimed: Sequence[views.Claimed], at_least: timedelta) -> None:
        if claimed:
            await self._run(SQL["put_off"], claimed=_tokens(claimed), seconds=at_least.total_seconds())

    async def save_attempts(
        self, recorded: Sequence[views.Recorded], endpoints: Sequence[Endpoint], hosts: Sequence[views.RecordedHost],
        recovered: Collection[UUID] = (),
    ) -> views.Saved:  # fmt: skip
        if not recorded:
            return views.Saved()
        made = [_made(one) for one in recorded]
        failed = [one for one in made if "success_at" not in one]
        await self._run(SQL["save_deliveries"], made=_json(made), failed=_json(failed))
        of_endpoint = Counter(one.delivery.endpoint_id for one in recorded)
        seen = [
            {
                "account_id": one.account_id,
                "id": one.id,
                "state": one.state,
                "failures": one.consecutive_failures,
                "disabled_at": one.disabled_at,
                "next_post_at": one.next_post_at,
                "released": RELEASED_AT_RECOVERY if one.id in recovered else of_endpoint[one.id],
            }
            for one in endpoints
        ]
        parameters = {"seen": _json(seen), "hosts": _json([_counted(one) for one in hosts])}
        due = await self._due(SQL["save_endpoints"], parameters)
        return views.Saved(due, await self._disable_at([_counted(one) for one in hosts if one.is_failing]))

    async def _disable_at(self, failing: Sequence[Row]) -> Sequence[Endpoint]:
        if not failing:
            return ()
        found = await self._all(SQL["disable_at_hosts"], _DISABLING, hosts=_json(failing))
        return [ENDPOINT_WITHOUT_SECRETS.read(row, secret=None) for row in found]

    async def release_held(self, account_id: UUID, endpoint_id: UUID, pace: deliveries.ReleasePace) -> int:
        return await self._due(SQL["release_one"], _paced(pace), account_id=account_id, id=endpoint_id)

    async def recover(self, account_id: UUID, endpoint_id: UUID, since: datetime, most: int) -> int:
        return await self._run(SQL["recover"], account_id=account_id, id=endpoint_id, since=since, most=most)

    async def sweep(self, pace: deliveries.ReleasePace) -> views.Swept:
        portion = {"portion": SWEPT_AT_ONCE}
        expired = await self._all(SQL["expire"], portion, held_s=deliveries.HELD_FOR.total_seconds())
        await self._run(SQL["drop_orphans"], portion)
        due = await self._due(SQL["release_all"], _paced(pace)) + await self._due(
            SQL["release_throttled"], {}
        )
        return views.Swept(due, given_up(expired, views.GiveUpReason.HELD_TOO_LONG))


def _opened(rows: Sequence[Row], cipher: Cipher, token: UUID) -> tuple[list[views.Claimed], list[Row]]:
    """Open secrets and payloads, that of an event once for all its endpoints; return those that do not open, too."""
    secrets: dict[UUID, tuple[str, str | None]] = {}
    bodies: dict[UUID, bytes] = {}
    opened: list[views.Claimed] = []
    unreadable: list[Row] = []
    for row in rows:
        account_id, endpoint_id, event_id = row["account_id"], row["endpoint_id"], row["event_id"]
        try:
            if endpoint_id not in secrets:
                secrets[endpoint_id] = _secrets(row, cipher)
            if event_id not in bodies:
                bodies[event_id] = cipher.open(row["payload"], event_context(account_id, event_id))
        except CipherRefused:
            ids = {"account_id": account_id, "endpoint_id": endpoint_id, "id": row["delivery_id"]}
            unreadable.append(ids | {"token": token})
            continue
        secret, previous = secrets[endpoint_id]
        opened.append(views.Claimed(
            account_id, row["delivery_id"], endpoint_id, event_id, row["event_kind"], row["url"], secret,
            bodies[event_id], token, row["had_lease"], previous, row["cause"],
        ))  # fmt: skip
    return opened, unreadable


def _secrets(row: Row, cipher: Cipher) -> tuple[str, str | None]:
    """Open the secret of an endpoint, and the one before while it still signs."""
    name = row["account_id"], row["endpoint_id"]
    secret = cipher.open(row["secret"], endpoint_context(*name)).decode()
    previous = row["previous_secret"]
    return secret, None if previous is None else readable(cipher, previous, previous_secret_context(*name))


def _counted(host: views.RecordedHost) -> Row:
    failures = host.failures
    return {
        "account_id": failures.account_id,
        "host": failures.host,
        "failures": failures.consecutive_failures,
        "failing_since": failures.failing_since,
    }


def _made(recorded: views.Recorded) -> Row:
    delivery = recorded.delivery
    made = {
        "account_id": delivery.account_id,
        "endpoint_id": delivery.endpoint_id,
        "delivery_id": delivery.id,
        "status": delivery.status,
        "number": delivery.attempts_made,
        "due_at": delivery.next_attempt_at,
        "held_at": delivery.held_at,
        "failed_at": delivery.failed_at,
    }
    if delivery.status is deliveries.DeliveryStatus.SUCCEEDED:
        return made | SUCCESS.row(recorded.attempt)
    return made | dict(zip(_ATTEMPT_FIELDS, _fields_of(recorded.attempt), strict=True))


def _tokens(claimed: Sequence[views.Claimed]) -> str:
    return _json([
        {"account_id": one.account_id, "endpoint_id": one.endpoint_id, "id": one.delivery_id, "token": one.token}
        for one in claimed
    ])  # fmt: skip


def _json(records: Sequence[Row]) -> str:
    # One text for a whole batch: the driver writes an array element by element, which costs ten times as much.
    return msgspec.json.encode(records).decode()


def _paced(pace: deliveries.ReleasePace) -> Row:
    return {"portion": pace.portion, "every_s": pace.every.total_seconds()}
