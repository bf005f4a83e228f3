"""Facts become events in one place: their kinds, their data and their subjects."""

from datetime import timedelta
from uuid import UUID

from meetcore.domain.field_info import as_json
from meetcore.domain.meetings.meetings import MeetingCreated, MeetingEnded
from meetcore.domain.money.ledger import CreditsFellLow, Posting, open_account, top_up
from meetcore.domain.records.credits import balance_record
from meetcore.domain.records.meetings import meeting_event_record
from meetcore.domain.webhooks.events import EventKind
from meetcore.usecases.outbox import events_of
from tests.unit.domain.meetings.test_meetings import ID, MEETING, START
from tests.unit.usecases.application import ApplicationHarness

NOW = START - timedelta(hours=1)


async def test_facts_become_events_in_their_order_with_the_record_at_that_instant() -> None:
    runtime = (await ApplicationHarness().start()).runtime
    created, ended = events_of(runtime, NOW, MeetingCreated(MEETING), MeetingEnded(MEETING))
    assert (created.kind, ended.kind) == (EventKind.MEETING_CREATED, EventKind.MEETING_ENDED)
    assert (created.account_id, created.created_at, created.subject_id) == (ID, NOW, None)
    assert created.data == as_json(meeting_event_record(MEETING, NOW))


async def test_a_posting_has_the_events_of_its_kind_and_of_the_balance() -> None:
    runtime = (await ApplicationHarness().start()).runtime
    posting = top_up(open_account(ID), UUID(int=7), "first", 25, NOW)
    assert posting.entry is not None
    low = Posting(posting.funds, posting.entry, (CreditsFellLow(ID, 25, 100),))
    events = events_of(runtime, NOW, low)
    assert [event.kind for event in events] == [EventKind.CREDIT_TOPUP_SUCCEEDED, EventKind.CREDIT_LOW]
    assert all(event.data == as_json(balance_record(posting.funds, posting.entry)) for event in events)
    assert events_of(runtime, NOW, Posting(posting.funds, None)) == []
