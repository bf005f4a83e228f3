"""Webhook endpoints and the machine that decides whether they are sent to (spec 2.3, 3 and 4.4).

::

    ACTIVE   --PAUSE--->  PAUSED
    ACTIVE   --DISABLE->  DISABLED     the 20th failure in a row, its own or of its host (`destinations`)
    PAUSED   --DISABLE->  DISABLED     the same, by posts that were in flight
    PAUSED   --RESUME-->  ACTIVE       the counter stays
    DISABLED --RESUME-->  ACTIVE       the counter starts again

Owns the record, the counter of consecutive failures and every change of them. It does not post, know
about deliveries, or draw ids, moments or secrets.

Three choices the spec leaves open:

- A post in flight while the endpoint is paused is counted like any other. The 20th failure in a row
  disables a paused endpoint too, so the counter never passes 20 and resuming it resets the counter.
- A post in flight when the endpoint was disabled, whatever becomes of it, changes nothing here: the
  counter stays at 20 until the customer resumes.
- Pausing a disabled endpoint leaves it disabled: it is inactive already, and must not lose the reset.

So an endpoint is DISABLED exactly when its counter is 20 and `disabled_at` is set.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from types import MappingProxyType
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import Conflict, InvalidRequest, Unprocessable
from meetcore.domain.texts import TextLimits
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import WebhookUrl

__all__ = [
    "DISABLE_AFTER_FAILURES",
    "ENDPOINTS_PER_ACCOUNT",
    "MAX_DESCRIPTION_LENGTH",
    "MAX_OVERLAP_HOURS",
    "SECRET_OVERLAP",
    "TRANSITIONS",
    "UNSET",
    "Endpoint",
    "EndpointChanges",
    "EndpointEvent",
    "EndpointState",
    "Unset",
    "WebhookTested",
    "check_room",
    "disable_with_host",
    "pause",
    "previous_secret",
    "record_failure",
    "record_success",
    "register",
    "request_test",
    "require_active",
    "resume",
    "rotate_secret",
    "update",
]

DISABLE_AFTER_FAILURES = 20
"""Consecutive failed deliveries (rules 3/disable-at-20 and 6/5)."""

ENDPOINTS_PER_ACCOUNT = 50
"""Endpoints that an account may have, inactive ones included, where the operator sets no other number."""

MAX_OVERLAP_HOURS = 24
SECRET_OVERLAP = timedelta(hours=MAX_OVERLAP_HOURS)
"""How long the secret before a rotation signs beside the new one, where the caller does not say less."""

MAX_DESCRIPTION_LENGTH = 200
"""Code points (rule 4.3/description)."""
_DESCRIPTION = TextLimits(MAX_DESCRIPTION_LENGTH, has_lines=True)


class EndpointState(StrEnum):
    """Only ACTIVE is sent to; PAUSED by the customer, DISABLED by its failures."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


