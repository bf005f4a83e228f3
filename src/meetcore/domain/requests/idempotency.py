"""Idempotency: what a repeated request gets (rules 4/idem-replay and 4/idem-reused).

A key is bound to the fingerprint of the first valid request that brought it. Three
outcomes must never be confused: in progress, reused, replayed.

::

    state \\ fingerprint   same        other
    UNKNOWN               CLAIM       CLAIM      (no record: the key is new)
    BOUND                 CLAIM       REJECT     (an earlier try ended in something temporary)
    RUNNING               WAIT        REJECT
    EXPIRED               TAKE_OVER   REJECT     (the lease ran out: its process is gone)
    DONE                  REPLAY      REJECT

A store writes each event of `TRANSITIONS` together with its cause; EXPIRE is the clock's and never written. A
key is purged `KEY_RETENTION_HOURS` after it was first seen.
"""

import hashlib
import json
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import field, frozen

__all__ = [
    "KEY_RETENTION_HOURS", "TRANSITIONS", "IdempotencyEvent", "IdempotencyRecord", "IdempotencyState",
    "Verdict", "decide", "fingerprint", "is_idempotency_key", "state_of",
]  # fmt: skip

KEY_RETENTION_HOURS: Final = 24
"""How long a store keeps a record after it was made; later the key is new again."""

MAX_KEY_LENGTH: Final = 255
"""Characters."""

DUPLICATE_WAIT_S: Final = 10.0
"""Seconds for which a duplicate waits at most for the result of the first request."""

MAX_WAITING_DUPLICATES: Final = 4
"""Duplicates of one request that wait in one process: clients send one or two, and each holds a request."""

LONGEST_PAUSE_S: Final = 1.0
"""Seconds between two looks of a duplicate that waits for the result of work in another process."""


class IdempotencyState(StrEnum):
    """The state of a key."""

    UNKNOWN = "unknown"
    BOUND = "bound"
    RUNNING = "running"
    EXPIRED = "expired"
    DONE = "done"


class IdempotencyEvent(StrEnum):
    """An event of a key."""

    CLAIM = "claim"
    TAKE_OVER = "take_over"
    EXPIRE = "expire"
    FINISH = "finish"
    GIVE_UP = "give_up"
    PURGE = "purge"


TRANSITIONS: Final = {
    (IdempotencyState.UNKNOWN, IdempotencyEvent.CLAIM): IdempotencyState.RUNNING,
    (IdempotencyState.UNKNOWN, IdempotencyEvent.FINISH): IdempotencyState.DONE,
    (IdempotencyState.UNKNOWN, IdempotencyEvent.GIVE_UP): IdempotencyState.BOUND,
    (IdempotencyState.BOUND, IdempotencyEvent.CLAIM): IdempotencyState.RUNNING,
    (IdempotencyState.BOUND, IdempotencyEvent.FINISH): IdempotencyState.DONE,
    (IdempotencyState.BOUND, IdempotencyEvent.GIVE_UP): IdempotencyState.BOUND,
    (IdempotencyState.BOUND, IdempotencyEvent.PURGE): IdempotencyState.UNKNOWN,
    (IdempotencyState.RUNNING, IdempotencyEvent.EXPIRE): IdempotencyState.EXPIRED,
    (IdempotencyState.RUNNING, IdempotencyEvent.FINISH): IdempotencyState.DONE,
    (IdempotencyState.RUNNING, IdempotencyEvent.GIVE_UP): IdempotencyState.BOUND,
    (IdempotencyState.EXPIRED, IdempotencyEvent.TAKE_OVER): IdempotencyState.RUNNING,
    (IdempotencyState.EXPIRED, IdempotencyEvent.FINISH): IdempotencyState.DONE,
    (IdempotencyState.EXPIRED, IdempotencyEvent.GIVE_UP): IdempotencyState.BOUND,
    (IdempotencyState.DONE, IdempotencyEvent.PURGE): IdempotencyState.UNKNOWN,
}
"""How a key moves in every store; a missing key cannot happen. The contract suite walks this table."""


class Verdict(StrEnum):
    """The way in which a request with the key proceeds."""

    CLAIM = "claim"
    WAIT = "wait"
    TAKE_OVER = "take_over"
    REPLAY = "replay"
    REJECT = "reject"


DECISIONS: Final = {
    (IdempotencyState.UNKNOWN, True): Verdict.CLAIM,
    (IdempotencyState.UNKNOWN, False): Verdict.CLAIM,
    (IdempotencyState.BOUND, True): Verdict.CLAIM,
    (IdempotencyState.BOUND, False): Verdict.REJECT,
    (IdempotencyState.RUNNING, True): Verdict.WAIT,
    (IdempotencyState.RUNNING, False): Verdict.REJECT,
    (IdempotencyState.EXPIRED, True): Verdict.TAKE_OVER,
    (IdempotencyState.EXPIRED, False): Verdict.REJECT,
    (IdempotencyState.DONE, True): Verdict.REPLAY,
    (IdempotencyState.DONE, False): Verdict.REJECT,
}


@frozen
class IdempotencyRecord:
    """The stored record of (account, key).

    While work runs, `lease_until` is the end of its lease. `subject_id` is the record that the work makes or
    changes. `encoded_outcome` is replayed once it is done.
    """

    key: str
    fingerprint: bytes
    is_done: bool = False
    subject_id: UUID | None = None
    lease_until: datetime | None = None
    encoded_outcome: bytes | None = field(default=None, repr=False)


def is_idempotency_key(text: str) -> bool:
    """Return whether a text can be an idempotency key: 1 to 255 visible ASCII characters."""
    return 1 <= len(text) <= MAX_KEY_LENGTH and all("!" <= char <= "~" for char in text)


def _check_names(value: object) -> None:
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise TypeError("the names in a body are texts: JSON has no others")
        value = [*value.values()]
    if isinstance(value, list | tuple):
        for each in value:
            _check_names(each)


def fingerprint(method: str, path: str, body: object) -> bytes:
    """Return the SHA-256 over method, path and the JSON value of the body.

    Key order and white space do not matter; `1`, `1.0`, `"1"` and `true` differ.
    """
    if "\n" in method:  # it would move the border of method and path
        raise ValueError("a method has no line break")
    _check_names(body)
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(f"{method}\n{path}\n{canonical}".encode()).digest()


def state_of(record: IdempotencyRecord | None, now: datetime) -> IdempotencyState:
    """Return the state of a key at an instant of the store's clock."""
    if record is None:
        return IdempotencyState.UNKNOWN
    if record.is_done:
        return IdempotencyState.DONE
    if record.lease_until is None:
        return IdempotencyState.BOUND
    return IdempotencyState.RUNNING if now < record.lease_until else IdempotencyState.EXPIRED


def decide(record: IdempotencyRecord | None, request_fingerprint: bytes, now: datetime) -> Verdict:
    """Decide how a request with this key proceeds; see the table above."""
    is_same = record is None or record.fingerprint == request_fingerprint
    return DECISIONS[state_of(record, now), is_same]


def next_look_s(pause_s: float) -> float:
    """Return the pause after a pause, in seconds: twice as long, at most `LONGEST_PAUSE_S`."""
    return min(2 * pause_s, LONGEST_PAUSE_S)
