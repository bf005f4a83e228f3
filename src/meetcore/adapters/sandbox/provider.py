"""The sandbox as a `VideoProvider`, and the addresses of its meetings.

Creation depends on the order alone and stores nothing, so it is idempotent, and every meeting is found until
it is removed, created or not. Later states and host keys are in a `SandboxState`. Capacity is reported, not
enforced. The token in an address keeps out clients that only know or guess an id.
"""

import asyncio
import base64
import hmac
import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from typing import Final, NoReturn
from uuid import UUID

from meetcore.adapters.sandbox.state import (
    SandboxCall,
    SandboxFault,
    SandboxFaults,
    SandboxMeetingState,
    SandboxState,
)
from meetcore.domain.meetings import cancellation, hosts, meetings, views
from meetcore.ports import store, video_provider

_PREFIX = "sandbox-"
_TOKEN_BYTES = 12
"""96 bits: short, and infeasible to guess over HTTP."""


def provider_meeting_id(meeting_id: UUID) -> str:
    """Return the sandbox's id of a meeting."""
    return f"{_PREFIX}{meeting_id}"


def meeting_uuid(provider_meeting_id: str) -> UUID | None:
    """Return our id in a sandbox id, `None` for others."""
    text = provider_meeting_id.removeprefix(_PREFIX)
    try:
        found = UUID(text)
    except ValueError:
        return None
    # One spelling per meeting: UUID() also accepts braces and capitals.
    return found if f"{_PREFIX}{found}" == provider_meeting_id else None


class JoinLinks:
    """Builds and verifies join links under a base URL, by a signing key of at least 16 secret bytes."""

    __slots__ = ("_base_url", "_key")

    def __init__(self, base_url: str, signing_key: bytes) -> None:
        if len(signing_key) < 16:
            raise ValueError("the signing key of the sandbox has at least 16 bytes")
        self._base_url = base_url.rstrip("/")
        self._key = signing_key

    def __repr__(self) -> str:
        return f"<JoinLinks at {self._base_url}>"

    def join_url(self, meeting_id: UUID) -> str:
        return f"{self._base_url}/sandbox/meetings/{meeting_id}?t={self.token(meeting_id)}"

    def token(self, meeting_id: UUID) -> str:
        """Return the token of a meeting's link: 16 URL-safe characters."""
        digest = hmac.digest(self._key, b"sandbox-join:" + meeting_id.bytes, "sha256")
        return base64.urlsafe_b64encode(digest[:_TOKEN_BYTES]).decode("ascii")

    def is_token(self, meeting_id: UUID, token: str) -> bool:
        """Compare a token with the meeting's, in constant time."""
        return hmac.compare_digest(self.token(meeting_id).encode(), token.encode("utf-8", "replace"))


_ABILITIES: Final = meetings.ProviderAbilities(
    name="sandbox",
    password=hosts.PasswordRule(alphabet=string.ascii_letters + string.digits + "@-_*"),
    has_recording=True,
    has_capacity=True,
    host_key_digits=6,
)
DEFAULT_TIMEOUT_S: Final = 60.0
"""Longer than any caller's time limit."""

# The error of a late removal.
_TOO_LATE: Final = {
    SandboxMeetingState.STARTED: cancellation.ProviderMeetingState.IN_PROGRESS,
    SandboxMeetingState.ENDED: cancellation.ProviderMeetingState.OVER,
    SandboxMeetingState.LEFT: cancellation.ProviderMeetingState.IN_PROGRESS,  # they left after this call
    SandboxMeetingState.REMOVED: cancellation.ProviderMeetingState.GONE,
}


@contextmanager
def _unknown_while_unavailable() -> Iterator[None]:
    try:
        yield
    except store.StoreUnavailable as error:
        raise video_provider.ProviderUnknown("the sandbox's state does not answer") from error


