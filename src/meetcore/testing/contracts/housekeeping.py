"""Housekeeping in a store: what is past its retention is deleted, what still runs is kept."""

from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.mails.mails import Recipient, open_mail
from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.testing.contracts.mail_repository import CONTENTS, add_mails, claim_mails, record_mail
from meetcore.testing.contracts.provider_event_inbox import (
    add_event,
    claim_events,
    finish_event,
    provider_event,
)
from meetcore.testing.contracts.store_rig import HousekeepingRig
from meetcore.testing.contracts.transactions import (
    AT,
    Customer,
    MeetingSpec,
    email_of,
    new_endpoint,
    new_host,
    new_id,
    open_customer,
    query_of,
    register,
    reserved,
    save_endpoint,
)

DAY_S = 86_400


async def _keys_of(rig: HousekeepingRig, account_id: UUID, *keys: str) -> list[str]:
    async with rig.store.begin() as tx:
        return [key for key in keys if (await tx.idempotency.load_locked(account_id, key)).record is not None]


async def _used(rig: HousekeepingRig, customer: Customer) -> int:
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_creation(query_of(customer, MeetingSpec(per_day=5)))
    assert view.creations is not None
    return view.creations.used


@pytest.mark.asyncio
class HousekeepingContract:
    """What `ports.housekeeping.Housekeeping` promises."""

    async def test_a_key_is_kept_for_its_retention_and_then_deleted(self, rig: HousekeepingRig) -> None:
        customer = await open_customer(rig)
        async with rig.store.begin() as tx:
            await tx.idempotency.save(
                customer.account_id, IdempotencyRecord("old", b"f" * 32, True, encoded_outcome=b"a")
            )
        await rig.age_keys(DAY_S - 60)
        async with rig.store.begin() as tx:
            await tx.idempotency.save(customer.account_id, IdempotencyRecord("new", b"f" * 32))
        await rig.housekeeping.purge_idempotency(DAY_S)
        assert await _keys_of(rig, customer.account_id, "old", "new") == ["old", "new"]
        await rig.age_keys(120)
        assert await rig.housekeeping.purge_idempotency(DAY_S) >= 1
        assert await _keys_of(rig, customer.account_id, "old", "new") == ["new"]

    async def test_answering_does_not_make_a_key_younger(self, rig: HousekeepingRig) -> None:
        customer = await open_customer(rig)
        bound = IdempotencyRecord("k", b"f" * 32)
        async with rig.store.begin() as tx:
            await tx.idempotency.save(customer.account_id, bound)
        await rig.age_keys(DAY_S - 60)
        async with rig.store.begin() as tx:
            await tx.idempotency.save(
                customer.account_id, IdempotencyRecord("k", b"f" * 32, True, encoded_outcome=b"a")
            )
        await rig.age_keys(120)
        await rig.housekeeping.purge_idempotency(DAY_S)
        assert await _keys_of(rig, customer.account_id, "k") == []

    async def test_a_key_whose_work_still_runs_is_kept_however_old(self, rig: HousekeepingRig) -> None:
        customer = await open_customer(rig, credits=10)
        await rig.put_hosts(new_host())
        await reserved(rig, customer, MeetingSpec(key="running"))
        await rig.age_keys(2 * DAY_S)
        await rig.housekeeping.purge_idempotency(DAY_S)
        assert await _keys_of(rig, customer.account_id, "running") == ["running"]

    async def test_an_event_that_is_done_is_deleted_after_its_retention(self, rig: HousekeepingRig) -> None:
        await add_event(rig, provider_event(), b"d" * 32)
        (claimed,) = [one for one in await claim_events(rig) if one.event == provider_event()]
        await finish_event(rig, claimed)
        await rig.housekeeping.purge_provider_events(DAY_S)
        assert await add_event(rig, provider_event(), b"d" * 32) is None
        assert await rig.housekeeping.purge_provider_events(-60) == 1  # as if a minute had gone by
        assert await add_event(rig, provider_event(), b"d" * 32) is not None

    async def test_an_event_that_is_not_done_is_kept_however_old(self, rig: HousekeepingRig) -> None:
        await add_event(rig, provider_event(), b"d" * 32)
        await claim_events(rig, seconds=-1)
        assert await rig.housekeeping.purge_provider_events(-60) == 0
        assert len(await claim_events(rig)) == 1

    async def test_a_mail_that_is_over_is_deleted_after_its_retention(self, rig: HousekeepingRig) -> None:
        ids = [new_id(), new_id()]
        mails = [
            open_mail(
                id=id_, account_id=None, recipient=Recipient(email_of(id_)), content=CONTENTS[0],
                created_at=AT - timedelta(days=365),
            )
            for id_ in ids
        ]  # fmt: skip
        await add_mails(rig, *mails)
        taken = {one.mail.id: one for one in await claim_mails(rig, limit=1000, seconds=-1)}
        await record_mail(rig, taken[ids[0]])
        assert await rig.housekeeping.purge_mails(2 * 365 * DAY_S) == 0
        assert await rig.housekeeping.purge_mails(DAY_S) == 1
        assert [one.mail.id for one in await claim_mails(rig)] == [ids[1]], "what is not over is kept"

    async def test_creation_counts_of_past_days_are_deleted(self, rig: HousekeepingRig) -> None:
        await rig.put_hosts(new_host(max_concurrent=9))
        customer = await open_customer(rig, credits=100)
        await reserved(rig, customer, MeetingSpec(per_day=5))
        await rig.housekeeping.purge_creations(AT.date())
        assert await _used(rig, customer) == 1
        assert await rig.housekeeping.purge_creations(AT.date() + timedelta(days=1)) >= 1
        assert await _used(rig, customer) == 0

    async def test_a_replaced_secret_is_forgotten_at_its_end(self, rig: HousekeepingRig) -> None:
        customer = await open_customer(rig)
        endpoint = await register(rig, new_endpoint(customer, secret="whsec_new"))
        rotated = evolve(endpoint, previous_secret="whsec_old", previous_secret_until=AT)
        await save_endpoint(rig, rotated)
        for before, left in ((AT, rotated), (AT + timedelta(seconds=1), endpoint)):
            await rig.housekeeping.purge_previous_secrets(before)
            async with rig.store.begin() as tx:
                assert await tx.endpoints.load_locked(customer.account_id, endpoint.id) == left
