"""The figures that an operator watches: counts and ages of what a store holds."""

from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.domain.webhooks.endpoints import EndpointState
from meetcore.testing.contracts.note_transactions import queued, recorded
from meetcore.testing.contracts.outbox import claim, outbox, sweep
from meetcore.testing.contracts.store_rig import FiguresRig
from meetcore.testing.contracts.transactions import (
    MeetingSpec,
    new_endpoint,
    new_host,
    open_customer,
    register,
    reserved,
    save_endpoint,
)

STATES = ("pending", "held", "parked")


@pytest.mark.asyncio
class FigureReaderContract:
    """What `ports.figures.FigureReader` promises."""

    async def test_an_empty_store_has_every_figure_at_zero(self, rig: FiguresRig) -> None:
        await rig.reset()
        found = await rig.figures.read()
        assert dict(found.deliveries) == dict.fromkeys(STATES, 0)
        assert (found.endpoints["paused"], found.endpoints["disabled"]) == (0, 0)
        assert found.endpoints["active"] >= 0
        assert dict(found.hosts) == {"free": 0, "busy": 0, "unavailable": 0, "disabled": 0}
        assert dict(found.notes_oldest_due_s) == {"fetch": 0, "transcribe": 0, "write": 0, "settle": 0}
        assert found.deliveries_oldest_due_s == found.provider_events_oldest_due_s == 0
        assert found.mails_oldest_due_s == found.meetings_oldest_in_progress_s == 0
        assert (found.ledger_verified_at, found.ledger_is_sound) == (None, True)

    async def test_deliveries_are_counted_and_one_that_is_claimed_is_not_due(self, rig: FiguresRig) -> None:
        await outbox(rig, 3)
        found = await rig.figures.read()
        assert dict(found.deliveries) == {"pending": 3, "held": 0, "parked": 0}
        assert 0 <= found.deliveries_oldest_due_s < 60
        await claim(rig)
        found = await rig.figures.read()
        assert found.deliveries["pending"] == 3
        assert found.deliveries_oldest_due_s == 0

    async def test_deliveries_of_a_paused_endpoint_are_held(self, rig: FiguresRig) -> None:
        _, endpoint = await outbox(rig, 2)
        await save_endpoint(rig, evolve(endpoint, state=EndpointState.PAUSED))
        await claim(rig)
        await sweep(rig)
        found = await rig.figures.read()
        assert found.deliveries["pending"] + found.deliveries["held"] == 2
        assert found.endpoints["paused"] == 1

    async def test_endpoints_that_are_not_active_are_counted(self, rig: FiguresRig) -> None:
        customer = await open_customer(rig)
        states = [EndpointState.PAUSED, EndpointState.DISABLED, EndpointState.DISABLED, EndpointState.ACTIVE]
        for state in states:
            endpoint = await register(rig, new_endpoint(customer))
            disabled_at = rig.now() if state is EndpointState.DISABLED else None
            await save_endpoint(rig, evolve(endpoint, state=state, disabled_at=disabled_at))
        found = await rig.figures.read()
        assert (found.endpoints["paused"], found.endpoints["disabled"]) == (1, 2)

    async def test_hosts_are_counted_by_what_they_can_take_now(self, rig: FiguresRig) -> None:
        soon = rig.now() + timedelta(minutes=10)
        await rig.put_hosts(
            new_host(50), new_host(50), new_host(50, is_active=False), new_host(50, unavailable_until=soon),
            new_host(50, unavailable_until=rig.now() - timedelta(minutes=1)),
        )  # fmt: skip
        found = await rig.figures.read()
        assert dict(found.hosts) == {"free": 3, "busy": 0, "unavailable": 1, "disabled": 1}
        for start_at in (rig.now(), rig.now() + timedelta(days=1)):
            await reserved(rig, await open_customer(rig, 50), MeetingSpec(start_at=start_at))
        found = await rig.figures.read()
        assert (found.hosts["free"], found.hosts["busy"]) == (2, 1)

    async def test_a_creation_in_progress_has_an_age(self, rig: FiguresRig) -> None:
        await rig.put_hosts(new_host())
        customer = await open_customer(rig, 50)
        await reserved(rig, customer, MeetingSpec())
        assert (await rig.figures.read()).meetings_oldest_in_progress_s >= 0

    async def test_a_note_that_is_due_has_an_age_at_its_step(self, rig: FiguresRig) -> None:
        customer = await open_customer(rig, 50)
        await queued(rig, customer, await recorded(rig, customer))
        found = await rig.figures.read()
        assert 0 <= found.notes_oldest_due_s["fetch"] < 60
        assert found.notes_oldest_due_s["settle"] == 0
