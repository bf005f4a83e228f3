"""The removal of accounts on request, and of records past their retention."""

import asyncio
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import NotFound
from meetcore.domain.machine import step
from meetcore.domain.meetings.meetings import TRANSITIONS, Meeting, MeetingEvent, MeetingStatus
from meetcore.domain.meetings.views import MeetingFilter
from meetcore.domain.members.audit import Actor, ActorKind, AuditEntry
from meetcore.domain.members.members import Membership, User
from meetcore.domain.members.roles import Role
from meetcore.domain.money.views import TransactionFilter
from meetcore.domain.notes.notes import Language, NoteStatus
from meetcore.domain.notes.recordings import Recording, RecordingStatus, expire
from meetcore.domain.notes.views import NoteFilter
from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.domain.requests.retention import ERASED, Erasure, erased_email
from meetcore.domain.webhooks.views import EventFilter
from meetcore.ports.maintenance import Removal
from tests.support.note_transactions import (
    TRANSCRIPT,
    ask,
    claim_notes,
    completed,
    erase,
    fail_unclaimed,
    find_note,
    keep_recording,
    new_recording,
    queued,
    recorded,
    settle,
)
from tests.support.postgres_rig import PostgresRig
from tests.support.records import add_mails, claim_mails, new_mail
from tests.support.transactions import (
    AT,
    Customer,
    MeetingSpec,
    abandon,
    email_of,
    finish_cancelling,
    new_host,
    new_id,
    open_customer,
    open_with_host,
    reserved,
    scheduled,
    start_cancelling,
    start_erasure,
)

LATER = AT + timedelta(minutes=5)


async def _locked(rig: PostgresRig, account_id: UUID) -> Erasure:
    return await rig.alone.erasures.load_locked(account_id)


async def _finish(rig: PostgresRig, account_id: UUID) -> bool:
    return await rig.alone.erasures.finish(account_id, LATER)


async def _claimed(rig: PostgresRig, at: datetime, limit: int = 1000) -> set[UUID]:
    return set(await rig.alone.erasures.claim_due(at, limit))


async def _member(rig: PostgresRig, user: User, *customers: Customer) -> User:
    async with rig.store.begin() as tx:
        user = await tx.members.ensure_user(user)
        for customer in customers:
            await tx.members.add_membership(Membership(customer.account_id, user.id, Role.VIEWER, AT))
    return user


async def _remove(rig: PostgresRig, account_id: UUID, user: User) -> None:
    """Remove a member, as an owner does."""
    actor = Actor(ActorKind.MEMBER, None, "owner@example.com")
    async with rig.store.begin() as tx:
        await tx.lock_account(account_id)
        await tx.members.remove_membership(account_id, user.id, AT)
        await tx.audit_log.append(AuditEntry(new_id(), AT, account_id, actor, "member.removed", str(user.id)))


async def test_an_erasure_depends_on_what_is_under_way(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 100), await open_customer(rig, 100)
    await rig.put_hosts(new_host(max_concurrent=9))
    id_ = customer.account_id
    assert await _locked(rig, id_) == Erasure(id_, 0, 0)
    await scheduled(rig, other)
    meeting = await scheduled(rig, customer)
    assert (await _locked(rig, id_)).open_meetings == 1
    await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))
    assert (await _locked(rig, id_)).open_meetings == 0
    await reserved(rig, customer, MeetingSpec(credits=5))
    assert (await _locked(rig, id_)).holds == 1
    with pytest.raises(NotFound):
        await _locked(rig, new_id())


