"""Notes from the request to the end: money once, and no trace after their erasure."""

import asyncio

import pytest
from attrs import evolve

from meetcore.domain.errors import Conflict, InsufficientCredits, NotFound
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import TransferKind
from meetcore.domain.notes import notes
from meetcore.domain.notes.notes import Language, Note, NoteStatus
from meetcore.domain.notes.views import NoteCreationView, NoteTask
from meetcore.domain.webhooks.events import EventKind
from tests.support.note_transactions import (
    ask,
    claim_notes,
    completed,
    erase,
    fail_unclaimed,
    find_note,
    load_note_creation,
    queued,
    recorded,
    settle,
    written,
)
from tests.support.outbox import BAD, GOOD, claim, record, redeliver
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    AT,
    Customer,
    funds_of,
    money,
    new_endpoint,
    new_id,
    open_customer,
    register,
    top_up,
)


async def _queue_unseen(
    rig: PostgresRig, customer: Customer, note: Note, fault: Exception | None = None, cause: str | None = None
) -> None:
    """Write a note without looking for an existing one; its transaction may fail."""
    funds, usage = await funds_of(rig, customer), CapUsage(customer.key_id, cap_day(AT))
    async with rig.store.begin() as tx:
        await tx.lock_account(customer.account_id)
        hold = notes.hold_for(note, new_id(), 2, usage.day)
        await tx.notes.save_queued(note, hold, evolve(funds, held=2), evolve(usage, held=2), cause)
        if fault is not None:
            raise fault


@pytest.mark.spec("1/notes", "5/8")
async def test_the_decision_on_a_note_reads_money_cap_and_recording(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50, cap=30)
    recording = await recorded(rig, customer)
    usage = CapUsage(customer.key_id, cap_day(AT))
    funds = await funds_of(rig, customer)
    assert funds.balance == 50
    assert await load_note_creation(rig, customer, recording) == NoteCreationView(
        funds, usage, 30, recording, None
    )


