"""Webhook endpoints: one for each URL, with deliveries that follow their state."""

import asyncio

import pytest
from attrs import evolve

from meetcore.domain.errors import NotFound
from meetcore.domain.webhooks.deliveries import Attempt, DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint, EndpointState, pause
from meetcore.domain.webhooks.events import Event, EventKind
from tests.support.outbox import BAD, GOOD, claim, outbox, post_test, record, redeliver
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    AT,
    KIND,
    Customer,
    new_endpoint,
    new_id,
    open_customer,
    register,
    remove_endpoint,
    save_endpoint,
    top_up,
)

pytestmark = pytest.mark.spec("5/8", "4.3/2", "4.4/1", "3/pause")


async def _load(rig: PostgresRig, endpoint: Endpoint) -> Endpoint | None:
    return await rig.alone.endpoints.load_locked(endpoint.account_id, endpoint.id)


async def test_an_unknown_account_cannot_be_locked(rig: PostgresRig) -> None:
    with pytest.raises(NotFound):
        async with rig.store.begin() as tx:
            await tx.lock_account(new_id())


async def test_the_endpoints_of_an_account_are_counted_the_inactive_ones_too(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig), await open_customer(rig)
    first = await register(rig, new_endpoint(customer))
    await save_endpoint(rig, pause(first))
    await register(rig, new_endpoint(customer))
    await register(rig, new_endpoint(other))
    async with rig.store.begin() as tx:
        await tx.lock_account(customer.account_id)
        assert await tx.endpoints.count(customer.account_id) == 2
        await tx.endpoints.remove(customer.account_id, first.id)
        assert await tx.endpoints.count(customer.account_id) == 1
        assert await tx.endpoints.count(new_id()) == 0


@pytest.mark.parametrize("description", [None, "Rapat ✓ \U0001f600"])
async def test_an_endpoint_is_read_back_as_it_was_written(rig: PostgresRig, description: str | None) -> None:
    customer = await open_customer(rig)
    endpoint = new_endpoint(customer, *EventKind, description=description)
    await register(rig, endpoint)
    assert await _load(rig, endpoint) == endpoint
    assert await rig.alone.endpoints.find_by_url(customer.account_id, endpoint.url_key) == endpoint


async def test_two_accounts_may_register_one_url(rig: PostgresRig) -> None:
    owner, other = await open_customer(rig), await open_customer(rig)
    endpoint = await register(rig, new_endpoint(owner))
    duplicate = new_endpoint(other, url=endpoint.url, url_key=endpoint.url_key)
    assert await register(rig, duplicate) == duplicate


async def test_a_url_is_registered_once_even_without_a_prior_check(rig: PostgresRig) -> None:
    customer = await open_customer(rig)
    endpoint = await register(rig, new_endpoint(customer))
    with pytest.raises(rig.refusal):
        await rig.alone.endpoints.add(new_endpoint(customer, url_key=endpoint.url_key))


async def test_two_registrations_of_one_url_are_one_endpoint(rig: PostgresRig, customer: Customer) -> None:
    wanted = [new_endpoint(customer, url="https://a.example/", url_key="https://a.example/") for _ in "ab"]
    first, second = await asyncio.gather(*(register(rig, endpoint) for endpoint in wanted))
    assert first == second
    assert first in wanted


async def test_saving_writes_what_an_update_may_change_and_nothing_else(rig: PostgresRig) -> None:
    customer = await open_customer(rig)
    endpoint = await register(rig, new_endpoint(customer))
    changed = evolve(
        endpoint,
        url="https://elsewhere.example",
        url_key="https://elsewhere.example",
        created_by="creator",
        description=None,
        event_types=(EventKind.CREDIT_LOW,),
        state=EndpointState.DISABLED,
        consecutive_failures=20,
        disabled_at=AT,
        secret="whsec_new",
        previous_secret="whsec_old",
        previous_secret_until=AT,
    )
    await save_endpoint(rig, changed)
    kept = evolve(changed, url=endpoint.url, url_key=endpoint.url_key, created_by=endpoint.created_by)
    assert await _load(rig, endpoint) == kept
    await save_endpoint(rig, evolve(kept, previous_secret=None, previous_secret_until=None))
    assert await _load(rig, endpoint) == evolve(kept, previous_secret=None, previous_secret_until=None)


