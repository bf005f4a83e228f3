"""Orphans: meetings at the provider with our reference that no record of ours names.

A provider may make two meetings for one request, or make one long after the request was given up. So after
a creation its list is looked at until it has been clean of our reference for a while, and every meeting
that is not the recorded one is removed.
"""

from collections.abc import Iterable
from typing import Final

from meetcore.domain.meetings.meetings import Meeting, Provisioned

__all__ = ["DEFAULT_WINDOW_S", "next_look_s", "orphans_of", "retry_delay_s"]

DEFAULT_WINDOW_S: Final = 300
"""How long after a creation, or the last orphan, the provider's list must be clean."""

_CHECKS: Final = (0.2, 0.5, 1.0)
_FIRST_DELAY_S: Final = 30.0
_MAX_DELAY_S: Final = 3600.0


def orphans_of(meeting: Meeting, found: Iterable[Provisioned]) -> tuple[Provisioned, ...]:
    """The meetings found at the provider under a meeting's reference that are not the recorded one."""
    return tuple(one for one in found if one.provider_meeting_id != meeting.provider_meeting_id)


def next_look_s(age_s: float, window_s: float) -> float | None:
    """Seconds until the next look at the provider's list.

    Looks lie at a fifth, at half and at the end of the window: an orphan is soon found, and each creation
    costs a bounded number of calls.

    Args:
        age_s: since the creation, or since the last orphan was seen.
        window_s: for how long the list must be clean.

    Returns:
        `None` when a clean check at this age was the last one.
    """
    return next((window_s * share - age_s for share in _CHECKS if window_s * share > age_s), None)


def retry_delay_s(failures: int) -> float:
    """Seconds until the next look after so many in a row that failed: doubling, an hour at most."""
    return float(min(_MAX_DELAY_S, _FIRST_DELAY_S * 2.0 ** min(failures - 1, 16)))
