"""The third party that runs the meetings, and its webhooks.

Three outcomes must never be confused: made, refused (nothing exists there), and unknown (a
time-out, a lost connection: it may exist). Every call ends within its time limit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Final, Protocol

from attrs import field, frozen

from meetcore.domain.meetings import cancellation, meetings, provider_events, views
from meetcore.ports.runtime import Clock


class ProviderRefused(Exception):
    """The provider refused: nothing was made or changed. The text is for the log, the code for metrics."""

    def __init__(self, text: str = "", code: str = "refused") -> None:
        super().__init__(text)
        self.code = code


class HostUnavailable(ProviderRefused):
    """This host can have no other meeting made before `until`; another host may. Nothing was made."""

    def __init__(self, text: str, until: datetime) -> None:
        super().__init__(text, "host_unavailable")
        self.until = until


class HostUnknown(ProviderRefused):
    """The provider has no such host: it was removed or renamed there, or the account is another one."""

    def __init__(self, text: str = "") -> None:
        super().__init__(text, "host_unknown")


class ProviderUnknown(Exception):
    """No answer: the provider may or may not have done it. The text is for the log only."""


class LeaseOver(ProviderUnknown):
    """The lease that a call is made under was over before it was sent, or sent again: it was not."""


@frozen
class LeaseTime:
    """When a lease is over, at the earliest, by the uptime of this process's clock."""

    clock: Clock
    ends: float


def lease_time(clock: Clock, seconds: float) -> LeaseTime:
    """Return the time of a lease that is taken from now on."""
    return LeaseTime(clock, clock.uptime() + seconds)


_LEASE: Final[ContextVar[LeaseTime | None]] = ContextVar("meetcore_lease", default=None)


@contextmanager
def under_lease(lease: LeaseTime) -> Iterator[None]:
    """Send no call within the block once a lease is over.

    A process may be frozen between the commit of its lease and its call. Meanwhile another takes the work
    over, undoes it and looks for what is left at the provider; a call after that would leave more.
    """
    token = _LEASE.set(lease)
    try:
        yield
    finally:
        _LEASE.reset(token)


def is_lease_over() -> bool:
    """Return whether the lease of the innermost block is over; False outside one."""
    lease = _LEASE.get()
    return lease is not None and lease.clock.uptime() >= lease.ends


def require_lease() -> None:
    """Raise `LeaseOver` where the lease is over. Providers call it before each request of a call."""
    if is_lease_over():
        raise LeaseOver("the lease was over before the request was sent")


class VideoProvider(Protocol):
    """Makes, finds and removes meetings. Every call raises `ProviderRefused` and `ProviderUnknown`."""

    @property
    def abilities(self) -> meetings.ProviderAbilities:
        """The abilities of this provider."""

    async def create(self, order: views.ProviderOrder) -> meetings.Provisioned:
        """Make a meeting; raise `HostUnavailable`, too, where this host cannot before a certain instant."""

    async def find(self, order: views.ProviderOrder) -> Sequence[meetings.Provisioned]:
        """Find every meeting with this order's id, the first made first; a provider may make several.

        It is empty only where the provider says that there is none; else it raises, and is called again.
        """

    async def remove(self, provider_meeting_id: str) -> cancellation.ProviderMeetingState:
        """Delete a meeting that has not started; the state says if it runs, is over or gone already."""

    async def end(self, provider_meeting_id: str) -> None:
        """End a meeting that runs; one that is over or gone is fine."""

    async def list_host(self, provider_user_id: str) -> Sequence[views.ListedMeeting]:
        """List all meetings of a host, none unless the provider `lists_meetings`.

        Raises `HostUnknown` where the provider has no such host.
        """

    async def read(self, provider_meeting_id: str) -> views.FoundMeeting | None:
        """Read a meeting with our reference in it; `None` unless the provider `lists_meetings`."""

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        """Replace a host's key; raise `ProviderRefused` where hosts have none.

        After another error the host may have either key; a repetition is fine.
        """


class SignatureInvalid(Exception):
    """A webhook is not signed with the shared secret, or not at about this time."""


class WebhookMalformed(Exception):
    """A webhook is signed, but of no documented form."""


@frozen
class ProviderWebhook:
    """A provider's webhook: an event, a response that proves to it that we know the secret, or neither."""

    event: provider_events.ProviderEvent | None = None
    response: Mapping[str, str] | None = field(default=None, repr=False)


WebhookParser = Callable[[bytes, Mapping[str, str], datetime], ProviderWebhook]
"""Verifies and reads a webhook: raw body, headers by their names in lower case, present instant.

Raises `SignatureInvalid` and `WebhookMalformed`.
"""
