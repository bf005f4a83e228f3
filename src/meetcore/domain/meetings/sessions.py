"""Sessions: what was held at the provider under the number of a meeting.

A meeting is a paid time with a host and a link. A guest who opens its room, leaves and comes back holds two
sessions in it, each with an id of the provider's. An event belongs to the session that it names, and the
result is the same whatever the order of the events, and however often each one comes.

The recorded status of a meeting that is not over follows from its sessions: STARTED while one runs, else
SCHEDULED; beside it counts the clock (`meetings.shown_status`). A meeting is over at its end. It is over
earlier when its customer ends it, or when a session was held in its time and no other one has begun for a
while.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from attrs import evolve, frozen

from meetcore.domain.meetings.meetings import TRANSITIONS, Meeting, MeetingEvent, MeetingStatus

DEFAULT_EMPTY_FOR: Final = timedelta(minutes=10)
"""How long after its last session a meeting waits for another one, unless a setting says otherwise."""

MAX_SESSIONS: Final = 200
"""How many sessions of a meeting are recorded: anyone with its link can hold any number."""


@frozen
class Session:
    """A session as far as the provider reported it.

    `started_at` is `None` where only the end was reported, `ended_at` while it runs.
    """

    id: str
    started_at: datetime | None = None
    ended_at: datetime | None = None


Sessions = tuple[Session, ...]
"""The sessions of a meeting, each once, in the order of time."""


def record(known: Iterable[Session], reported: Session) -> Sessions:
    """Add what an event reports of a session: its earliest start and its latest end count.

    Sessions beyond `MAX_SESSIONS` are not recorded.
    """
    by_id = {one.id: one for one in known}
    before = by_id.get(reported.id, reported)
    if reported.id not in by_id and len(by_id) >= MAX_SESSIONS:
        return tuple(by_id.values())
    by_id[reported.id] = evolve(
        reported,
        started_at=min(_known(before.started_at, reported.started_at), default=None),
        ended_at=max(_known(before.ended_at, reported.ended_at), default=None),
    )
    return tuple(sorted(by_id.values(), key=_time))


def is_running(sessions: Iterable[Session]) -> bool:
    """Return whether a session runs, as far as was reported."""
    return any(one.ended_at is None for one in sessions)


def was_held(meeting: Meeting, sessions: Iterable[Session]) -> bool:
    """Return whether a session is known to have been held in the time of its meeting."""
    return any(_reaches_into(meeting.start_at, one) for one in sessions)


def empty_since(meeting: Meeting, sessions: Sessions) -> datetime | None:
    """Return since when all have left a meeting; `None` before one was held in its time, and while one is."""
    if is_running(sessions):
        return None
    ends = (one.ended_at for one in sessions if one.ended_at is not None)
    return max((at for at in ends if at > meeting.start_at), default=None)


def over_at(meeting: Meeting, sessions: Sessions, empty_for: timedelta = DEFAULT_EMPTY_FOR) -> datetime:
    """Return when a meeting is over unless a session begins: at its end, or once it was empty for so long."""
    since = empty_since(meeting, sessions)
    return meeting.end_at if since is None else min(meeting.end_at, since + empty_for)


def follow(meeting: Meeting, sessions: Iterable[Session]) -> Meeting:
    """Set the status of a meeting by its sessions, where it is scheduled or started."""
    event = MeetingEvent.START if is_running(sessions) else MeetingEvent.LEAVE
    status = TRANSITIONS.get((meeting.status, event), meeting.status)
    return evolve(meeting, status=status)


def needs_clearing(meeting: Meeting, sessions: Iterable[Session]) -> bool:
    """Return whether something runs at the provider under a meeting that is over."""
    return meeting.status in _OVER and is_running(sessions)


_OVER: Final = frozenset({MeetingStatus.ENDED, MeetingStatus.CANCELLED})


def _reaches_into(start_at: datetime, session: Session) -> bool:
    if session.ended_at is not None:
        return session.ended_at > start_at
    return session.started_at is not None and session.started_at >= start_at


def _known(*times: datetime | None) -> list[datetime]:
    return [time for time in times if time is not None]


def _time(session: Session) -> tuple[datetime, str]:
    # One of the two is always known: an event reports a start or an end.
    return min(_known(session.started_at, session.ended_at)), session.id
