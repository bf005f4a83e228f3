"""Idempotency keys: bound, claimed, done, and deleted after their retention."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import NotFound
from meetcore.domain.mails.mails import Recipient, open_mail
from meetcore.domain.meetings.views import LeaseView
from meetcore.domain.requests.idempotency import (
    TRANSITIONS,
    IdempotencyEvent,
    IdempotencyRecord,
    IdempotencyState,
    Verdict,
    decide,
    state_of,
)
from meetcore.domain.requests.views import Claim, KeyView
from meetcore.ports.runtime import Lease
from meetcore.usecases.meetings.cancellation import restore
from meetcore.usecases.meetings.creation import created_record
from meetcore.usecases.requests.idempotency import encode_outcome
from tests.support.postgres_rig import PostgresRig
from tests.support.records import (
    CONTENTS,
    add_event,
    add_mails,
    claim_events,
    claim_mails,
    finish_event,
    provider_event,
    record_mail,
)
from tests.support.transactions import (
    AT,
    Customer,
    MeetingSpec,
    abandon,
    email_of,
    finish_cancelling,
    new_endpoint,
    new_host,
    new_id,
    open_customer,
    query_of,
    register,
    reserve,
    reserved,
    save_endpoint,
    schedule,
    scheduled,
    start_cancelling,
)

SAME, OTHER = b"s" * 32, b"o" * 32


async def _view_of(rig: PostgresRig, account_id: UUID, key: str) -> KeyView:
    return await rig.alone.idempotency.load_locked(account_id, key)


async def _state(rig: PostgresRig, account_id: UUID, key: str) -> IdempotencyState:
    view = await _view_of(rig, account_id, key)
    return state_of(view.record, view.now)


@pytest.mark.spec("5/8", "4/idem-reused", "4/idem-replay")
async def test_an_unknown_account_has_no_keys(rig: PostgresRig) -> None:
    with pytest.raises(NotFound):
        await _view_of(rig, new_id(), "k")


@pytest.mark.spec("5/8", "4/idem-reused", "4/idem-replay")
@pytest.mark.parametrize(
    "record",
    [
        IdempotencyRecord("k", SAME),
        IdempotencyRecord("k", SAME, is_done=True, encoded_outcome=b'{"a":1}'),
        IdempotencyRecord("k", SAME, is_done=True, subject_id=new_id()),
        IdempotencyRecord("k", SAME, is_done=True, encoded_outcome=b""),
    ],
)
async def test_a_record_is_read_back_as_it_was_written(rig: PostgresRig, record: IdempotencyRecord) -> None:
    customer = await open_customer(rig)
    await rig.alone.idempotency.save(customer.account_id, record)
    assert (await _view_of(rig, customer.account_id, "k")).record == record


@pytest.mark.spec("5/8", "4/idem-reused", "4/idem-replay")
async def test_saving_again_replaces_the_whole_record(rig: PostgresRig, customer: Customer) -> None:
    for record in (
        IdempotencyRecord("k", SAME, is_done=True, subject_id=new_id(), encoded_outcome=b"x"),
        IdempotencyRecord("k", OTHER),
    ):
        await rig.alone.idempotency.save(customer.account_id, record)
        assert (await _view_of(rig, customer.account_id, "k")).record == record


@pytest.mark.spec("5/8", "4/idem-reused", "4/idem-replay")
async def test_saving_again_replaces_and_ends_a_lease(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    await reserved(rig, customer, MeetingSpec(key="k", fingerprint=SAME))
    assert await _state(rig, customer.account_id, "k") is IdempotencyState.RUNNING
    later = rig.now()
    record = IdempotencyRecord("k", SAME, is_done=True, encoded_outcome=b"x", lease_until=later)
    await rig.alone.idempotency.save(customer.account_id, record)
    assert (await _view_of(rig, customer.account_id, "k")).record == evolve(record, lease_until=None)


@pytest.mark.spec("5/8", "4/idem-reused", "4/idem-replay")
async def test_a_creation_claims_its_key_until_it_is_done(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    made = await reserved(rig, customer, MeetingSpec(key="k", fingerprint=SAME))
    view = await _view_of(rig, customer.account_id, "k")
    assert view.record is not None
    assert (view.record.subject_id, view.record.fingerprint) == (made.meeting.id, SAME)
    assert decide(view.record, SAME, view.now) is Verdict.WAIT
    assert decide(view.record, OTHER, view.now) is Verdict.REJECT
    meeting = await schedule(rig, made)
    assert meeting is not None
    done = (await _view_of(rig, customer.account_id, "k")).record
    assert done == IdempotencyRecord("k", SAME, True, made.meeting.id)
    stored = await rig.queries.find_meeting(customer.account_id, meeting.id)
    assert stored is not None
    assert created_record(stored) == created_record(meeting)


@pytest.mark.spec("5/8", "4/idem-reused", "4/idem-replay")
async def test_an_abandoned_creation_leaves_its_key_bound_to_the_request(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    await abandon(rig, await reserved(rig, customer, MeetingSpec(key="k", fingerprint=SAME)))
    assert await _state(rig, customer.account_id, "k") is IdempotencyState.BOUND
    assert await reserve(rig, customer, MeetingSpec(key="k", fingerprint=OTHER)) is Verdict.REJECT
    assert isinstance(await reserve(rig, customer, MeetingSpec(key="k", fingerprint=SAME)), LeaseView)


@pytest.mark.spec("5/8", "4/idem-reused", "4/idem-replay")
async def test_a_cancellation_claims_its_key_until_it_is_done(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    meeting = await scheduled(rig, customer)
    lease = await start_cancelling(rig, meeting, Claim("c", SAME, meeting.id))
    assert await _state(rig, customer.account_id, "c") is IdempotencyState.RUNNING
    encoded = encode_outcome(await finish_cancelling(rig, meeting, lease))
    done = (await _view_of(rig, customer.account_id, "c")).record
    assert done == IdempotencyRecord("c", SAME, True, meeting.id, None, encoded)


@pytest.mark.spec("5/8", "4/idem-reused", "4/idem-replay")
async def test_a_cancellation_that_failed_leaves_its_key_bound(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host())
    meeting = await scheduled(rig, customer)
    lease = await start_cancelling(rig, meeting, Claim("c", SAME, meeting.id))
    async with rig.store.begin() as tx:
        view = await tx.meetings.load_leased(meeting.account_id, meeting.id, lease.token)
        assert view is not None
        assert view.claim == Claim("c", SAME, meeting.id)
        await restore(tx, view)
    assert (await _view_of(rig, customer.account_id, "c")).record == IdempotencyRecord("c", SAME)


@pytest.mark.spec("5/8", "4/idem-reused", "4/idem-replay")
@pytest.mark.parametrize(("second", "waiting", "rejected"), [(SAME, 19, 0), (OTHER, 9, 10)])
async def test_twenty_requests_with_one_key_make_one_claim(
    rig: PostgresRig, second: bytes, waiting: int, rejected: int
) -> None:
    customer = await open_customer(rig, 1000, *(new_host() for _ in range(20)))
    specs = [MeetingSpec(key="k", fingerprint=SAME if n % 2 else second) for n in range(20)]
    outcomes = await asyncio.gather(*(reserve(rig, customer, spec) for spec in specs))
    assert sum(isinstance(outcome, LeaseView) for outcome in outcomes) == 1
    assert (outcomes.count(Verdict.WAIT), outcomes.count(Verdict.REJECT)) == (waiting, rejected)
    assert await rig.holds(customer.account_id) == [specs[0].credits]


@pytest.mark.spec("5/8", "4/idem-reused", "4/idem-replay")
async def test_twenty_first_outcomes_are_one(rig: PostgresRig, customer: Customer) -> None:

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


@pytest.mark.spec("5/8", "4/idem-reused", "4/idem-replay")
async def test_a_key_read_after_a_lock_wait_returns_what_the_lock_holder_wrote(rig: PostgresRig) -> None:
    customer = await open_customer(rig)
    done = IdempotencyRecord("k", b"f" * 32, is_done=True, encoded_outcome=b"x")

    async def read() -> IdempotencyRecord | None:
        return (await rig.alone.idempotency.load_locked(customer.account_id, "k")).record

    async with rig.store.begin() as tx:
        await tx.idempotency.load_locked(customer.account_id, "k")
        waiting = asyncio.create_task(read())
        await rig.until_lock_contended()
        await tx.idempotency.save(customer.account_id, done)
    assert await waiting == done


DAY_S = 86_400


async def _keys_of(rig: PostgresRig, account_id: UUID, *keys: str) -> list[str]:
    return [
        key for key in keys if (await rig.alone.idempotency.load_locked(account_id, key)).record is not None
    ]


async def _used(rig: PostgresRig, customer: Customer) -> int:
    view = await rig.alone.meetings.load_creation(query_of(customer, MeetingSpec(per_day=5)))
    assert view.creations is not None
    return view.creations.used


async def test_a_key_is_kept_for_its_retention_and_then_deleted(rig: PostgresRig, customer: Customer) -> None:
    await rig.alone.idempotency.save(
        customer.account_id, IdempotencyRecord("old", b"f" * 32, True, encoded_outcome=b"a")
    )
    await rig.age_keys(DAY_S - 60)
    await rig.alone.idempotency.save(customer.account_id, IdempotencyRecord("new", b"f" * 32))
    await rig.housekeeping.purge_idempotency(DAY_S)
    assert await _keys_of(rig, customer.account_id, "old", "new") == ["old", "new"]
    await rig.age_keys(120)
    assert await rig.housekeeping.purge_idempotency(DAY_S) >= 1
    assert await _keys_of(rig, customer.account_id, "old", "new") == ["new"]


async def test_answering_does_not_make_a_key_younger(rig: PostgresRig, customer: Customer) -> None:
    bound = IdempotencyRecord("k", b"f" * 32)
    await rig.alone.idempotency.save(customer.account_id, bound)
    await rig.age_keys(DAY_S - 60)
    await rig.alone.idempotency.save(
        customer.account_id, IdempotencyRecord("k", b"f" * 32, True, encoded_outcome=b"a")
    )
    await rig.age_keys(120)
    await rig.housekeeping.purge_idempotency(DAY_S)
    assert await _keys_of(rig, customer.account_id, "k") == []


async def test_a_key_whose_work_still_runs_is_kept_however_old(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 10, new_host())
    await reserved(rig, customer, MeetingSpec(key="running"))
    await rig.age_keys(2 * DAY_S)
    await rig.housekeeping.purge_idempotency(DAY_S)
    assert await _keys_of(rig, customer.account_id, "running") == ["running"]


async def test_an_event_that_is_done_is_deleted_after_its_retention_and_no_other(rig: PostgresRig) -> None:
    await add_event(rig, provider_event(), b"d" * 32)
    waits = await add_event(rig, provider_event(), b"e" * 32)
    (claimed,) = [one for one in await claim_events(rig, seconds=-1) if one.id != waits]
    await finish_event(rig, claimed)
    await rig.housekeeping.purge_provider_events(DAY_S)
    assert await add_event(rig, provider_event(), b"d" * 32) is None
    assert await rig.housekeeping.purge_provider_events(-60) == 1  # as if a minute had gone by
    assert [one.id for one in await claim_events(rig)] == [waits]
    assert await add_event(rig, provider_event(), b"d" * 32) is not None


async def test_a_mail_that_is_over_is_deleted_after_its_retention(rig: PostgresRig) -> None:
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


async def test_creation_counts_of_past_days_are_deleted(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, new_host(max_concurrent=9))
    await reserved(rig, customer, MeetingSpec(per_day=5))
    await rig.housekeeping.purge_creations(AT.date())
    assert await _used(rig, customer) == 1
    assert await rig.housekeeping.purge_creations(AT.date() + timedelta(days=1)) >= 1
    assert await _used(rig, customer) == 0


async def test_a_replaced_secret_is_forgotten_at_its_end(rig: PostgresRig, customer: Customer) -> None:
    endpoint = await register(rig, new_endpoint(customer, secret="whsec_new"))
    rotated = evolve(endpoint, previous_secret="whsec_old", previous_secret_until=AT)
    await save_endpoint(rig, rotated)
    for before, left in ((AT, rotated), (AT + timedelta(seconds=1), endpoint)):
        await rig.housekeeping.purge_previous_secrets(before)
        assert await rig.alone.endpoints.load_locked(customer.account_id, endpoint.id) == left


BOUND, DONE = IdempotencyRecord("k", SAME), IdempotencyRecord("k", SAME, is_done=True, encoded_outcome=b"a")
LEASE_S = {IdempotencyState.RUNNING: 600.0, IdempotencyState.EXPIRED: -1.0}


@pytest.mark.parametrize(("state", "event"), TRANSITIONS)
async def test_a_key_moves_as_its_table_defines(
    rig: PostgresRig, state: IdempotencyState, event: IdempotencyEvent
) -> None:
    customer = await open_customer(rig, 100, new_host())
    work = await _bring_to(rig, customer, state)
    assert await _state(rig, customer.account_id, "k") is state
    await _happen(rig, customer, event, work)
    assert await _state(rig, customer.account_id, "k") is TRANSITIONS[state, event]


async def _bring_to(rig: PostgresRig, customer: Customer, state: IdempotencyState) -> LeaseView | None:
    """Bring the key into a state; the work under it, where there is any."""
    if state in LEASE_S:
        return await reserved(rig, customer, MeetingSpec(key="k", fingerprint=SAME, lease_s=LEASE_S[state]))
    if state is not IdempotencyState.UNKNOWN:
        await _save(rig, customer, DONE if state is IdempotencyState.DONE else BOUND)
    return None


async def _happen(
    rig: PostgresRig, customer: Customer, event: IdempotencyEvent, work: LeaseView | None
) -> None:
    match event:
        case IdempotencyEvent.CLAIM:
            await reserved(rig, customer, MeetingSpec(key="k", fingerprint=SAME))
        case IdempotencyEvent.TAKE_OVER:
            assert work is not None
            async with rig.store.begin() as tx:
                lease = Lease(new_id(), 600.0)
                assert await tx.meetings.lease_expired(customer.account_id, work.meeting.id, lease)
        case IdempotencyEvent.EXPIRE:
            await rig.age_keys(1_200)
        case IdempotencyEvent.FINISH:
            await (_save(rig, customer, DONE) if work is None else schedule(rig, work))
        case IdempotencyEvent.GIVE_UP:
            await (_save(rig, customer, BOUND) if work is None else abandon(rig, work))
        case IdempotencyEvent.PURGE:
            await rig.age_keys(2 * DAY_S)
            await rig.housekeeping.purge_idempotency(DAY_S)


async def _save(rig: PostgresRig, customer: Customer, record: IdempotencyRecord) -> None:
    await rig.alone.idempotency.save(customer.account_id, record)
