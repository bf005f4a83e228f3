"""Idempotency: what a repeated request gets (rules 4/idem-replay and 4/idem-reused).

A key is bound to the fingerprint of the first valid request that brought it. Four states, three
outcomes that must never be confused: in progress, reused, replayed.

::

    state \\ fingerprint   same        other
    UNKNOWN               CLAIM       CLAIM      (no record: the key is new)
    BOUND                 CLAIM       REJECT     (an earlier try ended in something temporary)
    RUNNING               WAIT        REJECT
    EXPIRED               TAKE_OVER   REJECT     (the lease ran out: its process is gone)
    DONE                  REPLAY      REJECT

A record moves by these events, which a store writes together with what they are about::

    UNKNOWN, BOUND  --CLAIM----->  RUNNING   work begins that goes on beyond a transaction
    EXPIRED         --TAKE_OVER->  RUNNING   by another process
    RUNNING         --EXPIRE---->  EXPIRED   the clock; never written
    any but DONE    --FINISH---->  DONE      a result, or a refusal that is final
    any but DONE    --GIVE_UP--->  BOUND     something temporary: the key may try again
    BOUND, DONE     --PURGE----->  UNKNOWN   `KEY_RETENTION_HOURS` after it was first seen

Owns the decision, the machine and the fingerprint. Does not run the work or wait; an outcome is
opaque bytes.
"""

import hashlib
import json
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import field, frozen

__all__ = [
    "DECISIONS",
    "DUPLICATE_WAIT_S",
    "KEY_RETENTION_HOURS",
    "LONGEST_PAUSE_S",
    "MAX_KEY_LENGTH",
    "MAX_WAITING_DUPLICATES",
    "TRANSITIONS",
    "IdempotencyRecord",
    "KeyEvent",
    "KeyState",
    "Verdict",
    "decide",
    "fingerprint",
    "is_key",
    "next_look_s",
    "state_of",
]

KEY_RETENTION_HOURS: Final = 24
"""How long a store keeps a record after it was made; later the key is new again."""

MAX_KEY_LENGTH: Final = 255
"""Characters."""

DUPLICATE_WAIT_S: Final = 10.0
"""Seconds for which a duplicate waits at most for the result of the first request."""

MAX_WAITING_DUPLICATES: Final = 4
"""Duplicates of one request that wait in one process, unless an operator sets another number."""

LONGEST_PAUSE_S: Final = 1.0
"""Seconds between two looks of a duplicate that waits for the result of work in another process."""


class KeyState(StrEnum):
    """The state of a key."""

    UNKNOWN = "unknown"
    BOUND = "bound"
    RUNNING = "running"
    EXPIRED = "expired"
    DONE = "done"


class KeyEvent(StrEnum):
    """What happens to a key."""

    CLAIM = "claim"
    TAKE_OVER = "take_over"
    EXPIRE = "expire"
    FINISH = "finish"
    GIVE_UP = "give_up"
    PURGE = "purge"


TRANSITIONS: Final = {
    (KeyState.UNKNOWN, KeyEvent.CLAIM): KeyState.RUNNING,
    (KeyState.UNKNOWN, KeyEvent.FINISH): KeyState.DONE,
    (KeyState.UNKNOWN, KeyEvent.GIVE_UP): KeyState.BOUND,
    (KeyState.BOUND, KeyEvent.CLAIM): KeyState.RUNNING,
    (KeyState.BOUND, KeyEvent.FINISH): KeyState.DONE,
    (KeyState.BOUND, KeyEvent.GIVE_UP): KeyState.BOUND,
    (KeyState.BOUND, KeyEvent.PURGE): KeyState.UNKNOWN,
    (KeyState.RUNNING, KeyEvent.EXPIRE): KeyState.EXPIRED,
    (KeyState.RUNNING, KeyEvent.FINISH): KeyState.DONE,
    (KeyState.RUNNING, KeyEvent.GIVE_UP): KeyState.BOUND,
    (KeyState.EXPIRED, KeyEvent.TAKE_OVER): KeyState.RUNNING,
    (KeyState.EXPIRED, KeyEvent.FINISH): KeyState.DONE,
    (KeyState.EXPIRED, KeyEvent.GIVE_UP): KeyState.BOUND,
    (KeyState.DONE, KeyEvent.PURGE): KeyState.UNKNOWN,
}
"""How a key moves in every store; a missing key cannot happen. The contract suite walks this table."""


class Verdict(StrEnum):
    """How a request with the key proceeds."""

    CLAIM = "claim"
    WAIT = "wait"
    TAKE_OVER = "take_over"
    REPLAY = "replay"
    REJECT = "reject"


DECISIONS: Final = {
    (KeyState.UNKNOWN, True): Verdict.CLAIM,
    (KeyState.UNKNOWN, False): Verdict.CLAIM,
    (KeyState.BOUND, True): Verdict.CLAIM,
    (KeyState.BOUND, False): Verdict.REJECT,
    (KeyState.RUNNING, True): Verdict.WAIT,
    (KeyState.RUNNING, False): Verdict.REJECT,
    (KeyState.EXPIRED, True): Verdict.TAKE_OVER,
    (KeyState.EXPIRED, False): Verdict.REJECT,
    (KeyState.DONE, True): Verdict.REPLAY,
    (KeyState.DONE, False): Verdict.REJECT,
}


@frozen
class IdempotencyRecord:
    """The stored record of (account, key).

    While work runs, `lease_until` is the end of its lease. `subject_id` is the record
    that the work makes or changes. `encoded_outcome` is what is replayed; work that an earlier release
    finished for another process has none, and is replayed from the subject.
    """

    key: str
    fingerprint: bytes
    is_done: bool = False
    subject_id: UUID | None = None
    lease_until: datetime | None = None
    encoded_outcome: bytes | None = field(default=None, repr=False)


def is_key(text: str) -> bool:
    """Whether a text can be an idempotency key: 1 to 255 visible ASCII characters."""
    return 1 <= len(text) <= MAX_KEY_LENGTH and all("!" <= char <= "~" for char in text)


def fingerprint(method: str, path: str, body: object) -> bytes:
    """SHA-256 over method, path and the JSON value of the body.

    Key order and white space do not matter; everything else does, the difference between `1`,
    `1.0`, `"1"` and `true` included.
    """
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(f"{method}\n{path}\n{canonical}".encode()).digest()


def state_of(record: IdempotencyRecord | None, now: datetime) -> KeyState:
    """The state of a key at an instant of the store's clock."""
    if record is None:
        return KeyState.UNKNOWN
    if record.is_done:
        return KeyState.DONE
    if record.lease_until is None:
        return KeyState.BOUND
    return KeyState.RUNNING if now < record.lease_until else KeyState.EXPIRED


def decide(record: IdempotencyRecord | None, request_fingerprint: bytes, now: datetime) -> Verdict:
    """Decide how a request with this key proceeds; see the table above."""
    is_same = record is None or record.fingerprint == request_fingerprint
    return DECISIONS[state_of(record, now), is_same]


def next_look_s(pause_s: float) -> float:
    """The pause after a pause, in seconds: twice as long, at most `LONGEST_PAUSE_S`."""
    return min(2 * pause_s, LONGEST_PAUSE_S)
