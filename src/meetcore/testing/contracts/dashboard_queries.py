"""What the pages of the dashboard read."""

from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.webhooks.endpoints import EndpointState
from meetcore.ports.dashboard_queries import DaySpending
from meetcore.testing.contracts.note_transactions import claim_notes, queued, settle
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    MeetingSpec,
    finish_cancelling,
    new_endpoint,
    new_host,
    open_customer,
    register,
    reserved,
    rolled,
    save_endpoint,
    scheduled,
    start_cancelling,
)

TODAY = cap_day(AT)


@pytest.mark.asyncio
class DashboardQueriesContract:
    """What `ports.dashboard_queries.DashboardQueries` promises. A part of `StoreContract`."""

    async def test_the_use_of_a_key_is_that_of_its_cap_on_the_day(self, rig: StoreRig) -> None:
        first = await open_customer(rig, 100)
        other = await open_customer(rig, 100)
        await rig.put_hosts(new_host(max_concurrent=9))
        second = await rolled(rig, first)
        await scheduled(rig, first, MeetingSpec(credits=30))
        await reserved(rig, second, MeetingSpec(credits=5))
        await scheduled(rig, other, MeetingSpec(credits=7))
        listed = await rig.queries.list_key_use(first.account_id, TODAY)
        assert [(use.key.id, use.spent) for use in listed] == [(second.key_id, 35), (first.key_id, 35)]
        tomorrow = await rig.queries.list_key_use(first.account_id, TODAY + timedelta(days=1))
        assert [use.spent for use in tomorrow] == [0, 0]

    async def test_spending_is_by_day_and_kind_less_refunds(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        other = await open_customer(rig, 100)
        await rig.put_hosts(new_host(max_concurrent=9))
        await scheduled(rig, customer, MeetingSpec(credits=30))
        back = await scheduled(rig, customer, MeetingSpec(credits=20))
        await finish_cancelling(rig, back, await start_cancelling(rig, back))
        await queued(rig, customer, price=7)
        (task,) = await claim_notes(rig)
        assert await settle(rig, task, price=4)
        await scheduled(rig, other, MeetingSpec(credits=9))
        spent = await rig.queries.list_spending(customer.account_id, TODAY)
        assert sum(each.meetings for each in spent) == 30
        assert sum(each.notes for each in spent) == 4
        days = [each.day for each in spent]
        assert days == sorted(set(days))
        last = max(days)
        assert await rig.queries.list_spending(customer.account_id, last + timedelta(days=1)) == []
        assert await rig.queries.list_spending(other.account_id, TODAY) == [DaySpending(TODAY, 9, 0)]

    async def test_an_account_that_spent_nothing_has_no_days(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        assert await rig.queries.list_spending(customer.account_id, TODAY) == []

    async def test_troubled_endpoints_are_those_that_fail(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        await register(rig, new_endpoint(customer))
        failing = await register(rig, new_endpoint(customer))
        await save_endpoint(rig, evolve(failing, consecutive_failures=3))
        disabled = await register(rig, new_endpoint(customer))
        await save_endpoint(
            rig,
            evolve(disabled, consecutive_failures=20, state=EndpointState.DISABLED, disabled_at=AT),
        )
        await register(rig, new_endpoint(await open_customer(rig)))
        found = await rig.queries.list_troubled_endpoints(customer.account_id)
        assert [(each.id, each.consecutive_failures, each.is_disabled) for each in found] == [
            (failing.id, 3, False),
            (disabled.id, 20, True),
        ]
        assert found[0].url == failing.url
