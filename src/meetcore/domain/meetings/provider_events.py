"""Events of a provider in the domain's terms, when early ones are retried, and orphans at the provider.

A provider sends events twice, late and out of order, and sometimes before their meeting is stored: between
its answer to our call and the end of our transaction. The state machines ignore repeated and late events;
this module decides how often an early one is retried.
Orphans are meetings at the provider with our reference that no record of ours names: a provider may make two
for one request, or make one long after it was given up. So after a creation its list is checked until it has
been clean of our reference for a while, and every meeting but the recorded one is removed.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Final

from attrs import frozen

from meetcore.domain.meetings.meetings import Meeting, Provisioned
from meetcore.domain.meetings.sessions import Session
from meetcore.domain.notes.recordings import RecordingFile

MAX_TRIES = 11
"""How often an event is tried that is not yet of use: the waits in between make five minutes."""

_FIRST_WAIT_S = 1
_LONGEST_WAIT_S = 60


class ProviderEventKind(StrEnum):
    """The kind of an event at the provider. MEETING_CLOSED: a meeting is over for good, whatever its time.

    MEETING_STARTED and MEETING_ENDED are the start and the end of a session of the meeting.
    """

    MEETING_STARTED = "meeting_started"
    MEETING_ENDED = "meeting_ended"
    MEETING_CLOSED = "meeting_closed"
    RECORDING_READY = "recording_ready"


@frozen
class ProviderEvent:
    """An event of one of a provider's meetings: recording events have `files`, the others their `session`."""

    provider: str
    kind: ProviderEventKind
    provider_meeting_id: str
    happened_at: datetime
    files: tuple[RecordingFile, ...] = ()
    session: Session | None = None


class EventOutcome(Enum):
    """The outcome of an event. IGNORED: it changes nothing, now or later.

    TOO_EARLY: its meeting does not exist yet or is being cancelled.
    """

    APPLIED = "applied"
    IGNORED = "ignored"
    TOO_EARLY = "too_early"


def retry_delay(tries: int) -> timedelta | None:
    """Return how long an event that came too early waits after so many tries, at least 1; `None`: drop it.

    One second at first, doubled from one wait to the next, a minute at most. Tries are counted, not minutes:
    waiting without a running worker does not count.
    """
    if tries >= MAX_TRIES:
        return None
    return timedelta(seconds=min(_FIRST_WAIT_S << (tries - 1), _LONGEST_WAIT_S))


DEFAULT_WINDOW_S: Final = 300
"""How long after a creation, or the last orphan, the provider's list must be clean: it may be so late."""

_CHECKS: Final = (0.2, 0.5, 1.0)
_FIRST_DELAY_S: Final = 30.0
_MAX_DELAY_S: Final = 3600.0


def orphans_of(meeting: Meeting, found: Iterable[Provisioned]) -> tuple[Provisioned, ...]:
    """Return the meetings found under a meeting's reference that are not the recorded one."""
    return tuple(one for one in found if one.provider_meeting_id != meeting.provider_meeting_id)


def next_look_s(age_s: float, window_s: float) -> float | None:
    """Return the seconds until the next check of the provider's list; `None` when a clean one was the last.

    Checks lie at a fifth, at half and at the end of `window_s`, for which the list must be clean: an orphan
    is soon found, at a bounded number of calls. `age_s` counts from the creation or the last orphan.
    """
    return next((window_s * share - age_s for share in _CHECKS if window_s * share > age_s), None)


def retry_delay_s(failures: int) -> float:
    """Return the seconds until the next check after so many failed in a row: doubling, an hour at most."""
    return float(min(_MAX_DELAY_S, _FIRST_DELAY_S * 2.0 ** min(failures - 1, 16)))
