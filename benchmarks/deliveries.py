"""Webhook deliveries with the database: a worker compared with a bare aiohttp loop, and the latency.

The delivery worker runs here, on the event loop that the program runs on, with the real sender against
the receiver of `posts`. The bare loop posts the same signed bodies to the same receiver and records
nothing. Then events are written one after another while some endpoints fail and many hang.
"""

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from ipaddress import IPv4Network
from pathlib import Path
from unittest.mock import patch
from uuid import UUID, uuid4

import psycopg
import uvloop
from attrs import define, field, frozen

from benchmarks.posts import bare_posts, here
from benchmarks.processes import tls_receiver
from benchmarks.report import Result, middle
from benchmarks.tls_receiver import CA_FILE, NAMES
from meetcore.adapters.postgres.deliveries.outbox import event_context
from meetcore.adapters.postgres.endpoints.rows import endpoint_context
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.postgres.store import PostgresStore
from meetcore.adapters.secrets import AesGcmCipher
from meetcore.adapters.system import SystemClock, SystemEntropy
from meetcore.adapters.webhook_sender import AsyncioWebhookSender
from meetcore.adapters.webhook_sender import sender as sender_module
from meetcore.adapters.worker.delivery_worker import DeliveryWorker
from meetcore.domain.ids import uuid7
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.domain.webhooks.signature import new_secret
from meetcore.ports.deliveries import ClaimLimits
from meetcore.ports.webhook_sender import OutgoingPost
from meetcore.usecases.deliver_webhooks import DeliverWebhooks
from meetcore.usecases.periodic_task import PeriodicTask
from meetcore.usecases.runtime import Runtime

__all__ = [
    "FAILING",
    "HEALTHY",
    "Endpoint",
    "arrivals",
    "centiles",
    "furnish",
    "measure_deliveries",
    "measure_latency",
    "place",
]

SWEEP_EVERY_S = 2.0

BODY = b'{"x":"' + b"y" * 1016 + b'"}'
ENDPOINTS = 128
IN_FLIGHT = 128
OPENING = 4
"""A fourth of the deliveries goes out before those that are measured: connections are opened for them."""
EVENTS_PER_S = 200
HANGING, FAILING, HEALTHY = 50, 10, 90
GRACE_S = 3
# The receiver has sixteen names: with limits by host, the limits would be measured.
LIMITS = ClaimLimits(per_host=10_000, per_host_per_s=100_000)
WARM_UP_S = 12  # until every post that hangs has hung, and the connections are open


@frozen
class Endpoint:
    """Where a benchmark's events go."""

    account_id: UUID
    id: UUID
    path: str


@define
class Timed:
    """The real sender, and when each event was answered by a healthy receiver."""

    sender: AsyncioWebhookSender
    answered: dict[str, float] = field(factory=dict)
    count: int = 0
    more: asyncio.Event = field(factory=asyncio.Event)

    async def reached(self, count: int) -> None:
        while self.count < count:
            self.more.clear()
            await self.more.wait()

    async def post(self, post: OutgoingPost) -> Attempt:
        attempt = await self.sender.post(post)
        self.count += 1
        self.more.set()
        if attempt.error is None:
            self.answered.setdefault(post.headers["webhook-id"], time.monotonic())
        return attempt


def furnish(url: str, cipher: AesGcmCipher, paths: list[str]) -> list[Endpoint]:
    """An account for every eight endpoints, each endpoint with a path of its own."""
    made: list[Endpoint] = []
    with psycopg.connect(url, autocommit=True) as connection:
        for number, path in enumerate(paths):
            account_id = made[-1].account_id if number % 8 else uuid4()
            endpoint = Endpoint(account_id, uuid4(), path)
            if number % 8 == 0:
                connection.execute(
                    """INSERT INTO accounts (id, user_id, email, full_name, low_threshold, created_at, is_low)
                    VALUES (%s, %s, %s, 'B', 0, now(), false)""",
                    (account_id, uuid4(), f"{account_id}@example.com"),
                )
            secret = new_secret(os.urandom(32)).encode()
            address = f"https://{NAMES[number % len(NAMES)]}{path}?{endpoint.id}"
            at_host = (account_id, NAMES[number % len(NAMES)])
            connection.execute(
                "INSERT INTO webhook_hosts (host) VALUES (%s) ON CONFLICT DO NOTHING", at_host[1:]
            )
            connection.execute(
                "INSERT INTO webhook_account_hosts (account_id, host) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                at_host,
            )
            connection.execute(
                """INSERT INTO webhook_endpoints (account_id, id, url, url_key, event_types, state,
                    consecutive_failures, created_by, created_at, secret)
                VALUES (%s, %s, %s, %s, '{meeting.created}', 'active', 0, 'bench', now(), %s)""",
                (
                    account_id, endpoint.id, address, address,
                    cipher.seal(secret, endpoint_context(account_id, endpoint.id)),
                ),
            )  # fmt: skip
            made.append(endpoint)
    return made


