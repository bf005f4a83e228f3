"""Lists from a copy of a store that may be behind: with all that their caller may know of."""

from datetime import timedelta
from typing import Protocol

import pytest

from meetcore.domain.meetings.meetings import Meeting
from meetcore.ports.lists import AccountVersion, EventFilter, ListQueries, Lists, MeetingFilter, NoteFilter
from meetcore.testing.contracts.store_rig import QueriesRig
from meetcore.testing.contracts.transactions import (
    AT,
    Customer,
    MeetingSpec,
    new_endpoint,
    new_host,
    open_customer,
    register,
    scheduled,
)


class ListsRig(QueriesRig, Protocol):
    """For `ListsContract`."""

    @property
    def lists(self) -> Lists:
        """The lists of the same store, some of which are read from a copy of it."""

    async def pause(self) -> None:
        """Let the copy have what the store has now, and nothing that is written later."""

    async def resume(self) -> None:
        """Let the copy follow again; return when it has what the store has."""


@pytest.mark.asyncio
class ListsContract:
    """What `ports.lists.Lists` promises."""

    async def test_what_a_caller_has_written_is_listed_whatever_the_copy_has(self, rig: ListsRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        await rig.pause()
        made: list[Meeting] = []
        for hour in range(3):
            made.insert(0, await scheduled(rig, customer, _spec(hour)))
            found = await meetings(rig.lists.since(await version_of(rig, customer)), customer)
            assert found == made
        await rig.resume()
        assert await meetings(rig.lists.since(await version_of(rig, customer)), customer) == made

    async def test_what_was_written_since_may_be_missing_and_comes(self, rig: ListsRig) -> None:
        """A list of an earlier version is read from the copy: else nothing would be gained."""
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        earlier = await version_of(rig, customer)
        await rig.pause()
        meeting = await scheduled(rig, customer)
        assert await meetings(rig.lists.since(earlier), customer) == []
        await rig.resume()
        assert await meetings(rig.lists.since(earlier), customer) == [meeting]

    async def test_without_a_version_the_store_itself_is_read(self, rig: ListsRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        await rig.pause()
        meeting = await scheduled(rig, customer)
        assert await meetings(rig.lists.since(None), customer) == [meeting]
        await rig.resume()

    async def test_what_one_account_writes_does_not_concern_another(self, rig: ListsRig) -> None:
        customer, other = await open_customer(rig, 100), await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        version = await version_of(rig, customer)
        await rig.pause()
        meeting = await scheduled(rig, other)
        assert await meetings(rig.lists.since(version), customer) == []
        assert await meetings(rig.lists.since(await version_of(rig, other)), other) == [meeting]
        await rig.resume()

    async def test_every_list_is_read(self, rig: ListsRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        endpoint = await register(rig, new_endpoint(customer))
        await rig.pause()  # so that the copy has it
        lists, account_id = rig.lists.since(await version_of(rig, customer)), customer.account_id
        assert await lists.list_endpoints(account_id, 10, None) == [endpoint]
        assert await lists.list_deliveries(account_id, endpoint.id, None, 10, None) == []
        assert await lists.list_events(account_id, EventFilter(AT), 10, None) == []
        assert await lists.list_recordings(account_id, None, 10, None) == []
        assert await lists.list_notes(account_id, NoteFilter(), 10, None) == []
        assert await lists.list_deliveries(account_id, account_id, None, 10, None) is None
        await rig.resume()


async def version_of(rig: QueriesRig, customer: Customer) -> AccountVersion:
    """The version of the account as a request finds it."""
    caller = await rig.queries.find_caller(customer.digest)
    assert caller is not None
    assert caller.version is not None
    return caller.version


async def meetings(lists: ListQueries, customer: Customer) -> list[Meeting]:
    """The account's meetings."""
    return list(await lists.list_meetings(customer.account_id, MeetingFilter(AT), 10, None))


def _spec(hour: int) -> MeetingSpec:
    first = MeetingSpec()
    return MeetingSpec(first.start_at + timedelta(hours=hour))