async def test_an_erasure_ends_every_access(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 7), await open_customer(rig)
    at_both = await _member(rig, User(new_id(), email_of(new_id()), "Both", AT), customer, other)
    alone = await _member(rig, User(new_id(), email_of(new_id()), "Alone", AT), customer)
    await add_mails(rig, new_mail(rig, to=alone.email), new_mail(rig, to=at_both.email))
    await start_erasure(rig, customer.account_id)
    caller = await rig.queries.find_caller(customer.digest)
    assert caller is not None
    assert (caller.account.email, caller.account.full_name) == (erased_email(customer.account_id), ERASED)
    assert caller.account.suspended_at is not None
    async with rig.store.begin() as tx:
        assert await tx.erasures.is_requested(customer.account_id)
        assert not await tx.erasures.is_requested(other.account_id)
    assert caller.account.balance == 7
    assert caller.key.revoked_at == AT
    assert caller.key.name == ERASED
    assert await rig.queries.list_members(customer.account_id) == []
    assert [each.user for each in await rig.queries.list_members(other.account_id)] == [at_both]
    async with rig.store.begin() as tx:
        fresh = User(new_id(), alone.email, "Anew", AT)
        assert await tx.members.ensure_user(fresh) == fresh, "the address is free"
    untouched = await rig.queries.find_caller(other.digest)
    assert untouched is not None
    assert untouched.key.revoked_at is None
    assert (await _locked(rig, customer.account_id)).requested_at == AT
    assert [one.mail.recipient for one in await claim_mails(rig)] == [at_both.email]


async def test_members_who_were_removed_before_are_erased_too(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig), await open_customer(rig)
    gone = await _member(rig, User(new_id(), email_of(new_id()), "Gone", AT), customer)
    elsewhere = await _member(rig, User(new_id(), email_of(new_id()), "Elsewhere", AT), customer, other)
    foreign = await _member(rig, User(new_id(), email_of(new_id()), "Foreign", AT), other)
    for account, user in ((customer, gone), (customer, elsewhere), (other, foreign)):
        await _remove(rig, account.account_id, user)
    for _ in range(2):
        await start_erasure(rig, customer.account_id)
    async with rig.store.begin() as tx:
        fresh = User(new_id(), gone.email, "Anew", AT)
        assert await tx.members.ensure_user(fresh) == fresh, "the address is free"
        for user in (elsewhere, foreign):
            assert await tx.members.ensure_user(User(new_id(), user.email, "Anew", AT)) == user


async def test_contents_go_in_portions_and_money_stays(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 1000), await open_customer(rig, 1000)
    await rig.put_hosts(new_host(max_concurrent=9))
    id_ = customer.account_id
    for owner in (customer, other):
        for _ in range(3):
            meeting = await scheduled(rig, owner)
            await finish_cancelling(rig, meeting, await start_cancelling(rig, meeting))
    notes = [await completed(rig, customer) for _ in range(2)]
    foreign = await completed(rig, other)
    await add_mails(rig, new_mail(rig, account_id=id_), new_mail(rig, account_id=other.account_id))
    async with rig.store.begin() as tx:
        record = IdempotencyRecord("b", b"f" * 32, is_done=True, encoded_outcome=b"x")
        await tx.idempotency.save(id_, record)
    entries = await rig.queries.list_transactions(id_, TransactionFilter(), 50, None)
    await start_erasure(rig, id_)
    for _ in range(2):  # each portion can be repeated
        after: UUID | None = None
        async with rig.store.begin() as tx:
            while (after := await tx.erasures.erase_meetings(id_, after, 2)) is not None:
                pass
            while (after := await tx.erasures.erase_notes(id_, after, 1)) is not None:
                pass
            while await tx.erasures.delete_portion(id_, 2):
                pass
    shown = await rig.queries.list_meetings(id_, MeetingFilter(AT), 50, None)
    assert {one.title for one in shown} == {ERASED}
    assert {(one.description, one.password, one.join_url) for one in shown} == {(None, None, None)}
    assert {one.status for one in shown} == {MeetingStatus.CANCELLED}
    assert [(await find_note(rig, note)).status for note in notes] == [NoteStatus.ERASED] * 2
    assert await rig.queries.list_events(id_, EventFilter(AT - timedelta(days=90)), 50, None) == []
    assert await rig.queries.list_transactions(id_, TransactionFilter(), 50, None) == entries
    kept = await rig.queries.list_meetings(other.account_id, MeetingFilter(AT), 50, None)
    assert ERASED not in {one.title for one in kept}
    assert (await find_note(rig, foreign)).status is NoteStatus.COMPLETED
    assert (await rig.alone.idempotency.load_locked(id_, "b")).record is None


