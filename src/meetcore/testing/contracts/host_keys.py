"""The keys of hosts in a store: due, replaced under one lease at a time, never under a lost one."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from meetcore.domain.meetings.hosts import Host
from meetcore.domain.meetings.meetings import Meeting
from meetcore.ports.host_keys import DueHostKey
from meetcore.ports.lease import Lease
from meetcore.testing.contracts.store_rig import Rig, StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    new_host,
    new_id,
    open_customer,
    registry_of,
    scheduled,
)


async def claim_keys(rig: Rig, limit: int = 100, seconds: float = 60.0) -> Sequence[DueHostKey]:
    """Take hosts whose keys are due, under a lease of so many seconds."""
    async with rig.store.begin() as tx:
        return await tx.host_keys.claim_due(limit, Lease(new_id(), seconds))


async def save_key(rig: Rig, due: DueHostKey, host_key: str) -> bool:
    """Write the key that the provider was given; false when the lease is lost."""
    async with rig.store.begin() as tx:
        return await tx.host_keys.save(due.host_id, due.token, host_key)


async def _postpone(rig: Rig, due: DueHostKey, seconds: float) -> None:
    async with rig.store.begin() as tx:
        await tx.host_keys.postpone(due.host_id, due.token, seconds)


async def _due(rig: Rig, limit: int = 100) -> list[UUID]:
    """Whose keys are due; they stay so."""
    return [due.host_id for due in await claim_keys(rig, limit, seconds=-1.0)]


async def _put_hosts(rig: Rig, count: int) -> list[Host]:
    hosts = [new_host() for _ in range(count)]
    await rig.put_hosts(*hosts)
    return hosts


async def _next_meeting(rig: StoreRig) -> Meeting:
    meeting = await scheduled(rig, await open_customer(rig, 100))
    found = await rig.queries.find_meeting(meeting.account_id, meeting.id)
    assert found is not None
    return found


@pytest.mark.asyncio
class HostKeyRepositoryContract:
    """What `ports.host_keys.HostKeyRepository` promises."""

    async def test_a_host_that_is_added_is_due_at_once(self, rig: StoreRig) -> None:
        host = new_host()
        await registry_of(rig).add_host(host, AT)
        (due,) = await claim_keys(rig)
        assert (due.host_id, due.provider_user_id) == (host.id, host.provider_user_id)

    async def test_a_claimed_host_is_not_claimed_again_during_the_lease(self, rig: StoreRig) -> None:
        hosts = await _put_hosts(rig, 3)
        claimed = await claim_keys(rig, 2)
        assert len(claimed) == 2
        assert {due.host_id for due in claimed} | set(await _due(rig)) == {host.id for host in hosts}
        assert len(await _due(rig)) == 1

    async def test_a_host_is_due_again_when_its_lease_runs_out(self, rig: StoreRig) -> None:
        (host,) = await _put_hosts(rig, 1)
        (late,) = await claim_keys(rig, seconds=-1.0)
        (due,) = await claim_keys(rig)
        assert (late.host_id, due.host_id) == (host.id, host.id)
        assert not await save_key(rig, late, "111111")
        assert await save_key(rig, due, "222222")
        assert not await save_key(rig, late, "333333")
        assert not await save_key(rig, due, "444444")
        assert (await _next_meeting(rig)).host_key == "222222"

    async def test_a_host_whose_key_is_in_place_is_due_no_more(self, rig: StoreRig) -> None:
        one, other = await _put_hosts(rig, 2)
        for due in await claim_keys(rig):
            if due.host_id == one.id:
                assert await save_key(rig, due, "111111")
            else:
                await _postpone(rig, due, -1.0)
        assert await _due(rig) == [other.id]

    async def test_a_postponed_host_is_due_after_that_time(self, rig: StoreRig) -> None:
        await _put_hosts(rig, 1)
        (due,) = await claim_keys(rig, seconds=-1.0)
        await _postpone(rig, due, 3600.0)
        assert await _due(rig) == []
        assert not await save_key(rig, due, "111111")

    async def test_only_the_claim_owner_postpones(self, rig: StoreRig) -> None:
        await _put_hosts(rig, 1)
        (late,) = await claim_keys(rig, seconds=-1.0)
        (due,) = await claim_keys(rig)
        await _postpone(rig, late, -1.0)
        assert await _due(rig) == []
        assert await save_key(rig, due, "111111")
        await _postpone(rig, due, -1.0)
        assert await _due(rig) == []

    async def test_the_longest_due_come_first(self, rig: StoreRig) -> None:
        hosts = await _put_hosts(rig, 4)
        since = {host.id: float(-10 * place) for place, host in enumerate(hosts, 1)}
        for due in await claim_keys(rig):
            await _postpone(rig, due, since[due.host_id])
        first = [host.id for host in hosts[:1:-1]]
        assert set(await _due(rig, 2)) == set(first)

    async def test_hosts_that_have_no_key_to_show_are_never_due(self, rig: StoreRig) -> None:
        await rig.put_hosts(new_host(is_active=False), new_host(max_concurrent=2))
        host = new_host()
        await registry_of(rig).add_host(host, AT)
        await registry_of(rig).add_host(new_host(max_concurrent=3), AT)
        assert await _due(rig) == [host.id]
        await registry_of(rig).disable_host(host.id)
        assert await _due(rig) == []

    async def test_a_key_that_is_claimed_is_in_place_no_more(self, rig: StoreRig) -> None:
        await _put_hosts(rig, 1)
        meeting = await _next_meeting(rig)
        assert meeting.host_key is None
        (due,) = await claim_keys(rig)
        assert await rig.queries.find_meeting(meeting.account_id, meeting.id) == meeting
        assert await save_key(rig, due, "111111")
        found = await rig.queries.find_meeting(meeting.account_id, meeting.id)
        assert found is not None
        assert found.host_key == "111111"

    async def test_concurrent_claims_never_share_a_host(self, rig: StoreRig) -> None:
        hosts = await _put_hosts(rig, 12)
        claimed = await asyncio.gather(*(claim_keys(rig, 3) for _ in range(8)))
        ids = [due.host_id for some in claimed for due in some]
        assert len(set(ids)) == len(ids)
        remaining = [due.host_id for due in await claim_keys(rig)]
        assert sorted(ids + remaining) == sorted(host.id for host in hosts)

    async def test_what_is_rolled_back_was_never_claimed(self, rig: StoreRig) -> None:
        (host,) = await _put_hosts(rig, 1)

        async def claim_and_fail() -> None:
            async with rig.store.begin() as tx:
                assert len(await tx.host_keys.claim_due(1, Lease(new_id(), 60.0))) == 1
                raise LookupError

        with pytest.raises(LookupError):
            await claim_and_fail()
        assert await _due(rig) == [host.id]
