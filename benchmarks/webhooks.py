"""Deliveries of webhooks: a worker beside a bare loop of aiohttp, and the time from an event to its answer.

The worker runs in this process, with everything that a worker has, against the receiver of `receiver`. The
bare loop posts as large a signed body to the same receiver and records nothing. Then events are written at a
steady rate while some endpoints fail and many hang.
"""

import asyncio
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from ipaddress import IPv4Address
from os import urandom
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import aiohttp
import psycopg
import uvloop
from aiohttp.abc import AbstractResolver, ResolveResult
from attrs import define, evolve, field

from benchmarks.processes import running
from benchmarks.receiver import CA_FILE, NAMES
from benchmarks.report import Result, alternate
from benchmarks.servers import Account, Endpoint, Place, add_endpoints, place, seed
from meetcore.adapters.postgres.webhooks.rows import event_context
from meetcore.adapters.secrets import AesGcmCipher, keys_from_text
from meetcore.adapters.webhook_sender import sender as sender_module
from meetcore.adapters.worker.workers import DeliveryWorker
from meetcore.composition.application import Part
from meetcore.composition.infrastructure import Network, open_application
from meetcore.composition.worker import collect_rarely
from meetcore.domain.ids import uuid7
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.signature import new_secret, signing_headers
from meetcore.ports.webhook_sender import OutgoingPost, WebhookSender
from meetcore.usecases.runtime import PeriodicTask

__all__ = ["Events", "measure_deliveries", "measure_latency", "receiving"]

BODY = b'{"x":"' + b"y" * 1016 + b'"}'
KIND = EventKind.MEETING_CREATED.value
ENDPOINTS = 128
IN_FLIGHT = 128
OPENING = 4
"""A fourth of the deliveries goes out before those that are measured: connections are opened for them."""
EVENTS_PER_S = 200
HANGING, FAILING, HEALTHY = 50, 10, 90
SWEEP_EVERY_S = 2.0
GRACE_S = 1
_COPY_EVENTS = "COPY events (account_id, id, kind, payload, created_at) FROM STDIN"
_COPY_DELIVERIES = """COPY deliveries
    (account_id, id, endpoint_id, event_id, event_kind, status, due_at, created_at) FROM STDIN"""
_FINISHED = """INSERT INTO deliveries
    (account_id, id, endpoint_id, event_id, event_kind, status, attempts_made, created_at)
    SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'meeting.created',
        'succeeded', 1, now() FROM generate_series(1, {})"""


@define
class Timed:
    """The real sender, with the time at which each event was answered by a healthy receiver."""

    sender: WebhookSender
    answered: dict[str, float] = field(factory=dict)
    count: int = 0
    more: asyncio.Event = field(factory=asyncio.Event)

    async def reached(self, count: int) -> None:
        """Wait until so many posts were made."""
        while self.count < count:
            self.more.clear()
            await self.more.wait()

    async def post(self, post: OutgoingPost) -> Attempt:
        """Post, and note the end."""
        attempt = await self.sender.post(post)
        self.count += 1
        self.more.set()
        if attempt.error is None:
            self.answered.setdefault(post.headers["webhook-id"], time.monotonic())
        return attempt


class _Here(AbstractResolver):
    """Finds every name on this machine: for the service's sender, and for aiohttp at a port."""

    def __init__(self, port: int = 0) -> None:
        self._port = port

    async def resolve(self, host: str, *_: object, **__: object) -> Any:
        if not self._port:
            return (IPv4Address("127.0.0.1"),)
        return [ResolveResult(hostname=host, host="127.0.0.1", port=self._port, family=2, proto=0, flags=0)]

    async def close(self) -> None:
        pass


