"""The outbox in a store: each delivery is claimed once, recorded under its lease and never lost."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.money import ledger
from meetcore.domain.webhooks.deliveries import HELD_FOR, Delivery, DeliveryStatus, hold
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES, EndpointState, pause
from meetcore.ports.deliveries import Claimed, ClaimedView, GivenUp, GiveUpReason, Recorded
from meetcore.testing.contracts.appending import append_one
from meetcore.testing.contracts.host_failures import HostFailuresContract
from meetcore.testing.contracts.outbox import AT_ONCE, BAD, GOOD, claim, outbox, record, record_all, sweep
from meetcore.testing.contracts.recovery import RecoveryContract
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import (
    AT,
    KIND,
    Customer,
    new_event,
    new_id,
    save_endpoint,
    top_up,
)


async def _look(rig: StoreRig, claimed: Claimed, token: UUID) -> ClaimedView | None:
    async with rig.store.begin() as tx:
        found = await tx.deliveries.load_claimed([evolve(claimed, token=token)])
        return found[0] if found else None


async def _rewrite(rig: StoreRig, claimed: Claimed, token: UUID, **fields: Any) -> Delivery:
    """Put a claimed delivery into a state of the test's own."""
    async with rig.store.begin() as tx:
        (view,) = await tx.deliveries.load_claimed([evolve(claimed, token=token)])
        delivery = evolve(view.delivery, **fields)
        await tx.deliveries.save_attempts([Recorded(delivery, BAD)], [view.endpoint], [])
        return delivery


async def _only(rig: StoreRig, customer: Customer) -> Delivery:
    (delivery,) = (await rig.deliveries(customer.account_id)).values()
    return delivery