class SandboxProvider:
    """Creates meetings whose join page `pages` serves; all processes share a state.

    A call raises `ProviderUnknown` while the state is unavailable, and as planned by `faults`. A new signing
    key invalidates old links. A call is delayed by `latency_s`, and without an answer ends after `timeout_s`.
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
    def abilities(self) -> meetings.ProviderAbilities:
        """Everything: passwords of letters, digits and `@-_*`, recording, capacity, hosts with keys."""
        return _ABILITIES

    @property
    def links(self) -> JoinLinks:
        """The addresses of the meetings."""
        return self._links

    @property
    def state(self) -> SandboxState:
        """The states of the meetings."""
        return self._state

    async def create(self, order: views.ProviderOrder) -> meetings.Provisioned:
        """Create a meeting; raise a requested fault."""
        await self._pass_time()
        fault = self._faults.due_for(order)
        if fault is not None:
            await self._fail(fault)
        return self._made(order)

    async def find(self, order: views.ProviderOrder) -> tuple[meetings.Provisioned, ...]:
        """Return the meeting of an order unless it was removed, refused or lost."""
        fault = await self._begin(SandboxCall.FIND)
        if fault is not None:
            await self._fail(fault)
        if not self._faults.lets_exist(order):
            return ()
        with _unknown_while_unavailable():
            state = await self._state.get(provider_meeting_id(order.meeting_id))
        return () if state is SandboxMeetingState.REMOVED else (self._made(order),)

    async def remove(self, provider_meeting_id: str) -> cancellation.ProviderMeetingState:
        if await self._step(SandboxCall.REMOVE, provider_meeting_id, SandboxMeetingState.REMOVED):
            return cancellation.ProviderMeetingState.REMOVED
        with _unknown_while_unavailable():
            state = await self._state.get(provider_meeting_id)
        return cancellation.ProviderMeetingState.GONE if state is None else _TOO_LATE[state]

    async def end(self, provider_meeting_id: str) -> None:
        await self._step(SandboxCall.END, provider_meeting_id, SandboxMeetingState.ENDED)

    async def list_host(self, provider_user_id: str) -> tuple[views.ListedMeeting, ...]:
        """Return nothing: every meeting of the sandbox is in the database."""
        return ()

    async def read(self, provider_meeting_id: str) -> views.FoundMeeting | None:
        """Return `None`: nothing is stored with a meeting."""
        return None

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        """Replace a host's key; any host exists here."""
        fault = await self._begin(SandboxCall.SET_HOST_KEY)
        if not (host_key.isascii() and host_key.isdigit() and len(host_key) == _ABILITIES.host_key_digits):
            raise video_provider.ProviderRefused(f"the key of a host has {_ABILITIES.host_key_digits} digits")
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
        """Wait for the latency and raise the due fault; return it if the work comes first."""
        await self._pass_time()
        fault = self._faults.due(call)
        if fault is not None and not fault.does_the_work:
            await self._fail(fault)
        return fault

    async def _fail(self, fault: SandboxFault) -> NoReturn:
        if fault is SandboxFault.REFUSE:
            raise video_provider.ProviderRefused("sandbox: requested refusal")
        if fault is SandboxFault.FULL:
            raise video_provider.HostUnavailable("sandbox: requested full host", self._next_day())
        if fault.keeps_waiting:
            await asyncio.sleep(self._timeout_s)
        raise video_provider.ProviderUnknown(f"sandbox: requested unknown outcome: {fault}")

    def _next_day(self) -> datetime:
        tomorrow = self._now().astimezone(UTC).date() + timedelta(days=1)
        return datetime.combine(tomorrow, time.min, UTC)

    def _made(self, order: views.ProviderOrder) -> meetings.Provisioned:
        return meetings.Provisioned(
            provider_meeting_id=provider_meeting_id(order.meeting_id),
            join_url=self._links.join_url(order.meeting_id),
            password=order.password,
        )

    async def _pass_time(self) -> None:
        if self._latency_s > 0:
            await asyncio.sleep(self._latency_s)
