"""`VideoProvider` over Roomy's API.

Roomy keeps one room for each reference, which is our meeting's id: the same order never makes two.
"""

import asyncio
from typing import Any, Final

import httpx

from meetcore.domain.meetings import cancellation, meetings, views
from meetcore.ports.observability import Tracing
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown, require_lease

TIMEOUT_S: Final = 10.0
ABILITIES: Final = meetings.ProviderAbilities(
    name="roomy",
    password=None,
    has_recording=False,
    has_capacity=False,
    has_login=False,
    has_notification=False,
    has_hosts=False,
)


class RoomyProvider:
    """Rooms at one address, with one token."""

    def __init__(self, url: str, token: str, tracing: Tracing) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False)
        self._tracing = tracing

    @property
    def abilities(self) -> meetings.ProviderAbilities:
        """Muted microphones, and rooms without hosts."""
        return ABILITIES

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def owner(self) -> str:
        """Return whose token it is."""
        return str((await self._call("GET", "/owner")).get("name"))

    async def create(self, order: views.ProviderOrder) -> meetings.Provisioned:
        """Make the room of a meeting, or return the one that is there."""
        room = {"title": order.title, "starts_at": order.start_at.isoformat(), "muted": order.options.mic_off}
        return _provisioned(await self._call("PUT", f"/rooms/{order.meeting_id}", room))

    async def find(self, order: views.ProviderOrder) -> list[meetings.Provisioned]:
        """Return the room of a meeting, if there is one."""
        room = await self._call("GET", f"/rooms/{order.meeting_id}", missing={})
        return [_provisioned(room)] if room else []

    async def remove(self, provider_meeting_id: str) -> cancellation.ProviderMeetingState:
        """Delete a room, if it is empty."""
        gone = {"state": "gone"}
        answer = await self._call("DELETE", f"/rooms/{provider_meeting_id}", missing=gone)
        try:
            return cancellation.ProviderMeetingState(str(answer.get("state")))
        except ValueError as error:
            raise ProviderUnknown("roomy: an answer without a known state") from error

    async def end(self, provider_meeting_id: str) -> None:
        """Close a room, also while people are in it."""
        await self._call("POST", f"/rooms/{provider_meeting_id}/close", missing={})

    async def list_host(self, provider_user_id: str) -> list[views.ListedMeeting]:
        """Return nothing: there are no hosts."""
        return []

    async def read(self, provider_meeting_id: str) -> views.FoundMeeting | None:
        """Return `None`: a provider without hosts lists no meetings."""
        return None

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        """Refuse: there are no hosts."""
        raise ProviderRefused("Roomy has no host keys")

    async def _call(
        self, method: str, path: str, body: object = None, missing: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send one request. A 4xx did nothing; after anything else that is no success, it may have."""
        require_lease()
        try:
            with self._tracing.span(f"roomy {method}"):
                async with asyncio.timeout(TIMEOUT_S):  # httpx limits each wait for bytes, not the call
                    answer = await self._http.request(method, path, json=body)
            if answer.status_code == 404 and missing is not None:
                return missing
            if 400 <= answer.status_code < 500:
                raise ProviderRefused(f"roomy answers with status {answer.status_code}")
            answer.raise_for_status()
            return dict(answer.json())
        except (httpx.HTTPError, TimeoutError, ValueError) as error:
            raise ProviderUnknown(f"roomy: {type(error).__name__}") from error


def _provisioned(room: dict[str, Any]) -> meetings.Provisioned:
    try:
        return meetings.Provisioned(str(room["id"]), str(room["url"]))
    except KeyError as error:
        raise ProviderUnknown("roomy: an answer without a room") from error