def _write_events(url: str, cipher: AesGcmCipher, endpoints: list[Endpoint], count: int) -> None:
    now = datetime.now(UTC)
    events = [(endpoints[number % len(endpoints)], _new_id()) for number in range(count)]
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY events (account_id, id, kind, payload, created_at) FROM STDIN") as rows:
            for to, id_ in events:
                sealed = cipher.seal(BODY, event_context(to.account_id, id_))
                rows.write_row((to.account_id, id_, "meeting.created", sealed, now))
        with cursor.copy(
            """COPY deliveries (account_id, id, endpoint_id, event_id, event_kind, status, due_at, created_at)
            FROM STDIN"""
        ) as rows:
            for to, id_ in events:
                rows.write_row((to.account_id, _new_id(), to.id, id_, "meeting.created", "pending", now, now))
        connection.execute("VACUUM ANALYZE")


def _new_id() -> UUID:
    """An id as the service makes them: it says when the event was, which decides whether it is still sent."""
    return uuid7(datetime.now(UTC), os.urandom(10))


@asynccontextmanager
async def _delivery_worker(
    url: str, cipher: AesGcmCipher, ca_file: str, port: int
) -> AsyncIterator[tuple[DeliveryWorker, Timed]]:
    pool = make_pool(url, min_size=2, max_size=8)
    await pool.open()
    sender = AsyncioWebhookSender(here(), [IPv4Network("127.0.0.1/32")], ca_file)
    # Port 443 may not be bound here; everything else is as in service, vetting included.
    with patch.object(sender_module, "_HTTPS_PORT", port):
        await sender.start()
        timed = Timed(sender)
        runtime = Runtime(SystemClock(), SystemEntropy())
        deliver = DeliverWebhooks(PostgresStore(pool, cipher), timed, RetrySchedule(), runtime, limits=LIMITS)
        worker = DeliveryWorker(deliver, [PeriodicTask("sweep", deliver.sweep, SWEEP_EVERY_S)])
        running = asyncio.create_task(worker.run())
        try:
            yield worker, timed
        finally:
            worker.stop()
            # Posts in flight are recorded, or the next round waits for leases; hanging ones are cancelled.
            await asyncio.wait([running], timeout=GRACE_S)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await sender.close()
            await pool.close()


