"""Events that customers have received and that a restore lost, as far as the service's own log shows.

The restored store cannot know them. Each post that succeeded is a line of the log, and where the log was
kept its events can be compared with the store.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from attrs import frozen

from meetcore.ports.store import Store

DELIVERED = "delivery succeeded"
"""The `event` of a log line of a post that succeeded."""

_AT_ONCE = 1000


@frozen
class ReceivedEvent:
    """An event that a customer's endpoint took, by a line of the log."""

    at: datetime
    account_id: UUID
    event_id: UUID
    kind: str
    webhook_id: str


def received_events(lines: Iterable[str], since: datetime) -> Iterator[ReceivedEvent]:
    """Read the log lines of posts that succeeded since an instant; other lines are passed over."""
    for line in lines:
        if DELIVERED in line and (found := _read(line)) is not None and found.at >= since:
            yield found


def _read(line: str) -> ReceivedEvent | None:
    try:
        fields: dict[str, Any] = json.loads(line[line.index("{") :])
        if fields["event"] != DELIVERED:
            return None
        at = datetime.fromisoformat(fields["timestamp"])
        return ReceivedEvent(
            at if at.tzinfo is not None else at.replace(tzinfo=UTC), UUID(fields["account_id"]),
            UUID(fields["event_id"]), str(fields["event_type"]), str(fields["webhook_id"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


async def lost_events(store: Store, received: Iterable[ReceivedEvent]) -> list[ReceivedEvent]:
    """Those of the events that the store does not have, in the order of the log."""
    wanted = list(dict.fromkeys(received))
    lost: list[ReceivedEvent] = []
    for first in range(0, len(wanted), _AT_ONCE):
        portion = wanted[first : first + _AT_ONCE]
        async with store.begin() as tx:
            known = await tx.restores.known_events([(each.account_id, each.event_id) for each in portion])
        lost += [each for each in portion if each.event_id not in known]
    return lost