class EndpointEvent(Enum):
    """What can happen to an endpoint. DISABLE is the failure that is the 20th in a row."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DISABLE = "disable"
    PAUSE = "pause"
    RESUME = "resume"


TRANSITIONS: Mapping[tuple[EndpointState, EndpointEvent], EndpointState] = MappingProxyType(
    {
        (EndpointState.ACTIVE, EndpointEvent.SUCCEEDED): EndpointState.ACTIVE,
        (EndpointState.ACTIVE, EndpointEvent.FAILED): EndpointState.ACTIVE,
        (EndpointState.ACTIVE, EndpointEvent.DISABLE): EndpointState.DISABLED,
        (EndpointState.ACTIVE, EndpointEvent.PAUSE): EndpointState.PAUSED,
        (EndpointState.ACTIVE, EndpointEvent.RESUME): EndpointState.ACTIVE,
        (EndpointState.PAUSED, EndpointEvent.SUCCEEDED): EndpointState.PAUSED,
        (EndpointState.PAUSED, EndpointEvent.FAILED): EndpointState.PAUSED,
        (EndpointState.PAUSED, EndpointEvent.DISABLE): EndpointState.DISABLED,
        (EndpointState.PAUSED, EndpointEvent.PAUSE): EndpointState.PAUSED,
        (EndpointState.PAUSED, EndpointEvent.RESUME): EndpointState.ACTIVE,
        (EndpointState.DISABLED, EndpointEvent.RESUME): EndpointState.ACTIVE,
    }
)
"""A missing key is illegal and changes nothing."""


@frozen
class Endpoint:
    """A registered URL and how its deliveries have gone (spec 2.3).

    `url` is what the caller gave and `url_key` its normal form, at most one for each account (rule
    4.3/2). `disabled_at` is set by automatic disabling only. `created_by` is the id of the API
    key, or of the member who made it by hand. `secret` is None where the stored one cannot be decrypted, and
    where it is not needed.
    `previous_secret` is the one before the last rotation, which signs, too, before `previous_secret_until`.
    """

    id: UUID
    account_id: UUID
    url: str
    url_key: str
    description: str | None
    event_types: tuple[EventKind, ...]
    state: EndpointState
    consecutive_failures: int
    disabled_at: datetime | None
    created_by: str
    created_at: datetime
    secret: str | None = field(repr=False)
    previous_secret: str | None = field(default=None, repr=False)
    previous_secret_until: datetime | None = None

    @property
    def is_active(self) -> bool:
        """Whether anything is sent to it."""
        return self.state is EndpointState.ACTIVE

    @property
    def host(self) -> str:
        """The destination host in its normal form, an IPv6 address in brackets."""
        return self.url_key.split("/")[2]


@frozen
class WebhookTested:
    """A customer asked for a test event."""

    endpoint: Endpoint


class Unset(Enum):
    """The type of `UNSET`: a field that a change does not mention, where None is a value."""

    UNSET = "unset"


UNSET = Unset.UNSET


@frozen
class EndpointChanges:
    """What a PATCH asks for (spec 4.4). A URL is not among it: it never changes (rule 4.4/1)."""

    event_types: tuple[EventKind, ...] | Unset = UNSET
    description: str | Unset | None = UNSET
    is_active: bool | Unset = UNSET


def check_room(endpoints: int, limit: int) -> None:
    """Refuse one more endpoint for an account that has its number of them.

    Args:
        endpoints: how many it has, the inactive ones included, counted under the account's lock.

    Raises:
        Unprocessable: there is no room.
    """
    if endpoints >= limit:
        raise Unprocessable(
            f"This account has {endpoints} webhooks, and may have {limit}. Delete one that you no longer "
            "need, or send several kinds of events to one URL."
        )


def register(
    *,
    id: UUID,
    account_id: UUID,
    url: WebhookUrl,
    description: str | None,
    event_types: tuple[EventKind, ...],
    created_by: str,
    created_at: datetime,
    secret: str,
) -> Endpoint:
    """Make a new, active endpoint (spec 4.3).

    Raises:
        InvalidRequest: no event types, one twice, or a description that breaks its rule.
    """
    _check(event_types, description)
    return Endpoint(
        id=id,
        account_id=account_id,
        url=url.text,
        url_key=url.normalized,
        description=description,
        event_types=event_types,
        state=EndpointState.ACTIVE,
        consecutive_failures=0,
        disabled_at=None,
        created_by=created_by,
        created_at=created_at,
        secret=secret,
    )


def record_success(endpoint: Endpoint) -> Endpoint:
    """Take note of a delivery that succeeded: the row of failures is broken."""
    state = TRANSITIONS.get((endpoint.state, EndpointEvent.SUCCEEDED))
    if state is None or (state, 0) == (endpoint.state, endpoint.consecutive_failures):
        return endpoint
    return evolve(endpoint, state=state, consecutive_failures=0)


def record_failure(endpoint: Endpoint, at: datetime) -> Endpoint:
    """Take note of a delivery that failed; the 20th in a row disables the endpoint (rule 3/disable-at-20)."""
    failures = endpoint.consecutive_failures + 1
    is_last = failures >= DISABLE_AFTER_FAILURES
    event = EndpointEvent.DISABLE if is_last else EndpointEvent.FAILED
    state = TRANSITIONS.get((endpoint.state, event))
    if state is None:
        return endpoint
    disabled_at = at if is_last else endpoint.disabled_at
    return evolve(endpoint, state=state, consecutive_failures=failures, disabled_at=disabled_at)


def disable_with_host(endpoint: Endpoint, at: datetime) -> Endpoint:
    """Disable an endpoint whose deliveries fail, because its host has failed 20 times in a row.

    One whose last delivery succeeded, or that has had none, is left unchanged: no failure of it is known. The
    counter reads 20 afterwards, as after 20 failures of its own.
    """
    fails = endpoint.is_active and endpoint.consecutive_failures > 0
    state = TRANSITIONS.get((endpoint.state, EndpointEvent.DISABLE)) if fails else None
    if state is None:
        return endpoint
    return evolve(endpoint, state=state, consecutive_failures=DISABLE_AFTER_FAILURES, disabled_at=at)


def pause(endpoint: Endpoint) -> Endpoint:
    """Stop sending to it at the customer's request; the counter is unchanged (rule 3/pause)."""
    state = TRANSITIONS.get((endpoint.state, EndpointEvent.PAUSE))
    return endpoint if state is None else evolve(endpoint, state=state)


