"""Jitsi as a `VideoProvider`, without one call over the network.

Creation depends on the order alone and stores nothing, so every meeting is found, made or not, removed or
not. Removing is a record of ours only: the link still opens the room. Refuses passwords, recordings, seats,
logins, mail, hosts and their keys: a room that is defined by its link has none of them.
"""

from typing import Final

from meetcore.adapters.jitsi.rooms import JitsiRooms
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import ProviderAbilities, Provisioned
from meetcore.ports.video_provider import FoundMeeting, ListedMeeting, ProviderOrder, ProviderRefused

_ABILITIES: Final = ProviderAbilities(
    name="jitsi",
    password=None,
    has_recording=False,
    has_capacity=False,
    has_login=False,
    has_notification=False,
    has_hosts=False,
    remembers_meetings=False,
)


class JitsiProvider:
    """Gives each meeting a room of its own on a Jitsi server.

    Args:
        url: where people reach the server, such as `https://meet.jit.si`; an http(s) origin with or without
            a path.
        signing_key: at least 16 secret bytes for the names of rooms. Another key names other rooms; links
            that were given out before go on working.
    """

    def __init__(self, url: str, signing_key: bytes) -> None:
        self._rooms = JitsiRooms(url, signing_key)

    def __repr__(self) -> str:
        return f"<JitsiProvider with {self._rooms!r}>"

    @property
    def abilities(self) -> ProviderAbilities:
        """Muted microphones, and nothing else."""
        return _ABILITIES

    async def create(self, order: ProviderOrder) -> Provisioned:
        """Name the room of a meeting. This makes no call and cannot fail."""
        return Provisioned(
            provider_meeting_id=self._rooms.name(order.meeting_id),
            join_url=self._rooms.join_url(order.meeting_id, order.title, mic_off=order.options.mic_off),
        )

    async def find(self, order: ProviderOrder) -> tuple[Provisioned, ...]:
        """Return the meeting as `create` does, whether or not it was made or removed."""
        return (await self.create(order),)

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        """Report it as removed, each time: there is nothing to remove, and no call is made."""
        return ProviderMeetingState.REMOVED

    async def end(self, provider_meeting_id: str) -> None:
        """Do nothing: a room closes when the last participant leaves, and participants cannot be removed."""

    async def list_host(self, provider_user_id: str) -> tuple[ListedMeeting, ...]:
        """Return nothing: a server knows the rooms that people are in, and no meetings."""
        return ()

    async def read(self, provider_meeting_id: str) -> FoundMeeting | None:
        """Return `None`: nothing is kept with a room."""
        return None

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        """Refuse: there are no hosts.

        Raises:
            ProviderRefused: always.
        """
        raise ProviderRefused("Jitsi has no hosts, so no keys of hosts")
