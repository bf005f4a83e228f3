"""Webhooks: URLs, secrets, endpoints and their events, deliveries and attempts.

Every record is one that the machines of `endpoints` and `deliveries` in `meetcore.domain.webhooks` can reach.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from string import ascii_letters, digits
from typing import Any

from hypothesis import strategies as st

from meetcore.domain.webhooks.deliveries import Attempt, Delivery, DeliveryStatus
from meetcore.domain.webhooks.endpoints import (
    DISABLE_AFTER_FAILURES,
    MAX_DESCRIPTION_LENGTH,
    Endpoint,
    EndpointEvent,
    EndpointState,
)
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.signature import SECRET_BYTES, new_secret
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.testing.strategies.addresses import public_ipv4, public_ipv6
from meetcore.testing.strategies.requests import json_objects

__all__ = [
    "attempts", "deliveries", "descriptions", "endpoint_event_lists", "endpoint_secrets", "endpoints",
    "event_kinds", "events", "jitters", "retry_schedules", "webhook_urls",
]  # fmt: skip

_YEARS = datetime(2020, 1, 1), datetime(2040, 1, 1)  # noqa: DTZ001 - Hypothesis adds the zone itself
_MOMENTS = st.datetimes(*_YEARS, timezones=st.just(UTC))
_IDS, _KINDS = st.uuids(), st.sampled_from(EventKind)
_LABELS = st.text(ascii_letters + digits, min_size=1, max_size=8) | st.sampled_from(("a-b", "X--y", "z" * 63))
_INTERNATIONAL = st.sampled_from(
    ("b\u00fccher", "B\u00dcCHER", "\u4f8b\u3048", "\u043f\u0440\u0438\u043c\u0435\u0440")
)
_TOP_LEVELS = st.sampled_from(("example", "TEST", "invalid", "id", "xn--zckzah", "\u30c6\u30b9\u30c8"))
_DOTS = st.sampled_from((".", ".", ".", "\u3002", "\uff0e"))
_TARGET_PARTS = st.sampled_from((*"aZ09-._~!$&'()*+,;=:@/[]", "%20", "%2f", "%2F", "%C3%BC", "..", "//"))


def webhook_urls() -> st.SearchStrategy[str]:
    """Draw a URL that a customer may register: any case, with or without port 443, names and literals."""
    names = st.builds(
        lambda labels, dot, top, end: dot.join((*labels, top)) + end,
        st.lists(_LABELS | _INTERNATIONAL, min_size=1, max_size=3),
        _DOTS, _TOP_LEVELS, st.sampled_from(("", "", ".")),
    )  # fmt: skip
    parts = st.lists(_TARGET_PARTS, max_size=8).map("".join)
    return st.builds(
        "{}://{}{}{}{}".format,
        st.sampled_from(("https", "HTTPS", "hTTps")),
        names | public_ipv4().map(str) | public_ipv6().map("[{}]".format),
        st.sampled_from(("", ":443", ":")),
        st.just("") | parts.map("/{}".format),
        st.just("") | parts.map("?{}".format),
    )


def endpoint_secrets() -> st.SearchStrategy[str]:
    """Draw the secret of an endpoint: `whsec_` and 32 bytes in base64."""
    return st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES).map(new_secret)


def descriptions() -> st.SearchStrategy[str | None]:
    """Draw a description: up to 200 code points, no controls but tabs and line ends."""
    characters = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), include_characters="\t\n\r")
    return st.none() | st.text(characters, max_size=MAX_DESCRIPTION_LENGTH)


def event_kinds() -> st.SearchStrategy[tuple[EventKind, ...]]:
    """Draw the kinds of a subscription: one or more, each once, in any order."""
    return st.lists(_KINDS, min_size=1, unique=True).map(tuple)


@cache
def endpoints(state: EndpointState | None = None) -> st.SearchStrategy[Endpoint]:
    """Draw an endpoint in this state, or in any, with a possible counter of failures."""
    if state is None:
        return st.one_of(*map(endpoints, EndpointState))
    is_disabled = state is EndpointState.DISABLED
    last = DISABLE_AFTER_FAILURES - 1
    counts = st.just(DISABLE_AFTER_FAILURES) if is_disabled else st.just(last) | st.integers(0, last)
    return st.builds(
        lambda url, previous, **fields: Endpoint(
            url=url.text, url_key=url.normalized, previous_secret=previous[0],
            previous_secret_until=previous[1], **fields,
        ),
        webhook_urls().map(parse_webhook_url),
        st.just((None, None)) | st.tuples(endpoint_secrets(), _MOMENTS),
        id=_IDS, account_id=_IDS, description=descriptions(), event_types=event_kinds(),
        state=st.just(state), consecutive_failures=counts,
        disabled_at=_MOMENTS if is_disabled else st.none(),
        created_by=_IDS.map(str), created_at=_MOMENTS, secret=endpoint_secrets(),
    )  # fmt: skip


def endpoint_event_lists(max_size: int = 80) -> st.SearchStrategy[Sequence[EndpointEvent]]:
    """Draw an endpoint's events, with rows around twenty failures; DISABLE stands for the missing ones."""
    rows = st.integers(1, DISABLE_AFTER_FAILURES + 5) | st.just(DISABLE_AFTER_FAILURES - 1)
    failures = rows.map(lambda count: [EndpointEvent.FAILED] * count)
    sequences = st.lists(st.sampled_from(EndpointEvent).map(lambda event: [event]) | failures, max_size=12)
    return sequences.map(lambda parts: [event for part in parts for event in part][:max_size])


