"""Failures of a host disable its endpoints; failed deliveries are recovered once, at a pace."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from attrs import evolve

from meetcore.domain.webhooks.deliveries import (
    HELD_FOR,
    MAX_ATTEMPTS_RECOVERED,
    Delivery,
    DeliveryStatus,
    ReleasePace,
    hold,
    recover,
)
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES, Endpoint, EndpointState
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.views import Claimed, Recorded
from tests.support.outbox import BAD, GOOD, claim, outbox, record, record_all, record_batch, release, sweep
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import KIND, Customer, new_endpoint, open_customer, register, top_up

ACTIVE, DISABLED = EndpointState.ACTIVE, EndpointState.DISABLED
WITHOUT_WAITS = RetrySchedule((0,) * 10)


async def _customer(
    rig: PostgresRig, endpoints: int, host: str = "hooks.example"
) -> tuple[Customer, list[Endpoint]]:
    """An account with so many endpoints at a host."""
    customer = await open_customer(rig)
    made = [new_endpoint(customer) for _ in range(endpoints)]
    urls = [f"https://{host}/{one.id}" for one in made]
    at_host = [evolve(one, url=url, url_key=url) for one, url in zip(made, urls, strict=True)]
    return customer, [await register(rig, one) for one in at_host]


async def _posts(rig: PostgresRig, customer: Customer, events: int, name: str = "event") -> list[Claimed]:
    """Claim a delivery of each event for each endpoint that is active."""
    for number in range(events):
        await top_up(rig, customer, 5, f"{name}-{number}", KIND)
    found, _ = await claim(rig, 1_000)
    return [one for one in found if one.account_id == customer.account_id]


async def _states(rig: PostgresRig, endpoints: list[Endpoint]) -> list[EndpointState]:
    return [(await _load(rig, one)).state for one in endpoints]


async def _load(rig: PostgresRig, endpoint: Endpoint) -> Endpoint:
    found = await rig.alone.endpoints.load_locked(endpoint.account_id, endpoint.id)
    assert found is not None
    return found


async def test_twenty_failures_at_a_host_disable_every_endpoint_there_that_fails(rig: PostgresRig) -> None:
    customer, endpoints = await _customer(rig, 10)
    posts = await _posts(rig, customer, 2)
    await record_all(rig, posts[:10], BAD, WITHOUT_WAITS)
    assert await _states(rig, endpoints) == [ACTIVE] * 10
    await record_all(rig, posts[10:], BAD, WITHOUT_WAITS)
    for one in endpoints:
        found = await _load(rig, one)
        assert (found.state, found.consecutive_failures) == (DISABLED, DISABLE_AFTER_FAILURES)
        assert found.disabled_at is not None
    statuses = {one.status for one in (await rig.deliveries(customer.account_id)).values()}
    assert statuses == {DeliveryStatus.HELD}


async def test_endpoints_of_the_host_that_are_not_in_the_batch_are_disabled_too(rig: PostgresRig) -> None:
    customer, endpoints = await _customer(rig, 4)
    posts = await _posts(rig, customer, 5)
    await record_all(rig, posts[:19], BAD, WITHOUT_WAITS)
    saved = await record_batch(rig, posts[19:], BAD, WITHOUT_WAITS)
    assert saved is not None
    others = [one for one in endpoints if one.url != posts[19].url]
    assert sorted(one.id for one in saved.disabled) == sorted(one.id for one in others)
    assert {one.state for one in saved.disabled} == {DISABLED}
    assert await _states(rig, endpoints) == [DISABLED] * 4


async def test_an_endpoint_whose_last_delivery_succeeded_stays_active(rig: PostgresRig) -> None:
    customer, endpoints = await _customer(rig, 3)
    posts = await _posts(rig, customer, 11)
    healthy = [one for one in posts if one.url == endpoints[0].url]
    await record_all(rig, healthy[:1], GOOD)
    await record_all(rig, [one for one in posts if one not in healthy][:20], BAD, WITHOUT_WAITS)
    assert await _states(rig, endpoints) == [ACTIVE, DISABLED, DISABLED]


async def test_a_success_at_the_host_starts_the_count_again(rig: PostgresRig) -> None:
    customer, endpoints = await _customer(rig, 3)
    posts = await _posts(rig, customer, 13)
    healthy = [one for one in posts if one.url == endpoints[0].url]
    others = [one for one in posts if one not in healthy]
    await record_all(rig, others[:12], BAD, WITHOUT_WAITS)
    await record_all(rig, healthy[:1], GOOD)
    await record_all(rig, others[12:], BAD, WITHOUT_WAITS)
    assert await _states(rig, endpoints) == [ACTIVE] * 3


async def test_failures_disable_nothing_of_another_account_or_at_another_host(rig: PostgresRig) -> None:
    customer, endpoints = await _customer(rig, 2)
    other_account, other_endpoints = await _customer(rig, 2)
    elsewhere = new_endpoint(customer, url="https://b.example/", url_key="https://b.example/")
    await register(rig, elsewhere)
    await record_all(rig, await _posts(rig, other_account, 1), BAD, WITHOUT_WAITS)
    posts = await _posts(rig, customer, 10)
    await record_all(rig, [one for one in posts if one.url == elsewhere.url][:1], BAD, WITHOUT_WAITS)
    await record_all(rig, [one for one in posts if one.url != elsewhere.url], BAD, WITHOUT_WAITS)
    assert await _states(rig, [*endpoints, elsewhere]) == [DISABLED, DISABLED, ACTIVE]
    assert await _states(rig, other_endpoints) == [ACTIVE] * 2


async def test_failures_recorded_at_once_are_all_counted(rig: PostgresRig) -> None:
    customer, endpoints = await _customer(rig, 10)
    posts = await _posts(rig, customer, 2)
    # Batches that overlap in their endpoints, in different orders: none may deadlock.
    batches = [posts[start::5][:: 1 if start % 2 else -1] for start in range(5)]
    await asyncio.gather(*(record_all(rig, batch, BAD, WITHOUT_WAITS) for batch in batches))
    assert await _states(rig, endpoints) == [DISABLED] * 10


async def test_a_host_disables_nothing_before_it_has_failed_for_the_longest_wait(rig: PostgresRig) -> None:
    customer, endpoints = await _customer(rig, 10)
    posts = await _posts(rig, customer, 3)
    await record_all(rig, posts[:29], BAD)
    assert await _states(rig, endpoints) == [ACTIVE] * 10
    await rig.rows("UPDATE webhook_account_hosts SET failing_since = failing_since - interval '1 hour'")
    await record_all(rig, posts[29:], BAD)
    assert await _states(rig, endpoints) == [DISABLED] * 10


async def test_the_time_of_failing_starts_again_with_a_success_that_a_failure_follows_in_its_batch(
    rig: PostgresRig,
) -> None:
    customer, endpoints = await _customer(rig, 10)
    posts = await _posts(rig, customer, 3)
    await record_all(rig, posts[:1], BAD)
    await rig.rows("UPDATE webhook_account_hosts SET failing_since = failing_since - interval '1 hour'")
    await record_batch(rig, posts[1:3], [GOOD, BAD])
    await record_all(rig, posts[3:22], BAD)
    assert await _states(rig, endpoints) == [ACTIVE] * 10


async def test_the_last_endpoint_at_a_host_takes_the_count_with_it(rig: PostgresRig) -> None:
    customer, endpoints = await _customer(rig, 2)
    posts = await _posts(rig, customer, 9)
    await record_all(rig, posts, BAD)
    for one in endpoints:
        async with rig.store.begin() as tx:
            await tx.lock_account(customer.account_id)
            assert await tx.endpoints.remove(customer.account_id, one.id)
    again = await register(rig, new_endpoint(customer, url=endpoints[0].url, url_key=endpoints[0].url_key))
    await record_all(rig, await _posts(rig, customer, 2, "again"), BAD)
    assert await _states(rig, [again]) == [ACTIVE]


ONCE = RetrySchedule(())
LONG = timedelta(hours=1)


async def _recover(rig: PostgresRig, endpoint: Endpoint, since: datetime, most: int = 100) -> int:
    async with rig.store.begin() as tx:
        assert await tx.endpoints.load_locked(endpoint.account_id, endpoint.id) == endpoint
        return await tx.deliveries.recover(endpoint.account_id, endpoint.id, since, most)


async def _failed(rig: PostgresRig, count: int) -> Endpoint:
    """An endpoint with so many deliveries that failed; no failure counts against it any more."""
    _, endpoint = await outbox(rig, count)
    claimed, lease = await claim(rig)
    for one in claimed:
        assert await record(rig, one, lease.token, BAD, ONCE)
    await rig.alone.endpoints.save(endpoint)
    return endpoint


async def _there(rig: PostgresRig, endpoint: Endpoint) -> Sequence[Delivery]:
    found = (await rig.deliveries(endpoint.account_id)).values()
    return [one for _, one in sorted((one.id, one) for one in found if one.endpoint_id == endpoint.id)]


async def test_what_failed_is_held_for_release_as_the_domain_decides(rig: PostgresRig) -> None:
    endpoint = await _failed(rig, 2)
    before = await _there(rig, endpoint)
    assert {one.status for one in before} == {DeliveryStatus.FAILED}
    assert await _recover(rig, endpoint, rig.now() - LONG) == 2
    after = await _there(rig, endpoint)
    assert [
        recover(one, found.held_at or rig.now()) for one, found in zip(before, after, strict=True)
    ] == after
    assert await release(rig, endpoint) == 2
    claimed, lease = await claim(rig)
    assert {one.delivery_id for one in claimed} == {one.id for one in before}
    assert await record(rig, claimed[0], lease.token, GOOD)
    assert await record(rig, claimed[1], lease.token, BAD, ONCE)
    assert sorted(await rig.attempts(endpoint.account_id)) == [1, 1, 2, 2]


async def test_what_expired_is_recovered(rig: PostgresRig) -> None:
    _, endpoint = await outbox(rig)
    ((claimed,), _) = await claim(rig)
    long_ago = rig.now() - HELD_FOR - timedelta(seconds=1)
    async with rig.store.begin() as tx:
        (view,) = await tx.deliveries.load_claimed([claimed])
        held = hold(view.delivery, long_ago)
        await tx.deliveries.save_attempts([Recorded(held, BAD)], [view.endpoint], [])
    await sweep(rig)
    (expired,) = await _there(rig, endpoint)
    assert (expired.status, expired.held_at) == (DeliveryStatus.EXPIRED, None)
    assert await _recover(rig, endpoint, rig.now() - LONG) == 1
    (recovered,) = await _there(rig, endpoint)
    assert (recovered.status, recovered.failed_at) == (DeliveryStatus.HELD, None)


async def test_nothing_else_is_recovered(rig: PostgresRig) -> None:
    foreign = await _failed(rig, 1)
    customer, endpoint = await outbox(rig, 3)
    other = await register(rig, new_endpoint(customer))
    (done, _, _), lease = await claim(rig, limit=3)
    assert await record(rig, done, lease.token, GOOD)
    before = await _there(rig, endpoint)
    for one in (endpoint, other, evolve(foreign, account_id=customer.account_id)):
        assert await rig.alone.deliveries.recover(one.account_id, one.id, rig.now() - LONG, 100) == 0
    assert await _there(rig, endpoint) == before
    assert [one.status for one in await _there(rig, foreign)] == [DeliveryStatus.FAILED]


async def test_what_failed_before_stays(rig: PostgresRig) -> None:
    endpoint = await _failed(rig, 1)
    (failed,) = await _there(rig, endpoint)
    assert failed.failed_at is not None
    assert await _recover(rig, endpoint, failed.failed_at + timedelta(microseconds=1)) == 0
    assert await _recover(rig, endpoint, failed.failed_at) == 1


async def test_one_request_recovers_a_bounded_number_and_the_next_the_rest(rig: PostgresRig) -> None:
    endpoint = await _failed(rig, 5)
    since = rig.now() - LONG
    assert [await _recover(rig, endpoint, since, most=2) for _ in range(4)] == [2, 2, 1, 0]


async def test_a_delivery_is_recovered_up_to_a_number_of_attempts(rig: PostgresRig) -> None:
    endpoint = await _failed(rig, 2)
    ids = [one.id for one in await _there(rig, endpoint)]
    for id_, made in zip(ids, (MAX_ATTEMPTS_RECOVERED, MAX_ATTEMPTS_RECOVERED - 1), strict=True):
        await rig.rows("UPDATE deliveries SET attempts_made = %(made)s WHERE id = %(id)s", made=made, id=id_)
    before = await _there(rig, endpoint)
    assert await _recover(rig, endpoint, rig.now() - LONG) == 1
    after = await _there(rig, endpoint)
    assert after == [
        recover(one, found.held_at or rig.now()) for one, found in zip(before, after, strict=True)
    ]
    assert [one.status for one in after] == [DeliveryStatus.FAILED, DeliveryStatus.HELD]


async def test_recovering_twice_at_once_sends_nothing_twice(rig: PostgresRig) -> None:
    endpoint = await _failed(rig, 4)
    since = rig.now() - LONG
    found = await asyncio.gather(*(_recover(rig, endpoint, since) for _ in range(3)))
    assert sorted(found) == [0, 0, 4]
    assert await release(rig, endpoint) == 4
    assert await _recover(rig, endpoint, since) == 0
    assert len((await claim(rig))[0]) == 4


async def test_what_is_recovered_comes_at_the_pace_of_a_release(rig: PostgresRig) -> None:
    endpoint = await _failed(rig, 5)
    assert await _recover(rig, endpoint, rig.now() - LONG) == 5
    pace = ReleasePace(2, timedelta(hours=1))
    assert await release(rig, endpoint, pace) == 2
    assert await sweep(rig, pace) == 0, "the first portion is not through"
    due = sorted(
        one.next_attempt_at for one in await _there(rig, endpoint) if one.next_attempt_at is not None
    )
    assert due[1] - due[0] == pace.every
