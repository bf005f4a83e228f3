"""Limits of claims: bounded at one endpoint and host, fair among accounts, paced after a pause."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest
from attrs import evolve

from meetcore.domain.webhooks.deliveries import DeliveryStatus, ReleasePace
from meetcore.domain.webhooks.endpoints import Endpoint, pause, resume
from meetcore.domain.webhooks.views import Claimed
from tests.support.outbox import (
    BAD,
    GOOD,
    claim,
    outbox,
    post_test,
    record_all,
    redeliver,
    release,
    sweep,
)
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import KIND, Customer, new_endpoint, new_id, register, save_endpoint, top_up

pytestmark = pytest.mark.spec("6/5")


MAX_CLAIMS = 50
PACE = ReleasePace(4, timedelta(seconds=30))
PENDING, HELD = DeliveryStatus.PENDING, DeliveryStatus.HELD


async def _claim_bounded(
    rig: PostgresRig, limit: int, claims: int = MAX_CLAIMS, **bounds: int
) -> list[Claimed]:
    """Return what one worker gets in so many claims, recording nothing."""
    return [one for _ in range(claims) for one in (await claim(rig, limit, **bounds))[0]]


def _of(customer: Customer, found: list[Claimed]) -> list[Claimed]:
    return [one for one in found if one.account_id == customer.account_id]


async def test_many_workers_together_keep_the_bound(rig: PostgresRig) -> None:
    await outbox(rig, 12)

    async def work() -> list[Claimed]:
        return await _claim_bounded(rig, 5, claims=6, per_endpoint=4)

    taken = [one for share in await asyncio.gather(*(work() for _ in range(6))) for one in share]
    taken += await _claim_bounded(rig, 5, per_endpoint=4)
    assert len({one.delivery_id for one in taken}) == len(taken) == 4


@pytest.mark.parametrize("is_good", [True, False])
async def test_each_recorded_post_makes_room_for_the_next(rig: PostgresRig, is_good: bool) -> None:
    customer, _ = await outbox(rig, 9)
    in_flight = await _claim_bounded(rig, 100, per_endpoint=2)
    taken = [one.delivery_id for one in in_flight]
    while in_flight:
        await record_all(rig, in_flight[:1], GOOD if is_good else BAD)
        more = await _claim_bounded(rig, 100, claims=3, per_endpoint=2)
        in_flight = in_flight[1:] + more
        taken += [one.delivery_id for one in more]
        assert len(in_flight) <= 2
    assert sorted(taken) == sorted(await rig.deliveries(customer.account_id))


async def test_an_endpoint_that_fails_gets_one_post_at_a_time_until_one_succeeds(rig: PostgresRig) -> None:
    customer, _ = await outbox(rig, 9)
    bounds = {"per_endpoint": 4, "per_failing": 1}
    before = await _claim_bounded(rig, 100, **bounds)
    assert len(before) == 4
    for failed in before:
        await record_all(rig, [failed], BAD)
    for attempt in (BAD, BAD, GOOD):
        [only] = await _claim_bounded(rig, 100, **bounds)
        due = await record_all(rig, [only], attempt)
        assert due == (2 if attempt == GOOD else 1), "all that waits there may be claimed at last"
    assert len(await _claim_bounded(rig, 100, **bounds)) == 2
    made = (await rig.deliveries(customer.account_id)).values()
    assert sum(each.attempts_made for each in made) == 7


async def _waiting(rig: PostgresRig, count: int) -> tuple[Endpoint, list[Claimed]]:
    """An endpoint whose first eight posts have failed, and what was posted; so many others are due."""
    _, endpoint = await outbox(rig, 8 + count)
    posted = await _claim_bounded(rig, 100, per_endpoint=8, per_failing=1)
    assert len(posted) == 8
    assert await record_all(rig, posted, BAD) == 0, "there is nothing to claim"
    return endpoint, posted


async def _end_wait(rig: PostgresRig) -> None:
    await rig.tamper_with("UPDATE webhook_endpoints SET next_post_at = statement_timestamp()")


async def test_an_endpoint_that_keeps_failing_waits_and_then_gets_one_post(rig: PostgresRig) -> None:
    endpoint, _ = await _waiting(rig, 4)

    async def work() -> list[Claimed]:
        await sweep(rig)
        return await _claim_bounded(rig, 5, claims=3, per_endpoint=8, per_failing=1)

    async def all_work() -> list[Claimed]:
        return [one for share in await asyncio.gather(*(work() for _ in range(4))) for one in share]

    assert await all_work() == []
    await _end_wait(rig)
    [probe] = await all_work()
    assert await record_all(rig, [probe], BAD) == 0
    assert await all_work() == [], "it waits again"
    await _end_wait(rig)
    assert await record_all(rig, await all_work(), GOOD) == 2, "what is left is released at once"
    waiting = await rig.rows("SELECT next_post_at FROM webhook_endpoints WHERE id = %(id)s", id=endpoint.id)
    assert [row["next_post_at"] for row in waiting] == [None]


@pytest.mark.parametrize("is_again", [True, False])
async def test_what_a_member_sends_does_not_wait(rig: PostgresRig, is_again: bool) -> None:
    endpoint, posted = await _waiting(rig, 2)
    sent = (
        await redeliver(rig, endpoint, posted[0].delivery_id) if is_again else await post_test(rig, endpoint)
    )
    assert sent is not None
    [claimed] = await _claim_bounded(rig, 100, per_endpoint=8, per_failing=1)
    assert claimed.delivery_id == sent.id


async def test_a_claim_that_is_never_recorded_does_not_block_an_endpoint_that_fails(rig: PostgresRig) -> None:
    await outbox(rig, 3, consecutive_failures=3)
    [stuck], _ = await claim(rig, seconds=-1, per_failing=1)
    again: list[Claimed] = []
    for _ in range(4):
        await sweep(rig)
        again += (await claim(rig, per_failing=1))[0]
    assert len(again) == 1
    assert again[0].delivery_id != stuck.delivery_id


async def test_what_waits_behind_comes_in_its_order(rig: PostgresRig) -> None:
    customer, _ = await outbox(rig, 7)
    order = sorted(await rig.deliveries(customer.account_id))
    taken = []
    while found := await _claim_bounded(rig, 100, claims=2, per_endpoint=1):
        taken += [one.delivery_id for one in found]
        await record_all(rig, found, GOOD)
    created = await rig.deliveries(customer.account_id)
    assert [created[id_].created_at for id_ in taken] == [created[id_].created_at for id_ in order]
    assert len(taken) == 7


async def test_the_account_with_the_least_in_flight_comes_first(rig: PostgresRig) -> None:
    busy, _ = await outbox(rig, 20)
    modest, _ = await outbox(rig, 2)
    found, _ = await claim(rig, 6)
    assert len(_of(modest, found)) == 2
    assert len(_of(busy, found)) == 4


async def test_no_account_has_more_than_its_bound_in_flight(rig: PostgresRig) -> None:
    busy, _ = await outbox(rig, 0)
    for _ in range(6):
        await register(rig, new_endpoint(busy))
    for number in range(3):
        await top_up(rig, busy, 5, f"many-{number}", KIND)
    other, _ = await outbox(rig, 1)
    found = await _claim_bounded(rig, 100, claims=5, per_endpoint=8, per_account=5)
    assert len(_of(busy, found)) == 5
    assert len(_of(other, found)) == 1


async def test_many_workers_together_keep_the_bound_of_a_host(rig: PostgresRig) -> None:
    for _ in range(4):
        await outbox(rig, 6)

    async def work() -> list[Claimed]:
        return await _claim_bounded(rig, 5, claims=6, per_host=6)

    taken = [one for share in await asyncio.gather(*(work() for _ in range(6))) for one in share]
    assert len({one.delivery_id for one in taken}) == len(taken) <= 6


async def test_one_account_has_at_most_half_of_the_places_at_a_host(rig: PostgresRig) -> None:
    busy, _ = await outbox(rig, 20)
    await register(rig, new_endpoint(busy))
    await top_up(rig, busy, 5, "one-more", KIND)
    assert len(await _claim_bounded(rig, 100, per_host=6)) == 3
    other, _ = await outbox(rig, 5)
    assert len(_of(other, await _claim_bounded(rig, 100, per_host=6))) == 3


async def test_what_a_host_has_no_room_for_is_due_later_and_has_had_no_attempt(rig: PostgresRig) -> None:
    customer, _ = await outbox(rig, 12)
    found, _ = await claim(rig, 100, per_host=4, per_host_per_s=1)
    assert len(found) == 1
    taken = {one.delivery_id for one in found}
    left = [one for id_, one in (await rig.deliveries(customer.account_id)).items() if id_ not in taken]
    assert {(one.status, one.attempts_made) for one in left} == {(PENDING, 0)}
    due = sorted(one.next_attempt_at for one in left if one.next_attempt_at is not None)
    assert len(due) == 11
    assert due[0] > rig.now() - timedelta(seconds=20)
    assert due[-1] - due[0] >= timedelta(seconds=5), "as far behind as there is before it"


async def test_deliveries_without_room_at_their_host_do_not_hide_others(rig: PostgresRig) -> None:
    for _ in range(8):
        await outbox(rig, 8)
    url = "https://elsewhere.example/"
    alone, _ = await outbox(rig, 1, url=url, url_key=url)
    found = await _claim_bounded(rig, 4, claims=1, per_host=2)
    assert len(_of(alone, found)) == 1
    assert len(found) == 3


async def test_a_lease_that_ran_out_takes_no_room_at_its_host(rig: PostgresRig) -> None:
    await outbox(rig, 2)
    await outbox(rig, 2)
    lost, _ = await claim(rig, seconds=-1, per_host=4)
    assert len(lost) == 4
    assert len(await _claim_bounded(rig, 100, per_host=4)) == 4


async def test_one_look_gets_past_a_backlog_that_has_no_room(rig: PostgresRig) -> None:
    busy, _ = await outbox(rig, 20)
    other, _ = await outbox(rig, 1)
    first = await _claim_bounded(rig, 1, claims=1, per_endpoint=1)
    assert len(_of(busy, first)) == 1
    assert len(_of(other, await _claim_bounded(rig, 1, claims=1, per_endpoint=1))) == 1


async def test_what_was_held_is_released_in_portions_one_by_one_the_oldest_first(rig: PostgresRig) -> None:
    customer, endpoint = await _held(rig, 9)
    assert await release(rig, endpoint, PACE) == PACE.portion
    stored = sorted((await rig.deliveries(customer.account_id)).values(), key=lambda one: one.id)
    assert [one.status for one in stored] == [PENDING] * PACE.portion + [HELD] * 5
    times = [one.next_attempt_at for one in stored if one.next_attempt_at is not None]
    assert all(later - earlier == PACE.every for earlier, later in pairwise(times))
    assert abs(times[0] - rig.now()) < timedelta(seconds=60)


async def test_the_sweep_releases_portion_after_portion(rig: PostgresRig) -> None:
    pace = ReleasePace(4, timedelta(0))
    await _held(rig, 9)
    assert [await sweep(rig, pace) for _ in range(4)] == [4, 4, 1, 0]
    assert len((await claim(rig))[0]) == 9


async def test_nothing_is_released_at_an_endpoint_that_is_paused_or_unknown(rig: PostgresRig) -> None:
    _, endpoint = await _held(rig, 2)
    await save_endpoint(rig, pause(endpoint))
    assert await release(rig, endpoint) == 0
    assert await release(rig, evolve(endpoint, account_id=new_id())) == 0


async def test_pausing_and_resuming_makes_no_room_beside_the_posts_in_flight(rig: PostgresRig) -> None:
    _, endpoint = await outbox(rig, 4)
    found = await _claim_bounded(rig, 100, per_endpoint=2)
    await save_endpoint(rig, pause(endpoint))
    await save_endpoint(rig, resume(pause(endpoint)))
    assert await release(rig, endpoint, ReleasePace(20, timedelta(0))) == 2
    assert await _claim_bounded(rig, 100, per_endpoint=2) == []
    await record_all(rig, found, GOOD)
    again = await _claim_bounded(rig, 100, per_endpoint=2)
    assert not {one.delivery_id for one in again} & {one.delivery_id for one in found}
    assert len(again) == 2


async def _held(rig: PostgresRig, count: int) -> tuple[Customer, Endpoint]:
    """An active endpoint that holds so many deliveries."""
    customer, endpoint = await outbox(rig, count)
    await save_endpoint(rig, pause(endpoint))
    await save_endpoint(rig, resume(pause(endpoint)))
    return customer, endpoint