def events() -> st.SearchStrategy[Event]:
    """Draw an event of any kind."""
    return st.builds(Event, id=_IDS, account_id=_IDS, kind=_KINDS, created_at=_MOMENTS, data=json_objects())


def retry_schedules() -> st.SearchStrategy[RetrySchedule]:
    """Draw up to twelve delays of up to two days, in any order."""
    return st.lists(st.integers(0, 2 * 86_400), max_size=12).map(lambda delays: RetrySchedule(tuple(delays)))


def jitters() -> st.SearchStrategy[float]:
    """Draw a share of the jitter from [0, 1)."""
    return st.floats(0, 1, exclude_max=True)


def attempts(*, succeeds: bool | None = None) -> st.SearchStrategy[Attempt]:
    """Draw the result of a post; with `succeeds`, only successes or only failures."""
    if succeeds is None:
        return attempts(succeeds=True) | attempts(succeeds=False)
    fields: dict[str, st.SearchStrategy[Any]] = {
        "at": _MOMENTS,
        "duration_ms": st.integers(0, 10_000),
        "response_excerpt": st.none() | st.text(max_size=10),
        "address": st.none() | public_ipv4().map(str),
        "retry_after_s": st.none() | st.integers(-10, 10**7),
        "response_headers": st.none() | st.text(max_size=10),
    }
    taken = st.integers(200, 299)
    if succeeds:
        return st.builds(Attempt, status_code=taken, error=st.none(), **fields)
    refused = st.sampled_from((410, 429, 503, 199, 300)) | st.integers(100, 199) | st.integers(300, 599)
    answered = refused.flatmap(
        lambda code: st.builds(Attempt, status_code=st.just(code), error=st.just(f"status_{code}"), **fields)
    )
    errors = st.sampled_from(("timeout", "dns", "tls", "refused_address"))
    return answered | st.builds(Attempt, status_code=st.none() | taken, error=errors, **fields)


def deliveries(
    status: DeliveryStatus | None = None, moments: st.SearchStrategy[datetime] = _MOMENTS
) -> st.SearchStrategy[Delivery]:
    """Draw a delivery in this state, or in any, that is due, held or failed within ten days."""
    if status is None:
        return st.one_of(*(deliveries(one, moments) for one in DeliveryStatus))
    time_of = {DeliveryStatus.PENDING: "next_attempt_at", DeliveryStatus.HELD: "held_at"}
    time_of |= dict.fromkeys((DeliveryStatus.FAILED, DeliveryStatus.EXPIRED), "failed_at")
    times: dict[str, Any] = dict.fromkeys(("next_attempt_at", "held_at", "failed_at"))

    def delivery(created_at: datetime, wait: timedelta, tried: int, retried: int, **fields: Any) -> Delivery:
        fields |= times | ({time_of[status]: created_at + wait} if status in time_of else {})
        fields |= {"attempts_made": tried + retried, "attempts_before_recovery": tried}
        return Delivery(status=status, created_at=created_at, **fields)

    return st.builds(
        delivery, moments, st.timedeltas(timedelta(0), timedelta(days=10)), st.just(0) | st.integers(0, 24),
        st.integers(0, 12), id=_IDS, account_id=_IDS, endpoint_id=_IDS, event_id=_IDS, event_kind=_KINDS,
    )  # fmt: skip
