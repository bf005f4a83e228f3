"""The memo that a provider keeps with a meeting: what the provider cannot know and a restore must.

After a restore the provider has meetings that the database lost. A memo says whose each is, what was paid
for it and under which idempotency key, so that it can be adopted. It travels sealed: its customer and those
who are invited see an opaque text, and none but the service can write one.

Owns what a memo holds and its encoding. Does not seal it.
"""

import base64
import json
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from attrs import astuple, field, frozen

from meetcore.domain.meetings.meetings import Meeting, MeetingOptions

__all__ = ["InvalidMemo", "MeetingMemo", "decode_memo", "encode_memo", "memo_of"]

_VERSION: Final = 1


class InvalidMemo(ValueError):
    """Not the encoding of a memo."""


@frozen
class MeetingMemo:
    """What was sold, to whom. `duration` is minutes, `credits` the price.

    `idempotency_key` and `fingerprint` are those of the request, where it had a key.
    """

    account_id: UUID
    api_key_id: UUID
    pricing_tier_id: str
    credits: int
    capacity: int | None
    options: MeetingOptions
    start_at: datetime
    duration: int
    created_at: datetime
    idempotency_key: str | None = None
    fingerprint: bytes | None = field(default=None, repr=False)


def memo_of(meeting: Meeting, idempotency_key: str | None, fingerprint: bytes | None) -> MeetingMemo:
    """The memo of a meeting that is about to be made."""
    return MeetingMemo(
        meeting.account_id, meeting.api_key_id, meeting.pricing_tier_id, meeting.credits, meeting.capacity,
        meeting.options, meeting.start_at, meeting.duration, meeting.created_at, idempotency_key, fingerprint,
    )  # fmt: skip


def encode_memo(memo: MeetingMemo) -> bytes:
    """Encode a memo briefly: a provider gives little room."""
    values = [
        _VERSION, memo.account_id.hex, memo.api_key_id.hex, memo.pricing_tier_id, memo.credits, memo.capacity,
        "".join("1" if flag else "0" for flag in astuple(memo.options)),
        memo.start_at.timestamp(), memo.duration, memo.created_at.timestamp(), memo.idempotency_key,
        None if memo.fingerprint is None else base64.b64encode(memo.fingerprint).decode(),
    ]  # fmt: skip
    return json.dumps(values, separators=(",", ":")).encode()


def decode_memo(encoded: bytes) -> MeetingMemo:
    """Decode a memo; options that a later release added are False.

    Raises:
        InvalidMemo: it is none.
    """
    try:
        version, *values = json.loads(encoded)
        if version != _VERSION:
            raise InvalidMemo(f"a memo of version {version}")
        return _decoded(*values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidMemo("not a memo") from error


def _decoded(
    account: str, api_key: str, tier: str, credits: int, capacity: int | None, flags: str, start_at: float,
    duration: int, created_at: float, key: str | None, fingerprint: str | None, *_: Any,
) -> MeetingMemo:  # fmt: skip
    return MeetingMemo(
        UUID(hex=account), UUID(hex=api_key), tier, credits, capacity,
        MeetingOptions(*(flag == "1" for flag in flags)),
        datetime.fromtimestamp(start_at, UTC), duration, datetime.fromtimestamp(created_at, UTC),
        key, None if fingerprint is None else base64.b64decode(fingerprint),
    )  # fmt: skip
