"""Webhook endpoints and the machine that decides whether they are sent to (spec 2.3, 3 and 4.4).

The 20th failure in a row, its own or of its host, disables an endpoint; resuming then resets the count.
Three choices the spec leaves open:

- A post in flight while the endpoint is paused is counted like any other. The 20th failure in a row
  disables a paused endpoint too, so the counter never passes 20 and resuming it resets the counter.
- A post in flight when the endpoint was disabled, whatever becomes of it, changes nothing here: the
  counter stays at 20 until the customer resumes.
- Pausing a disabled endpoint leaves it disabled: it is inactive already, and must not lose the reset.

So an endpoint is DISABLED exactly when its counter is 20 and `disabled_at` is set.
"""

from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import Conflict, InvalidRequest, Unprocessable
from meetcore.domain.machine import find_step, step
from meetcore.domain.texts import TextLimits
from meetcore.domain.webhooks import urls
from meetcore.domain.webhooks.retry_schedule import RetrySchedule, longest_wait, wait_after

__all__ = [
    "DISABLE_AFTER_FAILURES", "TRANSITIONS", "UNSET", "Endpoint", "EndpointChanges", "EndpointEvent",
    "EndpointState", "HostFailures", "Unset", "count_failure", "count_success", "disable_with_host",
    "pause", "previous_secret", "record_failure", "record_success", "register", "resume", "rotate_secret",
    "update", "wait",
]  # fmt: skip

DISABLE_AFTER_FAILURES = 20
"""Failed posts in a row, retries included (rules 3/disable-at-20 and 6/5)."""

ENDPOINTS_PER_ACCOUNT = 50
"""Endpoints that an account may have, inactive ones included, where the operator sets no other number."""

MAX_OVERLAP_HOURS = 24
SECRET_OVERLAP = timedelta(hours=MAX_OVERLAP_HOURS)
"""How long the secret before a rotation signs beside the new one, where the caller does not say less."""

MAX_DESCRIPTION_LENGTH = 200
"""Code points (rule 4.3/description)."""
_DESCRIPTION = TextLimits(MAX_DESCRIPTION_LENGTH, has_lines=True)


class EndpointState(StrEnum):
    """ACTIVE is sent to; PAUSED by the customer, DISABLED by its failures."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


class EndpointEvent(Enum):
    """An event of an endpoint. DISABLE is the failure that is the 20th in a row."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DISABLE = "disable"
    PAUSE = "pause"
    RESUME = "resume"


