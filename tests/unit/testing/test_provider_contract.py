"""The suite of video providers, on adapters with a fault that it must find."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from meetcore.adapters.jitsi import JitsiProvider
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import ProviderAbilities, Provisioned
from meetcore.domain.meetings.views import ProviderOrder
from meetcore.ports.video_provider import require_lease
from meetcore.testing.contracts import VideoProviderContract
from meetcore.testing.contracts.providers import order_for

ABILITIES = ProviderAbilities("rooms", None, has_hosts=False)


class Rooms:
    """Rooms in memory; each call looks at the lease by a function of this name."""

    abilities = ABILITIES

    def __init__(self, **looks: Callable[[], None]) -> None:
        self._looks = looks
        self._made: dict[UUID, Provisioned] = {}

    def _request(self, name: str) -> None:
        self._looks.get(name, require_lease)()

    async def create(self, order: ProviderOrder) -> Provisioned:
        self._request("create")
        name = str(order.meeting_id)
        return self._made.setdefault(order.meeting_id, Provisioned(name, f"https://rooms.example/{name}"))

    async def find(self, order: ProviderOrder) -> Sequence[Provisioned]:
        self._request("find")
        return [made for made in self._made.values() if made.provider_meeting_id == str(order.meeting_id)]

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        self._request("remove")
        gone = self._made.pop(UUID(provider_meeting_id), None) is None
        return ProviderMeetingState.GONE if gone else ProviderMeetingState.REMOVED

    async def end(self, provider_meeting_id: str) -> None:
        self._request("end")

    list_host, read, set_host_key = JitsiProvider.list_host, JitsiProvider.read, JitsiProvider.set_host_key


async def test_a_provider_that_looks_at_the_lease_passes() -> None:
    await VideoProviderContract().test_no_request_is_sent_after_the_lease(Rooms())


@pytest.mark.parametrize("call", ["create", "find", "remove", "end"])
async def test_a_call_that_looks_at_no_lease_is_found(call: str) -> None:
    provider = Rooms(**{call: lambda: None})
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        await VideoProviderContract().test_no_request_is_sent_after_the_lease(provider)


def test_a_meeting_of_the_suite_is_to_come() -> None:
    ahead = order_for(Rooms()).start_at - datetime.now(UTC)
    assert timedelta(hours=22) < ahead <= timedelta(days=1)
