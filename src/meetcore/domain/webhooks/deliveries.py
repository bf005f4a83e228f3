"""One event on its way to one endpoint: the machine of a delivery and what an attempt decides.

::

    PENDING --SUCCEED--> SUCCEEDED        PENDING --HOLD-----> HELD
    PENDING --FAIL-----> FAILED           HELD    --RELEASE--> PENDING
    PENDING --RETRY----> PENDING          HELD    --EXPIRE---> EXPIRED
    FAILED  --RECOVER--> HELD             EXPIRED --RECOVER--> HELD

While its endpoint is inactive a delivery is HELD, but for a post in flight, which keeps its claim and is
judged when it ends: one that is to be retried is held then. A held delivery whose post ends
late, after its claim has expired, is still judged. One that is recovered is HELD until its turn comes, at an
active endpoint, too.

Owns the states, the judgement of an attempt and its effect on delivery and endpoint together. Does
not post, claim or store attempts, and does not read the body.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from types import MappingProxyType
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import Unprocessable
from meetcore.domain.webhooks.endpoints import Endpoint, record_failure, record_success
from meetcore.domain.webhooks.events import EVENTS_KEPT, EventKind, kept_since
from meetcore.domain.webhooks.retry_schedule import RetrySchedule, next_attempt

__all__ = [
    "HELD_FOR",
    "RECOVERED_AT_ONCE",
    "RELEASE_PACE",
    "TRANSITIONS",
    "Attempt",
    "Delivery",
    "DeliveryEvent",
    "DeliveryStatus",
    "ReleasePace",
    "expire",
    "give_up",
    "hold",
    "judge",
    "open_delivery",
    "record_attempt",
    "recover",
    "recovery_start",
    "release",
]

HELD_FOR = timedelta(hours=72)
"""How long a delivery waits for its endpoint to become active again."""

RECOVERED_AT_ONCE = 2_000
"""How many deliveries one request recovers at most: at ten a second they take three minutes."""

_GONE = 410
_MAY_ASK_TO_WAIT = frozenset({429, 503})


class DeliveryStatus(StrEnum):
    """Where a delivery stands. SUCCEEDED is final, FAILED and EXPIRED until it is recovered."""

    PENDING = "pending"
    HELD = "held"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"


class DeliveryEvent(Enum):
    """What can happen to a delivery. RETRY is a failed attempt that is not the last."""

    SUCCEED = "succeed"
    RETRY = "retry"
    FAIL = "fail"
    HOLD = "hold"
    RELEASE = "release"
    EXPIRE = "expire"
    RECOVER = "recover"


TRANSITIONS: Mapping[tuple[DeliveryStatus, DeliveryEvent], DeliveryStatus] = MappingProxyType(
    {
        (DeliveryStatus.PENDING, DeliveryEvent.SUCCEED): DeliveryStatus.SUCCEEDED,
        (DeliveryStatus.PENDING, DeliveryEvent.RETRY): DeliveryStatus.PENDING,
        (DeliveryStatus.PENDING, DeliveryEvent.FAIL): DeliveryStatus.FAILED,
        (DeliveryStatus.PENDING, DeliveryEvent.HOLD): DeliveryStatus.HELD,
        (DeliveryStatus.HELD, DeliveryEvent.SUCCEED): DeliveryStatus.SUCCEEDED,
        (DeliveryStatus.HELD, DeliveryEvent.RETRY): DeliveryStatus.HELD,
        (DeliveryStatus.HELD, DeliveryEvent.FAIL): DeliveryStatus.FAILED,
        (DeliveryStatus.HELD, DeliveryEvent.RELEASE): DeliveryStatus.PENDING,
        (DeliveryStatus.HELD, DeliveryEvent.EXPIRE): DeliveryStatus.EXPIRED,
        (DeliveryStatus.FAILED, DeliveryEvent.RECOVER): DeliveryStatus.HELD,
        (DeliveryStatus.EXPIRED, DeliveryEvent.RECOVER): DeliveryStatus.HELD,
    }
)
"""A missing key is illegal and changes nothing."""


@frozen
class Attempt:
    """One post and its result (rule 6/7).

    `error` is a stable code for customers and None exactly when the attempt succeeded; `status_code` is
    None when no answer was read. `response_excerpt` is text that any store can hold. `address` is the
    peer that was connected to, for the operator only. `retry_after_s` is the delay the receiver requested,
    in seconds.
    """

    at: datetime
    duration_ms: int
    status_code: int | None = None
    error: str | None = None
    response_excerpt: str | None = None
    address: str | None = None
    retry_after_s: int | None = None


@frozen
class ReleasePace:
    """How held deliveries come back when their endpoint is active again, so that it is not flooded.

    A portion at a time, the oldest first, one due every so long; the next portion when this one is through.
    """

    portion: int = 20
    every: timedelta = timedelta(milliseconds=100)

    @property
    def lasts(self) -> timedelta:
        """How long a portion takes."""
        return self.portion * self.every


RELEASE_PACE = ReleasePace()
"""Ten a second, twenty at a time."""


@frozen
class Delivery:
    """An event for an endpoint.

    `next_attempt_at` is set exactly while PENDING, `held_at` while HELD, `failed_at` while FAILED or EXPIRED.
    The schedule of retries counts the attempts after the first `attempts_before_recovery`.
    """

    id: UUID
    account_id: UUID
    endpoint_id: UUID
    event_id: UUID
    event_kind: EventKind
    status: DeliveryStatus
    attempts_made: int
    next_attempt_at: datetime | None
    created_at: datetime
    held_at: datetime | None = None
    failed_at: datetime | None = None
    attempts_before_recovery: int = 0


def open_delivery(
    *,
    id: UUID,
    endpoint: Endpoint,
    event_id: UUID,
    event_kind: EventKind,
    created_at: datetime,
    now: datetime,
) -> Delivery:
    """Send an event to an endpoint, whether or not it subscribed: due at once, held while it is inactive.

    Args:
        id: of the delivery; a later one is greater.
        endpoint: as it is stored now.
        event_id: of an event that is written, or will be together with the delivery.
        created_at: when it was requested, by the caller's clock.
        now: the instant of the store that keeps it; due times run by its clock.
    """
    waiting = Delivery(
        id=id,
        account_id=endpoint.account_id,
        endpoint_id=endpoint.id,
        event_id=event_id,
        event_kind=event_kind,
        status=DeliveryStatus.PENDING,
        attempts_made=0,
        next_attempt_at=now,
        created_at=created_at,
    )
    return waiting if endpoint.is_active else hold(waiting, now)


def judge(attempt: Attempt) -> bool:
    """Return whether the receiver accepted the event: a 2xx, read to its end in time (rule 6/4)."""
    return attempt.error is None and attempt.status_code is not None and 200 <= attempt.status_code < 300


def record_attempt(
    delivery: Delivery,
    endpoint: Endpoint,
    attempt: Attempt,
    schedule: RetrySchedule,
    jitter: float,
    now: datetime,
) -> tuple[Delivery, Endpoint]:
    """Decide what an attempt does to its delivery and its endpoint (rule 6/5).

    Every attempt that does not succeed counts against the endpoint. The delivery is tried again by the
    schedule, is held if this failure made the endpoint inactive, and has failed for good when the
    schedule is exhausted or the receiver said 410. On a delivery that is already final nothing changes:
    the attempt belongs to a worker that lost the claim.

    Args:
        delivery: as it is stored now.
        endpoint: as it is stored now; it may have been paused or disabled while the post was in flight.
        jitter: drawn from [0, 1).
        now: when the attempt ended.

    Raises:
        ValueError: the jitter is outside [0, 1).
    """
    event, due = _outcome(delivery, attempt, schedule, jitter, now)
    status = TRANSITIONS.get((delivery.status, event))
    if status is None:
        return delivery, endpoint
    failed_at = now if status is DeliveryStatus.FAILED else None
    done = evolve(
        delivery, status=status, attempts_made=delivery.attempts_made + 1, next_attempt_at=due, held_at=None,
        failed_at=failed_at,
    )  # fmt: skip
    counted = record_success(endpoint) if judge(attempt) else record_failure(endpoint, now)
    if status is DeliveryStatus.HELD:
        # Held before this attempt came back: it keeps waiting, since the moment it was held.
        done = evolve(done, next_attempt_at=None, held_at=delivery.held_at)
    elif not counted.is_active:
        done = hold(done, now)
    return done, counted


def _outcome(
    delivery: Delivery, attempt: Attempt, schedule: RetrySchedule, jitter: float, now: datetime
) -> tuple[DeliveryEvent, datetime | None]:
    if judge(attempt):
        return DeliveryEvent.SUCCEED, None
    if attempt.status_code == _GONE:
        return DeliveryEvent.FAIL, None
    wait_s = attempt.retry_after_s if attempt.status_code in _MAY_ASK_TO_WAIT else None
    attempts_made = delivery.attempts_made + 1 - delivery.attempts_before_recovery
    due = next_attempt(schedule, attempts_made, now, jitter, wait_s)
    return (DeliveryEvent.FAIL, None) if due is None else (DeliveryEvent.RETRY, due)


def hold(delivery: Delivery, now: datetime) -> Delivery:
    """Set a pending delivery aside because its endpoint is inactive; any other stays as it is."""
    status = TRANSITIONS.get((delivery.status, DeliveryEvent.HOLD))
    if status is None:
        return delivery
    return evolve(delivery, status=status, next_attempt_at=None, held_at=now)


def release(delivery: Delivery, due: datetime) -> Delivery:
    """Make a held delivery due at a moment that paces it behind older ones; any other stays as it is."""
    status = TRANSITIONS.get((delivery.status, DeliveryEvent.RELEASE))
    if status is None:
        return delivery
    return evolve(delivery, status=status, next_attempt_at=due, held_at=None)


def expire(delivery: Delivery, now: datetime) -> Delivery:
    """Give up a delivery that has been held for `HELD_FOR`; any other stays as it is."""
    status = TRANSITIONS.get((delivery.status, DeliveryEvent.EXPIRE))
    if status is None or now - (delivery.held_at or now) < HELD_FOR:
        return delivery
    return evolve(delivery, status=status, held_at=None, failed_at=now)


def give_up(delivery: Delivery, now: datetime) -> Delivery:
    """Fail a delivery whose event is past its retention; a final one stays as it is."""
    status = TRANSITIONS.get((delivery.status, DeliveryEvent.FAIL))
    if status is None:
        return delivery
    return evolve(delivery, status=status, next_attempt_at=None, held_at=None, failed_at=now)


def recover(delivery: Delivery, now: datetime) -> Delivery:
    """Hold a delivery that failed or expired for release, its schedule anew; any other stays as it is."""
    status = TRANSITIONS.get((delivery.status, DeliveryEvent.RECOVER))
    if status is None:
        return delivery
    made = delivery.attempts_made
    return evolve(delivery, status=status, held_at=now, failed_at=None, attempts_before_recovery=made)


def recovery_start(since: datetime, now: datetime, kept: timedelta = EVENTS_KEPT) -> datetime:
    """Return the instant since which deliveries that failed or expired are recovered.

    Args:
        since: asked for.
        now: of the request.
        kept: how long events are kept.

    Raises:
        Unprocessable: it is in the future, or longer ago than events are kept.
    """
    if since > now:
        raise Unprocessable("since is in the future: nothing can have failed since then.")
    if since < kept_since(now, kept):
        raise Unprocessable(f"since is more than {kept.days} days ago: events are not kept longer.")
    return since
