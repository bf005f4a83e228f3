"""A meeting's life in a store: reserved, paid or given back, cancelled, taken over, over.

Joins the seven parts, each in a module of its own.
"""

from meetcore.testing.contracts.day_creations import DayCreationsContract
from meetcore.testing.contracts.meeting_cancellation import MeetingCancellationContract
from meetcore.testing.contracts.meeting_clock import MeetingClockContract
from meetcore.testing.contracts.meeting_creation import MeetingCreationContract
from meetcore.testing.contracts.meeting_lifecycle import MeetingLifecycleContract
from meetcore.testing.contracts.meeting_settlement import MeetingSettlementContract
from meetcore.testing.contracts.unlocked_creation import UnlockedCreationContract


class MeetingRepositoryContract(
    MeetingCreationContract,
    UnlockedCreationContract,
    MeetingSettlementContract,
    MeetingCancellationContract,
    MeetingLifecycleContract,
    MeetingClockContract,
    DayCreationsContract,
):
    """What `ports.meetings.MeetingRepository` promises; `HostsContract` says more about hosts."""