class Events:
    """Writes events and their deliveries as the service does, past the statements that it has for one."""

    def __init__(self, where: Place, endpoints: Sequence[Endpoint]) -> None:
        self._cipher = AesGcmCipher(keys_from_text(str(where.given["secrets_key"])))
        self._connection = psycopg.connect(where.database_url)
        self.endpoints = endpoints

    def write(self, endpoints: Sequence[Endpoint]) -> list[str]:
        """Write an event for each of these endpoints, and commit; return their ids."""
        now = datetime.now(UTC)
        events = [(each, uuid7(now, urandom(10))) for each in endpoints]
        with self._connection.cursor() as cursor:
            with cursor.copy(_COPY_EVENTS) as rows:
                for to, id_ in events:
                    sealed = self._cipher.seal(BODY, event_context(to.account_id, id_))
                    rows.write_row((to.account_id, id_, KIND, sealed, now))
            with cursor.copy(_COPY_DELIVERIES) as rows:
                for to, id_ in events:
                    made = (to.account_id, uuid7(now, urandom(10)), to.id, id_, KIND, "pending", now, now)
                    rows.write_row(made)
        self._connection.commit()
        return [str(id_) for _, id_ in events]


@contextmanager
def receiving() -> Iterator[tuple[str, int]]:
    """Run the receiver; yield the file of its authority and its port."""
    with tempfile.TemporaryDirectory() as directory, running("benchmarks.receiver", directory) as receiver:
        yield str(Path(directory) / CA_FILE), receiver.port


@asynccontextmanager
async def _worker(where: Place, ca_file: str, port: int) -> AsyncIterator[tuple[DeliveryWorker, Timed]]:
    """A worker on this event loop, with the limits by host out of the way: the receiver has sixteen names."""
    settings = where.settings(ca_file=ca_file, webhook_posts_per_host=32_000)
    # Port 443 may not be bound here; everything else is as in service, vetting included.
    with patch.object(sender_module, "_HTTPS_PORT", port):
        async with open_application(settings, Network(_Here()), [Part.WEBHOOKS]) as application:
            assert application.deliver is not None
            collect_rarely()
            timed = Timed(application.deliver.sender)
            deliver = evolve(application.deliver, sender=timed)
            worker = DeliveryWorker(deliver, [PeriodicTask("sweep", deliver.sweep, SWEEP_EVERY_S)])
            running_ = asyncio.create_task(worker.run())
            try:
                yield worker, timed
            finally:
                worker.stop()
                # Posts in flight are recorded, or the next turn waits for leases; hanging ones are cancelled.
                await asyncio.wait([running_], timeout=GRACE_S)
                running_.cancel()
                await asyncio.gather(running_, return_exceptions=True)


