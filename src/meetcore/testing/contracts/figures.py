"""The figures that an operator watches: counts and ages of what a store holds."""

from datetime import timedelta

import pytest
from attrs import evolve

from meetcore.domain.webhooks.endpoints import EndpointState
from meetcore.testing.contracts.mail_repository import add_mails, claim_mails, new_mail, record_mail
from meetcore.testing.contracts.note_transactions import claim_notes, queued, recorded
from meetcore.testing.contracts.outbox import claim, outbox, sweep
from meetcore.testing.contracts.store_rig import FiguresRig
from meetcore.testing.contracts.transactions import (
    MeetingSpec,
    adjust,
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
        assert found.mails_oldest_failing_s == 0
        for ages in (found.notes_oldest_failing_s, found.notes_oldest_s):
            assert dict(ages) == {"fetch": 0, "transcribe": 0, "write": 0, "settle": 0}
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

    async def test_a_note_that_fails_and_is_tried_again_has_an_age_though_it_is_not_due(
        self, rig: FiguresRig
    ) -> None:
        customer = await open_customer(rig, 50)
        await queued(rig, customer, at=rig.now() - timedelta(minutes=1))
        (task,) = await claim_notes(rig)
        found = await rig.figures.read()
        assert found.notes_oldest_s["fetch"] >= 60
        assert found.notes_oldest_failing_s["fetch"] == 0
        async with rig.store.begin() as tx:
            assert await tx.notes.postpone(task, evolve(task.note, tries=1), 3600.0)
        found = await rig.figures.read()
        assert found.notes_oldest_due_s["fetch"] == 0
        assert found.notes_oldest_failing_s["fetch"] >= 60
        assert found.notes_oldest_failing_s["write"] == 0

    async def test_a_mail_that_fails_and_is_tried_again_has_an_age_though_it_is_not_due(
        self, rig: FiguresRig
    ) -> None:
        mail = new_mail(rig)
        await add_mails(rig, evolve(mail, created_at=mail.created_at - timedelta(minutes=1)))
        (claimed,) = await claim_mails(rig)
        assert (await rig.figures.read()).mails_oldest_failing_s == 0
        await record_mail(rig, claimed, "timeout", retry_s=3600)
        found = await rig.figures.read()
        assert found.mails_oldest_due_s == 0
        assert found.mails_oldest_failing_s >= 60

    async def test_the_credits_of_today_are_summed_by_kind(self, rig: FiguresRig) -> None:
        customer = await open_customer(rig)
        before = (await rig.figures.read()).credits_today
        today, yesterday = rig.now(), rig.now() - timedelta(days=1)
        for number, (amount, at) in enumerate([(500, yesterday), (70, today), (-20, today)]):
            await adjust(rig, customer, amount, str(number), at)
        found = (await rig.figures.read()).credits_today
        assert found["adjustment"] - before["adjustment"] == 50
        assert found["topup"] == before["topup"]
