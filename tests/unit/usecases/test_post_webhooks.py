"""Removing, rotating, testing, sending again: what the use cases do beyond what HTTP shows."""

import json
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Conflict, Gone, NotFound
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.webhooks.deliveries import Delivery, DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint, EndpointChanges
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.usecases.idempotency import Outcome
from meetcore.usecases.webhooks import (
    Registration,
)
from tests.unit.usecases.application import ApplicationHarness, CrashPoint, SimulatedCrash

UNKNOWN_ID = UUID(int=7)


async def application_with_webhook() -> tuple[ApplicationHarness, Endpoint]:
    """A customer with an endpoint for top-ups, at an address that needs no name server."""
    harness = await ApplicationHarness().start()
    wanted = Registration(parse_webhook_url("https://93.184.216.34/"), (EventKind.CREDIT_TOPUP_SUCCEEDED,))
    register = harness.process().api.register_webhook
    await register(harness.caller, wanted, harness.request_key(None), harness.now())
    return harness, only_endpoint(harness)


def only_endpoint(harness: ApplicationHarness) -> Endpoint:
    (endpoint,) = harness.state.committed.endpoints.values()
    return endpoint


def code_of(outcome: Outcome) -> str:
    """The code of a refusal that was answered."""
    assert outcome.refusal is not None
    return outcome.refusal.code


def payloads_of_tests(harness: ApplicationHarness) -> list[bytes]:
    """The payloads of every `webhook.test`."""
    events = harness.state.committed.events.values()
    return [event.payload for event in events if event.kind is EventKind.WEBHOOK_TEST]


def deliveries(harness: ApplicationHarness) -> list[Delivery]:
    return [stored.delivery for stored in harness.state.committed.deliveries.values()]


async def test_a_test_event_contains_the_endpoint_without_its_secret_and_notifies():
    harness, endpoint = await application_with_webhook()
    notifications = harness.notifier.notifications
    send = harness.process().api.send_test_event
    await send(harness.caller, endpoint.id, harness.request_key(None), harness.now())
    (payload,) = payloads_of_tests(harness)
    assert json.loads(payload)["data"]["id"] == str(endpoint.id)
    assert endpoint.secret is not None
    assert endpoint.secret.encode() not in payload
    assert harness.notifier.notifications == notifications + 1


@pytest.mark.parametrize("point", [1, 2, 3])
async def test_after_a_crash_at_any_point_a_retry_leaves_one_test_event(point: int):
    harness, endpoint = await application_with_webhook()

    async def send(crash_point: CrashPoint | None) -> None:
        work = harness.process(crash_point).api.send_test_event
        await work(harness.caller, endpoint.id, harness.request_key("k", "test"), harness.now())

    with pytest.raises(SimulatedCrash):
        await send(CrashPoint(point))
    for _ in range(2):
        await send(None)
    assert len(deliveries(harness)) == 1
    assert len(payloads_of_tests(harness)) == 1


async def test_a_refusal_is_stored_and_writes_nothing_else():
    harness, endpoint = await application_with_webhook()
    pause = EndpointChanges(is_active=False)
    update = harness.process().api.update_webhook
    await update(harness.caller, endpoint.id, pause, harness.request_key(None))
    notifications = harness.notifier.notifications
    send = harness.process().api.send_test_event
    for _ in range(2):
        answer = await send(harness.caller, endpoint.id, harness.request_key("k", "test"), harness.now())
        assert code_of(answer) == Conflict.code
    await update(harness.caller, endpoint.id, evolve(pause, is_active=True), harness.request_key(None))
    late = await send(harness.caller, endpoint.id, harness.request_key("k", "test"), harness.now())
    assert late.is_replay
    assert (code_of(late), deliveries(harness)) == (Conflict.code, [])
    assert harness.notifier.notifications == notifications


async def test_sending_again_is_a_new_delivery_of_the_same_event():
    harness, endpoint = await application_with_webhook()
    await harness.administration.top_up(harness.caller.account.id, 5)
    (earlier,) = deliveries(harness)
    harness.clock.advance(60)
    resend = harness.process().api.resend_delivery
    await resend(harness.caller, endpoint.id, earlier.id, harness.request_key(None), harness.now())
    (kept, again) = deliveries(harness)
    assert kept == earlier
    assert (again.event_id, again.event_kind) == (earlier.event_id, earlier.event_kind)
    assert again.id > earlier.id
    assert again.created_at == harness.now()


