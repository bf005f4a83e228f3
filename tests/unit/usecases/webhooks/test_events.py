"""Test events and recoveries of webhooks, and the events of facts."""

import json
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from attrs import evolve

from meetcore.adapters.postgres.webhooks.rows import ENDPOINT
from meetcore.domain.errors import Conflict
from meetcore.domain.fields import as_json
from meetcore.domain.meetings.meetings import MeetingCreated, MeetingEnded
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.money.ledger import CreditsFellLow, Posting, open_account, top_up
from meetcore.domain.records.accounts import balance_record
from meetcore.domain.records.meetings import meeting_event_record
from meetcore.domain.webhooks.deliveries import Delivery, DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint, EndpointChanges
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.usecases.requests.idempotency import Outcome
from meetcore.usecases.webhooks.endpoints import Registration
from meetcore.usecases.webhooks.events import events_of
from tests.unit.domain.meetings.test_meetings import ID, MEETING, START
from tests.unit.usecases.application import ApplicationHarness, SimulatedCrash, crash_points


async def application_with_webhook() -> tuple[ApplicationHarness, Endpoint]:
    """A customer with an endpoint for top-ups, at an address that needs no name server."""
    harness = await ApplicationHarness().start()
    wanted = Registration(parse_webhook_url("https://93.184.216.34/"), (EventKind.CREDIT_TOPUP_SUCCEEDED,))
    register = harness.process().api.webhooks.register
    await register(harness.caller, wanted, harness.request_key(None), harness.now())
    return harness, only_endpoint(harness)


def only_endpoint(harness: ApplicationHarness) -> Endpoint:
    (row,) = harness.read(f"SELECT {ENDPOINT.select} FROM webhook_endpoints w")
    return ENDPOINT.read(row, harness.rig.cipher)


def code_of(outcome: Outcome) -> str:
    """The code of a refusal that was answered."""
    assert outcome.refusal is not None
    return outcome.refusal.code


def payloads_of_tests(harness: ApplicationHarness) -> list[bytes]:
    """The payloads of every `webhook.test`."""
    return [payload for kind, payload in harness.payloads() if kind is EventKind.WEBHOOK_TEST]


async def test_a_test_event_contains_the_endpoint_without_its_secret_and_notifies():
    harness, endpoint = await application_with_webhook()
    notifications = harness.notifier.notifications
    send = harness.process().api.webhooks.send_test
    await send(harness.caller, endpoint.id, harness.request_key(None), harness.now())
    (payload,) = payloads_of_tests(harness)
    assert json.loads(payload)["data"]["id"] == str(endpoint.id)
    assert endpoint.secret is not None
    assert endpoint.secret.encode() not in payload
    assert harness.notifier.notifications == notifications + 1


async def test_after_a_crash_at_any_point_a_retry_leaves_one_test_event() -> None:
    for point in crash_points():
        harness, endpoint = await application_with_webhook()
        key = harness.request_key("k", "test")
        with suppress(SimulatedCrash):
            await harness.process(point).api.webhooks.send_test(
                harness.caller, endpoint.id, key, harness.now()
            )
        for _ in range(2):
            await harness.process().api.webhooks.send_test(harness.caller, endpoint.id, key, harness.now())
        assert len(harness.deliveries()) == 1
        assert len(payloads_of_tests(harness)) == 1


async def test_a_refusal_is_stored_and_writes_nothing_else():
    harness, endpoint = await application_with_webhook()
    pause = EndpointChanges(is_active=False)
    update = harness.process().api.webhooks.update
    await update(harness.caller, endpoint.id, pause, harness.request_key(None))
    notifications = harness.notifier.notifications
    send = harness.process().api.webhooks.send_test
    for _ in range(2):
        answer = await send(harness.caller, endpoint.id, harness.request_key("k", "test"), harness.now())
        assert code_of(answer) == Conflict.code
    await update(harness.caller, endpoint.id, evolve(pause, is_active=True), harness.request_key(None))
    late = await send(harness.caller, endpoint.id, harness.request_key("k", "test"), harness.now())
    assert late.is_replay
    assert (code_of(late), harness.deliveries()) == (Conflict.code, [])
    assert harness.notifier.notifications == notifications


async def failed_delivery(harness: ApplicationHarness, endpoint: Endpoint) -> Delivery:
    """A delivery to the endpoint that failed now."""
    await harness.administration.top_up(harness.caller.account.id, 5)
    harness.write(
        "UPDATE deliveries SET status = 'failed', due_at = NULL, failed_at = %(now)s", now=harness.now()
    )
    (failed,) = harness.deliveries()
    return failed


async def test_after_a_crash_at_any_point_a_retry_recovers_once() -> None:
    for point in crash_points():
        harness, endpoint = await application_with_webhook()
        failed = await failed_delivery(harness, endpoint)
        since, key = harness.now(), harness.request_key("k", "recover")
        with suppress(SimulatedCrash):
            await harness.process(point).api.webhooks.recover(
                harness.caller, endpoint.id, since, key, harness.now()
            )
        for _ in range(2):
            answer = await harness.process().api.webhooks.recover(
                harness.caller, endpoint.id, since, key, harness.now()
            )
            assert answer.record == {
                "webhook_id": str(endpoint.id), "since": utc_text(since), "deliveries": 1, "has_more": False,
            }  # fmt: skip
        (released,) = harness.deliveries()
        assert (released.id, released.status) == (failed.id, DeliveryStatus.PENDING)


async def test_a_recovery_of_nothing_wakes_no_worker():
    harness, endpoint = await application_with_webhook()
    notifications = harness.notifier.notifications
    recover = harness.process().api.webhooks.recover
    answer = await recover(
        harness.caller, endpoint.id, harness.now(), harness.request_key(None), harness.now()
    )
    assert answer.record is not None
    assert answer.record["deliveries"] == 0
    assert harness.notifier.notifications == notifications


NOW = START - timedelta(hours=1)


async def test_facts_become_events_in_their_order_with_the_record_at_that_instant() -> None:
    runtime = (await ApplicationHarness().start()).runtime
    created, ended = events_of(runtime, NOW, MeetingCreated(MEETING), MeetingEnded(MEETING))
    assert (created.kind, ended.kind) == (EventKind.MEETING_CREATED, EventKind.MEETING_ENDED)
    assert (created.account_id, created.created_at, created.subject_id) == (ID, NOW, MEETING.id)
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
