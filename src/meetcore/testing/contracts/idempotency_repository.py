"""Idempotency keys in a store: bound, claimed, done, each visible to later requests."""

import asyncio
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import NotFound
from meetcore.domain.requests.idempotency import IdempotencyRecord, KeyState, Verdict, decide, state_of
from meetcore.ports.idempotency import Claim, KeyView
from meetcore.ports.meetings import LeaseView
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    MeetingSpec,
    abandon,
    finish_cancelling,
    new_host,
    new_id,
    open_customer,
    reserve,
    reserved,
    schedule,
    scheduled,
    start_cancelling,
)
from meetcore.usecases.cancellation import restore
from meetcore.usecases.idempotency import Outcome, encode_outcome
from meetcore.usecases.provision import created_record

SAME, OTHER = b"s" * 32, b"o" * 32


async def _view_of(rig: StoreRig, account_id: UUID, key: str) -> KeyView:
    async with rig.store.begin() as tx:
        return await tx.idempotency.load_locked(account_id, key)


async def _state(rig: StoreRig, account_id: UUID, key: str) -> KeyState:
    view = await _view_of(rig, account_id, key)
    return state_of(view.record, view.now)


@pytest.mark.asyncio
class IdempotencyRepositoryContract:
    """What `ports.idempotency.IdempotencyRepository` promises."""

    async def test_an_unknown_account_has_no_keys(self, rig: StoreRig) -> None:
        with pytest.raises(NotFound):
            await _view_of(rig, new_id(), "k")

    async def test_an_unknown_key_has_no_record(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        view = await _view_of(rig, customer.account_id, "k")
        assert view.record is None
        assert view.now.tzinfo is not None
        assert abs((rig.now() - view.now).total_seconds()) < 60

    @pytest.mark.parametrize(
        "record",
        [
            IdempotencyRecord("k", SAME),
            IdempotencyRecord("k", SAME, is_done=True, encoded_outcome=b'{"a":1}'),
            IdempotencyRecord("k", SAME, is_done=True, subject_id=new_id()),
            IdempotencyRecord("k", SAME, is_done=True, encoded_outcome=b""),
        ],
    )
    async def test_a_record_is_read_back_as_it_was_written(
        self, rig: StoreRig, record: IdempotencyRecord
    ) -> None:
        customer = await open_customer(rig)
        async with rig.store.begin() as tx:
            await tx.idempotency.save(customer.account_id, record)
        assert (await _view_of(rig, customer.account_id, "k")).record == record

    async def test_a_key_belongs_to_its_account(self, rig: StoreRig) -> None:
        one, other = await open_customer(rig), await open_customer(rig)
        async with rig.store.begin() as tx:
            await tx.idempotency.save(
                one.account_id, IdempotencyRecord("k", SAME, is_done=True, encoded_outcome=b"x")
            )
        assert (await _view_of(rig, other.account_id, "k")).record is None

    async def test_saving_again_replaces_the_whole_record(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)
        for record in (
            IdempotencyRecord("k", SAME, is_done=True, subject_id=new_id(), encoded_outcome=b"x"),
            IdempotencyRecord("k", OTHER),
        ):
            async with rig.store.begin() as tx:
                await tx.idempotency.save(customer.account_id, record)
            assert (await _view_of(rig, customer.account_id, "k")).record == record

    async def test_saving_again_replaces_and_ends_a_lease(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        await reserved(rig, customer, MeetingSpec(key="k", fingerprint=SAME))
        assert await _state(rig, customer.account_id, "k") is KeyState.RUNNING
        later = rig.now()
        record = IdempotencyRecord("k", SAME, is_done=True, encoded_outcome=b"x", lease_until=later)
        async with rig.store.begin() as tx:
            await tx.idempotency.save(customer.account_id, record)
        assert (await _view_of(rig, customer.account_id, "k")).record == evolve(record, lease_until=None)

    async def test_a_creation_claims_its_key_until_it_is_done(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        made = await reserved(rig, customer, MeetingSpec(key="k", fingerprint=SAME))
        view = await _view_of(rig, customer.account_id, "k")
        assert view.record is not None
        assert (view.record.subject_id, view.record.fingerprint) == (made.meeting.id, SAME)
        assert decide(view.record, SAME, view.now) is Verdict.WAIT
        assert decide(view.record, OTHER, view.now) is Verdict.REJECT
        meeting = await schedule(rig, made)
        assert meeting is not None
        done = (await _view_of(rig, customer.account_id, "k")).record
        encoded = encode_outcome(Outcome(created_record(meeting)))
        assert done == IdempotencyRecord("k", SAME, True, made.meeting.id, None, encoded)

    async def test_a_claim_expires_with_its_lease(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        await reserved(rig, customer, MeetingSpec(key="k", lease_s=-1))
        assert await _state(rig, customer.account_id, "k") is KeyState.EXPIRED

    async def test_an_abandoned_creation_leaves_its_key_bound_to_the_request(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        await abandon(rig, await reserved(rig, customer, MeetingSpec(key="k", fingerprint=SAME)))
        assert await _state(rig, customer.account_id, "k") is KeyState.BOUND
        assert await reserve(rig, customer, MeetingSpec(key="k", fingerprint=OTHER)) is Verdict.REJECT
        assert isinstance(await reserve(rig, customer, MeetingSpec(key="k", fingerprint=SAME)), LeaseView)

    async def test_a_cancellation_claims_its_key_until_it_is_done(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        meeting = await scheduled(rig, customer)
        lease = await start_cancelling(rig, meeting, Claim("c", SAME, meeting.id))
        assert await _state(rig, customer.account_id, "c") is KeyState.RUNNING
        encoded = encode_outcome(await finish_cancelling(rig, meeting, lease))
        done = (await _view_of(rig, customer.account_id, "c")).record
        assert done == IdempotencyRecord("c", SAME, True, meeting.id, None, encoded)

    async def test_a_cancellation_that_failed_leaves_its_key_bound(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 100)
        await rig.put_hosts(new_host())
        meeting = await scheduled(rig, customer)
        lease = await start_cancelling(rig, meeting, Claim("c", SAME, meeting.id))
        async with rig.store.begin() as tx:
            view = await tx.meetings.load_leased(meeting.account_id, meeting.id, lease.token)
            assert view is not None
            assert view.claim == Claim("c", SAME, meeting.id)
            await restore(tx, view)
        assert (await _view_of(rig, customer.account_id, "c")).record == IdempotencyRecord("c", SAME)

    async def test_twenty_duplicates_make_one_claim(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 1000)
        await rig.put_hosts(*(new_host() for _ in range(20)))
        spec = MeetingSpec(key="k", fingerprint=SAME)
        outcomes = await asyncio.gather(*(reserve(rig, customer, spec) for _ in range(20)))
        assert sum(isinstance(outcome, LeaseView) for outcome in outcomes) == 1
        assert outcomes.count(Verdict.WAIT) == 19
        assert await rig.holds(customer.account_id) == [spec.credits]

    async def test_twenty_requests_with_one_key_and_two_bodies_make_one_claim(self, rig: StoreRig) -> None:
        customer = await open_customer(rig, 1000)
        await rig.put_hosts(*(new_host() for _ in range(20)))
        specs = [MeetingSpec(key="k", fingerprint=SAME if n % 2 else OTHER) for n in range(20)]
        outcomes = await asyncio.gather(*(reserve(rig, customer, spec) for spec in specs))
        assert sum(isinstance(outcome, LeaseView) for outcome in outcomes) == 1
        assert (outcomes.count(Verdict.WAIT), outcomes.count(Verdict.REJECT)) == (9, 10)

    async def test_twenty_first_outcomes_are_one(self, rig: StoreRig) -> None:
        customer = await open_customer(rig)

        async def finish(text: bytes) -> bytes | None:
            async with rig.store.begin() as tx:
                view = await tx.idempotency.load_locked(customer.account_id, "k")
                if decide(view.record, SAME, view.now) is Verdict.REPLAY:
                    return view.record.encoded_outcome if view.record else None
                await tx.idempotency.save(
                    customer.account_id, IdempotencyRecord("k", SAME, is_done=True, encoded_outcome=text)
                )
                return text

        outcomes = await asyncio.gather(*(finish(str(n).encode()) for n in range(20)))
        assert len(set(outcomes)) == 1

    async def test_a_key_read_after_a_lock_wait_returns_what_the_lock_holder_wrote(
        self, rig: StoreRig
    ) -> None:
        customer = await open_customer(rig)
        done = IdempotencyRecord("k", b"f" * 32, is_done=True, encoded_outcome=b"x")

        async def read() -> IdempotencyRecord | None:
            async with rig.store.begin() as tx:
                return (await tx.idempotency.load_locked(customer.account_id, "k")).record

        async with rig.store.begin() as tx:
            await tx.idempotency.load_locked(customer.account_id, "k")
            waiting = asyncio.create_task(read())
            await rig.until_lock_contended()
            await tx.idempotency.save(customer.account_id, done)
        assert await waiting == done
