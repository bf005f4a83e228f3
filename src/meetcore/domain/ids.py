"""Identifiers: UUID version 7 (RFC 9562, 5.7), composed from an instant and random bytes."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

from meetcore.domain.errors import NotFound

__all__ = [
    "RANDOM_BYTES", "instant_of", "uuid7",
]  # fmt: skip

RANDOM_BYTES = 10

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RAND_A_MASK = 0x0FFF
_RAND_B_MASK = (1 << 62) - 1
# `UUID` also reads braces, "urn:", hyphens anywhere, underscores and digits of other scripts.
_CANONICAL = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def uuid7(at: datetime, random: bytes) -> UUID:
    """Compose an id that sorts by its millisecond, with 74 of the bits of ten or more random bytes."""
    if len(random) < RANDOM_BYTES:
        raise ValueError(f"uuid7 needs {RANDOM_BYTES} random bytes, got {len(random)}")
    millis = _millis(at)
    rand_a = int.from_bytes(random[:2]) & _RAND_A_MASK
    rand_b = int.from_bytes(random[2:10]) & _RAND_B_MASK
    return UUID(int=(millis & 0xFFFFFFFFFFFF) << 80 | 0x7 << 76 | rand_a << 64 | 0b10 << 62 | rand_b)


def first_id(at: datetime) -> UUID:
    """Return the lower bound of the ids of this instant's millisecond and later ones."""
    return UUID(int=max(0, _millis(at)) << 80)


def id_bound(at: datetime) -> UUID:
    """Return the upper bound of the ids of this instant and earlier ones, not of later milliseconds."""
    return UUID(int=max(0, _millis(at) + 1) << 80)


def instant_of(id: UUID) -> datetime | None:
    """Return the millisecond that an id begins with; `None` for another version, or beyond the year 6429."""
    millis = id.int >> 80
    return _EPOCH + timedelta(milliseconds=millis) if id.version == 7 and millis < 1 << 47 else None


def _millis(at: datetime) -> int:
    elapsed = at - _EPOCH
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000 + elapsed.microseconds // 1_000


def is_id(text: str) -> bool:
    """Return whether a text is a UUID in the canonical 36-character form, in capitals or not."""
    return _CANONICAL.fullmatch(text) is not None


def parse_id(text: str, what: str) -> UUID:
    """Read an id in its 36-character form; else raise `NotFound`, as for an unknown id (rule 7/404)."""
    if not is_id(text):
        raise NotFound(f"No {what} with this id.")
    return UUID(text)
