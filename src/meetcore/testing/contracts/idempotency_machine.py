"""The machine of an idempotency key, walked in a store: every row of `idempotency.TRANSITIONS`."""

from uuid import UUID

import pytest

from meetcore.domain.requests.idempotency import TRANSITIONS, IdempotencyRecord, KeyEvent, KeyState, state_of
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import LeaseView
from meetcore.testing.contracts.store_rig import HousekeepingRig
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

SAME = b"s" * 32
DAY_S = 86_400
BOUND, DONE = IdempotencyRecord("k", SAME), IdempotencyRecord("k", SAME, is_done=True, encoded_outcome=b"a")
LEASE_S = {KeyState.RUNNING: 600.0, KeyState.EXPIRED: -1.0}


@pytest.mark.asyncio
class IdempotencyMachineContract:
    """A store moves a key as the table of the domain defines."""

    @pytest.mark.parametrize(("state", "event"), TRANSITIONS)
    async def test_a_key_moves_as_its_table_defines(
        self, rig: HousekeepingRig, state: KeyState, event: KeyEvent
    ) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        work = await _bring_to(rig, customer, state)
        assert await _state(rig, customer.account_id) is state
        await _happen(rig, customer, event, work)
        assert await _state(rig, customer.account_id) is TRANSITIONS[state, event]


async def _state(rig: HousekeepingRig, account_id: UUID) -> KeyState:
    async with rig.store.begin() as tx:
        view = await tx.idempotency.load_locked(account_id, "k")
    return state_of(view.record, view.now)


async def _bring_to(rig: HousekeepingRig, customer: Customer, state: KeyState) -> LeaseView | None:
    """Bring the key into a state; the work under it, where there is any."""
    if state in LEASE_S:
        return await reserved(rig, customer, MeetingSpec(key="k", fingerprint=SAME, lease_s=LEASE_S[state]))
    if state is not KeyState.UNKNOWN:
        await _save(rig, customer, DONE if state is KeyState.DONE else BOUND)
    return None


async def _happen(rig: HousekeepingRig, customer: Customer, event: KeyEvent, work: LeaseView | None) -> None:
    match event:
        case KeyEvent.CLAIM:
            await reserved(rig, customer, MeetingSpec(key="k", fingerprint=SAME))
        case KeyEvent.TAKE_OVER:
            assert work is not None
            async with rig.store.begin() as tx:
                lease = Lease(new_id(), 600.0)
                assert await tx.meetings.lease_expired(customer.account_id, work.meeting.id, lease)
        case KeyEvent.EXPIRE:
            await rig.age_keys(1_200)
        case KeyEvent.FINISH:
            await (_save(rig, customer, DONE) if work is None else schedule(rig, work))
        case KeyEvent.GIVE_UP:
            await (_save(rig, customer, BOUND) if work is None else abandon(rig, work))
        case KeyEvent.PURGE:
            await rig.age_keys(2 * DAY_S)
            await rig.housekeeping.purge_idempotency(DAY_S)


async def _save(rig: HousekeepingRig, customer: Customer, record: IdempotencyRecord) -> None:
    async with rig.store.begin() as tx:
        await tx.idempotency.save(customer.account_id, record)
