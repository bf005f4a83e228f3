"""A provider's events in the domain's terms, and for how long an early one is retried.

A provider sends events twice, late and out of order, and sometimes before the meeting that they
name is stored: between its answer to our call and the end of our transaction. Doubles and disorder are the
business of the machines that an event drives; this module says how often an event that comes too early is
tried again.
"""

from datetime import datetime, timedelta
from enum import Enum, StrEnum

from attrs import frozen

from meetcore.domain.notes.recordings import RecordingFile

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
    """An event of one of a provider's meetings; only recording events have `files`."""

    provider: str
    kind: ProviderEventKind
    provider_meeting_id: str
    happened_at: datetime
    files: tuple[RecordingFile, ...] = ()


class EventOutcome(Enum):
    """The outcome of an event.

    APPLIED: it changed something. IGNORED: it changes nothing, now or later. TOO_EARLY: its meeting does not
    exist yet, or is being cancelled, and the event's effect is open until that is over.
    """

    APPLIED = "applied"
    IGNORED = "ignored"
    TOO_EARLY = "too_early"


def retry_delay(tries: int) -> timedelta | None:
    """How long an event that came too early waits before it is tried again.

    Tries are counted, not minutes: waiting without a running worker does not count.

    Args:
        tries: how often it was tried so far, this time included; at least 1.

    Returns:
        One second at first, doubled from one wait to the next, a minute at most; `None` when it is to be
        dropped.
    """
    if tries >= MAX_TRIES:
        return None
    return timedelta(seconds=min(_FIRST_WAIT_S << (tries - 1), _LONGEST_WAIT_S))