async def test_an_event_past_its_retention_is_gone():
    harness, endpoint = await application_with_webhook()
    await harness.administration.top_up(harness.caller.account.id, 5)
    (earlier,) = deliveries(harness)
    harness.state.committed.events.clear()
    resend = harness.process().api.resend_delivery
    answer = await resend(harness.caller, endpoint.id, earlier.id, harness.request_key(None), harness.now())
    assert code_of(answer) == Gone.code
    assert deliveries(harness) == [earlier]


async def test_operations_on_a_missing_webhook_change_nothing():
    harness, endpoint = await application_with_webhook()
    caller, none, now = harness.caller, harness.request_key(None), harness.now()
    resend = harness.process().api.resend_delivery
    answers = [
        await harness.process().api.remove_webhook(caller, UNKNOWN_ID, none),
        await harness.process().api.rotate_secret(caller, UNKNOWN_ID, none, now),
        await harness.process().api.send_test_event(caller, UNKNOWN_ID, none, now),
        await resend(caller, UNKNOWN_ID, UNKNOWN_ID, none, now),
        await resend(caller, endpoint.id, UNKNOWN_ID, none, now),
    ]
    assert [code_of(answer) for answer in answers] == [NotFound.code] * 5
    assert only_endpoint(harness) == endpoint


async def test_a_rotation_changes_the_secret_once_for_each_key():
    harness, endpoint = await application_with_webhook()
    rotate = harness.process().api.rotate_secret
    for _ in range(2):
        await rotate(harness.caller, endpoint.id, harness.request_key("k", "rotate"), harness.now())
    first = only_endpoint(harness)
    assert first.secret != endpoint.secret
    assert first.previous_secret == endpoint.secret
    assert evolve(first, secret=endpoint.secret, previous_secret=None, previous_secret_until=None) == endpoint
    await rotate(harness.caller, endpoint.id, harness.request_key(None), harness.now())
    second = only_endpoint(harness)
    assert second.secret != first.secret
    assert second.previous_secret == first.secret, "only the one before is kept"


async def test_a_removal_leaves_the_url_free_and_nothing_that_waits():
    harness, endpoint = await application_with_webhook()
    await harness.administration.top_up(harness.caller.account.id, 5)
    remove = harness.process().api.remove_webhook
    answers = [
        await remove(harness.caller, endpoint.id, harness.request_key("k", "remove")) for _ in range(2)
    ]
    assert [answer.is_replay for answer in answers] == [False, True]
    assert deliveries(harness) == []
    assert harness.state.committed.endpoints == {}


async def failed_delivery(harness: ApplicationHarness, endpoint: Endpoint) -> Delivery:
    """A delivery to the endpoint that failed now."""
    await harness.administration.top_up(harness.caller.account.id, 5)
    tables = harness.state.committed.deliveries
    ((name, stored),) = tables.items()
    failed = evolve(
        stored.delivery, status=DeliveryStatus.FAILED, next_attempt_at=None, failed_at=harness.now()
    )
    tables[name] = evolve(stored, delivery=failed)
    return failed


@pytest.mark.parametrize("point", [1, 2, 3])
async def test_after_a_crash_at_any_point_a_retry_recovers_once(point: int):
    harness, endpoint = await application_with_webhook()
    failed = await failed_delivery(harness, endpoint)
    since = harness.now()

    async def recover(crash_point: CrashPoint | None) -> Outcome:
        work = harness.process(crash_point).api.recover_deliveries
        return await work(
            harness.caller, endpoint.id, since, harness.request_key("k", "recover"), harness.now()
        )

    with pytest.raises(SimulatedCrash):
        await recover(CrashPoint(point))
    for _ in range(2):
        answer = await recover(None)
        assert answer.record == {
            "webhook_id": str(endpoint.id), "since": utc_text(since), "deliveries": 1, "has_more": False,
        }  # fmt: skip
    (released,) = deliveries(harness)
    assert (released.id, released.status) == (failed.id, DeliveryStatus.PENDING)


async def test_a_recovery_of_nothing_wakes_no_worker():
    harness, endpoint = await application_with_webhook()
    notifications = harness.notifier.notifications
    recover = harness.process().api.recover_deliveries
    answer = await recover(
        harness.caller, endpoint.id, harness.now(), harness.request_key(None), harness.now()
    )
    assert answer.record is not None
    assert answer.record["deliveries"] == 0
    assert harness.notifier.notifications == notifications