@contextmanager
def place() -> Iterator[tuple[str, int, asyncio.Runner]]:
    with (
        tempfile.TemporaryDirectory() as directory,
        tls_receiver(directory) as receiver,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        yield str(Path(directory) / CA_FILE), receiver.port, runner


def measure_deliveries(url: str, rounds: int, count: int) -> list[Result]:
    """Measure deliveries a second and µs of processor time a delivery, of one worker and the bare loop."""
    cipher = AesGcmCipher([os.urandom(32)])
    endpoints = furnish(url, cipher, ["/hook"] * ENDPOINTS)
    turns = []
    with place() as (ca_file, port, runner):
        for _ in range(rounds):
            _write_events(url, cipher, endpoints, count)
            service = runner.run(_drain(url, cipher, ca_file, port, count))
            turns.append((*service, *runner.run(_bare(ca_file, port, count))))
    rate, cpu_us, floor_rate, floor_us = (middle(list(column)) for column in zip(*turns, strict=True))
    note = f"{ENDPOINTS} endpoints, once connections are open; database and receiver on the same two cores"
    return [
        Result("deliver webhooks", rate, floor_rate, "1/s", "ratio ≥ 0.4, ≥ 1 500/s", {"note": note}),
        Result("deliver a webhook, CPU", cpu_us, floor_us, "µs", "≤ 220 µs"),
    ]


async def _drain(url: str, cipher: AesGcmCipher, ca_file: str, port: int, count: int) -> tuple[float, float]:
    first = count // OPENING
    async with _delivery_worker(url, cipher, ca_file, port) as (worker, timed):
        worker.wake()
        async with asyncio.timeout(120):
            await timed.reached(first)
            first, started, cpu_s = timed.count, time.monotonic(), time.process_time()
            await timed.reached(count)
        return _of_each(count - first, started, cpu_s)


def _of_each(count: int, started: float, cpu_s: float) -> tuple[float, float]:
    """How many there were in a second, and the µs of processor time of each."""
    return count / (time.monotonic() - started), (time.process_time() - cpu_s) / count * 1e6


async def _bare(ca_file: str, port: int, count: int) -> tuple[float, float]:
    left = count

    async def one_after_the_other() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await post()

    async with bare_posts(ca_file, port) as post:
        await asyncio.gather(*(post() for _ in range(IN_FLIGHT)))  # the connections are opened
        started, cpu_s = time.monotonic(), time.process_time()
        await asyncio.gather(*(one_after_the_other() for _ in range(IN_FLIGHT)))
        return _of_each(count, started, cpu_s)


def measure_latency(
    url: str, seconds: float, finished: int = 200_000, warm_up_s: float = WARM_UP_S
) -> list[Result]:
    """Milliseconds from the commit of an event to its receiver's answer, while others fail and hang.

    Args:
        finished: how many deliveries are finished already.
        warm_up_s: how long events are written before the first that counts.
    """
    cipher = AesGcmCipher([os.urandom(32)])
    paths = ["/hook"] * HEALTHY + ["/fail"] * FAILING
    with psycopg.connect(url, autocommit=True) as connection:
        # As in service, where what is finished outnumbers what waits: a small table is planned otherwise.
        connection.execute(
            """INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status,
                attempts_made, created_at)
            SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(),
                'meeting.created', 'succeeded', 1, now() FROM generate_series(1, %s)""",
            (finished,),
        )
        connection.execute("VACUUM ANALYZE")
    with place() as (ca_file, port, runner):
        alone, hanging = [
            centiles(runner.run(arrivals(url, cipher, ca_file, port, made, seconds, warm_up_s)))
            for to in (paths, paths + ["/hang"] * HANGING)
            for made in [furnish(url, cipher, to)]
        ]
    note = f"{EVENTS_PER_S} events/s, {FAILING} endpoints fail, {HANGING} hang; floor: none hangs"
    return [
        Result("event to answer, p50", hanging[0], alone[0], "ms", "≤ 10 ms", {"note": note}),
        Result("event to answer, p95", hanging[1], alone[1], "ms", "≤ 15 ms; ratio ≤ 1.25"),
    ]


def centiles(found: list[tuple[float, float]]) -> tuple[float, float]:
    """The p50 and the p95 of the milliseconds that events took."""
    took = sorted(each_ms for _, each_ms in found)
    return took[len(took) // 2], took[int(len(took) * 0.95)]


async def arrivals(
    url: str,
    cipher: AesGcmCipher,
    ca_file: str,
    port: int,
    endpoints: list[Endpoint],
    seconds: float,
    warm_up_s: float = WARM_UP_S,
) -> list[tuple[float, float]]:
    """When each event was written, and its milliseconds from the commit to its receiver's answer.

    Events are written at a steady rate.
    """
    written: dict[str, float] = {}
    async with _delivery_worker(url, cipher, ca_file, port) as (worker, timed):
        loop = asyncio.get_running_loop()
        count = int((warm_up_s + seconds) * EVENTS_PER_S)
        writer = threading.Thread(
            target=_write_slowly,
            args=(url, cipher, endpoints, count, written, lambda: loop.call_soon_threadsafe(worker.wake)),
        )
        writer.start()
        await asyncio.to_thread(writer.join)
        await asyncio.sleep(2)
    settled = min(written.values()) + warm_up_s
    return [
        (at, 1000 * (timed.answered[id_] - at))
        for id_, at in written.items()
        if id_ in timed.answered and at >= settled
    ]


def _write_slowly(
    url: str,
    cipher: AesGcmCipher,
    endpoints: list[Endpoint],
    count: int,
    written: dict[str, float],
    notify: object,
) -> None:
    assert callable(notify)
    started = time.monotonic()
    healthy = [one for one in endpoints if one.path == "/hook"]
    others = [one for one in endpoints if one.path != "/hook"]
    with psycopg.connect(url, autocommit=True) as connection:
        for number in range(count):
            # One event in five goes where it fails or hangs.
            to = others[number // 5 % len(others)] if number % 5 == 0 else healthy[number % len(healthy)]
            id_, now = _new_id(), datetime.now(UTC)
            sealed = cipher.seal(BODY, event_context(to.account_id, id_))
            connection.execute(
                """WITH event AS (
                    INSERT INTO events (account_id, id, kind, payload, created_at)
                    VALUES (%(account_id)s, %(id)s, 'meeting.created', %(payload)s, %(now)s))
                INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, due_at,
                    created_at)
                VALUES (%(account_id)s, %(delivery_id)s, %(to)s, %(id)s, 'meeting.created', 'pending',
                    clock_timestamp(), %(now)s)""",
                {
                    "account_id": to.account_id,
                    "id": id_,
                    "delivery_id": _new_id(),
                    "payload": sealed,
                    "now": now,
                    "to": to.id,
                },
            )
            written[str(id_)] = time.monotonic()
            notify()
            pause_s = started + (number + 1) / EVENTS_PER_S - time.monotonic()
            if pause_s > 0:
                time.sleep(pause_s)
