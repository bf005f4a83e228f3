"""Removing, rotating, testing, sending again: what the use cases do beyond what HTTP shows."""

import json
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.adapters.webhook_sender import SystemResolver
from meetcore.domain.deliveries import Delivery
from meetcore.domain.endpoints import Endpoint, EndpointChanges
from meetcore.domain.errors import Conflict, Gone, NotFound
from meetcore.domain.events import EventKind
from meetcore.domain.webhook_urls import parse_webhook_url
from meetcore.usecases.intent import Answer
from meetcore.usecases.post_webhooks import ResendDelivery, SendTestEvent
from meetcore.usecases.webhooks import (
    RegisterWebhook,
    Registration,
    RemoveWebhook,
    RotateSecret,
    UpdateWebhook,
)
from tests.unit.usecases.town import Died, DyingStore, Fuse, Town

NOBODY = UUID(int=7)


async def town_with_webhook() -> tuple[Town, Endpoint]:
    """A customer who wants to be told of top-ups, at an address that needs no name server."""
    town = await Town().settle_in()
    wanted = Registration(parse_webhook_url("https://93.184.216.34/"), (EventKind.CREDIT_TOPUP_SUCCEEDED,))
    register = RegisterWebhook(town.store, SystemResolver(), (), town.world)
    await register(town.caller, wanted, town.intent(None), town.now())
    return town, only_endpoint(town)


def only_endpoint(town: Town) -> Endpoint:
    (endpoint,) = town.state.committed.endpoints.values()
    return endpoint


def code_of(answer: Answer) -> str:
    """The code of a refusal that was answered."""
    return str(json.loads(answer.payload)[0])


def payloads_of_tests(town: Town) -> list[bytes]:
    """The payloads of every `webhook.test`."""
    events = town.state.committed.events.values()
    return [event.payload for event in events if event.kind is EventKind.WEBHOOK_TEST]


def deliveries(town: Town) -> list[Delivery]:
    return [stored.delivery for stored in town.state.committed.deliveries.values()]


async def test_a_test_event_tells_the_endpoint_without_its_secret_and_rings():
    town, endpoint = await town_with_webhook()
    rings = town.doorbell.rings
    send = SendTestEvent(town.store, town.doorbell, town.world)
    await send(town.caller, endpoint.id, town.intent(None), town.now())
    (payload,) = payloads_of_tests(town)
    assert json.loads(payload)["data"]["id"] == str(endpoint.id)
    assert endpoint.secret is not None
    assert endpoint.secret.encode() not in payload
    assert town.doorbell.rings == rings + 1


@pytest.mark.parametrize("point", [1, 2, 3])
async def test_wherever_it_dies_a_retry_leaves_one_test_event(point: int):
    town, endpoint = await town_with_webhook()

    async def send(fuse: Fuse | None) -> None:
        store = town.store if fuse is None else DyingStore(town.store, fuse)
        work = SendTestEvent(store, town.doorbell, town.world)
        await work(town.caller, endpoint.id, town.intent("k", "test"), town.now())

    with pytest.raises(Died):
        await send(Fuse(3 + point))  # the key is looked up in a transaction of its own, of three points
    for _ in range(2):
        await send(None)
    assert len(deliveries(town)) == 1
    assert len(payloads_of_tests(town)) == 1


async def test_a_refusal_is_remembered_and_writes_nothing():
    town, endpoint = await town_with_webhook()
    pause = EndpointChanges(is_active=False)
    update = UpdateWebhook(town.store, town.doorbell)
    await update(town.caller, endpoint.id, pause, town.intent(None))
    rings = town.doorbell.rings
    send = SendTestEvent(town.store, town.doorbell, town.world)
    for _ in range(2):
        answer = await send(town.caller, endpoint.id, town.intent("k", "test"), town.now())
        assert code_of(answer) == Conflict.code
    await update(town.caller, endpoint.id, evolve(pause, is_active=True), town.intent(None))
    late = await send(town.caller, endpoint.id, town.intent("k", "test"), town.now())
    assert late.is_replay
    assert (code_of(late), deliveries(town)) == (Conflict.code, [])
    assert town.doorbell.rings == rings


async def test_sending_again_is_a_new_delivery_of_the_same_event():
    town, endpoint = await town_with_webhook()
    await town.operate.top_up(town.caller.account.id, 5)
    (earlier,) = deliveries(town)
    town.clock.advance(60)
    resend = ResendDelivery(town.store, town.doorbell, town.world)
    await resend(town.caller, endpoint.id, earlier.id, town.intent(None), town.now())
    (kept, again) = deliveries(town)
    assert kept == earlier
    assert (again.event_id, again.event_kind) == (earlier.event_id, earlier.event_kind)
    assert again.id > earlier.id
    assert again.created_at == town.now()


async def test_an_event_past_its_retention_is_gone():
    town, endpoint = await town_with_webhook()
    await town.operate.top_up(town.caller.account.id, 5)
    (earlier,) = deliveries(town)
    town.state.committed.events.clear()
    resend = ResendDelivery(town.store, town.doorbell, town.world)
    answer = await resend(town.caller, endpoint.id, earlier.id, town.intent(None), town.now())
    assert code_of(answer) == Gone.code
    assert deliveries(town) == [earlier]


async def test_nothing_is_done_to_a_webhook_that_is_not_there():
    town, endpoint = await town_with_webhook()
    caller, none, now = town.caller, town.intent(None), town.now()
    resend = ResendDelivery(town.store, town.doorbell, town.world)
    answers = [
        await RemoveWebhook(town.store)(caller, NOBODY, none),
        await RotateSecret(town.store, town.doorbell, town.world)(caller, NOBODY, none),
        await SendTestEvent(town.store, town.doorbell, town.world)(caller, NOBODY, none, now),
        await resend(caller, NOBODY, NOBODY, none, now),
        await resend(caller, endpoint.id, NOBODY, none, now),
    ]
    assert [code_of(answer) for answer in answers] == [NotFound.code] * 5
    assert only_endpoint(town) == endpoint


async def test_a_rotation_changes_the_secret_once_for_each_key():
    town, endpoint = await town_with_webhook()
    rotate = RotateSecret(town.store, town.doorbell, town.world)
    for _ in range(2):
        await rotate(town.caller, endpoint.id, town.intent("k", "rotate"))
    first = only_endpoint(town)
    assert first.secret != endpoint.secret
    assert evolve(first, secret=endpoint.secret) == endpoint
    await rotate(town.caller, endpoint.id, town.intent(None))
    assert only_endpoint(town).secret != first.secret


async def test_a_removal_leaves_the_url_free_and_nothing_that_waits():
    town, endpoint = await town_with_webhook()
    await town.operate.top_up(town.caller.account.id, 5)
    remove = RemoveWebhook(town.store)
    answers = [await remove(town.caller, endpoint.id, town.intent("k", "remove")) for _ in range(2)]
    assert [answer.is_replay for answer in answers] == [False, True]
    assert deliveries(town) == []
    assert town.state.committed.endpoints == {}
