"""The sandbox as a `VideoProvider`.

Creation depends on the order alone and stores nothing: two calls make one meeting, and it does not matter
whether a process died before or after the call. So the sandbox finds every meeting that was not removed,
whether or not it was made. What happens afterwards, and the keys of hosts, are in a `SandboxState`.

Not a real provider: no video, no licences, one recording for all; capacity is reported and not enforced.
"""

import asyncio
import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from typing import Final, NoReturn

from meetcore.adapters.sandbox.faults import SandboxCall, SandboxFault, SandboxFaults
from meetcore.adapters.sandbox.links import JoinLinks, meeting_uuid, provider_meeting_id
from meetcore.adapters.sandbox.state import SandboxMeetingState, SandboxState
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import ProviderAbilities, Provisioned
from meetcore.domain.meetings.passwords import PasswordRule
from meetcore.ports.store import StoreUnavailable
from meetcore.ports.video_provider import (
    FoundMeeting,
    HostUnavailable,
    ListedMeeting,
    ProviderOrder,
    ProviderRefused,
    ProviderUnknown,
)

_ABILITIES: Final = ProviderAbilities(
    name="sandbox",
    password=PasswordRule(alphabet=string.ascii_letters + string.digits + "@-_*"),
    has_recording=True,
    has_capacity=True,
    host_key_digits=6,
)
DEFAULT_TIMEOUT_S: Final = 60.0
"""Far longer than any caller's time limit."""

# The error of a removal that came too late.
_TOO_LATE: Final = {
    SandboxMeetingState.STARTED: ProviderMeetingState.IN_PROGRESS,
    SandboxMeetingState.ENDED: ProviderMeetingState.OVER,
    SandboxMeetingState.REMOVED: ProviderMeetingState.GONE,
}


@contextmanager
def _unknown_while_unavailable() -> Iterator[None]:
    try:
        yield
    except StoreUnavailable as error:
        raise ProviderUnknown("the sandbox's state does not answer") from error


class SandboxProvider:
    """Makes meetings whose join page is served by `pages`.

    A call raises `ProviderUnknown` while the state does not answer, and whatever a planned fault says.

    Args:
        base_url: what the service is reached by from outside.
        state: what happened to meetings; shared by every process that answers for them.
        signing_key: at least 16 secret bytes for the tokens of join links. Another key makes links
            that were given out before stop working.
        latency_s: seconds that each call takes.
        faults: planned faults; those in titles work without.
        timeout_s: seconds after which a call that gets no answer is unknown by itself, for callers that
            have no shorter limit of their own.
    """

    def __init__(
        self,
        base_url: str,
        state: SandboxState,
        signing_key: bytes,
        latency_s: float = 0.0,
        *,
        faults: SandboxFaults | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._links = JoinLinks(base_url, signing_key)
        self._state = state
        self._latency_s = latency_s
        self._faults = SandboxFaults() if faults is None else faults
        self._timeout_s = timeout_s
        self._now = now

    def __repr__(self) -> str:
        return f"<SandboxProvider with {self._links!r}>"

    @property
    def abilities(self) -> ProviderAbilities:
        """Everything: passwords of letters, digits and `@-_*`, recording, capacity, hosts with keys."""
        return _ABILITIES

    @property
    def links(self) -> JoinLinks:
        """The addresses of the meetings."""
        return self._links

    @property
    def state(self) -> SandboxState:
        """What happened to the meetings."""
        return self._state

    async def create(self, order: ProviderOrder) -> Provisioned:
        """Make a meeting; without faults and latency this touches nothing and cannot fail.

        Raises:
            HostUnavailable, ProviderRefused, ProviderUnknown: a requested fault; see `faults`.
        """
        await self._pass_time()
        fault = self._faults.due_for(order)
        if fault is not None:
            await self._fail(fault)
        return self._made(order)

    async def find(self, order: ProviderOrder) -> tuple[Provisioned, ...]:
        """Return the meeting of this order; nothing when it was removed, or its creation refused or lost."""
        fault = await self._begin(SandboxCall.FIND)
        if fault is not None:
            await self._fail(fault)
        if not self._faults.lets_exist(order):
            return ()
        with _unknown_while_unavailable():
            state = await self._state.get(provider_meeting_id(order.meeting_id))
        return () if state is SandboxMeetingState.REMOVED else (self._made(order),)

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        """Remove a meeting that has not started; return its state, another if it runs, is over or gone."""
        if await self._step(SandboxCall.REMOVE, provider_meeting_id, SandboxMeetingState.REMOVED):
            return ProviderMeetingState.REMOVED
        with _unknown_while_unavailable():
            state = await self._state.get(provider_meeting_id)
        return ProviderMeetingState.GONE if state is None else _TOO_LATE[state]

    async def end(self, provider_meeting_id: str) -> None:
        """End a meeting; one that is over or gone is fine."""
        await self._step(SandboxCall.END, provider_meeting_id, SandboxMeetingState.ENDED)

    async def list_host(self, provider_user_id: str) -> tuple[ListedMeeting, ...]:
        """Return nothing: what is not in the database exists nowhere."""
        return ()

    async def read(self, provider_meeting_id: str) -> FoundMeeting | None:
        """Return `None`: nothing is kept with a meeting."""
        return None

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        """Give a host another key; any name is a valid host here.

        Raises:
            ProviderRefused: the key has not the digits of `abilities`.
        """
        fault = await self._begin(SandboxCall.SET_HOST_KEY)
        if not (host_key.isascii() and host_key.isdigit() and len(host_key) == _ABILITIES.host_key_digits):
            raise ProviderRefused(f"the key of a host has {_ABILITIES.host_key_digits} digits")
        with _unknown_while_unavailable():
            await self._state.put_host_key(provider_user_id, host_key)
        if fault is not None:
            await self._fail(fault)

    async def _step(self, call: SandboxCall, name: str, state: SandboxMeetingState) -> bool:
        fault = await self._begin(call)
        with _unknown_while_unavailable():
            is_taken = meeting_uuid(name) is not None and await self._state.put(name, state)
        if fault is not None:
            await self._fail(fault)
        return is_taken

    async def _begin(self, call: SandboxCall) -> SandboxFault | None:
        """Wait for the latency and raise the due fault; return it when the work comes before it."""
        await self._pass_time()
        fault = self._faults.due(call)
        if fault is not None and not fault.does_the_work:
            await self._fail(fault)
        return fault

    async def _fail(self, fault: SandboxFault) -> NoReturn:
        if fault is SandboxFault.REFUSE:
            raise ProviderRefused("the sandbox was asked to refuse")
        if fault is SandboxFault.FULL:
            raise HostUnavailable("the sandbox was asked for a full host", self._next_day())
        if fault.keeps_waiting:
            await asyncio.sleep(self._timeout_s)
        raise ProviderUnknown(f"the sandbox was asked for an unknown outcome: {fault}")

    def _next_day(self) -> datetime:
        tomorrow = self._now().astimezone(UTC).date() + timedelta(days=1)
        return datetime.combine(tomorrow, time.min, UTC)

    def _made(self, order: ProviderOrder) -> Provisioned:
        return Provisioned(
            provider_meeting_id=provider_meeting_id(order.meeting_id),
            join_url=self._links.join_url(order.meeting_id),
            password=order.password,
        )

    async def _pass_time(self) -> None:
        if self._latency_s > 0:
            await asyncio.sleep(self._latency_s)