def resume(endpoint: Endpoint) -> Endpoint:
    """Send to it again. The count is reset only after automatic disabling (rules 3/re-enable and 4.4/2)."""
    # Every state can be resumed: the table has no gap here.
    state = TRANSITIONS[endpoint.state, EndpointEvent.RESUME]
    resets_counter = endpoint.state is EndpointState.DISABLED
    failures = 0 if resets_counter else endpoint.consecutive_failures
    return evolve(endpoint, state=state, consecutive_failures=failures, disabled_at=None)


def require_active(endpoint: Endpoint) -> None:
    """Refuse a delivery that is requested for immediate arrival but would only be held.

    Raises:
        Conflict: the endpoint is paused or disabled; `details.id` names it.
    """
    if not endpoint.is_active:
        raise Conflict(
            f"This webhook is {endpoint.state.value}: nothing is sent to it. "
            "Set is_active to true first, then ask again with a new Idempotency-Key.",
            endpoint.id,
        )


def request_test(endpoint: Endpoint) -> WebhookTested:
    """Test an endpoint, whether or not it subscribed.

    Raises:
        Conflict: see `require_active`.
    """
    require_active(endpoint)
    return WebhookTested(endpoint)


def rotate_secret(
    endpoint: Endpoint, secret: str, now: datetime, overlap: timedelta = SECRET_OVERLAP
) -> Endpoint:
    """Sign with another secret from now on, what waits to be sent included.

    The secret that was in use signs beside it for the overlap; one before that does not sign any more.

    Raises:
        ValueError: it is the secret that is in use: nothing would have been rotated. Or the overlap is longer
            than `SECRET_OVERLAP`, or less than nothing.
    """
    if secret == endpoint.secret:
        raise ValueError("a rotation needs a new secret")
    if not timedelta() <= overlap <= SECRET_OVERLAP:
        raise ValueError(f"secrets overlap for 0 to {MAX_OVERLAP_HOURS} hours")
    previous = endpoint.secret if overlap else None
    until = None if previous is None else now + overlap
    return evolve(endpoint, secret=secret, previous_secret=previous, previous_secret_until=until)


def previous_secret(endpoint: Endpoint, now: datetime) -> str | None:
    """Return the secret before the last rotation while it still signs."""
    until = endpoint.previous_secret_until
    return endpoint.previous_secret if until is not None and now < until else None


def update(endpoint: Endpoint, changes: EndpointChanges) -> Endpoint:
    """Apply a PATCH as a whole (spec 4.4).

    Raises:
        InvalidRequest: no event types, one twice, or a description that breaks its rule.
    """
    kinds = endpoint.event_types if isinstance(changes.event_types, Unset) else changes.event_types
    text = endpoint.description if isinstance(changes.description, Unset) else changes.description
    _check(kinds, text)
    changed = evolve(endpoint, event_types=kinds, description=text)
    if isinstance(changes.is_active, Unset):
        return changed
    return resume(changed) if changes.is_active else pause(changed)


def _check(event_types: tuple[EventKind, ...], description: str | None) -> None:
    problems: dict[str, list[str]] = {}
    if not event_types:
        problems["event_types"] = ["must name at least one event kind"]
    elif len(set(event_types)) != len(event_types):
        problems["event_types"] = ["must not name an event kind twice"]
    if description_problems := _DESCRIPTION.problems(description or ""):
        problems["description"] = description_problems
    if problems:
        raise InvalidRequest(problems)