@pytest.mark.asyncio
class DeliveryRepositoryContract(HostFailuresContract, RecoveryContract):
    """What `ports.deliveries.DeliveryRepository` promises."""

    async def test_a_claim_returns_the_target_and_the_event(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig, 0)
        event = new_event(customer, title="Rapat ✓")
        async with rig.store.begin() as tx:
            view = await tx.postings.load_locked(customer.account_id, [])
            posting = ledger.top_up(view.funds, new_id(), "x", 5, AT)
            assert await append_one(tx, view.funds, posting, event) == 1
        ((claimed,), _) = await claim(rig)
        assert (claimed.account_id, claimed.event_id, claimed.event_kind) == (
            customer.account_id,
            event.id,
            KIND.value,
        )
        assert (claimed.url, claimed.secret) == (endpoint.url, endpoint.secret)
        assert "Rapat ✓" in claimed.body.decode()

    async def test_a_claim_returns_the_cause_of_the_event(self, rig: StoreRig) -> None:
        customer, _ = await outbox(rig, 0)
        causes = ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None]
        for number, cause in enumerate(causes):
            await top_up(rig, customer, 5, f"INV-{number}", KIND, cause=cause)
        claimed, _ = await claim(rig)
        assert {one.cause for one in claimed} == set(causes)

    async def test_a_claimed_delivery_is_not_claimed_again_during_the_lease(self, rig: StoreRig) -> None:
        await outbox(rig, 2)
        found, _ = await claim(rig)
        assert len(found) == 2
        assert (await claim(rig))[0] == []

    async def test_an_expired_claim_is_due_again_and_its_owner_is_too_late(self, rig: StoreRig) -> None:
        customer, _ = await outbox(rig)
        ((lost,), old) = await claim(rig, seconds=-1)
        ((again,), new) = await claim(rig)
        assert again.had_expired_lease
        assert evolve(again, token=lost.token, had_expired_lease=False) == lost
        assert await _look(rig, lost, old.token) is None
        assert not await record(rig, lost, old.token, GOOD)
        assert await record(rig, again, new.token, GOOD)
        assert (await _only(rig, customer)).status is DeliveryStatus.SUCCEEDED

    async def test_the_limit_takes_the_longest_due_first(self, rig: StoreRig) -> None:
        await outbox(rig, 5)
        found, lease = await claim(rig)
        for age, claimed in enumerate(found, start=1):
            due = rig.now() - timedelta(minutes=age)
            await _rewrite(rig, claimed, lease.token, next_attempt_at=due)
        oldest = [claimed.delivery_id for claimed in reversed(found)]
        assert [claimed.delivery_id for claimed in (await claim(rig, limit=2))[0]] == oldest[:2]
        assert [claimed.delivery_id for claimed in (await claim(rig))[0]] == oldest[2:]

    async def test_a_claim_is_loaded_by_its_owner_only(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        ((claimed,), lease) = await claim(rig)
        assert await _look(rig, claimed, new_id()) is None
        assert await _look(rig, evolve(claimed, account_id=new_id()), lease.token) is None
        view = await _look(rig, claimed, lease.token)
        assert view is not None
        assert view.endpoint == evolve(endpoint, secret=None)
        assert view.delivery == await _only(rig, customer)
        assert abs((view.now - rig.now()).total_seconds()) < 60

    async def test_an_attempt_is_recorded_once_and_ends_the_claim(self, rig: StoreRig) -> None:
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

    async def test_a_failure_makes_it_due_later(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        ((claimed,), lease) = await claim(rig)
        assert await record(rig, claimed, lease.token, BAD)
        delivery = await _only(rig, customer)
        assert delivery.next_attempt_at is not None
        assert delivery.next_attempt_at > rig.now()
        stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
        assert stored == evolve(endpoint, consecutive_failures=1)

    async def test_the_twentieth_failure_holds_what_else_waits(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig, 3, consecutive_failures=DISABLE_AFTER_FAILURES - 1)
        ((claimed,), lease) = await claim(rig, limit=1)
        assert await record(rig, claimed, lease.token, BAD)
        stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
        assert stored is not None
        assert (stored.state, stored.consecutive_failures) == (EndpointState.DISABLED, DISABLE_AFTER_FAILURES)
        found = (await rig.deliveries(customer.account_id)).values()
        assert [one.status for one in found] == [DeliveryStatus.HELD] * 3
        assert all(one.held_at is not None and one.next_attempt_at is None for one in found)
        assert (await claim(rig))[0] == []

    async def test_a_post_in_flight_while_its_endpoint_is_paused_still_counts(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        ((claimed,), lease) = await claim(rig)
        await save_endpoint(rig, pause(endpoint))
        assert (await _only(rig, customer)).status is DeliveryStatus.PENDING
        assert await record(rig, claimed, lease.token, GOOD)
        assert (await _only(rig, customer)).status is DeliveryStatus.SUCCEEDED
        stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
        assert stored == pause(endpoint)

    async def test_a_post_in_flight_that_fails_after_its_endpoint_was_paused_is_held(
        self, rig: StoreRig
    ) -> None:
        customer, endpoint = await outbox(rig)
        ((claimed,), lease) = await claim(rig)
        await save_endpoint(rig, pause(endpoint))
        assert await record(rig, claimed, lease.token, BAD)
        assert (await _only(rig, customer)).status is DeliveryStatus.HELD

    async def test_the_sweep_releases_what_an_active_endpoint_holds(self, rig: StoreRig) -> None:
        customer, _ = await outbox(rig)
        ((claimed,), lease) = await claim(rig)
        held = hold(await _only(rig, customer), rig.now())
        await _rewrite(
            rig, claimed, lease.token, status=held.status, held_at=held.held_at, next_attempt_at=None
        )
        assert await sweep(rig) == 1
        assert len((await claim(rig))[0]) == 1
        assert await sweep(rig) == 0

    async def test_the_sweep_leaves_what_a_paused_endpoint_holds(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        await save_endpoint(rig, pause(endpoint))
        assert await sweep(rig) == 0
        assert (await _only(rig, customer)).status is DeliveryStatus.HELD

    @pytest.mark.parametrize("is_paused", [True, False])
    async def test_the_sweep_gives_up_what_was_held_for_too_long(
        self, rig: StoreRig, is_paused: bool
    ) -> None:
        customer, endpoint = await outbox(rig)
        ((claimed,), lease) = await claim(rig)
        if is_paused:
            await save_endpoint(rig, pause(endpoint))
        since = rig.now() - HELD_FOR - timedelta(seconds=1)
        held = {"status": DeliveryStatus.HELD, "held_at": since, "next_attempt_at": None}
        await _rewrite(rig, claimed, lease.token, **held)
        async with rig.store.begin() as tx:
            swept = await tx.deliveries.sweep(AT_ONCE)
        given_up = GivenUp(
            customer.account_id, claimed.delivery_id, endpoint.id, claimed.event_id,
            GiveUpReason.HELD_TOO_LONG,
        )  # fmt: skip
        assert (swept.due, list(swept.given_up)) == (0, [given_up])
        assert await sweep(rig) == 0
        delivery = await _only(rig, customer)
        assert (delivery.status, delivery.held_at) == (DeliveryStatus.EXPIRED, None)

    async def test_eight_workers_take_each_delivery_exactly_once(self, rig: StoreRig) -> None:
        customer, _ = await outbox(rig, 40)

        async def work() -> list[UUID]:
            claimed_ids: list[UUID] = []
            while found := (await claim(rig, limit=3))[0]:
                claimed_ids += [claimed.delivery_id for claimed in found]
            return claimed_ids

        taken = [
            id_ for claimed_ids in await asyncio.gather(*(work() for _ in range(8))) for id_ in claimed_ids
        ]
        left = [claimed.delivery_id for claimed in (await claim(rig))[0]]
        assert sorted(taken + left) == sorted(await rig.deliveries(customer.account_id))

    async def test_two_attempts_racing_over_the_threshold_disable_once(self, rig: StoreRig) -> None:
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

    async def test_one_claim_recorded_by_two_counts_once(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig)
        ((claimed,), lease) = await claim(rig)
        outcomes = await asyncio.gather(*(record(rig, claimed, lease.token, BAD) for _ in range(2)))
        assert sorted(outcomes) == [False, True]
        stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
        assert stored == evolve(endpoint, consecutive_failures=1)

    async def test_failures_of_one_batch_disable_at_the_twentieth(self, rig: StoreRig) -> None:
        customer, endpoint = await outbox(rig, 4, consecutive_failures=DISABLE_AFTER_FAILURES - 2)
        found, _ = await claim(rig)
        assert await record_all(rig, found, BAD) == 0
        stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
        assert stored is not None
        assert (stored.state, stored.consecutive_failures) == (EndpointState.DISABLED, DISABLE_AFTER_FAILURES)
        deliveries = (await rig.deliveries(customer.account_id)).values()
        assert [one.status for one in deliveries] == [DeliveryStatus.HELD] * 4

    async def test_a_batch_over_many_accounts_is_recorded_whole(self, rig: StoreRig) -> None:
        customers = [(await outbox(rig, 2))[0] for _ in range(3)]
        found, _ = await claim(rig)
        assert len(found) == 6
        assert await record_all(rig, found, GOOD) == 0
        for customer in customers:
            deliveries = (await rig.deliveries(customer.account_id)).values()
            assert [one.status for one in deliveries] == [DeliveryStatus.SUCCEEDED] * 2
            assert await rig.attempts(customer.account_id) == [1, 1]
