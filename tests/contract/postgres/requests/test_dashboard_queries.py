"""Reads of the dashboard."""

from datetime import date, timedelta
from uuid import UUID

from attrs import evolve

from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.meetings.sessions import Session
from meetcore.domain.members import audit
from meetcore.domain.members.members import User
from meetcore.domain.money.spending_report import Payer, Spent, add_up, by_payer
from meetcore.domain.money.statements import EntryRange, Month, month_of
from meetcore.domain.money.views import TransactionFilter
from meetcore.domain.notes.notes import Language, fail_without_recording
from meetcore.domain.notes.views import NoteFilter
from meetcore.domain.records.pages import DaySpending, NoteDetails, Overview
from meetcore.domain.webhooks.endpoints import EndpointState
from tests.support.note_transactions import (
    claim_notes,
    completed,
    erase,
    keep_recording,
    new_recording,
    queued,
    recorded,
    settle,
)
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    AT,
    Customer,
    MeetingSpec,
    adjust,
    finish_cancelling,
    new_endpoint,
    new_host,
    new_id,
    open_customer,
    register,
    reserved,
    rolled,
    save_endpoint,
    scheduled,
    start_cancelling,
)

TODAY = cap_day(AT)
HOUR = timedelta(hours=1)


async def _overview(rig: PostgresRig, customer: Customer, first_day: date = TODAY) -> Overview:
    return await rig.queries.find_overview(customer.account_id, first_day, TODAY)


async def test_the_use_of_a_key_is_that_of_its_cap_on_the_day(rig: PostgresRig) -> None:
    first = await open_customer(rig, 100)
    other = await open_customer(rig, 100, new_host(max_concurrent=9))
    second = await rolled(rig, first)
    await scheduled(rig, first, MeetingSpec(credits=30))
    await reserved(rig, second, MeetingSpec(credits=5))
    await scheduled(rig, other, MeetingSpec(credits=7))
    listed = await rig.queries.list_key_use(first.account_id, TODAY)
    assert [(use.key.id, use.spent) for use in listed] == [(second.key_id, 35), (first.key_id, 35)]
    tomorrow = await rig.queries.list_key_use(first.account_id, TODAY + timedelta(days=1))
    assert [use.spent for use in tomorrow] == [0, 0]


async def test_spending_is_by_day_and_kind_less_refunds(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100)
    other = await open_customer(rig, 100, new_host(max_concurrent=9))
    await scheduled(rig, customer, MeetingSpec(credits=30))
    back = await scheduled(rig, customer, MeetingSpec(credits=20))
    await finish_cancelling(rig, back, await start_cancelling(rig, back))
    await queued(rig, customer, price=7)
    (task,) = await claim_notes(rig)
    assert await settle(rig, task, price=4)
    await scheduled(rig, other, MeetingSpec(credits=9))
    spent = (await _overview(rig, customer)).spending
    assert sum(each.meetings for each in spent) == 30
    assert sum(each.notes for each in spent) == 4
    days = [each.day for each in spent]
    assert days == sorted(set(days))
    last = max(days)
    assert (await _overview(rig, customer, last + timedelta(days=1))).spending == []
    assert (await _overview(rig, other)).spending == [DaySpending(TODAY, 9, 0)]


async def test_a_range_of_entries_has_the_balances_around_it(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig), await open_customer(rig, 9)
    queries, owner = rig.queries, customer.account_id
    assert await queries.find_first_entry_at(owner) is None
    assert await queries.find_entry_range(owner, AT, AT + HOUR) == EntryRange(1, 0, 0, 0)
    for hours, amount in ((0, 10), (1, 5), (1, -2), (3, 4)):
        await adjust(rig, customer, amount, f"ticket:{new_id()}", AT + hours * HOUR)
    await adjust(rig, other, 1, "ticket:other", AT + HOUR)
    assert await queries.find_first_entry_at(owner) == AT
    for from_h, to_h, expected in (
        (-2, 0, (1, 0, 0, 0)),
        (0, 1, (1, 1, 0, 10)),
        (0, 9, (1, 4, 0, 17)),
        (1, 2, (2, 3, 10, 13)),
        (2, 3, (4, 3, 13, 13)),
        (4, 9, (5, 4, 17, 17)),
    ):
        found = await queries.find_entry_range(owner, AT + from_h * HOUR, AT + to_h * HOUR)
        assert found == EntryRange(*expected), (from_h, to_h)


async def made_by(rig: PostgresRig, account_id: UUID, meeting_id: UUID, actor: audit.Actor) -> None:
    """Write that a meeting was made by hand."""
    entry = audit.AuditEntry(new_id(), AT, account_id, actor, "meeting.created", str(meeting_id))
    await rig.alone.audit_log.append(entry)


