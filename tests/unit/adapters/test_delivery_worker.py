"""The delivery worker under faults: an unavailable store, lack of resources, an invalid delivery."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast
from uuid import UUID

import pytest
from attrs import define, field

from meetcore.adapters.memory.deliveries import MemoryDeliveryRepository
from meetcore.adapters.worker.delivery_worker import DeliveryWorker
from meetcore.domain.webhooks.deliveries import Attempt, DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.signature import new_secret
from meetcore.ports.deliveries import Recorded, RecordedHost, Saved
from meetcore.ports.store import Store, StoreUnavailable, Transaction
from meetcore.ports.webhook_sender import OutgoingPost, SenderExhausted
from meetcore.testing.clock import SeededEntropy
from meetcore.testing.contracts.outbox import outbox
from meetcore.testing.memory_rig import MemoryRig
from meetcore.usecases.deliver_webhooks import DeliverWebhooks
from meetcore.usecases.periodic_task import PeriodicTask
from meetcore.usecases.runtime import Runtime
from tests.unit.testing.broken_store import BrokenStore

TIMEOUT_S = 10.0
SECRET = new_secret(bytes(32))


@define
class FlakyStore:
    """A store that can be taken away."""

    store: Store
    is_unavailable: bool = False
    refused: int = 0

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        if self.is_unavailable:
            self.refused += 1
            raise StoreUnavailable("away")
        async with self.store.begin() as tx:
            yield tx


@define
class ScriptedSender:
    """Answers 200, after an action of the test."""

    rig: MemoryRig
    before: Callable[[int], None] = lambda number: None
    posts: list[OutgoingPost] = field(factory=list)

    async def post(self, post: OutgoingPost) -> Attempt:
        self.posts.append(post)
        self.before(len(self.posts))
        return Attempt(self.rig.now(), 3, 200)


@asynccontextmanager
async def pumping(
    rig: MemoryRig,
    store: object,
    sender: object,
    backoff_s: float = 1.0,
    periodic_tasks: Sequence[PeriodicTask] = (),
) -> AsyncIterator[DeliveryWorker]:
    runtime = Runtime(rig.clock, SeededEntropy(5))
    deliver = DeliverWebhooks(cast(Store, store), cast(Any, sender), RetrySchedule(), runtime)
    worker = DeliveryWorker(
        deliver,
        [PeriodicTask("sweep", deliver.sweep, 0.05), *periodic_tasks],
        round_s=0.01,
        backoff_s=backoff_s,
    )
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(running, TIMEOUT_S)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110  # it waits for a state of the store, which does not notify
            await asyncio.sleep(0.005)


def statuses(rig: MemoryRig) -> list[DeliveryStatus]:
    return [stored.delivery.status for stored in rig.state.committed.deliveries.values()]


async def test_posts_during_a_store_outage_are_recorded_when_it_is_back() -> None:
    rig = MemoryRig()
    await outbox(rig, 3, secret=SECRET)
    store = FlakyStore(rig.store)

    def leave(number: int) -> None:
        store.is_unavailable = True

    sender = ScriptedSender(rig, leave)
    async with pumping(rig, store, sender):
        await until(lambda: store.refused > 5)
        assert statuses(rig) == [DeliveryStatus.PENDING] * 3
        store.is_unavailable = False
        await until(lambda: statuses(rig) == [DeliveryStatus.SUCCEEDED] * 3)
    assert len(sender.posts) == 3


async def test_an_outcome_with_an_expired_claim_is_not_kept_for_ever() -> None:
    rig = MemoryRig()
    await outbox(rig, 1, secret=SECRET)
    store = FlakyStore(rig.store)

    def leave(number: int) -> None:
        store.is_unavailable = number == 1

    sender = ScriptedSender(rig, leave)
    async with pumping(rig, store, sender):
        await until(lambda: store.refused > 2)
        rig.clock.advance(31)
        refused = store.refused
        await until(lambda: store.refused > refused + 2)
        store.is_unavailable = False
        await until(lambda: statuses(rig) == [DeliveryStatus.SUCCEEDED])
    assert len(sender.posts) == 2, "it was due again, and posted again"


async def test_a_machine_short_of_resources_records_nothing_and_resumes_after_a_backoff() -> None:
    rig = MemoryRig()
    customer, endpoint = await outbox(rig, 2, secret=SECRET)

    def run_short(number: int) -> None:
        if number == 1:
            raise SenderExhausted("no sockets")

    sender = ScriptedSender(rig, run_short)
    async with pumping(rig, rig.store, sender, backoff_s=0.02):
        await until(lambda: DeliveryStatus.SUCCEEDED in statuses(rig))
        stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
        assert stored is not None
        assert stored.consecutive_failures == 0
        assert len(rig.state.committed.attempts) == 1
        rig.clock.advance(31)
        await until(lambda: statuses(rig) == [DeliveryStatus.SUCCEEDED] * 2)


class _Poisoned(MemoryDeliveryRepository):
    """Fails to write one of the deliveries."""

    async def save_attempts(
        self, recorded: Sequence[Recorded], endpoints: Sequence[Endpoint], hosts: Sequence[RecordedHost],
        recovered: Collection[UUID] = (),
    ) -> Saved:  # fmt: skip
        first = min(self._tables.deliveries)
        if any((one.delivery.account_id, one.delivery.id) == first for one in recorded):
            raise ValueError("does not fit")
        return await super().save_attempts(recorded, endpoints, hosts, recovered)


@pytest.mark.filterwarnings("ignore")
async def test_one_delivery_that_cannot_be_recorded_affects_no_other_of_its_batch() -> None:
    rig = MemoryRig()
    await outbox(rig, 5, secret=SECRET)
    async with pumping(rig, BrokenStore(rig, "deliveries", _Poisoned), ScriptedSender(rig)):
        await until(lambda: statuses(rig).count(DeliveryStatus.SUCCEEDED) == 4)


async def test_stopping_records_deliveries_in_flight() -> None:
    rig = MemoryRig()
    await outbox(rig, 4, secret=SECRET)
    going = asyncio.Event()

    @define
    class Slow(ScriptedSender):
        async def post(self, post: OutgoingPost) -> Attempt:
            attempt = await super().post(post)
            await going.wait()
            return attempt

    sender = Slow(rig)
    async with pumping(rig, rig.store, sender) as worker:
        await until(lambda: len(sender.posts) == 4)
        worker.stop()
        going.set()
    assert statuses(rig) == [DeliveryStatus.SUCCEEDED] * 4


async def test_a_hanging_task_delays_no_other_and_no_delivery() -> None:
    rig = MemoryRig()
    await outbox(rig, 2, secret=SECRET)
    done: list[str] = []

    async def hang() -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        done.append("work")

    periodic_tasks = [PeriodicTask("hangs", hang, 0.01), PeriodicTask("works", work, 0.01)]
    async with pumping(rig, rig.store, ScriptedSender(rig), periodic_tasks=periodic_tasks):
        await until(lambda: len(done) > 2 and statuses(rig) == [DeliveryStatus.SUCCEEDED] * 2)


async def test_only_tasks_that_run_on_notify_run_on_a_notification() -> None:
    rig = MemoryRig()
    done: list[str] = []

    def task(name: str, *, runs_on_notify: bool) -> PeriodicTask:
        async def work() -> None:
            done.append(name)

        return PeriodicTask(name, work, 3600.0, runs_on_notify)

    periodic_tasks = [task("quiet", runs_on_notify=False), task("rung", runs_on_notify=True)]
    async with pumping(rig, rig.store, ScriptedSender(rig), periodic_tasks=periodic_tasks) as worker:
        await until(lambda: sorted(done) == ["quiet", "rung"])
        worker.wake()
        await until(lambda: done.count("rung") == 2)
        worker.wake()
        await until(lambda: done.count("rung") == 3)
    assert done.count("quiet") == 1


async def test_a_notification_during_a_task_is_handled() -> None:
    rig = MemoryRig()
    begun: list[int] = []
    going = asyncio.Event()

    async def work() -> None:
        begun.append(len(begun))
        await going.wait()

    async with pumping(
        rig,
        rig.store,
        ScriptedSender(rig),
        periodic_tasks=[PeriodicTask("slow", work, 3600.0, runs_on_notify=True)],
    ) as worker:
        await until(lambda: len(begun) == 1)
        worker.wake()
        going.set()
        await until(lambda: len(begun) == 2)


async def test_a_task_that_leaves_work_due_runs_again_at_once_until_none_is_due() -> None:
    rig = MemoryRig()
    left = [True, True, False]

    async def work() -> bool:
        return left.pop(0)

    async with pumping(
        rig,
        rig.store,
        ScriptedSender(rig),
        periodic_tasks=[PeriodicTask("drains", work, 3600.0, runs_on_notify=True)],
    ):
        await until(lambda: not left)


@pytest.mark.filterwarnings("ignore")
async def test_a_task_with_a_fault_runs_again() -> None:
    rig = MemoryRig()
    tries: list[int] = []

    async def work() -> None:
        tries.append(len(tries))
        raise StoreUnavailable("away") if len(tries) == 1 else ValueError("a fault")

    async with pumping(
        rig, rig.store, ScriptedSender(rig), periodic_tasks=[PeriodicTask("faulty", work, 0.01)]
    ):
        await until(lambda: len(tries) > 2)
