"""The delivery worker under faults: an unavailable store, lack of resources, an invalid delivery."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

import pytest
from attrs import define, evolve, field

from meetcore.adapters.postgres.webhooks.deliveries import PostgresDeliveryRepository
from meetcore.adapters.worker import workers
from meetcore.adapters.worker.workers import DeliveryWorker
from meetcore.domain.webhooks.deliveries import Attempt, DeliveryStatus
from meetcore.domain.webhooks.endpoints import Endpoint
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.sender_faults import FAULT_OVER, PUT_OFF, TRANSPORT_ERRORS, SenderFault
from meetcore.domain.webhooks.signature import new_secret
from meetcore.domain.webhooks.views import Claimed, ClaimLimits, Recorded, RecordedHost, Saved
from meetcore.ports.store import Store, StoreUnavailable, Transaction
from meetcore.ports.webhook_sender import OutgoingPost, PostDeferred, SenderFailed
from meetcore.testing.clock import SeededEntropy
from meetcore.usecases.runtime import PeriodicTask, Runtime
from meetcore.usecases.webhooks.deliver import DeliverWebhooks, PostResult
from tests.support.outbox import outbox
from tests.support.postgres_rig import PostgresRig, current_rig

TIMEOUT_S = 60.0
LEASED = "SELECT 1 FROM deliveries WHERE lease_token IS NOT NULL"
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

    rig: PostgresRig
    before: Callable[[int], None] = lambda number: None
    posts: list[OutgoingPost] = field(factory=list)

    async def post(self, post: OutgoingPost) -> Attempt:
        self.posts.append(post)
        self.before(len(self.posts))
        return Attempt(self.rig.now(), 3, 200)


@asynccontextmanager
async def pumping(
    rig: PostgresRig,
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
    async with at_work(worker):
        yield worker


@asynccontextmanager
async def at_work(worker: DeliveryWorker) -> AsyncIterator[None]:
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await asyncio.wait_for(running, TIMEOUT_S)


def repeating(rig: PostgresRig, *tasks: PeriodicTask) -> AbstractAsyncContextManager[DeliveryWorker]:
    """A worker with periodic tasks."""
    return pumping(rig, rig.store, ScriptedSender(rig), periodic_tasks=tasks)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110  # it waits for a state of the store, which does not notify
            await asyncio.sleep(0.005)


def statuses(rig: PostgresRig) -> list[DeliveryStatus]:
    return [DeliveryStatus(row["status"]) for row in rig.read("SELECT status FROM deliveries ORDER BY id")]


async def test_posts_during_a_store_outage_are_recorded_when_it_is_back(rig: PostgresRig) -> None:
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


async def test_an_outcome_with_an_expired_claim_is_not_kept_for_ever(rig: PostgresRig) -> None:
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


async def test_what_the_sender_cannot_post_is_put_off_and_counts_for_nothing(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig, 2, secret=SECRET)

    def run_short(number: int) -> None:
        if number == 1:
            raise SenderFailed(SenderFault.NO_RESOURCES, "no sockets")

    sender = ScriptedSender(rig, run_short)
    async with pumping(rig, rig.store, sender, backoff_s=0.02):
        await until(lambda: DeliveryStatus.SUCCEEDED in statuses(rig))
        stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
        assert stored is not None
        assert stored.consecutive_failures == 0
        assert rig.read("SELECT sum(attempts_made) FROM deliveries") == [{"sum": 1}]
        columns = "due_at, lease_token, lease_host"
        (waiting,) = rig.read(f"SELECT {columns} FROM deliveries WHERE status = 'pending'")
        assert (waiting["lease_token"], waiting["lease_host"]) == (None, None)
        assert PUT_OFF <= waiting["due_at"] - rig.now() <= 1.5 * PUT_OFF
        rig.clock.advance(16)
        await until(lambda: statuses(rig) == [DeliveryStatus.SUCCEEDED] * 2)


async def test_a_post_that_was_not_tried_takes_no_place_until_its_lease_ends(rig: PostgresRig) -> None:
    customer, endpoint = await outbox(rig, 2, secret=SECRET)

    def defer(number: int) -> None:
        if number == 1:
            raise PostDeferred("look-ups of the account hang")

    sender = ScriptedSender(rig, defer)
    async with pumping(rig, rig.store, sender):
        await until(lambda: DeliveryStatus.SUCCEEDED in statuses(rig) and not rig.read(LEASED))
        (waiting,) = rig.read("SELECT due_at, attempts_made FROM deliveries WHERE status = 'pending'")
        assert PUT_OFF <= waiting["due_at"] - rig.now() <= 1.5 * PUT_OFF
        assert waiting["attempts_made"] == 0
        stored = await rig.queries.find_endpoint(customer.account_id, endpoint.id)
        assert stored is not None
        assert stored.consecutive_failures == 0
        rig.clock.advance(16)
        await until(lambda: statuses(rig) == [DeliveryStatus.SUCCEEDED] * 2)


@pytest.mark.parametrize("fault", [SenderFault.NO_RESOURCES, None])
async def test_a_lost_claim_puts_off_nothing_of_the_one_after_it(
    rig: PostgresRig, fault: SenderFault | None
) -> None:
    customer, _ = await outbox(rig, 1, secret=SECRET)
    runtime, reported = Runtime(rig.clock, SeededEntropy(5)), list[SenderFault]()
    deliver = DeliverWebhooks(
        rig.store, ScriptedSender(rig), RetrySchedule(), runtime, on_sender_fault=reported.append
    )
    (lost,) = await evolve(deliver, lease_s=-1).claim(1)
    (again,) = await deliver.claim(1)
    await deliver.record([PostResult(lost, runtime.now(), fault=fault), await deliver.post(again)])
    assert (statuses(rig), await rig.attempts(customer.account_id)) == ([DeliveryStatus.SUCCEEDED], [1])
    assert (deliver.sender_state.is_failing, deliver.sender_state.put_off_at, reported) == (False, set(), [])


async def test_an_endpoint_stays_known_as_put_off_until_its_success_is_committed(rig: PostgresRig) -> None:
    _, endpoint = await outbox(rig, 1, secret=SECRET)
    runtime = Runtime(rig.clock, SeededEntropy(5))

    class Store:
        @asynccontextmanager
        async def begin(self) -> AsyncIterator[Transaction]:
            async with rig.store.begin() as tx:
                yield tx
                raise StoreUnavailable("before the commit")

    deliver = DeliverWebhooks(rig.store, ScriptedSender(rig), RetrySchedule(), runtime)
    deliver.sender_state.put_off_at.add(endpoint.id)
    made = [await deliver.post(one) for one in await deliver.claim(100)]
    with pytest.raises(StoreUnavailable):
        await evolve(deliver, store=cast(Any, Store())).record(made)
    assert deliver.sender_state.put_off_at == {endpoint.id}
    await deliver.record(made)
    assert deliver.sender_state.put_off_at == set()


async def test_a_sender_at_fault_claims_a_few_and_reports_it_once(rig: PostgresRig) -> None:
    await outbox(rig, 60, secret=SECRET)
    broken, reported = [True], list[object]()

    def fail(number: int) -> None:
        if broken:
            raise SenderFailed(SenderFault.NO_RESOLVER, "no resolver")

    sender, claims, is_known = ScriptedSender(rig, fail), list[int](), asyncio.Event()

    class Counted(DeliverWebhooks):
        async def claim(self, limit: int) -> Sequence[Claimed]:
            if claims:
                await is_known.wait()
            claimed = await super().claim(limit)
            claims.append(len(claimed))
            return claimed

        async def record(self, made: Sequence[PostResult]) -> int:
            due = await super().record(made)
            is_known.set()
            return due

    deliver = Counted(
        rig.store, cast(Any, sender), RetrySchedule(), Runtime(rig.clock, SeededEntropy(5)),
        limits=ClaimLimits(1, 500, 500, 1000, 1000), on_expired_lease=reported.append,
        on_sender_fault=reported.append, on_sender_fault_over=lambda period: reported.append(period.put_off),
    )  # fmt: skip
    worker = DeliveryWorker(
        deliver,
        [PeriodicTask("sweep", deliver.sweep, 0.05)],
        max_in_flight=20,
        round_s=0.01,
        backoff_s=0.05,
        probes=2,
    )
    async with at_work(worker):
        await until(lambda: len([count for count in claims if count]) >= 4)
        assert claims[0] == 20
        assert all(count <= 2 for count in claims[2:]), "but for a claim while the first posts are recorded"
        broken.clear()
        await until(lambda: sum(claims) == len(sender.posts) and not rig.read(LEASED))  # all are put off
        rig.clock.advance(16)
        await until(lambda: statuses(rig) == [DeliveryStatus.SUCCEEDED] * 60)
        rig.clock.advance(FAULT_OVER.total_seconds())
        await until(lambda: len(reported) > 1)
    assert reported == [SenderFault.NO_RESOLVER, len(sender.posts) - 60]


async def test_a_worker_with_little_to_do_claims_at_once_after_a_fault_is_over(
    rig: PostgresRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await outbox(rig, 1, secret=SECRET)
    claims, waits = list[int](), list[int]()

    async def wait(*_: object) -> None:
        waits.append(len(claims))
        await asyncio.sleep(0.001)

    class Counted(DeliverWebhooks):
        async def claim(self, limit: int) -> Sequence[Claimed]:
            claims.append(limit)
            return await super().claim(limit)

    def fail(number: int) -> None:
        if number == 1:
            raise SenderFailed(SenderFault.NO_RESOURCES, "no sockets")

    monkeypatch.setattr(workers, "wait_at_most", wait)
    runtime = Runtime(rig.clock, SeededEntropy(5))
    deliver = Counted(rig.store, cast(Any, ScriptedSender(rig, fail)), RetrySchedule(), runtime)
    async with at_work(DeliveryWorker(deliver, [], round_s=0.01)):
        await until(lambda: len(waits) > 2)
        rig.clock.advance(16)
        await until(lambda: statuses(rig) == [DeliveryStatus.SUCCEEDED])
        over = len(claims)
        await until(lambda: len(claims) > over + 10)
    assert max(waits) <= over + 3


def failing_with(rig: PostgresRig, error: str, works_at: Collection[str] = ()) -> Any:
    class Sender(ScriptedSender):
        async def post(self, post: OutgoingPost) -> Attempt:
            self.posts.append(post)
            is_fine = post.url.host in works_at
            return Attempt(rig.now(), 3, 200) if is_fine else Attempt(rig.now(), 3, error=error)

    return Sender(rig)


async def counts_after_failures(rig: PostgresRig, sender: Any, *hosts: str) -> list[int]:
    """Post twice to an endpoint of an account of its own at each host; return the counts of failures."""
    found = []
    for url in [f"https://{host}/" for host in hosts]:
        customer, endpoint = await outbox(rig, 1, url=url, url_key=url, secret=SECRET)
        found.append((customer.account_id, endpoint.id))
    deliver = DeliverWebhooks(
        rig.store, sender, RetrySchedule((0,) * 5), Runtime(rig.clock, SeededEntropy(5))
    )
    for _ in range(2):
        for claimed in await deliver.claim(100):
            await deliver.record([await deliver.post(claimed)])
        rig.clock.advance(16)
    endpoints = [await rig.queries.find_endpoint(*names) for names in found]
    return [endpoint.consecutive_failures for endpoint in endpoints if endpoint is not None]


HOSTS = [f"{name}.example.com" for name in "abcdef"]


@pytest.mark.parametrize("error", sorted(TRANSPORT_ERRORS))
async def test_an_error_that_most_hosts_share_counts_for_none(rig: PostgresRig, error: str) -> None:
    counts = await counts_after_failures(rig, failing_with(rig, error), *HOSTS)
    assert counts == [1, 1, 0, 0, 0, 0], "the first two say nothing yet"


@pytest.mark.parametrize(("error", "works_at"), [("status_500", ()), ("tls_failed", HOSTS[:3])])
async def test_errors_that_are_the_receivers_count(
    rig: PostgresRig, error: str, works_at: Collection[str]
) -> None:
    counts = await counts_after_failures(rig, failing_with(rig, error, works_at), *HOSTS)
    assert counts == [0 if host in works_at else 2 for host in HOSTS]


@pytest.mark.parametrize(("offset_s", "count"), [(61, 0), (-61, 0), (59, 2)])
async def test_certificates_refused_by_a_wrong_clock_count_for_none(
    rig: PostgresRig, monkeypatch: pytest.MonkeyPatch, offset_s: float, count: int
) -> None:
    wrong = timedelta(seconds=offset_s)
    monkeypatch.setattr(Runtime, "now", lambda self: self.clock.now() + wrong)
    assert await counts_after_failures(rig, failing_with(rig, "tls_failed"), HOSTS[0]) == [count]


@pytest.mark.parametrize(
    ("offset_s", "error", "count"),
    [(301, "status_401", 0), (-301, "status_400", 0), (301, "status_404", 2), (299, "status_401", 2)],
)
async def test_signatures_refused_by_a_wrong_clock_count_for_none(
    rig: PostgresRig, monkeypatch: pytest.MonkeyPatch, offset_s: float, error: str, count: int
) -> None:
    wrong = timedelta(seconds=offset_s)
    monkeypatch.setattr(Runtime, "now", lambda self: self.clock.now() + wrong)
    assert await counts_after_failures(rig, failing_with(rig, error), HOSTS[0]) == [count]


@pytest.mark.parametrize(
    ("offset_s", "error", "is_failing"), [(301, "status_401", True), (301, "tls_failed", False)]
)
async def test_a_worker_whose_signatures_are_refused_tries_few(
    rig: PostgresRig, monkeypatch: pytest.MonkeyPatch, offset_s: float, error: str, is_failing: bool
) -> None:
    wrong = timedelta(seconds=offset_s)
    monkeypatch.setattr(Runtime, "now", lambda self: self.clock.now() + wrong)
    await outbox(rig, 1, secret=SECRET)
    runtime = Runtime(rig.clock, SeededEntropy(5))
    deliver = DeliverWebhooks(rig.store, failing_with(rig, error), RetrySchedule(), runtime)
    await deliver.record([await deliver.post(one) for one in await deliver.claim(10)])
    assert deliver.sender_state.is_failing == is_failing, "one receiver may have a certificate that is over"


class _Poisoned(PostgresDeliveryRepository):
    """Fails to write one of the deliveries."""

    async def save_attempts(
        self, recorded: Sequence[Recorded], endpoints: Sequence[Endpoint], hosts: Sequence[RecordedHost],
        recovered: Collection[UUID] = (),
    ) -> Saved:  # fmt: skip
        if any(
            one.delivery.id == current_rig().read("SELECT id FROM deliveries ORDER BY id")[0]["id"]
            for one in recorded
        ):
            raise ValueError("does not fit")
        return await super().save_attempts(recorded, endpoints, hosts, recovered)


@define
class _PoisonedStore:
    """A store with that repository."""

    rig: PostgresRig

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        async with self.rig.store.begin() as tx:
            tx.deliveries = _Poisoned(tx._connection, tx._cipher)
            yield tx


@pytest.mark.filterwarnings("ignore")
async def test_one_delivery_that_cannot_be_recorded_affects_no_other_of_its_batch(rig: PostgresRig) -> None:
    await outbox(rig, 5, secret=SECRET)
    async with pumping(rig, _PoisonedStore(rig), ScriptedSender(rig)):
        await until(lambda: statuses(rig).count(DeliveryStatus.SUCCEEDED) == 4)


async def test_stopping_records_deliveries_in_flight(rig: PostgresRig) -> None:
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


async def test_stopping_lets_a_periodic_task_end(rig: PostgresRig) -> None:
    going, ended = asyncio.Event(), list[str]()

    async def work() -> None:
        try:
            await going.wait()
            ended.append("by itself")
        except asyncio.CancelledError:
            ended.append("cut off")
            raise

    async with repeating(rig, PeriodicTask("in progress", work, 3600.0)) as worker:
        await asyncio.sleep(0.05)
        worker.stop()
        asyncio.get_running_loop().call_later(0.2, going.set)
    assert ended == ["by itself"]


async def test_a_hanging_task_delays_no_other_and_no_delivery(rig: PostgresRig) -> None:
    await outbox(rig, 2, secret=SECRET)
    done: list[str] = []

    async def hang() -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        done.append("work")

    async with repeating(rig, PeriodicTask("hangs", hang, 0.01), PeriodicTask("works", work, 0.01)):
        await until(lambda: len(done) > 2 and statuses(rig) == [DeliveryStatus.SUCCEEDED] * 2)


async def test_only_tasks_that_run_on_notify_run_on_a_notification(rig: PostgresRig) -> None:
    done: list[str] = []

    def task(name: str, *, runs_on_notify: bool) -> PeriodicTask:
        async def work() -> None:
            done.append(name)

        return PeriodicTask(name, work, 3600.0, runs_on_notify)

    tasks = task("quiet", runs_on_notify=False), task("rung", runs_on_notify=True)
    async with repeating(rig, *tasks) as worker:
        await until(lambda: sorted(done) == ["quiet", "rung"])
        worker.wake()
        await until(lambda: done.count("rung") == 2)
        worker.wake()
        await until(lambda: done.count("rung") == 3)
    assert done.count("quiet") == 1


async def test_a_notification_during_a_task_is_handled(rig: PostgresRig) -> None:
    begun: list[int] = []
    going = asyncio.Event()

    async def work() -> None:
        begun.append(len(begun))
        await going.wait()

    async with repeating(rig, PeriodicTask("slow", work, 3600.0, runs_on_notify=True)) as worker:
        await until(lambda: len(begun) == 1)
        worker.wake()
        going.set()
        await until(lambda: len(begun) == 2)


async def test_a_task_that_leaves_work_due_runs_again_at_once_until_none_is_due(rig: PostgresRig) -> None:
    left = [True, True, False]

    async def work() -> bool:
        return left.pop(0)

    async with repeating(rig, PeriodicTask("drains", work, 3600.0, runs_on_notify=True)):
        await until(lambda: not left)


@pytest.mark.filterwarnings("ignore")
async def test_a_task_with_a_fault_runs_again(rig: PostgresRig) -> None:
    tries: list[int] = []

    async def work() -> None:
        tries.append(len(tries))
        raise StoreUnavailable("away") if len(tries) == 1 else ValueError("a fault")

    async with repeating(rig, PeriodicTask("faulty", work, 0.01)):
        await until(lambda: len(tries) > 2)
