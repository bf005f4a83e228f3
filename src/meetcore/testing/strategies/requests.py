"""What a caller sends: bodies, idempotency keys and what is stored of them, API keys, arrivals.

Values that keep the rules of `idempotency`, `keys` and `rate_window` in `meetcore.domain.requests`, drawn so
that edges come often.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeAlias
from uuid import UUID

from hypothesis import strategies as st

from meetcore.domain.requests.idempotency import IdempotencyRecord, KeyState
from meetcore.domain.requests.keys import SECRET_BYTES, ApiKey, Scope, mint
from meetcore.testing.strategies.moments import time_zones

__all__ = [
    "JSON_LOOK_ALIKES",
    "api_keys",
    "arrivals",
    "fingerprints",
    "idempotency_keys",
    "idempotency_records",
    "json_objects",
    "json_texts",
    "json_values",
    "key_prefixes",
    "key_texts",
]

JsonValue: TypeAlias = Any
"""What `json.loads` returns."""

JSON_LOOK_ALIKES: tuple[JsonValue, ...] = (
    None, "null", True, "true", False, 0, 0.0, -0.0, "0", "", 1, 1.0, "1", "1.0", 10**20, 1e20, 2**53,
    2**53 + 1, float(2**53), 0.1, 0.30000000000000004, 0.3, "\u00e9", "e\u0301", "\u00c9", "\U0001f600",
    "a", "A", "a ", "\\u00e9",
)  # fmt: skip
"""Leaves that a careless comparison confuses: numbers of another type, text in another normal form."""

_NAMES = st.sampled_from(("a", "b", "A", "\u00e9", "e\u0301", "", "1")) | st.text(max_size=5)
_LEAVES = st.one_of(
    st.sampled_from(JSON_LOOK_ALIKES),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)
_VISIBLE_ASCII = "".join(map(chr, range(0x21, 0x7F)))
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


def json_values(
    leaves: st.SearchStrategy[JsonValue] = _LEAVES, max_leaves: int = 12
) -> st.SearchStrategy[JsonValue]:
    """A JSON value of any shape; names and leaves look alike often enough to be confused."""

    def nested(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
        return st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=4)

    return st.recursive(leaves, nested, max_leaves=max_leaves)


def json_objects(max_leaves: int = 12) -> st.SearchStrategy[dict[str, JsonValue]]:
    """A JSON object, such as the body of a request."""
    return st.dictionaries(_NAMES, json_values(max_leaves=max_leaves), max_size=4)


def json_texts(value: JsonValue) -> st.SearchStrategy[str]:
    """A text that means this value: any order of names, white space between tokens, escapes in strings."""
    return st.randoms(use_true_random=False).map(lambda random: _written(value, random))


def _written(value: JsonValue, random: Random) -> str:
    gap = "".join(random.choices(" \t\r\n", k=random.randrange(3)))
    match value:
        case dict():
            names = random.sample(list(value), len(value))
            members = (f"{_written(name, random)}:{_written(value[name], random)}" for name in names)
            text = "{" + (",".join(members) or gap) + "}"
        case list():
            text = "[" + (",".join(_written(item, random) for item in value) or gap) + "]"
        case _:
            text = json.dumps(value, ensure_ascii=random.random() < 0.5)
    return f"{gap}{text}{gap[::-1]}"


def idempotency_keys() -> st.SearchStrategy[str]:
    """A key as the header allows it: 1 to 255 visible ASCII characters."""
    edges = st.sampled_from(("!", "~" * 255))
    return edges | st.text(_VISIBLE_ASCII, min_size=1, max_size=255)


def fingerprints() -> st.SearchStrategy[bytes]:
    """Thirty-two bytes that stand for a request."""
    return st.binary(min_size=32, max_size=32)


def idempotency_records(state: KeyState, now: datetime) -> st.SearchStrategy[IdempotencyRecord | None]:
    """What a store may keep of a key that is in this state at `now`; nothing where it is unknown.

    The lease of a running key may end a microsecond later, that of an expired one at `now` itself.
    """
    if state is KeyState.UNKNOWN:
        return st.none()
    ahead = st.timedeltas(timedelta(microseconds=1), _DAY).map(now.__add__)
    behind = st.timedeltas(timedelta(0), _DAY).map(now.__sub__)
    subjects = st.uuids()
    maybe_subject: st.SearchStrategy[UUID | None] = st.none() | subjects
    lease: st.SearchStrategy[datetime | None] = {
        KeyState.BOUND: st.none(),
        KeyState.RUNNING: ahead,
        KeyState.EXPIRED: behind,
        KeyState.DONE: st.none() | ahead | behind,
    }[state]
    return st.builds(
        IdempotencyRecord,
        key=idempotency_keys(),
        fingerprint=fingerprints(),
        is_done=st.just(state is KeyState.DONE),
        subject_id=subjects if state in (KeyState.RUNNING, KeyState.EXPIRED) else maybe_subject,
        lease_until=lease,
        encoded_outcome=(st.none() | st.binary(max_size=50)) if state is KeyState.DONE else st.none(),
    )


def key_prefixes() -> st.SearchStrategy[str]:
    """The short prefix that a service gives its API keys."""
    return st.from_regex(r"[a-z][a-z0-9]{0,15}", fullmatch=True)


def key_texts(prefix: str) -> st.SearchStrategy[str]:
    """A key as its holder sends it."""
    return st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES).map(lambda random: mint(prefix, random))


def api_keys(now: datetime, *, is_usable: bool = True) -> st.SearchStrategy[ApiKey]:
    """A stored key that may be used at `now`, or one that is revoked, expired or both."""
    past = st.timedeltas(timedelta(0), 400 * _DAY).map(now.__sub__)
    future = st.timedeltas(timedelta(microseconds=1), 400 * _DAY).map(now.__add__)
    never = st.none()
    ends: st.SearchStrategy[tuple[datetime | None, datetime | None]] = (
        st.tuples(never | future, never)
        if is_usable
        # The clock of the host that revoked it may be ahead: revoked is revoked.
        else st.tuples(past, never) | st.tuples(never | past | future, past | future)
    )
    return st.builds(
        lambda ends, **fields: ApiKey(expires_at=ends[0], revoked_at=ends[1], **fields),
        ends,
        id=st.uuids(),
        account_id=st.uuids(),
        scopes=st.sets(st.sampled_from(Scope), min_size=1).map(lambda scopes: tuple(sorted(scopes))),
        daily_cap=st.none() | st.integers(0, 10_000),
        created_at=past,
    )


def arrivals(
    around: datetime = datetime(2026, 12, 1, 12, tzinfo=UTC), minutes: int = 4, max_size: int = 60
) -> st.SearchStrategy[Sequence[datetime]]:
    """The instants of requests in the order in which they arrive, by the clocks of several hosts.

    They come in no order and in several time zones, fall into a few minutes from `around`, repeat, and
    often lie beside second 00.
    """
    edges = st.builds(
        lambda minute, offset: around + timedelta(minutes=minute) + offset,
        st.integers(0, minutes),
        st.sampled_from((timedelta(0), timedelta(microseconds=-1), -_SECOND, _SECOND)),
    )
    anywhere = st.timedeltas(timedelta(0), timedelta(minutes=minutes)).map(around.__add__)
    instants_ = st.builds(datetime.astimezone, edges | anywhere, st.just(UTC) | time_zones())
    return st.lists(instants_, max_size=max_size)