async def test_pausing_leaves_other_endpoints_alone(rig: PostgresRig, customer: Customer) -> None:
    endpoint = await register(rig, new_endpoint(customer))
    other = await register(rig, new_endpoint(customer))
    await top_up(rig, customer, 5, "INV-1", KIND)
    await save_endpoint(rig, pause(endpoint))
    found = (await rig.deliveries(customer.account_id)).values()
    assert {one.endpoint_id: one.status for one in found} == {
        endpoint.id: DeliveryStatus.HELD,
        other.id: DeliveryStatus.PENDING,
    }


async def test_what_waits_goes_and_what_is_final_stays(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig, 4)
    found, lease = await claim(rig, limit=3)
    done, tried, _ = found
    assert await record(rig, done, lease.token, GOOD)
    assert await record(rig, tried, lease.token, BAD)
    assert await remove_endpoint(rig, endpoint)
    left = await rig.deliveries(customer.account_id)
    assert {id_: one.status for id_, one in left.items()} == {done.delivery_id: DeliveryStatus.SUCCEEDED}
    assert await rig.attempts(customer.account_id) == [1]


async def test_a_post_in_flight_finds_its_claim_lost(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig)
    ((claimed,), lease) = await claim(rig)
    assert await remove_endpoint(rig, endpoint)
    assert not await record(rig, claimed, lease.token, BAD)
    assert await rig.deliveries(customer.account_id) == {}
    assert await rig.queries.find_endpoint(customer.account_id, endpoint.id) is None


async def test_removing_takes_nothing_from_others(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig, 0)
    second = await register(rig, new_endpoint(customer))
    other, other_endpoint = await outbox(rig)
    await top_up(rig, customer, 5, "both", KIND)
    assert await remove_endpoint(rig, endpoint)
    (kept,) = (await rig.deliveries(customer.account_id)).values()
    assert (kept.endpoint_id, kept.status) == (second.id, DeliveryStatus.PENDING)
    assert len(await rig.deliveries(other.account_id)) == 1
    assert await rig.queries.find_endpoint(other.account_id, other_endpoint.id) == other_endpoint
    assert await rig.queries.find_endpoint(customer.account_id, second.id) == second


async def test_of_concurrent_removals_one_succeeds(rig: PostgresRig) -> None:
    _, endpoint = await outbox(rig)
    removed = await asyncio.gather(*(remove_endpoint(rig, endpoint) for _ in range(5)))
    assert sorted(removed) == [False] * 4 + [True]


async def test_an_event_that_races_with_a_removal_leaves_nothing_that_waits(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig)
    top_ups = [top_up(rig, customer, 5, f"race-{number}", KIND) for number in range(6)]
    await asyncio.gather(*top_ups[:3], remove_endpoint(rig, endpoint), *top_ups[3:])
    assert await rig.deliveries(customer.account_id) == {}
    assert await top_up(rig, customer, 5, "later", KIND) == 0


@pytest.mark.parametrize("attempt", [GOOD, BAD], ids=["succeeded", "failed"])
async def test_an_attempt_that_races_with_a_removal_leaves_nothing_that_waits(
    rig: PostgresRig, attempt: Attempt
) -> None:
    customer, endpoint = await outbox(rig, 6)
    found, lease = await claim(rig)
    recording = [record(rig, one, lease.token, attempt) for one in found]
    outcomes = await asyncio.gather(*recording[:3], remove_endpoint(rig, endpoint), *recording[3:])
    assert outcomes[3]
    left = (await rig.deliveries(customer.account_id)).values()
    assert {one.status for one in left} <= {DeliveryStatus.SUCCEEDED}
    recorded = sum(outcomes) - 1
    assert len(left) == (recorded if attempt is GOOD else 0)
    assert await rig.queries.find_endpoint(customer.account_id, endpoint.id) is None