@pytest.mark.spec("1/notes", "5/8")
@pytest.mark.parametrize("cause", [None, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"])
async def test_every_claim_of_a_note_has_its_cause(rig: PostgresRig, cause: str | None) -> None:
    customer = await open_customer(rig, 50)
    recording = await recorded(rig, customer)
    note = notes.queue(new_id(), recording, customer.key_id, Language.INDONESIAN, AT)
    await _queue_unseen(rig, customer, note, cause=cause)
    for _ in range(2):
        (task,) = await claim_notes(rig, seconds=-1)
        assert task.cause == cause


@pytest.mark.spec("1/notes", "5/8")
async def test_no_note_is_requested_without_an_account(rig: PostgresRig, customer: Customer) -> None:
    recording = await recorded(rig, customer)
    with pytest.raises(NotFound):
        await load_note_creation(rig, evolve(customer, account_id=new_id()), recording)


@pytest.mark.spec("1/notes", "5/8")
async def test_of_many_requests_at_once_one_makes_the_note(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 500)
    recording = await recorded(rig, customer)
    results = await asyncio.gather(*(ask(rig, customer, recording) for _ in range(8)))
    (note,) = [one for one in results if isinstance(one, Note)]
    refusals = [one for one in results if isinstance(one, Conflict)]
    assert [refusal.details for refusal in refusals] == [{"id": str(note.id)}] * 7
    assert await rig.holds(customer.account_id) == [2]


@pytest.mark.spec("1/notes", "5/8")
async def test_requests_at_once_spend_no_more_than_there_is(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 5)
    wanted = [await recorded(rig, customer) for _ in range(6)]
    results = await asyncio.gather(*(ask(rig, customer, recording, price=2) for recording in wanted))
    assert sum(isinstance(one, Note) for one in results) == 2
    assert sum(isinstance(one, InsufficientCredits) for one in results) == 4
    assert await money(rig, customer) == (5, 4, 0, 4)


@pytest.mark.spec("1/notes", "5/8")
async def test_a_second_note_in_its_place_is_refused_by_the_store_itself(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    recording = await recorded(rig, customer)
    note = await queued(rig, customer, recording)
    with pytest.raises(rig.refusal):
        await _queue_unseen(rig, customer, evolve(note, id=new_id()))
    assert await rig.holds(customer.account_id) == [2]


@pytest.mark.spec("1/notes", "5/8")
async def test_a_completed_note_of_another_recording_does_not_block_a_new_one(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    await completed(rig, customer)
    assert (await load_note_creation(rig, customer, await recorded(rig, customer))).existing_note is None


@pytest.mark.spec("1/notes", "5/8")
async def test_a_note_that_does_not_decrypt_stops_no_other(rig: PostgresRig) -> None:
    """As when a key went missing: it is set aside, and delays no other meanwhile."""
    await rig.reset()
    broken, sound = [
        await queued(rig, customer, await recorded(rig, customer))
        for customer in (await open_customer(rig, 100), await open_customer(rig, 100))
    ]
    await rig.tamper_with("UPDATE recordings SET files = '\\x00' WHERE id = %(id)s", id=broken.recording_id)
    assert [task.note.id for task in await claim_notes(rig)] == [sound.id]
    assert await claim_notes(rig) == []
    [row] = await rig.rows(
        "SELECT lease_token, due_at > clock_timestamp() + interval '50 minutes' AS is_later FROM notes"
        " WHERE id = %(id)s",
        id=broken.id,
    )
    assert row == {"lease_token": None, "is_later": True}


DONE, FAILED = EventKind.NOTE_COMPLETED, EventKind.NOTE_FAILED


async def _notes_on(rig: PostgresRig, note: Note) -> list[Note]:
    async with rig.store.begin() as tx:
        await tx.lock_account(note.account_id)
        assert note.recording_id is not None
        return list(await tx.notes.load_of_recording(note.account_id, note.recording_id))


async def _paid(rig: PostgresRig, customer: Customer) -> list[int]:
    entries = await rig.entries(customer.account_id)
    return [entry.amount for entry in entries if entry.transfer.kind is TransferKind.NOTULEN_CHARGE]


async def test_of_two_ends_at_once_one_is_written(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 500)
    await register(rig, new_endpoint(customer, DONE, FAILED))
    ends = 0
    for turn in range(6):
        note = await queued(rig, customer)
        (task,) = await claim_notes(rig)
        works = [settle(rig, task), fail_unclaimed(rig, note), settle(rig, task)]
        results = await asyncio.gather(*(works if turn % 2 else works[::-1]))
        (ended,) = [one for one in results if one is not None]
        assert await find_note(rig, note) == ended
        ends += ended.status is NoteStatus.COMPLETED
    assert await _paid(rig, customer) == [-2] * ends
    assert await money(rig, customer) == (500 - 2 * ends, 0, 2 * ends, 0)
    assert await rig.holds(customer.account_id) == []
    assert len(await rig.deliveries(customer.account_id)) == 6


async def test_many_notes_that_end_at_once_are_each_paid_once(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    for _ in range(8):
        await queued(rig, customer)
    tasks = await claim_notes(rig)
    done = await asyncio.gather(*(settle(rig, task, price=3) for task in tasks for _ in range(2)))
    assert sum(one is not None for one in done) == 8
    assert await _paid(rig, customer) == [-3] * 8
    assert await money(rig, customer) == (76, 0, 24, 0)


async def test_a_step_and_an_end_at_once_leave_the_end(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    for _ in range(4):
        note = await queued(rig, customer)
        (task,) = await claim_notes(rig)

        async def step(task: NoteTask = task) -> None:
            await rig.alone.notes.save_step(task, written(task.note))

        async def transcribe(task: NoteTask = task) -> None:
            await rig.alone.notes.save_transcript_chunk(task, "s", 0, ())

        _, _, failed = await asyncio.gather(step(), transcribe(), fail_unclaimed(rig, note))
        assert failed is not None
        assert await find_note(rig, note) == failed
        assert failed.transcript == ()


async def test_another_accounts_note_is_not_there(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 50), await open_customer(rig, 50)
    note = await queued(rig, customer)
    foreign = evolve(note, account_id=other.account_id)
    assert await fail_unclaimed(rig, foreign) is None
    assert await _notes_on(rig, foreign) == []


async def test_the_notes_on_a_recording_are_all_that_are_not_erased(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    recording = await recorded(rig, customer)
    erased = await fail_unclaimed(rig, await queued(rig, customer, recording))
    assert erased is not None
    await erase(rig, erased)
    failed = await fail_unclaimed(rig, await queued(rig, customer, recording))
    waiting = [await queued(rig, customer, recording, language) for language in Language]
    await queued(rig, customer)
    assert await _notes_on(rig, waiting[0]) == [failed, *waiting]


async def test_with_a_note_its_events_are_erased_and_no_others(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    endpoint = await register(rig, new_endpoint(customer, DONE, FAILED))
    note = await completed(rig, customer)
    other = await completed(rig, customer)
    await top_up(rig, customer, 5, "INV-1", DONE)
    found, lease = await claim(rig)
    assert len(found) == 3
    found.sort(key=lambda one: one.event_id)
    assert await record(rig, found[0], lease.token, BAD)
    assert await record(rig, found[1], lease.token, GOOD)
    left = {one.delivery_id for one in found[1:]}
    assert await rig.attempts(customer.account_id) == [1, 1]
    await erase(rig, note)
    assert set(await rig.deliveries(customer.account_id)) == left
    assert await rig.attempts(customer.account_id) == [1]
    assert await record(rig, found[2], lease.token, GOOD)
    assert await rig.queries.find_delivery(customer.account_id, endpoint.id, found[0].delivery_id) is None
    await erase(rig, other)
    assert set(await rig.deliveries(customer.account_id)) == {found[2].delivery_id}


async def test_a_post_in_flight_of_what_is_erased_is_recorded_nowhere(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    endpoint = await register(rig, new_endpoint(customer, DONE))
    note = await completed(rig, customer)
    ((flying,), lease) = await claim(rig)
    await erase(rig, note)
    assert await rig.deliveries(customer.account_id) == {}
    assert not await record(rig, flying, lease.token, BAD)
    assert await rig.attempts(customer.account_id) == []
    stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
    assert stored == endpoint, "nothing is counted against it"
    assert (await claim(rig))[0] == []


async def test_what_is_erased_is_not_sent_again(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    endpoint = await register(rig, new_endpoint(customer, DONE))
    note = await completed(rig, customer)
    ((first,), lease) = await claim(rig)
    assert await record(rig, first, lease.token, GOOD)
    assert await redeliver(rig, endpoint, first.delivery_id)
    await erase(rig, note)
    assert await rig.deliveries(customer.account_id) == {}
    assert await redeliver(rig, endpoint, first.delivery_id) is None


async def test_an_erasure_and_a_repetition_at_once_leave_nothing_to_send(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 50)
    endpoint = await register(rig, new_endpoint(customer, DONE))
    for _ in range(5):
        note = await completed(rig, customer)
        ((first,), lease) = await claim(rig)
        assert await record(rig, first, lease.token, GOOD)
        await asyncio.gather(
            *(redeliver(rig, endpoint, first.delivery_id) for _ in range(3)), erase(rig, note)
        )
        assert await rig.deliveries(customer.account_id) == {}


async def test_an_erasure_and_the_outbox_at_work_do_not_stand_in_each_others_way(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 500)
    for _ in range(3):
        await register(rig, new_endpoint(customer, DONE))
    for _ in range(5):
        note = await completed(rig, customer)
        kept = await completed(rig, customer)
        (found, lease), _ = await asyncio.gather(claim(rig), erase(rig, note))
        again = (await claim(rig))[0]
        left = await rig.deliveries(customer.account_id)
        taken = {one.delivery_id for one in [*found, *again]}
        assert set(left) <= taken
        for one in found:
            assert await record(rig, one, lease.token, GOOD) is (one.delivery_id in left)
        await erase(rig, kept)
        assert await rig.deliveries(customer.account_id) == {}