async def test_a_month_is_summed_by_key_and_member(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 1000, new_host(max_concurrent=99))
    by_hand = evolve(customer, key_id=customer.account_id)
    mine, guests, unknown = [await scheduled(rig, by_hand, MeetingSpec(credits=n)) for n in (3, 5, 7)]
    user_id = new_id()
    user = await rig.alone.members.ensure_user(User(user_id, f"{user_id}@example.test", "Sari", AT))
    await made_by(rig, customer.account_id, mine.id, audit.member_actor(user.id))
    await made_by(rig, customer.account_id, guests.id, audit.guest_actor(new_id(), "owner"))
    back = await scheduled(rig, customer, MeetingSpec(credits=20))
    await finish_cancelling(rig, back, await start_cancelling(rig, back))
    await scheduled(rig, customer, MeetingSpec(credits=30))
    await completed(rig, customer, price=4)
    note = await completed(rig, by_hand, price=6)
    await made_by(rig, customer.account_id, note.meeting_id, audit.member_actor(user.id))
    key, account_id = customer.key_id, customer.account_id
    found = await rig.queries.find_spending(account_id, month_of(AT), month_of(AT).first_day)
    paid = dict(by_payer(found.payers))
    assert paid[Payer(key)].notes == 4
    assert {payer: spent for payer, spent in paid.items() if payer.key_id is None} == {
        Payer(None, user.email): Spent(3, 6), Payer(None, "guest (owner)"): Spent(5), Payer(None): Spent(7),
    }  # fmt: skip
    total = add_up((kind, credits) for _, kind, credits in found.months)
    assert sum(spent.total for spent in paid.values()) == total.total
    assert [each.id for each in found.keys] == [key]
    entries = await rig.queries.list_transactions(account_id, TransactionFilter(), 99, None)
    described = await rig.queries.describe_entries(account_id, entries)
    assert [each.entry for each in described.entries] == list(entries)
    members = {each.entry.transfer.reference.id: each.member for each in described.entries}
    assert [members[str(each.id)] for each in (mine, guests, unknown)] == [user.email, "guest (owner)", None]
    titles = {each.title for each in described.entries if each.entry.transfer.reference.type == "meeting"}
    assert titles == {"Rapat"}
    stranger = await open_customer(rig)
    hidden = await rig.queries.describe_entries(stranger.account_id, entries)
    assert {each.title for each in hidden.entries} == {None}
    assert hidden.keys[0].id == stranger.key_id


async def test_the_months_of_spending_begin_and_end_in_wib(rig: PostgresRig, customer: Customer) -> None:
    account_id, month = customer.account_id, Month(2026, 11)
    second = timedelta(seconds=1)
    for at, amount in ((month.begins_at - second, 1), (month.begins_at, 2), (month.ends_at, 4)):
        await adjust(rig, customer, amount, f"ticket:{new_id()}", at)
    for number, credits in ((10, 1), (11, 2), (12, 4), (9, 0)):
        found = await rig.queries.find_spending(account_id, Month(2026, number), date(2026, 11, 1))
        assert sum(each.credits for each in found.payers) == credits
        assert found.first_at == month.begins_at - second
        assert sorted(day for day, _, _ in found.months) == [date(2026, 11, 1), date(2026, 12, 1)]
    empty = await rig.queries.find_spending((await open_customer(rig)).account_id, month, month.first_day)
    assert (empty.first_at, list(empty.payers), list(empty.months)) == (None, [], [])


async def test_an_overview_has_the_threshold_of_the_account(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, low_threshold=120)
    assert (await _overview(rig, customer)).low_threshold == 120


async def test_troubled_endpoints_are_those_that_fail(rig: PostgresRig, customer: Customer) -> None:
    await register(rig, new_endpoint(customer))
    failing = await register(rig, new_endpoint(customer))
    await save_endpoint(rig, evolve(failing, consecutive_failures=3))
    disabled = await register(rig, new_endpoint(customer))
    await save_endpoint(
        rig, evolve(disabled, consecutive_failures=20, state=EndpointState.DISABLED, disabled_at=AT)
    )
    await register(rig, new_endpoint(await open_customer(rig)))
    found = (await _overview(rig, customer)).troubled
    assert [(each.id, each.consecutive_failures, each.is_disabled) for each in found] == [
        (failing.id, 3, False),
        (disabled.id, 20, True),
    ]
    assert found[0].url == failing.url


