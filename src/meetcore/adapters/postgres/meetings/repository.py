"""The repository of meetings, from its parts."""

from meetcore.adapters.postgres.meetings.clock import MeetingClock
from meetcore.adapters.postgres.meetings.create import MeetingCreation


class PostgresMeetingRepository(MeetingCreation, MeetingClock):
    """Meetings, their hosts and their money."""
