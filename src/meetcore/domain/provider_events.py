"""What a provider tells of its meetings, in our words, and for how long it is worth trying to use it.

A provider tells things twice, late and out of order, and now and then before we know the meeting that it
speaks of: between its answer to our call and the end of our own transaction. Doubles and disorder are the
business of the machines that an event drives; this module says how often an event that comes too early is
tried again.

Owns the neutral event and the patience. Refuses to know any provider's words, to verify and to store.
"""

from datetime import datetime, timedelta
from enum import Enum, StrEnum

from attrs import frozen

from meetcore.domain.recordings import RecordingFile

__all__ = [
    "MAX_TRIES",
    "EventOutcome",
    "ProviderEvent",
    "ProviderEventKind",
    "retry_delay",
]

MAX_TRIES = 11
"""How often an event is tried that is not yet of use: the waits in between make five minutes."""

_FIRST_WAIT_S = 1
_LONGEST_WAIT_S = 60


class ProviderEventKind(StrEnum):
    """What happened at the provider."""

    MEETING_STARTED = "meeting_started"
    MEETING_ENDED = "meeting_ended"
    RECORDING_READY = "recording_ready"


@frozen
class ProviderEvent:
    """Something that a provider told of one of its meetings; `files` are there for a recording only."""

    provider: str
    kind: ProviderEventKind
    provider_meeting_id: str
    happened_at: datetime
    files: tuple[RecordingFile, ...] = ()


class EventOutcome(Enum):
    """What became of an event.

    TAKEN: something changed by it. PASSED: it changes nothing, now or later. EARLY: its meeting is not there
    yet, or somebody is cancelling it, and nobody can say what the event means until that is over.
    """

    APPLIED = "taken"
    IGNORED = "passed"
    TOO_EARLY = "early"


def retry_delay(tries: int) -> timedelta | None:
    """How long an event that came too early waits before it is tried again.

    Tries are counted, not minutes: an event that waited while no worker was there is as good as a new one.

    Args:
        tries: how often it was tried so far, this time included; at least 1.

    Returns:
        One second at first, doubled from one wait to the next, a minute at most; none when it is to be
        dropped.
    """
    if tries >= MAX_TRIES:
        return None
    return timedelta(seconds=min(_FIRST_WAIT_S << (tries - 1), _LONGEST_WAIT_S))