def measure_deliveries(rounds: int, count: int) -> list[Result]:
    """Measure deliveries a second and their processor time, of one worker and of the bare loop."""
    with place() as where, receiving() as at, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        accounts = seed(where, ENDPOINTS // 8)
        endpoints = runner.run(_furnish(where, accounts, ["/hook"] * ENDPOINTS))
        events = Events(where, endpoints)

        def ours() -> tuple[float, float]:
            events.write([endpoints[number % ENDPOINTS] for number in range(count)])
            where.execute("VACUUM ANALYZE events, deliveries")
            return runner.run(_drain(where, *at, count))

        taken = alternate(rounds, {"ours": ours, "floor": lambda: runner.run(_bare(*at, count))})
    (rate, cpu_us), (floor_rate, floor_us) = (
        [median(column) for column in zip(*turns, strict=True)] for turns in taken.values()
    )
    return [
        Result("deliver webhooks", rate, floor_rate, "1/s", "ratio ≥ 0.4; ≥ 1500/s", cpu_us, floor_us),
        Result("deliver a webhook, CPU", cpu_us, floor_us, "µs", "≤ 220 µs"),
    ]


async def _furnish(where: Place, accounts: Sequence[Account], paths: Sequence[str]) -> list[Endpoint]:
    async with where.application() as application:
        return await add_endpoints(application, accounts, paths, NAMES)


async def _drain(where: Place, ca_file: str, port: int, count: int) -> tuple[float, float]:
    async with _worker(where, ca_file, port) as (worker, timed), asyncio.timeout(120):
        worker.wake()
        await timed.reached(count // OPENING)
        first, started, cpu = timed.count, time.monotonic(), time.process_time()
        await timed.reached(count)
        return _of_each(count - first, started, cpu)


def _of_each(count: int, started: float, cpu: float) -> tuple[float, float]:
    """How many there were in a second, and the µs of processor time of each."""
    return count / (time.monotonic() - started), (time.process_time() - cpu) / count * 1e6


async def _bare(ca_file: str, port: int, count: int) -> tuple[float, float]:
    """Post with aiohttp, read the answers, and record nothing."""
    id_, secret = str(uuid7(datetime.now(UTC), urandom(10))), new_secret(urandom(32))
    headers = signing_headers(secret, id_, BODY, int(time.time())) | {
        "Content-Type": "application/json", "User-Agent": "bench", "X-Service-Event": KIND,
        "X-Service-Delivery": id_,
    }  # fmt: skip
    context = ssl.create_default_context(cafile=ca_file)
    connector = aiohttp.TCPConnector(ssl=context, limit=0, resolver=_Here(port))
    left = 0

    async with aiohttp.ClientSession(connector=connector) as session:

        async def one_after_the_other() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                url = f"https://{NAMES[0]}:{port}/hook"
                async with session.post(url, data=BODY, headers=headers) as answer:
                    await answer.read()
                    answer.raise_for_status()

        async def flight(posts: int) -> None:
            nonlocal left
            left = posts
            await asyncio.gather(*(one_after_the_other() for _ in range(IN_FLIGHT)))

        await flight(IN_FLIGHT)  # the connections are opened
        started, cpu = time.monotonic(), time.process_time()
        await flight(count)
        return _of_each(count, started, cpu)


def measure_latency(seconds: float, warm_up_s: float, finished: int) -> list[Result]:
    """Measure ms from the commit of an event to its receiver's answer, while others fail and hang.

    Args:
        seconds: how long events are counted.
        warm_up_s: how long they are written before: until every post that hangs has hung.
        finished: how many deliveries are over already, as in service, where they outnumber those that wait.
    """
    paths = ["/hook"] * HEALTHY + ["/fail"] * FAILING
    with place() as where, receiving() as at, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        accounts = seed(where, 2 * (len(paths) + HANGING) // 8)
        where.execute(_FINISHED.format(finished), "VACUUM ANALYZE")
        alone, hanging = [
            runner.run(_arrivals(where, at, some, to, seconds, warm_up_s))
            for to, some in ((paths, accounts[::2]), (paths + ["/hang"] * HANGING, accounts[1::2]))
        ]
    note = f"{EVENTS_PER_S} events/s, {FAILING} endpoints fail, {HANGING} hang; floor: none hangs"
    p50, p95 = ((_centile(hanging, share), _centile(alone, share)) for share in (0.5, 0.95))
    return [
        Result("event to answer, p50", *p50, "ms", "≤ 10 ms", note=note),
        Result("event to answer, p95", *p95, "ms", "≤ 15 ms; ratio ≤ 1.25"),
    ]


def _centile(took_ms: Sequence[float], share: float) -> float:
    return sorted(took_ms)[int(len(took_ms) * share)]


async def _arrivals(
    where: Place, at: tuple[str, int], accounts: Sequence[Account], paths: Sequence[str], seconds: float,
    warm_up_s: float,
) -> list[float]:  # fmt: skip
    """Write events at a steady rate; return the ms of those that were answered."""
    events = Events(where, await _furnish(where, accounts, paths))
    written: dict[str, float] = {}
    async with _worker(where, *at) as (worker, timed):
        wake = partial(asyncio.get_running_loop().call_soon_threadsafe, worker.wake)
        count = int((warm_up_s + seconds) * EVENTS_PER_S)
        await asyncio.to_thread(_write_steadily, events, paths, count, written, wake)
        await asyncio.sleep(min(2, seconds))
    settled = min(written.values()) + warm_up_s
    return [
        1000 * (timed.answered[id_] - at_s)
        for id_, at_s in written.items()
        if id_ in timed.answered and at_s >= settled
    ]


def _write_steadily(
    events: Events, paths: Sequence[str], count: int, written: dict[str, float], wake: Callable[[], object]
) -> None:
    """Write one event after the other; one in five goes where it fails or hangs."""
    healthy, others = events.endpoints[:HEALTHY], events.endpoints[HEALTHY:]
    started = time.monotonic()
    for number in range(count):
        to = others[number // 5 % len(others)] if number % 5 == 0 else healthy[number % HEALTHY]
        [id_] = events.write([to])
        written[id_] = time.monotonic()
        wake()
        time.sleep(max(0.0, started + (number + 1) / EVENTS_PER_S - time.monotonic()))
