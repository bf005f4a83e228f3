"""The outbox: each delivery is claimed once, recorded under its lease and never lost."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.money import ledger
from meetcore.domain.webhooks.deliveries import HELD_FOR, Attempt, Delivery, DeliveryStatus, hold
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES, EndpointState, pause
from meetcore.domain.webhooks.views import Claimed, ClaimedView, GivenUp, GiveUpReason, Recorded
from meetcore.usecases.webhooks.deliver import JudgedAttempts
from tests.support.outbox import AT_ONCE, BAD, GOOD, SCHEDULE, claim, outbox, record, record_batch, sweep
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import (
    AT,
    KIND,
    Customer,
    append_one,
    new_event,
    new_id,
    save_endpoint,
    top_up,
)

pytestmark = pytest.mark.spec("3/disable-at-20", "6/5")


async def _look(rig: PostgresRig, claimed: Claimed, token: UUID) -> ClaimedView | None:
    async with rig.store.begin() as tx:
        found = await tx.deliveries.load_claimed([evolve(claimed, token=token)])
        return found[0] if found else None


async def _rewrite(rig: PostgresRig, claimed: Claimed, token: UUID, **fields: Any) -> Delivery:
    """Put a claimed delivery into a state of the test's own."""
    async with rig.store.begin() as tx:
        (view,) = await tx.deliveries.load_claimed([evolve(claimed, token=token)])
        delivery = evolve(view.delivery, **fields)
        await tx.deliveries.save_attempts([Recorded(delivery, BAD)], [view.endpoint], [])
        return delivery


async def _only(rig: PostgresRig, customer: Customer) -> Delivery:
    (delivery,) = (await rig.deliveries(customer.account_id)).values()
    return delivery


async def test_an_expired_claim_is_due_again_and_its_owner_is_too_late(rig: PostgresRig) -> None:
    customer, _ = await outbox(rig)
    ((lost,), old) = await claim(rig, seconds=-1)
    ((again,), new) = await claim(rig)
    assert again.had_expired_lease
    assert evolve(again, token=lost.token, had_expired_lease=False) == lost
    assert await _look(rig, lost, old.token) is None
    assert not await record(rig, lost, old.token, GOOD)
    assert await record(rig, again, new.token, GOOD)
    assert (await _only(rig, customer)).status is DeliveryStatus.SUCCEEDED


async def test_the_limit_takes_the_longest_due_first(rig: PostgresRig) -> None:
    await outbox(rig, 5)
    found, lease = await claim(rig)
    for age, claimed in enumerate(found, start=1):
        due = rig.now() - timedelta(minutes=age)
        await _rewrite(rig, claimed, lease.token, next_attempt_at=due)
    oldest = [claimed.delivery_id for claimed in reversed(found)]
    assert [claimed.delivery_id for claimed in (await claim(rig, limit=2))[0]] == oldest[:2]
    assert [claimed.delivery_id for claimed in (await claim(rig))[0]] == oldest[2:]


async def test_a_claim_is_loaded_by_its_owner_only(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig)
    ((claimed,), lease) = await claim(rig)
    assert await _look(rig, claimed, new_id()) is None
    assert await _look(rig, evolve(claimed, account_id=new_id()), lease.token) is None
    view = await _look(rig, claimed, lease.token)
    assert view is not None
    assert view.endpoint == evolve(endpoint, secret=None)
    assert view.delivery == await _only(rig, customer)
    assert abs((view.now - rig.now()).total_seconds()) < 60


async def test_an_attempt_is_recorded_once_and_ends_the_claim(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig, consecutive_failures=3)
    ((claimed,), lease) = await claim(rig)
    assert await record(rig, claimed, lease.token, GOOD)
    assert not await record(rig, claimed, lease.token, GOOD)
    delivery = await _only(rig, customer)
    assert (delivery.status, delivery.attempts_made) == (DeliveryStatus.SUCCEEDED, 1)
    assert await rig.attempts(customer.account_id) == [1]
    stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
    assert stored == evolve(endpoint, consecutive_failures=0)
    assert (await claim(rig))[0] == []