async def test_a_meeting_comes_with_its_recording_and_the_notes_on_it(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 100), await open_customer(rig)
    await rig.put_hosts(new_host(max_concurrent=9))
    meeting = await scheduled(rig, customer)
    await completed(rig, customer)
    find, owner = rig.queries.find_meeting_details, customer.account_id
    bare = await find(owner, meeting.id)
    assert bare is not None
    assert (bare.meeting, *bare.recordings, *bare.notes) == (meeting,)
    recording = new_recording(customer, meeting_id=meeting.id)
    await keep_recording(rig, recording)
    assert await find(owner, meeting.id) == bare, "it is being measured"
    begun, over = meeting.start_at, meeting.start_at + timedelta(minutes=9)
    held = (Session("s1", None, begun), Session("s2", begun, over), Session("s3", over))
    note, _ = fail_without_recording(new_id(), meeting, Language.INDONESIAN, meeting.end_at)
    async with rig.store.begin() as tx:
        await tx.lock_account(owner)
        for session in held:
            await tx.meetings.save_session(meeting, session)
        await tx.notes.save_refused(note, ())
    details = await find(owner, meeting.id)
    assert details is not None
    assert (tuple(details.sessions), *details.notes) == (held, note)
    of_meeting = NoteFilter(meeting_id=meeting.id)
    assert list(await rig.queries.list_notes(owner, of_meeting, 9, None)) == [note]
    assert await find(other.account_id, meeting.id) is None
    assert await find(owner, new_id()) is None


async def test_listed_notes_have_the_titles_of_their_meetings_and_say_nothing(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 100), await open_customer(rig, 100)
    await rig.put_hosts(new_host(max_concurrent=9))
    meeting = await scheduled(rig, customer, MeetingSpec(title="Rapat Anggaran"))
    recording = await recorded(rig, customer, meeting_id=meeting.id)
    await erase(rig, await completed(rig, customer))
    bare = await completed(rig, customer)
    titled = await queued(rig, customer, recording)
    await queued(rig, other)
    found = await rig.queries.list_titled_notes(customer.account_id, 9, None)
    assert [(each.note.id, each.title) for each in found] == [(titled.id, "Rapat Anggaran"), (bare.id, None)]
    assert found[1].note == evolve(bare, draft=None, transcript=())
    assert list(await rig.queries.list_titled_notes(customer.account_id, 1, titled.id)) == [found[1]]


async def test_notes_come_with_their_meeting_and_recording(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig, 100), await open_customer(rig)
    await rig.put_hosts(new_host(max_concurrent=9))
    meeting = await scheduled(rig, customer)
    recording = await recorded(rig, customer, meeting_id=meeting.id)
    erased = await erase(rig, await completed(rig, customer))
    note = await queued(rig, customer, recording)
    details, owner = NoteDetails(note, meeting, recording), customer.account_id
    assert await rig.queries.find_note_details(owner, note.id) == details
    of_meeting = await rig.queries.find_meeting_details(owner, meeting.id)
    assert of_meeting is not None
    assert (of_meeting.meeting, *of_meeting.recordings, *of_meeting.notes) == (meeting, recording, note)
    assert await rig.queries.find_note_details(other.account_id, note.id) is None
    gone = await rig.queries.find_note_details(owner, erased.id)
    assert gone is not None
    assert (gone.note, gone.meeting) == (erased, None)


async def test_capped_keys_are_those_with_a_cap_that_are_not_revoked(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, cap=50)
    other = await open_customer(rig, 100, cap=60)
    await open_customer(rig, 100, cap=70)
    await rig.put_hosts(new_host(max_concurrent=9))
    await scheduled(rig, customer, MeetingSpec(credits=30))
    await reserved(rig, customer, MeetingSpec(credits=5))
    found = await _overview(rig, customer)
    assert [(key.daily_cap, key.spent) for key in found.capped_keys] == [(50, 35)]
    tomorrow = await rig.queries.find_overview(customer.account_id, TODAY, TODAY + timedelta(days=1))
    assert [key.spent for key in tomorrow.capped_keys] == [0]
    await rig.alone.registry.revoke_key(other.key_id, AT)
    assert (await _overview(rig, other)).capped_keys == []
    assert (await _overview(rig, await open_customer(rig, 100))).capped_keys == []


async def test_keys_that_were_rolled_have_one_cap(rig: PostgresRig) -> None:
    customer = await open_customer(rig, 100, cap=50)
    newest = await rolled(rig, await rolled(rig, customer))
    await rig.put_hosts(new_host(max_concurrent=9))
    await scheduled(rig, newest, MeetingSpec(credits=30))
    assert [(key.daily_cap, key.spent) for key in (await _overview(rig, customer)).capped_keys] == [(50, 30)]
