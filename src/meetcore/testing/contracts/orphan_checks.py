"""Checks for orphans in a store: opened with a creation, moved when it is given up, claimed by one."""

import pytest
from attrs import evolve

from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import LeaseView
from meetcore.ports.orphan_checks import OrphanCheck
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    Customer,
    MeetingSpec,
    abandon,
    new_host,
    new_id,
    open_customer,
    reserved,
    schedule,
)


async def _customer(rig: StoreRig) -> Customer:
    await rig.put_hosts(evolve(new_host(max_concurrent=9), provider_user_id="host-9"))
    return await open_customer(rig, 100)


async def _made(rig: StoreRig, customer: Customer, window_s: float | None, lease_s: float = 0.0) -> LeaseView:
    """A meeting in the making, whose check is due so long after the lease."""
    return await reserved(rig, customer, MeetingSpec(lease_s=lease_s, orphan_window_s=window_s))


async def _due(rig: StoreRig, limit: int = 10, lease_s: float = 60.0) -> list[OrphanCheck]:
    async with rig.store.begin() as tx:
        return list(await tx.orphan_checks.claim_due(limit, Lease(new_id(), lease_s)))


async def _postpone(
    rig: StoreRig, check: OrphanCheck, after_s: float, *, failures: int = 0, is_sighting: bool = False
) -> None:
    async with rig.store.begin() as tx:
        await tx.orphan_checks.postpone(check, after_s, failures=failures, is_sighting=is_sighting)


async def _close(rig: StoreRig, check: OrphanCheck) -> None:
    async with rig.store.begin() as tx:
        await tx.orphan_checks.close(check)


async def _open(rig: StoreRig, made: LeaseView) -> None:
    async with rig.store.begin() as tx:
        await tx.orphan_checks.open(made.meeting.account_id, made.meeting.id)