async def test_a_post_in_flight_while_its_endpoint_is_paused_still_counts(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig)
    ((claimed,), lease) = await claim(rig)
    await save_endpoint(rig, pause(endpoint))
    assert (await _only(rig, customer)).status is DeliveryStatus.PENDING
    assert await record(rig, claimed, lease.token, GOOD)
    assert (await _only(rig, customer)).status is DeliveryStatus.SUCCEEDED
    stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
    assert stored == pause(endpoint)


async def test_a_post_in_flight_that_fails_after_its_endpoint_was_paused_is_held(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig)
    ((claimed,), lease) = await claim(rig)
    await save_endpoint(rig, pause(endpoint))
    assert await record(rig, claimed, lease.token, BAD)
    assert (await _only(rig, customer)).status is DeliveryStatus.HELD


async def test_a_post_whose_claim_expired_before_its_endpoint_was_paused_is_not_recorded(
    rig: PostgresRig,
) -> None:
    customer, endpoint = await outbox(rig)
    ((claimed,), lease) = await claim(rig, seconds=-1)
    await save_endpoint(rig, pause(endpoint))
    assert not await record(rig, claimed, lease.token, GOOD)
    assert (await _only(rig, customer)).status is DeliveryStatus.HELD
    assert await rig.attempts(customer.account_id) == []


async def test_the_sweep_releases_what_an_active_endpoint_holds(rig: PostgresRig) -> None:
    customer, _ = await outbox(rig)
    ((claimed,), lease) = await claim(rig)
    held = hold(await _only(rig, customer), rig.now())
    await _rewrite(rig, claimed, lease.token, status=held.status, held_at=held.held_at, next_attempt_at=None)
    assert await sweep(rig) == 1
    assert len((await claim(rig))[0]) == 1
    assert await sweep(rig) == 0


@pytest.mark.parametrize("is_paused", [True, False])
async def test_the_sweep_gives_up_what_was_held_for_too_long(rig: PostgresRig, is_paused: bool) -> None:
    customer, endpoint = await outbox(rig)
    ((claimed,), lease) = await claim(rig)
    if is_paused:
        await save_endpoint(rig, pause(endpoint))
    since = rig.now() - HELD_FOR - timedelta(seconds=1)
    held = {"status": DeliveryStatus.HELD, "held_at": since, "next_attempt_at": None}
    await _rewrite(rig, claimed, lease.token, **held)
    swept = await rig.alone.deliveries.sweep(AT_ONCE)
    given_up = GivenUp(
        customer.account_id, claimed.delivery_id, endpoint.id, claimed.event_id,
        GiveUpReason.HELD_TOO_LONG,
    )  # fmt: skip
    assert (swept.due, list(swept.given_up)) == (0, [given_up])
    assert await sweep(rig) == 0
    delivery = await _only(rig, customer)
    assert (delivery.status, delivery.held_at) == (DeliveryStatus.EXPIRED, None)


async def test_eight_workers_take_each_delivery_exactly_once(rig: PostgresRig) -> None:
    customer, _ = await outbox(rig, 40)

    async def work() -> list[UUID]:
        claimed_ids: list[UUID] = []
        while found := (await claim(rig, limit=3))[0]:
            claimed_ids += [claimed.delivery_id for claimed in found]
        return claimed_ids

    taken = [id_ for claimed_ids in await asyncio.gather(*(work() for _ in range(8))) for id_ in claimed_ids]
    left = [claimed.delivery_id for claimed in (await claim(rig))[0]]
    assert sorted(taken + left) == sorted(await rig.deliveries(customer.account_id))


async def test_two_attempts_racing_over_the_threshold_disable_once(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig, 2, consecutive_failures=DISABLE_AFTER_FAILURES - 2)
    await top_up(rig, customer, 5, "third", KIND)
    found, lease = await claim(rig)
    outcomes = await asyncio.gather(*(record(rig, one, lease.token, BAD) for one in found))
    assert outcomes == [True] * 3
    stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
    assert stored is not None
    assert (stored.state, stored.consecutive_failures) == (EndpointState.DISABLED, DISABLE_AFTER_FAILURES)
    assert stored.disabled_at is not None
    deliveries = (await rig.deliveries(customer.account_id)).values()
    assert [one.status for one in deliveries] == [DeliveryStatus.HELD] * 3
    assert await rig.attempts(customer.account_id) == [1, 1, 1]