TRANSITIONS: Final = {
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
"""A missing key is illegal and changes nothing."""


@frozen
class Endpoint:
    """A registered URL and how its deliveries have gone (spec 2.3).

    `url` is as the caller gave it, `url_key` its normal form, at most one for each account (rule 4.3/2).
    `disabled_at` is set by automatic disabling only. `created_by` is the id of the API key or of the member.
    `secret` is `None` where it cannot be decrypted or is not needed. `previous_secret` signs, too, before
    `previous_secret_until`. Nothing is posted before `next_post_at`, which is set while its posts fail.
    """

    id: UUID
    account_id: UUID
    url: str
    url_key: str
    description: str | None
    event_types: tuple[StrEnum, ...]
    state: EndpointState
    consecutive_failures: int
    disabled_at: datetime | None
    created_by: str
    created_at: datetime
    secret: str | None = field(repr=False)
    previous_secret: str | None = field(default=None, repr=False)
    previous_secret_until: datetime | None = None
    next_post_at: datetime | None = None

    @property
    def is_active(self) -> bool:
        """Whether it is sent to."""
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
    """The fields of a PATCH (spec 4.4). The URL never changes (rule 4.4/1)."""

    event_types: tuple[StrEnum, ...] | Unset = UNSET
    description: str | Unset | None = UNSET
    is_active: bool | Unset = UNSET


def check_room(endpoints: int, limit: int) -> None:
    """Raise `Unprocessable` for an endpoint above the account's `limit`, inactive ones included."""
    if endpoints >= limit:
        raise Unprocessable(
            f"This account has {endpoints} webhooks, and may have {limit}. Delete one that you no longer "
            "need, or send several kinds of events to one URL."
        )


def register(
    *,
    id: UUID,
    account_id: UUID,
    url: urls.WebhookUrl,
    description: str | None,
    event_types: tuple[StrEnum, ...],
    created_by: str,
    created_at: datetime,
    secret: str,
) -> Endpoint:
    """Make a new, active endpoint (spec 4.3); raise `InvalidRequest` as `update` does."""
    check_fields(event_types, description)
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
    """Reset the count of failures in a row after a delivery that succeeded."""
    state = find_step(TRANSITIONS, endpoint.state, EndpointEvent.SUCCEEDED)
    if state is None or (state, 0) == (endpoint.state, endpoint.consecutive_failures):
        return endpoint
    return evolve(endpoint, state=state, consecutive_failures=0, next_post_at=None)


def record_failure(endpoint: Endpoint, at: datetime) -> Endpoint:
    """Count a delivery that failed; the 20th in a row disables the endpoint (rule 3/disable-at-20)."""
    failures = endpoint.consecutive_failures + 1
    is_last = failures >= DISABLE_AFTER_FAILURES
    event = EndpointEvent.DISABLE if is_last else EndpointEvent.FAILED
    state = find_step(TRANSITIONS, endpoint.state, event)
    if state is None:
        return endpoint
    disabled_at = at if is_last else endpoint.disabled_at
    return evolve(
        endpoint, state=state, consecutive_failures=failures, disabled_at=disabled_at, next_post_at=None
    )


def disable_with_host(endpoint: Endpoint, at: datetime) -> Endpoint:
    """Disable an endpoint whose deliveries fail, because its host has failed 20 times in a row.

    One whose last delivery succeeded, or that has had none, is unchanged. The counter reads 20 afterwards, as
    after 20 failures of its own.
    """
    fails = endpoint.is_active and endpoint.consecutive_failures > 0
    state = find_step(TRANSITIONS, endpoint.state, EndpointEvent.DISABLE) if fails else None
    if state is None:
        return endpoint
    return evolve(
        endpoint, state=state, consecutive_failures=DISABLE_AFTER_FAILURES, disabled_at=at, next_post_at=None
    )


def pause(endpoint: Endpoint) -> Endpoint:
    """Stop sending to it at the customer's request; the counter is unchanged (rule 3/pause)."""
    state = find_step(TRANSITIONS, endpoint.state, EndpointEvent.PAUSE)
    return endpoint if state is None else evolve(endpoint, state=state)


def resume(endpoint: Endpoint) -> Endpoint:
    """Send to it again, at once. The count is reset only after automatic disabling (3/re-enable, 4.4/2)."""
    state = step(TRANSITIONS, endpoint.state, EndpointEvent.RESUME)
    resets_counter = endpoint.state is EndpointState.DISABLED
    failures = 0 if resets_counter else endpoint.consecutive_failures
    return evolve(endpoint, state=state, consecutive_failures=failures, disabled_at=None, next_post_at=None)


def require_active(endpoint: Endpoint) -> None:
    """Raise `Conflict` with the endpoint's id for a delivery wanted at once that would only be held."""
    if not endpoint.is_active:
        raise Conflict(
            f"This webhook is {endpoint.state.value}: nothing is sent to it. "
            "Set is_active to true first, then ask again with a new Idempotency-Key.",
            endpoint.id,
        )


def request_test(endpoint: Endpoint) -> WebhookTested:
    """Test an endpoint, whether or not it subscribed; Conflict as in `require_active`."""
    require_active(endpoint)
    return WebhookTested(endpoint)


def rotate_secret(
    endpoint: Endpoint, secret: str, now: datetime, overlap: timedelta = SECRET_OVERLAP
) -> Endpoint:
    """Sign with another secret from now on, deliveries that wait included.

    The previous secret signs beside it for the overlap; an older one signs no more. Raises `ValueError` for
    the present secret, or an overlap that is negative or longer than `SECRET_OVERLAP`.
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

    Raises `InvalidRequest` for no event types, one twice, or a description that breaks its rule.
    """
    kinds = endpoint.event_types if isinstance(changes.event_types, Unset) else changes.event_types
    text = endpoint.description if isinstance(changes.description, Unset) else changes.description
    check_fields(kinds, text)
    changed = evolve(endpoint, event_types=kinds, description=text)
    if isinstance(changes.is_active, Unset):
        return changed
    return resume(changed) if changes.is_active else pause(changed)


def check_fields(event_types: tuple[StrEnum, ...], description: str | None) -> None:
    """Raise `InvalidRequest` for no event kind, one twice, or a description above its limit."""
    problems: dict[str, list[str]] = {}
    if not event_types:
        problems["event_types"] = ["must name at least one event kind"]
    elif len(set(event_types)) != len(event_types):
        problems["event_types"] = ["must not name an event kind twice"]
    if description_problems := _DESCRIPTION.problems(description or ""):
        problems["description"] = description_problems
    if problems:
        raise InvalidRequest(problems)


@frozen
class HostFailures:
    """Failed deliveries in a row at a host, over all endpoints of an account there.

    Many endpoints of one account can lead to one host. Each has 20 failures before it is disabled, which
    would be 20 posts for each of them to a host that does not respond. So 20 in a row at the host, with no
    success at any endpoint of the account there, disable each of them whose deliveries fail (rule
    3/disable-at-20), where the first was as long ago as an endpoint waits at most: one event for twenty
    endpoints does not disable them at a host that restarts.

    The count starts again when it has disabled, or when an endpoint there was disabled by its own failures:
    an endpoint that is made active again has 20 further failures where it is the only one that fails.
    """

    account_id: UUID
    host: str
    consecutive_failures: int = 0
    failing_since: datetime | None = None


def count_success(failures: HostFailures) -> HostFailures:
    """Start again: the host accepted a delivery."""
    return evolve(failures, consecutive_failures=0, failing_since=None)


def count_failure(
    failures: HostFailures, before: Endpoint, after: Endpoint, schedule: RetrySchedule, now: datetime
) -> tuple[HostFailures, bool]:
    """Count a failed delivery at the host, between the endpoint `before` and `after` the failure at `now`.

    A post that was in flight when its endpoint was disabled does not count. True where the host has failed 20
    times in a row, and for the longest wait of an endpoint: then every endpoint of the account at the host is
    to be passed to `disable_with_host`.
    """
    if before.state is EndpointState.DISABLED:
        return failures, False
    since, count = failures.failing_since or now, failures.consecutive_failures + 1
    is_host_failing = count >= DISABLE_AFTER_FAILURES and now - since >= longest_wait(schedule)
    if is_host_failing or after.state is EndpointState.DISABLED:
        return count_success(failures), is_host_failing
    return evolve(failures, consecutive_failures=count, failing_since=since), False


def wait(
    endpoint: Endpoint, failures: HostFailures, schedule: RetrySchedule, jitter: float, now: datetime
) -> Endpoint:
    """Post nothing for a time after a failure at `now`, by the failures in a row here or at its host.

    So the 20th failure is as far from the first as the schedule makes it, however many deliveries are due.
    """
    in_a_row = max(endpoint.consecutive_failures, failures.consecutive_failures)
    pause_for = wait_after(schedule, in_a_row, jitter)
    return evolve(endpoint, next_post_at=now + pause_for) if pause_for and endpoint.is_active else endpoint