TEST = EventKind.WEBHOOK_TEST


@pytest.mark.parametrize("cause", [None, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"])
async def test_a_post_has_the_cause_of_its_event(rig: PostgresRig, cause: str | None) -> None:
    _, endpoint = await outbox(rig, 0)
    posted = await post_test(rig, endpoint, cause)
    ((claimed,), lease) = await claim(rig)
    assert claimed.cause == cause
    await record(rig, claimed, lease.token, GOOD)
    assert posted is not None
    await redeliver(rig, endpoint, posted.id)
    ((again,), _) = await claim(rig)
    assert again.cause == cause


async def test_posting_again_sends_the_same_bytes_in_a_delivery_of_its_own(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig)
    ((first,), lease) = await claim(rig)
    assert await record(rig, first, lease.token, GOOD)
    before = (await rig.deliveries(customer.account_id))[first.delivery_id]
    posted = await redeliver(rig, endpoint, first.delivery_id)
    assert posted is not None
    assert await rig.deliveries(customer.account_id) == {before.id: before, posted.id: posted}
    ((second,), lease) = await claim(rig)
    assert (second.delivery_id, second.event_id) == (posted.id, first.event_id)
    assert (second.body, second.event_kind) == (first.body, first.event_kind)
    assert await record(rig, second, lease.token, BAD)
    assert (await rig.deliveries(customer.account_id))[before.id] == before


async def test_a_view_returns_the_event_and_its_target(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig)
    (earlier,) = (await rig.deliveries(customer.account_id)).values()
    async with rig.store.begin() as tx:
        view = await tx.endpoints.load_for_posting(customer.account_id, endpoint.id, earlier.id)
        bare = await tx.endpoints.load_for_posting(customer.account_id, endpoint.id)
    assert view is not None
    assert bare is not None
    assert (view.endpoint, view.earlier) == (endpoint, earlier)
    assert (bare.endpoint, bare.earlier) == (endpoint, None)
    assert abs((view.now - rig.now()).total_seconds()) < 60
    assert abs((bare.now - rig.now()).total_seconds()) < 60


async def test_an_event_is_written_once(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig, 0)
    posted = await post_test(rig, endpoint)
    assert posted is not None
    event = Event(posted.event_id, customer.account_id, TEST, AT, {})
    with pytest.raises(rig.refusal):
        await rig.alone.endpoints.add_event_for_endpoint(event, evolve(posted, id=new_id()))
    assert await rig.deliveries(customer.account_id) == {posted.id: posted}


async def test_a_post_that_races_with_a_pause_does_not_stay_due(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig)
    (earlier,) = await rig.deliveries(customer.account_id)
    await asyncio.gather(
        post_test(rig, endpoint), redeliver(rig, endpoint, earlier), save_endpoint(rig, pause(endpoint)),
        post_test(rig, endpoint), redeliver(rig, endpoint, earlier),
    )  # fmt: skip
    found = (await rig.deliveries(customer.account_id)).values()
    assert [one.status for one in found] == [DeliveryStatus.HELD] * 5


async def test_a_post_that_races_with_a_removal_leaves_nothing_that_waits(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig)
    (earlier,) = await rig.deliveries(customer.account_id)
    await asyncio.gather(
        post_test(rig, endpoint), redeliver(rig, endpoint, earlier), remove_endpoint(rig, endpoint),
        post_test(rig, endpoint), redeliver(rig, endpoint, earlier),
    )  # fmt: skip
    assert await rig.deliveries(customer.account_id) == {}