@pytest.mark.asyncio
class OrphanCheckRepositoryContract:
    """What `ports.orphan_checks.OrphanCheckRepository` promises."""

    async def test_a_creation_is_checked_when_its_lease_and_the_window_are_over(self, rig: StoreRig) -> None:
        customer = await _customer(rig)
        await _made(rig, customer, None)
        await _made(rig, customer, 60)
        await _made(rig, customer, 0, lease_s=60)
        due = await _made(rig, customer, -1)
        (check,) = await _due(rig)
        assert (check.meeting, check.provider_user_id, check.failures) == (due.meeting, "host-9", 0)
        assert 0 <= check.age_s < 30

    async def test_the_meeting_of_a_check_is_as_it_is_now(self, rig: StoreRig) -> None:
        made = await _made(rig, await _customer(rig), -1)
        meeting = await schedule(rig, made, room="room-7")
        (check,) = await _due(rig)
        assert check.meeting == meeting
        assert check.meeting.provider_meeting_id == "room-7"

    async def test_the_age_is_negative_while_the_request_may_be_under_way(self, rig: StoreRig) -> None:
        await _made(rig, await _customer(rig), -60, lease_s=60)
        (check,) = await _due(rig)
        assert -60 <= check.age_s < -30

    async def test_a_check_is_given_to_one_until_its_lease_runs_out(self, rig: StoreRig) -> None:
        made = await _made(rig, await _customer(rig), -1)
        assert len(await _due(rig, lease_s=60)) == 1
        assert await _due(rig) == []
        await _open(rig, made)
        assert len(await _due(rig, lease_s=-1)) == 1
        assert len(await _due(rig)) == 1

    async def test_the_longest_due_checks_come_first_up_to_the_limit(self, rig: StoreRig) -> None:
        customer = await _customer(rig)
        made = [(await _made(rig, customer, -seconds)).meeting.id for seconds in (20, 40, 30)]
        assert [check.meeting.id for check in await _due(rig, 2)] == [made[1], made[2]]
        assert [check.meeting.id for check in await _due(rig, 2)] == [made[0]]

    async def test_the_age_continues_over_checks_unless_an_orphan_was_found(self, rig: StoreRig) -> None:
        await _made(rig, await _customer(rig), 0, lease_s=-100)
        (check,) = await _due(rig)
        assert check.age_s >= 100
        await _postpone(rig, check, -1, failures=3)
        (again,) = await _due(rig)
        assert (again.age_s >= check.age_s, again.failures) == (True, 3)
        await _postpone(rig, again, -1, is_sighting=True)
        (anew,) = await _due(rig)
        assert (anew.age_s < 30, anew.failures) == (True, 0)

    async def test_a_check_that_is_postponed_waits(self, rig: StoreRig) -> None:
        await _made(rig, await _customer(rig), -1)
        (check,) = await _due(rig)
        await _postpone(rig, check, 60)
        assert await _due(rig) == []

    async def test_a_check_that_is_closed_is_due_no_more(self, rig: StoreRig) -> None:
        await _made(rig, await _customer(rig), -1)
        (check,) = await _due(rig, lease_s=-1)
        await _close(rig, check)
        assert await _due(rig) == []

    async def test_a_lost_lease_changes_nothing(self, rig: StoreRig) -> None:
        await _made(rig, await _customer(rig), -1)
        (lost,) = await _due(rig, lease_s=-1)
        (held,) = await _due(rig)
        await _close(rig, lost)
        await _postpone(rig, lost, -1)
        assert await _due(rig) == [], "it is the other's"
        await _postpone(rig, held, -1)
        assert len(await _due(rig)) == 1

    async def test_a_reopened_check_has_no_lease(self, rig: StoreRig) -> None:
        made = await _made(rig, await _customer(rig), 0, lease_s=-100)
        (lost,) = await _due(rig)
        await _open(rig, made)
        await _close(rig, lost)
        (check,) = await _due(rig)
        assert check.age_s < 30, "an orphan was seen now"

    async def test_a_meeting_without_a_check_is_given_one(self, rig: StoreRig) -> None:
        made = await _made(rig, await _customer(rig), None)
        await _open(rig, made)
        (check,) = await _due(rig)
        assert check.meeting == made.meeting

    async def test_an_abandoned_creation_is_checked_on_request(self, rig: StoreRig) -> None:
        customer = await _customer(rig)
        for window_s in (None, -1, 60):
            unmade, waits, due = [await _made(rig, customer, window_s) for _ in range(3)]
            assert await abandon(rig, unmade, look_again_s=None)
            assert await abandon(rig, waits, look_again_s=60)
            assert await abandon(rig, due, look_again_s=0, was_made=True)
            (check,) = await _due(rig)
            assert check.meeting == evolve(due.meeting, status=MeetingStatus.ABANDONED)

    async def test_giving_up_ends_the_lease_on_a_check(self, rig: StoreRig) -> None:
        made = await _made(rig, await _customer(rig), -1)
        (lost,) = await _due(rig)
        assert await abandon(rig, made, look_again_s=0)
        await _close(rig, lost)
        assert len(await _due(rig)) == 1

    async def test_a_meeting_without_a_host_is_checked_too(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await reserved(rig, customer, MeetingSpec(needs_host=False, lease_s=0.0, orphan_window_s=-1))
        assert [check.provider_user_id for check in await _due(rig)] == [""]

    async def test_a_check_is_taken_from_whatever_process_has_it(self, rig: StoreRig) -> None:
        customer = await _customer(rig)
        made = await _made(rig, customer, 0.0)
        [held] = await _due(rig)
        lease = Lease(new_id(), 60)
        async with rig.store.begin() as tx:
            taken = await tx.orphan_checks.take(customer.account_id, made.meeting.id, lease)
            assert await tx.orphan_checks.take(customer.account_id, new_id(), lease) is None
        assert taken is not None
        assert (taken.meeting.id, taken.token) == (made.meeting.id, lease.token)
        await _close(rig, held)
        assert await _due(rig) == []
        await _postpone(rig, taken, 0.0)
        [again] = await _due(rig)
        await _close(rig, again)
        async with rig.store.begin() as tx:
            assert await tx.orphan_checks.take(customer.account_id, made.meeting.id, lease) is None
