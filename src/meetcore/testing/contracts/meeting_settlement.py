"""The hold becomes the charge: once, for the owner of the lease, on a view that is still current."""

import asyncio

import pytest
from attrs import evolve

from meetcore.domain.meetings.meetings import Provisioned
from meetcore.domain.money.ledger import TransferKind
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.meetings import LeaseView
from meetcore.testing.contracts.reads import creation, is_free, money
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    RUNTIME,
    Customer,
    MeetingSpec,
    load_leased,
    new_endpoint,
    new_host,
    new_id,
    open_customer,
    register,
    reserved,
    schedule,
    top_up,
)
from meetcore.usecases.provision import settle


async def _settled_by(rig: StoreRig, view: LeaseView, *, at_once: bool = True) -> int | None:
    """The hold becomes the charge, as it is decided on a view that may be out of date."""
    room = Provisioned(f"room-{view.meeting.id}", "https://meet.example/x", "pw")
    async with rig.store.at_once() if at_once else rig.store.begin() as tx:
        outcome = await settle(tx, RUNTIME, view, room, AT)
    return None if outcome is None else outcome.due


async def _provisioned_view(rig: StoreRig, customer: Customer) -> LeaseView:
    made = await reserved(rig, customer, MeetingSpec())
    view = await load_leased(rig, made)
    assert view is not None
    return view


@pytest.mark.asyncio
class MeetingSettlementContract:
    """Paying for a meeting that was made. A part of `MeetingRepositoryContract`."""

    async def test_a_scheduled_meeting_is_charged_and_emits_an_event(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await register(rig, new_endpoint(customer, EventKind.MEETING_CREATED))
        await rig.put_hosts(new_host())
        made = await reserved(rig, customer, MeetingSpec(credits=30))
        assert made.hold is not None
        meeting = await schedule(rig, made)
        assert meeting is not None
        assert await rig.queries.find_meeting(customer.account_id, meeting.id) == meeting
        assert await money(rig, customer) == (70, 0, 30, 0)
        assert await rig.holds(customer.account_id) == []
        charge = (await rig.entries(customer.account_id))[-1]
        assert (charge.transfer.id, charge.amount) == (meeting.charge_id, -30)
        assert (charge.transfer.kind, charge.transfer.operation) == (
            TransferKind.MEETING_CHARGE,
            made.hold.operation,
        )
        assert len(await rig.deliveries(customer.account_id)) == 1
        assert not await is_free(rig, customer)
        assert await schedule(rig, made) is None

    async def test_a_charge_is_found_under_its_operation_for_ever(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        await schedule(rig, await reserved(rig, customer, MeetingSpec(key="k")))
        (charge,) = (await rig.entries(customer.account_id))[1:]
        assert (await creation(rig, customer, MeetingSpec(key="k"))).charged == charge.transfer

    @pytest.mark.parametrize("password", [None, "ABC-123"])
    async def test_the_providers_password_is_the_one_that_counts(
        self, rig: StoreRig, password: str | None
    ) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        meeting = await schedule(rig, await reserved(rig, customer, MeetingSpec()), password=password)
        assert meeting is not None
        stored = await rig.queries.find_meeting(customer.account_id, meeting.id)
        assert stored is not None
        assert stored.password == password

    @pytest.mark.parametrize("at_once", [True, False])
    async def test_a_view_that_is_still_true_is_settled_in_one_statement(
        self, rig: StoreRig, at_once: bool
    ) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        view = await _provisioned_view(rig, customer)
        assert await _settled_by(rig, view, at_once=at_once) == 0
        assert await rig.holds(customer.account_id) == []
        assert [entry.amount for entry in await rig.entries(customer.account_id)] == [100, -10]

    async def test_nothing_is_settled_on_an_account_that_has_changed(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        view = await _provisioned_view(rig, customer)
        await top_up(rig, customer, 5, "meanwhile")
        assert await _settled_by(rig, view) is None
        assert await rig.holds(customer.account_id) == [10]
        assert [entry.amount for entry in await rig.entries(customer.account_id)] == [100, 5]

    async def test_nothing_is_settled_twice(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        view = await _provisioned_view(rig, customer)
        results = await asyncio.gather(*(_settled_by(rig, view) for _ in range(5)))
        assert sorted(results, key=str) == [0, None, None, None, None]
        assert [entry.amount for entry in await rig.entries(customer.account_id)] == [100, -10]

    async def test_nothing_is_settled_without_the_lease(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        view = await _provisioned_view(rig, customer)
        assert await _settled_by(rig, evolve(view, token=new_id())) is None
        assert await rig.holds(customer.account_id) == [10]
