"""Callers who ask at the same time: each gets its own answer, however a store reads them."""

import asyncio
from datetime import timedelta

import pytest

from meetcore.ports.queries import Caller, CallerIncludes
from meetcore.testing.contracts.store_rig import QueriesRig
from meetcore.testing.contracts.transactions import (
    AT,
    Customer,
    new_host,
    new_id,
    open_customer,
    registry_of,
    scheduled,
)

ROUNDS = 5


@pytest.mark.asyncio
class ConcurrentCallers:
    """What `ports.queries.Queries` promises of callers who ask at the same time."""

    async def test_each_of_many_callers_gets_its_own_answer(self, rig: QueriesRig) -> None:
        customers = [await open_customer(rig, 50 + number) for number in range(4)]
        asked = await _questions(rig, customers)
        alone = [await rig.queries.find_caller(digest, includes) for digest, includes in asked]
        together = await asyncio.gather(
            *(rig.queries.find_caller(digest, includes) for _ in range(ROUNDS) for digest, includes in asked)
        )
        assert together == alone * ROUNDS
        for found, expected in zip(together, alone * ROUNDS, strict=True):
            assert _meeting_of(found) == _meeting_of(expected)

    async def test_callers_who_ask_after_a_change_see_it(self, rig: QueriesRig) -> None:
        """However many others ask before, meanwhile and after."""
        customer, others = await open_customer(rig), [await open_customer(rig) for _ in range(3)]
        is_over, asked = asyncio.Event(), [0]

        async def ask_on(other: Customer) -> None:
            while not is_over.is_set():
                assert await rig.queries.find_caller(other.digest) is not None
                asked[0] += 1
                await asyncio.sleep(0)

        asking = [asyncio.create_task(ask_on(other)) for other in others for _ in range(5)]
        await registry_of(rig).revoke_key(customer.key_id, AT)
        await registry_of(rig).suspend_account(others[0].account_id, AT)
        before = asked[0]
        found = await asyncio.gather(
            *(
                rig.queries.find_caller(each.digest, includes)
                for each in (customer, others[0])
                for includes in (CallerIncludes(), CallerIncludes(usage_on=AT.date()))
                for _ in range(ROUNDS)
            )
        )
        assert [caller is not None and caller.key.revoked_at for caller in found] == [AT] * 10 + [None] * 10
        assert [caller is not None and caller.account.suspended_at for caller in found] == [None] * 10 + [
            AT
        ] * 10
        is_over.set()
        await asyncio.gather(*asking)
        assert asked[0] > before

    async def test_a_caller_who_leaves_harms_no_other(self, rig: QueriesRig) -> None:
        customers = [await open_customer(rig) for _ in range(6)]
        asked = [asyncio.ensure_future(rig.queries.find_caller(customer.digest)) for customer in customers]
        await asyncio.sleep(0)
        for leaving in (asked[0], asked[3]):
            leaving.cancel()
        found = await asyncio.gather(*asked, return_exceptions=True)
        for place, (caller, customer) in enumerate(zip(found, customers, strict=True)):
            if place not in (0, 3):
                assert isinstance(caller, Caller)
                assert caller.key.id == customer.key_id
        assert await rig.queries.find_caller(customers[0].digest) is not None


async def _questions(rig: QueriesRig, customers: list[Customer]) -> list[tuple[bytes, CallerIncludes]]:
    """Return what some callers ask, unknown ones and meetings of others among them."""
    await rig.put_hosts(new_host(), new_host())
    meetings = [(await scheduled(rig, customer)).id for customer in customers[:2]]
    includes = [
        CallerIncludes(),
        CallerIncludes(usage_on=AT.date()),
        CallerIncludes(usage_on=AT.date() + timedelta(days=1)),
        *(CallerIncludes(meeting_id=id_) for id_ in (*meetings, new_id())),
    ]
    digests = [bytes(32), *(customer.digest for customer in customers)]
    return [(digest, each) for each in includes for digest in digests]


def _meeting_of(caller: Caller | None) -> object:
    return None if caller is None else caller.load_meeting()
