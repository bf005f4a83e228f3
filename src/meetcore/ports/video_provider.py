"""The third party that runs the meetings.

Three outcomes must never be confused: made, refused (nothing exists there), and unknown (a
time-out, a lost connection: it may exist). Every call ends within its time limit.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import MeetingOptions, ProviderAbilities, Provisioned

__all__ = [
    "FoundMeeting",
    "HostUnavailable",
    "HostUnknown",
    "ListedMeeting",
    "ProviderOrder",
    "ProviderRefused",
    "ProviderUnknown",
    "VideoProvider",
]


class ProviderRefused(Exception):
    """The provider refused: nothing was made or changed. The text is for the log only.

    Args:
        code: what metrics count it as: from a closed set, such as `status_429`.
    """

    def __init__(self, text: str = "", code: str = "refused") -> None:
        super().__init__(text)
        self.code = code


class HostUnavailable(ProviderRefused):
    """This host cannot have another meeting made before `until`; another host may. Nothing was made."""

    def __init__(self, text: str, until: datetime) -> None:
        super().__init__(text, "host_unavailable")
        self.until = until


class HostUnknown(ProviderRefused):
    """The provider has no such host: it was removed or renamed there, or the account is another one."""

    def __init__(self, text: str = "") -> None:
        super().__init__(text, "host_unknown")


class ProviderUnknown(Exception):
    """No answer came: the provider may or may not have done it. The text is for the log only."""


@frozen
class ProviderOrder:
    """What to make. `meeting_id` is our own id and the correlation, by which a meeting is found again.

    Where the provider can, asking twice makes one; no caller relies on it.
    `provider_user_id` is the host; empty where the provider has none. `memo` is a sealed text of ours that
    the provider keeps with the meeting where it `keeps_memos`, and that does not change what is made.
    """

    meeting_id: UUID
    provider_user_id: str
    title: str
    description: str | None
    start_at: datetime
    duration: int
    password: str | None = field(repr=False)
    options: MeetingOptions
    memo: str = field(default="", repr=False)


@frozen
class ListedMeeting:
    """A meeting in a host's list; `created_at` is by the provider's clock."""

    provider_meeting_id: str
    created_at: datetime


@frozen
class FoundMeeting:
    """A meeting as the provider has it. `meeting_id` is the reference of ours in it, and `memo` the text.

    Of one that is not ours `meeting_id` is `None`. A `memo` that the provider did not keep is empty.
    """

    made: Provisioned
    meeting_id: UUID | None
    title: str
    description: str | None = field(default=None, repr=False)
    memo: str = field(default="", repr=False)


class VideoProvider(Protocol):
    """Makes, finds and removes meetings."""

    @property
    def abilities(self) -> ProviderAbilities:
        """What this provider can do."""

    async def create(self, order: ProviderOrder) -> Provisioned:
        """Make a meeting.

        Raises:
            HostUnavailable: not for this host, not before a certain instant.
            ProviderRefused: it refused.
            ProviderUnknown: no answer within the limit.
        """

    async def find(self, order: ProviderOrder) -> Sequence[Provisioned]:
        """Every meeting that exists under this order's id, the first made first.

        More than one where the provider made several for one request.

        Raises:
            ProviderRefused, ProviderUnknown: the state is unknown.
        """

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        """Delete a meeting that has not started; says so when it runs, is over or gone already.

        Raises:
            ProviderRefused, ProviderUnknown: it was not removed, or the outcome is unknown.
        """

    async def end(self, provider_meeting_id: str) -> None:
        """End a meeting that runs; one that is over or gone is fine.

        Raises:
            ProviderRefused, ProviderUnknown: it may still run.
        """

    async def list_host(self, provider_user_id: str) -> Sequence[ListedMeeting]:
        """Every meeting that the provider has of a host, by any maker; none where it keeps no memos.

        Raises:
            HostUnknown: it has no such host, where it keeps memos.
            ProviderRefused, ProviderUnknown: the list is not known.
        """

    async def read(self, provider_meeting_id: str) -> FoundMeeting | None:
        """A meeting with what we wrote into it; `None` where there is none, or the provider keeps no memos.

        Raises:
            ProviderRefused, ProviderUnknown: it is not known.
        """

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        """Give a host another key; the one before opens nothing any more. Twice is once.

        Raises:
            ProviderRefused, ProviderUnknown: the host may have either key.
        """
