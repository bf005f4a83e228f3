"""One event on its way to one endpoint: the machine of a delivery and what an attempt decides.

While its endpoint is inactive a delivery is HELD, but for a post in flight, which keeps its claim and is
judged when it ends: one that is to be retried is held then. An expired claim ends when its delivery is held,
and its post is not recorded; where a store leaves a held delivery its claim, the post is judged. One that is
recovered is HELD until its turn comes, at an active endpoint, too.
"""

from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Any, Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.errors import Unprocessable
from meetcore.domain.machine import find_step
from meetcore.domain.webhooks import events, retry_schedule
from meetcore.domain.webhooks.endpoints import Endpoint, record_failure, record_success

__all__ = [
    "HELD_FOR", "TRANSITIONS", "Attempt", "Delivery", "DeliveryEvent", "DeliveryStatus", "expire",
    "give_up", "hold", "judge", "open_delivery", "record_attempt", "recover", "release",
]  # fmt: skip

HELD_FOR = timedelta(hours=72)
"""How long a delivery waits for its endpoint to become active again."""

RECOVERED_AT_ONCE = 2_000
"""How many deliveries one request recovers at most: at ten a second they take three minutes."""

MAX_ATTEMPTS_RECOVERED = 200
"""Attempts with which a delivery is not recovered any more: its attempts are stored, and have to end."""

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
    """An event of a delivery. RETRY is a failed attempt that is not the last."""

    SUCCEED = "succeed"
    RETRY = "retry"
    FAIL = "fail"
    HOLD = "hold"
    RELEASE = "release"
    EXPIRE = "expire"
    RECOVER = "recover"


TRANSITIONS: Final = {
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
"""A missing key is illegal and changes nothing."""


@frozen
class Attempt:
    """One post and its result (rule 6/7).

    `error` is a stable code for customers, and `None` exactly when the attempt succeeded; `status_code` is
    `None` without a response. `response_excerpt` is text that any store can hold. `address` is the connected
    peer, for the operator only. `retry_after_s` is the delay that the receiver requested. The headers are
    those of a failed attempt, as `headers.kept_headers` keeps them.
    """

    at: datetime
    duration_ms: int
    status_code: int | None = None
    error: str | None = None
    response_excerpt: str | None = None
    address: str | None = None
    retry_after_s: int | None = None
    request_headers: str | None = None
    response_headers: str | None = None


@frozen
class ReleasePace:
    """The pace of held deliveries: a portion when the last is through, one due `every` so long."""

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
    event_kind: StrEnum
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
    event_kind: StrEnum,
    created_at: datetime,
    now: datetime,
) -> Delivery:
    """Send an event to an endpoint, whether or not it subscribed: due at once, held while it is inactive.

    A later delivery's id is greater. It was requested at `created_at`; due times run by the store's `now`.
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
    schedule: retry_schedule.RetrySchedule,
    jitter: float,
    now: datetime,
) -> tuple[Delivery, Endpoint]:
    """Apply an attempt that ended `now` to its delivery and its endpoint as it is stored now (rule 6/5).

    Every attempt that does not succeed counts against the endpoint. The delivery is tried again by the
    schedule, is held if this failure made the endpoint inactive, and has failed for good when the schedule is
    exhausted or the receiver said 410. A final delivery is unchanged: the attempt belongs to a worker that
    lost the claim. Raises `ValueError` for a jitter outside [0, 1).
    """
    event, due = _outcome(delivery, attempt, schedule, jitter, now)
    status = find_step(TRANSITIONS, delivery.status, event)
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
    delivery: Delivery, attempt: Attempt, schedule: retry_schedule.RetrySchedule, jitter: float, now: datetime
) -> tuple[DeliveryEvent, datetime | None]:
    if judge(attempt):
        return DeliveryEvent.SUCCEED, None
    if attempt.status_code == _GONE:
        return DeliveryEvent.FAIL, None
    wait_s = attempt.retry_after_s if attempt.status_code in _MAY_ASK_TO_WAIT else None
    attempts_made = delivery.attempts_made + 1 - delivery.attempts_before_recovery
    due = retry_schedule.next_attempt(schedule, attempts_made, now, jitter, wait_s)
    return (DeliveryEvent.FAIL, None) if due is None else (DeliveryEvent.RETRY, due)


def hold(delivery: Delivery, now: datetime) -> Delivery:
    """Set a pending delivery aside because its endpoint is inactive; any other is unchanged."""
    return _moved(delivery, DeliveryEvent.HOLD, next_attempt_at=None, held_at=now)


def release(delivery: Delivery, due: datetime) -> Delivery:
    """Make a held delivery due at a moment that paces it behind older ones; any other is unchanged."""
    return _moved(delivery, DeliveryEvent.RELEASE, next_attempt_at=due, held_at=None)


def expire(delivery: Delivery, now: datetime) -> Delivery:
    """Give up a delivery that has been held for `HELD_FOR`; any other is unchanged."""
    if now - (delivery.held_at or now) < HELD_FOR:
        return delivery
    return _moved(delivery, DeliveryEvent.EXPIRE, held_at=None, failed_at=now)


def give_up(delivery: Delivery, now: datetime) -> Delivery:
    """Fail a delivery whose event is past its retention; a final one is unchanged."""
    return _moved(delivery, DeliveryEvent.FAIL, next_attempt_at=None, held_at=None, failed_at=now)


def recover(delivery: Delivery, now: datetime) -> Delivery:
    """Hold a delivery that failed or expired for release, its schedule anew.

    Any other is unchanged, and so is one with `MAX_ATTEMPTS_RECOVERED`.
    """
    made = delivery.attempts_made
    if made >= MAX_ATTEMPTS_RECOVERED:
        return delivery
    return _moved(delivery, DeliveryEvent.RECOVER, held_at=now, failed_at=None, attempts_before_recovery=made)


def _moved(delivery: Delivery, event: DeliveryEvent, **changes: Any) -> Delivery:
    status = find_step(TRANSITIONS, delivery.status, event)
    return delivery if status is None else evolve(delivery, status=status, **changes)


def recovery_start(since: datetime, now: datetime, kept: timedelta = events.EVENTS_KEPT) -> datetime:
    """Return since when failed and expired deliveries are recovered, not in the future.

    Raises `Unprocessable` where it is, or longer ago than events are `kept`.
    """
    if since > now:
        raise Unprocessable("since is in the future: nothing can have failed since then.")
    if since < events.kept_since(now, kept):
        raise Unprocessable(f"since is more than {kept.days} days ago: events are not kept longer.")
    return since
