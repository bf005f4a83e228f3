"""What customers have received is read from the service's log, and compared with the store."""

from datetime import UTC, datetime, timedelta
from json import dumps
from uuid import UUID

import pytest

from meetcore.domain.webhooks.events import EventKind
from meetcore.usecases.lost_events import DELIVERED, ReceivedEvent, lost_events, received_events
from tests.unit.usecases.application import ApplicationHarness

AT = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)
ACCOUNT, EVENT = UUID(int=1), UUID(int=2)


def line(**fields: object) -> str:
    known = {
        "event": DELIVERED, "account_id": str(ACCOUNT), "event_id": str(EVENT),
        "event_type": "meeting.created", "webhook_id": "hook",
        "timestamp": "2026-12-01T03:00:00Z", "level": "info",
    }  # fmt: skip
    return dumps(known | fields)


def test_posts_that_succeeded_are_read_wherever_a_line_begins() -> None:
    lines = [f"Dec 01 03:00:00 host meetcore[1]: {line()}", line(event="request"), "no JSON", "{", line()]
    expected = ReceivedEvent(AT, ACCOUNT, EVENT, "meeting.created", "hook")
    assert list(received_events(lines, AT)) == [expected, expected]
    assert list(received_events(lines, AT + timedelta(microseconds=1))) == []


@pytest.mark.parametrize(
    "fields", [{"event_id": "x"}, {"account_id": None}, {"timestamp": "yesterday"}, {"event": 7}]
)
def test_a_line_that_cannot_be_read_is_passed_over(fields: dict[str, object]) -> None:
    assert list(received_events([line(**fields), f"{DELIVERED} []"], AT)) == []


async def test_what_the_store_does_not_have_is_lost() -> None:
    harness = await ApplicationHarness().start()
    await harness.administration.top_up(harness.caller.account.id, 5, "INV-1")
    account_id = harness.caller.account.id
    (known,) = [
        id_
        for (_, id_), each in harness.state.committed.events.items()
        if each.kind is EventKind.CREDIT_TOPUP_SUCCEEDED
    ][-1:]
    there = ReceivedEvent(AT, account_id, known, "credit.topup.succeeded", "hook")
    gone = ReceivedEvent(AT, account_id, UUID(int=9), "meeting.created", "hook")
    assert await lost_events(harness.store, [there, gone, gone]) == [gone]