async def test_an_erasure_is_pending_until_nothing_is_worked_on(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig), await open_customer(rig)
    for owner in (customer, other):
        await start_erasure(rig, owner.account_id)
    assert {customer.account_id, other.account_id} <= await _claimed(rig, AT)
    assert await _finish(rig, customer.account_id)
    assert not await _finish(rig, customer.account_id)
    claimed = await _claimed(rig, AT + timedelta(days=1))
    assert other.account_id in claimed
    assert customer.account_id not in claimed
    assert (await _locked(rig, customer.account_id)).finished_at == LATER
    busy = await open_customer(rig, 100, new_host())
    await scheduled(rig, busy)
    assert not await _finish(rig, busy.account_id), "nothing was requested"
    await start_erasure(rig, busy.account_id)
    assert not await _finish(rig, busy.account_id), "a meeting is worked on"


async def test_an_erasure_that_was_taken_is_due_again_later(rig: PostgresRig, customer: Customer) -> None:
    id_ = customer.account_id
    assert id_ not in await _claimed(rig, AT)
    await start_erasure(rig, id_)
    assert id_ not in await _claimed(rig, AT - timedelta(seconds=1))
    taken_at = AT
    for delay in (timedelta(minutes=5), timedelta(minutes=5), timedelta(minutes=5)):
        assert id_ in await _claimed(rig, taken_at)
        assert id_ not in await _claimed(rig, taken_at + delay - timedelta(seconds=1))
        taken_at += delay
    for days, delay in ((1 / 6, timedelta(hours=1)), (9, timedelta(hours=2))):
        taken_at = AT + timedelta(days=days)
        assert id_ in await _claimed(rig, taken_at)
        assert id_ not in await _claimed(rig, taken_at + delay - timedelta(seconds=1))
        assert id_ in await _claimed(rig, taken_at + delay)


async def test_the_longest_due_erasure_is_taken_first_and_once(rig: PostgresRig) -> None:
    ids = [(await open_customer(rig)).account_id for _ in range(3)]
    for number, id_ in enumerate(ids):
        async with rig.store.begin() as tx:
            await tx.lock_account(id_)
            await tx.erasures.start(id_, AT - timedelta(days=9000, seconds=-number))
    early = AT - timedelta(days=8999)
    taken = [await _claimed(rig, early, 1) for _ in ids]
    assert taken == [{id_} for id_ in ids]


async def test_of_two_erasures_at_once_the_second_erases_the_user_of_both(rig: PostgresRig) -> None:
    first, second = await open_customer(rig), await open_customer(rig)
    user = User(new_id(), email_of(new_id()), "Both", AT)
    async with rig.store.begin() as tx:
        await tx.members.ensure_user(user)
        for customer in (first, second):
            await tx.members.add_membership(Membership(customer.account_id, user.id, Role.VIEWER, AT))

    async def erase(account_id: UUID) -> None:
        async with rig.store.begin() as tx:
            await tx.erasures.load_locked(account_id)
            await tx.erasures.start(account_id, AT)

    async with rig.store.begin() as tx:
        await tx.erasures.load_locked(first.account_id)
        await tx.erasures.start(first.account_id, AT)
        other = asyncio.create_task(erase(second.account_id))
        await rig.until_lock_contended()  # it waits for the user
    await other
    fresh = User(new_id(), user.email, "Anew", AT)
    assert await rig.alone.members.ensure_user(fresh) == fresh, "the address is free"


FAR = AT + timedelta(days=10_000)
"""When everything that the suite makes is past its retention."""