async def test_one_claim_recorded_by_two_counts_once(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig)
    ((claimed,), lease) = await claim(rig)
    outcomes = await asyncio.gather(*(record(rig, claimed, lease.token, BAD) for _ in range(2)))
    assert sorted(outcomes) == [False, True]
    stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
    assert stored == evolve(endpoint, consecutive_failures=1)


@pytest.mark.parametrize(("late", "valid"), [(BAD, GOOD), (GOOD, BAD), (BAD, BAD)])
async def test_a_lost_claim_counts_for_nothing_in_a_batch_with_the_one_after_it(
    rig: PostgresRig, late: Attempt, valid: Attempt
) -> None:
    customer, endpoint = await outbox(rig)
    ((lost,), _) = await claim(rig, seconds=-1)
    ((again,), _) = await claim(rig)
    assert await record_batch(rig, [lost, again, lost], [late, valid, late])
    delivery = await _only(rig, customer)
    assert delivery.status is (DeliveryStatus.SUCCEEDED if valid is GOOD else DeliveryStatus.PENDING)
    assert await rig.attempts(customer.account_id) == [1]
    stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
    assert stored == evolve(endpoint, consecutive_failures=int(valid is BAD))


async def test_the_next_claim_holds_what_an_event_left_waiting_at_an_endpoint_that_was_being_disabled(
    rig: PostgresRig,
):
    """The event saw the endpoint active, the attempt did not see the event's delivery."""
    customer, _ = await outbox(rig, 1, consecutive_failures=DISABLE_AFTER_FAILURES - 1)
    ((claimed,), lease) = await claim(rig)
    async with rig.store.begin() as tx:
        view = await tx.postings.load_locked(customer.account_id, [])
        posting = ledger.top_up(view.funds, new_id(), "x", 5, AT)
        assert await append_one(tx, view.funds, posting, new_event(customer)) == 1
        assert await record(rig, claimed, lease.token, BAD)
    waiting = [one.status for one in (await rig.deliveries(customer.account_id)).values()]
    assert sorted(waiting) == [DeliveryStatus.HELD, DeliveryStatus.PENDING]
    assert (await claim(rig))[0] == []
    found = (await rig.deliveries(customer.account_id)).values()
    assert [one.status for one in found] == [DeliveryStatus.HELD] * 2


async def test_a_claim_that_was_taken_again_while_its_record_waited_for_the_endpoint_is_lost(
    rig: PostgresRig,
):
    customer, endpoint = await outbox(rig)
    ((claimed,), lease) = await claim(rig)
    async with rig.store.begin() as tx:
        await tx.endpoints.load_locked(customer.account_id, endpoint.id)
        recording = asyncio.create_task(record(rig, claimed, lease.token, BAD))
        await rig.until_lock_contended()
        await rig.tamper_with(
            "UPDATE deliveries SET lease_token = %(token)s WHERE id = %(id)s",
            token=new_id(), id=claimed.delivery_id,
        )  # fmt: skip
    assert not await recording
    assert await rig.attempts(customer.account_id) == []
    assert await rig.queries.find_endpoint(customer.account_id, endpoint.id) == endpoint


async def test_no_attempt_is_kept_of_a_delivery_that_is_erased_while_it_is_recorded(rig: PostgresRig):
    customer, _ = await outbox(rig)
    found, _ = await claim(rig)
    async with rig.store.begin() as tx:
        judged = JudgedAttempts(await tx.deliveries.load_claimed(found), SCHEDULE)
        judged.add(found[0], GOOD, 0.5)
        await rig.tamper_with("DELETE FROM deliveries WHERE id = %(id)s", id=found[0].delivery_id)
        await tx.deliveries.save_attempts(judged.recorded, judged.endpoints, judged.hosts)
    assert await rig.deliveries(customer.account_id) == {}
    assert await rig.rows("SELECT FROM delivery_attempts") == []