async def test_notes_that_are_over_are_removed_and_stay_known_as_removed(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    over = [await completed(rig, customer), await erase(rig, await completed(rig, customer))]
    given_up = await queued(rig, customer)
    assert await fail_unclaimed(rig, given_up) is not None
    assert await rig.retention.remove_notes(FAR) == Removal(3, is_over=True)
    for note in (*over, given_up):
        assert await rig.queries.find_note(customer.account_id, note.id) is None
        assert await _is_known(rig, customer, note.id)
    assert await rig.queries.list_notes(customer.account_id, NoteFilter(), 10, None) == []


async def test_the_transcript_of_a_recording_goes_with_the_last_note_on_it(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    recording = await recorded(rig, customer)
    for language in (Language.INDONESIAN, Language.ENGLISH):
        await ask(rig, customer, recording, language)
    for left in (1, 0):
        (task,) = await claim_notes(rig)
        assert await rig.alone.notes.save_transcript_chunk(task, "s", 0, TRANSCRIPT)
        assert await settle(rig, task) is not None
        assert await rig.retention.remove_notes(FAR) == Removal(1, is_over=True)
        assert len(await rig.rows("SELECT number FROM transcript_chunks")) == left
        await rig.begin_rounds()


async def test_a_round_goes_on_where_it_stopped(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    for _ in range(3):
        await completed(rig, customer)
    assert await rig.retention.remove_notes(FAR, 2) == Removal(2, is_over=False)
    assert await rig.retention.remove_notes(FAR, 2) == Removal(1, is_over=True)
    assert await rig.retention.remove_notes(FAR, 2) is None, "the next round is not due"
    await rig.begin_rounds()
    assert await rig.retention.remove_notes(FAR, 2) == Removal(0, is_over=True)


async def test_a_round_passes_what_stays_and_finds_it_in_the_next_one(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    waiting = await queued(rig, customer)
    for _ in range(2):
        await claim_notes(rig)
    assert await rig.retention.remove_notes(FAR, 1) == Removal(0, is_over=False)
    assert await rig.retention.remove_notes(FAR, 1) == Removal(0, is_over=True)
    await fail_unclaimed(rig, waiting)
    await rig.begin_rounds()
    assert await rig.retention.remove_notes(FAR, 1) == Removal(1, is_over=False)


async def test_several_processes_remove_each_record_once(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    for _ in range(6):
        await completed(rig, customer)
    removed = 0
    while removed < 6:
        found = await asyncio.gather(*(rig.retention.remove_notes(FAR, 1) for _ in range(4)))
        removed += sum(each.removed for each in found if each is not None)
    assert removed == 6


async def test_a_round_in_progress_has_an_age(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    for _ in range(2):
        await completed(rig, customer)
    assert dict((await rig.figures.read()).retention_rounds_s) == {"notes": 0, "meetings": 0}
    await rig.retention.remove_notes(FAR, 1)
    assert 0 <= (await rig.figures.read()).retention_rounds_s["notes"] < 60
    await rig.retention.remove_notes(FAR, 5)
    assert (await rig.figures.read()).retention_rounds_s["notes"] == 0


async def test_a_meeting_goes_with_its_removed_recording_and_leaves_the_ledger(rig: PostgresRig) -> None:
    customer = await open_with_host(rig)
    meeting = await _over(rig, customer)
    recording = await recorded(rig, customer, meeting_id=meeting.id)
    entries = await rig.entries(customer.account_id)
    assert await rig.retention.remove_meetings(FAR) == Removal(0, is_over=True)
    await keep_recording(rig, expire(recording))  # its files are still to be removed at the provider
    await rig.begin_rounds()
    assert await rig.retention.remove_meetings(FAR) == Removal(0, is_over=True)
    await _expired(rig, recording)
    await rig.begin_rounds()
    assert await rig.retention.remove_meetings(FAR) == Removal(1, is_over=True)
    assert await rig.queries.find_meeting(customer.account_id, meeting.id) is None
    assert await rig.queries.find_recording(customer.account_id, recording.id) is None
    assert await rig.queries.list_meetings(customer.account_id, MeetingFilter(AT), 10, None) == []
    assert await _is_known(rig, customer, meeting.id)
    assert await _is_known(rig, customer, recording.id)
    assert not await _is_known(rig, await open_customer(rig), meeting.id)
    assert await rig.entries(customer.account_id) == entries
    assert str(meeting.id) in {entry.transfer.reference.id for entry in entries}


async def test_a_creation_that_was_given_up_is_removed_as_if_it_never_was(rig: PostgresRig) -> None:
    customer = await open_with_host(rig)
    made = await reserved(rig, customer, MeetingSpec())
    assert await abandon(rig, made)
    assert await rig.retention.remove_meetings(FAR) == Removal(1, is_over=True)
    assert await rig.queries.find_meeting(customer.account_id, made.meeting.id) is None
    assert not await _is_known(rig, customer, made.meeting.id)


async def test_meetings_that_ended_later_or_not_at_all_stay(rig: PostgresRig) -> None:
    customer = await open_with_host(rig)
    ended = await _over(rig, customer)
    to_come = await scheduled(rig, customer, MeetingSpec(ended.end_at))
    await reserved(rig, customer, MeetingSpec(ended.end_at + timedelta(hours=2)))
    assert await rig.retention.remove_meetings(ended.end_at) == Removal(0, is_over=True)
    await rig.begin_rounds()
    assert await rig.retention.remove_meetings(FAR) == Removal(1, is_over=True)
    assert await rig.queries.find_meeting(customer.account_id, to_come.id) is not None


async def test_a_meeting_stays_until_its_notes_are_gone(rig: PostgresRig) -> None:
    customer = await open_with_host(rig)
    meeting = await _over(rig, customer)
    recording = await recorded(rig, customer, meeting_id=meeting.id)
    note = await queued(rig, customer, recording)
    await fail_unclaimed(rig, note)
    await _expired(rig, recording)
    assert await rig.retention.remove_meetings(FAR) == Removal(0, is_over=True)
    assert await rig.retention.remove_notes(FAR) == Removal(1, is_over=True)
    await rig.begin_rounds()
    assert await rig.retention.remove_meetings(FAR) == Removal(1, is_over=True)


async def test_a_meeting_stays_while_its_recording_is_looked_for_or_orphans_are(rig: PostgresRig) -> None:
    customer = await open_with_host(rig)
    meeting = await _over(rig, customer)
    await rig.alone.meetings.schedule_next_check(meeting, 60.0, is_cleared=True)
    doubtful = await scheduled(rig, customer, MeetingSpec(meeting.end_at, orphan_window_s=60.0))
    await _end(rig, doubtful)
    assert await rig.retention.remove_meetings(FAR) == Removal(0, is_over=True)


async def test_a_meeting_stays_while_a_recording_of_it_is_being_stored(rig: PostgresRig) -> None:
    customer = await open_with_host(rig)
    meeting = await _over(rig, customer)
    async with rig.store.begin() as tx:
        assert await tx.meetings.load_by_provider_id(*_at_provider(meeting)) is not None
        removal = await rig.retention.remove_meetings(FAR)
        await tx.recordings.save(new_recording(customer, meeting_id=meeting.id))
    assert removal == Removal(0, is_over=True)
    assert await rig.queries.find_meeting(customer.account_id, meeting.id) is not None


async def test_a_recording_that_waits_for_the_removal_of_its_meeting_finds_none(rig: PostgresRig) -> None:
    customer = await open_with_host(rig)
    meeting = await _over(rig, customer)
    insert = "INSERT INTO removed_records (account_id, id) VALUES (%(account_id)s, %(id)s)"
    async with rig.pool.connection() as blocker, blocker.transaction():
        await blocker.execute(insert, {"account_id": customer.account_id, "id": meeting.id})
        removal = asyncio.create_task(rig.retention.remove_meetings(FAR))
        await rig.until_lock_contended()
        found = asyncio.create_task(rig.alone.meetings.load_by_provider_id(*_at_provider(meeting)))
        await rig.until_lock_contended(2)
    assert await removal == Removal(1, is_over=True)
    assert await found is None


def _at_provider(meeting: Meeting) -> tuple[str, str]:
    assert meeting.provider_meeting_id is not None
    return meeting.provider, meeting.provider_meeting_id


async def _is_known(rig: PostgresRig, customer: Customer, record_id: UUID) -> bool:
    """Whether both queries and transactions know that it was removed."""
    async with rig.store.begin() as tx:
        inside = await tx.was_removed(customer.account_id, record_id)
    assert inside == await rig.queries.was_removed(customer.account_id, record_id)
    return inside


async def _end(rig: PostgresRig, meeting: Meeting) -> None:
    async with rig.store.begin() as tx:
        ended = evolve(meeting, status=step(TRANSITIONS, meeting.status, MeetingEvent.END))
        await tx.lock_account(meeting.account_id)
        await tx.meetings.save_ended(ended, [])
        await tx.meetings.save_cleared(ended, invalidates_host_key=False)
        await tx.meetings.schedule_next_check(ended, None, is_cleared=True)


async def _over(rig: PostgresRig, customer: Customer) -> Meeting:
    """A meeting that has ended, and of which nothing is left to do."""
    meeting = await scheduled(rig, customer)
    await _end(rig, meeting)
    return meeting


async def _expired(rig: PostgresRig, recording: Recording) -> None:
    """End a recording, and remove its files at the provider."""
    gone = evolve(recording, status=RecordingStatus.EXPIRED, files=())
    await keep_recording(rig, gone)
