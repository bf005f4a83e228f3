"""One run: processes, customers and faults by a seed, then quiet, then the oracle."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NoReturn

import structlog
from attrs import define, field, frozen

from meetcore.adapters.in_process import InProcessRateCounters
from meetcore.adapters.postgres.money.verification import PostgresLedgerAudit
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.requests.registry import PostgresRegistry
from meetcore.adapters.postgres.requests.request_log import PostgresKeyUses, PostgresRequestLog
from meetcore.adapters.postgres.requests.retention import PostgresHousekeeping, PostgresRetention
from meetcore.adapters.postgres.store import PostgresStore, load_repositories
from meetcore.adapters.secrets import KEY_BYTES, AesGcmCipher
from meetcore.adapters.webhook_sender import SystemResolver
from meetcore.composition.application import Application, NotePorts, Part, Ports, build
from meetcore.composition.worker import api_tasks, working
from meetcore.testing.clock import SeededEntropy
from tests.simulation.aging import grow_old
from tests.simulation.database import IDLE_IN_TRANSACTION_S, SimulatedDatabase
from tests.simulation.enrolment import POLICY, Crowd, enrol
from tests.simulation.faults import Fault
from tests.simulation.guests import Guests
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.oracle import judge
from tests.simulation.outside import SimulatedProvider, SimulatedReceivers
from tests.simulation.payments import SimulatedGateway
from tests.simulation.plants import PLANTS
from tests.simulation.pool import SimulatedPool
from tests.simulation.studio import Studio
from tests.support.fakes import FakeDocumentPrinter

ANSWERED_S = 1800.0
"""Virtual seconds within which every customer has its answers, under faults."""
HEALED_S = 900.0
"""Virtual seconds within which all is quiet once every service is well."""


@frozen
class Plan:
    """How much happens in a run, and how often something fails; rates are for each opportunity."""

    accounts: int = 3
    customers: int = 3
    """Customers of the first account; the others have one each."""
    requests: int = 8
    servers: int = 2
    workers: int = 2
    hosts: int = 4
    outside_faults: float = 0.08
    cuts: float = 0.002
    deaths: float = 0.0004
    sleeps: float = 0.0004
    pauses: float = 0.025


@define(eq=False)
class VirtualClock:
    """The clock of a process."""

    loop: SimulatedLoop

    def now(self) -> Any:
        return self.loop.now()

    def uptime(self) -> float:
        return self.loop.time()


@define(eq=False)
class Program:
    """The processes of a run, started again when they die."""

    loop: SimulatedLoop
    database: SimulatedDatabase
    provider: SimulatedProvider
    receivers: SimulatedReceivers
    gateway: SimulatedGateway
    studio: Studio
    plan: Plan
    cipher: AesGcmCipher
    writes_notes: bool
    servers: list[Process] = field(factory=list)
    workers: list[Process] = field(factory=list)
    _wakes: dict[Process, Mapping[Part, Any]] = field(factory=dict)
    _started: int = 0

    def start(self) -> None:
        for _ in range(self.plan.servers):
            self._start_server()
        for _ in range(self.plan.workers):
            self._start_worker()

    def some_server(self) -> Process | None:
        living = [each for each in self.servers if not each.is_dead]
        return self.loop.random.choice(living) if living else None

    def decide(self, process: Process) -> None:
        """Let a process die or sleep, by the seed, while there are faults."""
        if self.loop.strikes("death", self.plan.deaths, "a step"):
            process.kill()
        elif self.loop.strikes("sleep", self.plan.sleeps, "a step"):
            process.sleep(self.loop.random.choice((0.5, 4.0, 12.0, 35.0, 90.0)))

    def cut(self, moment: str) -> bool:
        """Decide whether a connection is lost, before or after a statement."""
        return self.loop.strikes("cut", self.plan.cuts, f"{moment} a statement")

    def _start_server(self) -> None:
        process = self._process("server", self._start_server)
        self.servers.append(process)

        async def serve() -> None:
            async with api_tasks(process.application):
                await asyncio.Event().wait()

        process.start(serve())

    def _start_worker(self) -> None:
        process = self._process("worker", self._start_worker)
        self.workers.append(process)

        async def work() -> None:
            async with working(process.application):
                await asyncio.Event().wait()

        process.start(work())

    def _process(self, kind: str, again: Any) -> Process:
        self._started += 1
        process = Process(f"{kind} {self._started}", self.loop)
        process.pool = SimulatedPool(self.database)
        process.application = self._application(process, kind == "worker")

        def died() -> None:
            process.pool.end()
            self.servers = [each for each in self.servers if each is not process]
            self.workers = [each for each in self.workers if each is not process]
            self._wakes.pop(process, None)
            self.loop.call_outside(self.loop.random.uniform(0.5, 20.0), again)

        def fell_asleep(seconds: float) -> None:
            if seconds > IDLE_IN_TRANSACTION_S:
                self.loop.call_outside(IDLE_IN_TRANSACTION_S, process.pool.end_idle_transactions)

        process.on_death, process.on_sleep = died, fell_asleep
        return process

    def _application(self, process: Process, is_worker: bool) -> Application:
        pool, clock = process.pool, VirtualClock(self.loop)
        entropy = SeededEntropy(self.loop.random.randrange(1 << 60))
        notifier, writes = _Notifier(self, Part.WEBHOOKS), is_worker and self.writes_notes

        @asynccontextmanager
        async def listen(on_notify: Mapping[Part, Any], threads: int) -> AsyncIterator[None]:
            self._wakes[process] = on_notify
            yield

        ports = Ports(
            clock, entropy, PostgresStore(pool, self.cipher), PostgresQueries(pool, self.cipher),
            PostgresRegistry(pool, self.cipher), PostgresLedgerAudit(pool), PostgresHousekeeping(pool),
            PostgresKeyUses(pool), PostgresRequestLog(pool), PostgresRetention(pool), InProcessRateCounters(),
            notifier, _Notifier(self, Part.NOTES), SystemResolver(), FakeDocumentPrinter(), self.provider,
            self.studio, self.gateway, sender=self.receivers if is_worker else None, listen=listen,
            notes=NotePorts(self.studio, self.studio, self.studio, self.studio) if writes else None,
        )  # fmt: skip
        return build(ports, POLICY)

    def notify(self, part: Part) -> None:
        """Wake the workers a moment later, or not at all: the queue is a notification."""
        for process, wakes in tuple(self._wakes.items()):
            if part in wakes and self.loop.random.random() < 0.8:
                wake = wakes[part]
                delay_s = self.loop.random.uniform(0.0, 0.05)
                self.loop.call_later(delay_s, wake, context=process.context)


@frozen
class _Notifier:
    program: Program
    part: Part

    def notify(self) -> None:
        self.program.notify(self.part)


@frozen
class Result:
    """What came of a run."""

    faults: list[str]
    trace: str
    steps: int
    statements: int
    requests: int
    virtual_s: float
    lines: list[str]
    struck: list[Fault]


def run(
    url: str,
    seed: int,
    plan: Plan,
    *,
    keeps_lines: bool = False,
    planted: str = "",
    only: frozenset[tuple[str, int]] | None = None,
) -> Result:
    """Run a seed on a database that was prepared, with a planted fault if one is named.

    Of the faults of the seed those alone happen that are in `only`, or all.
    """
    if planted:
        PLANTS[planted]()
    gc.disable()  # it would run finalizers at other moments each time
    load_repositories()
    loop, logged = SimulatedLoop(seed, only), list[str]()

    def keep(_: object, __: str, event: MutableMapping[str, Any]) -> NoReturn:
        if event["event"] == "fault":
            logged.append(f"a fault of {event['during']}: {sys.exc_info()[1]!r}")
        raise structlog.DropEvent

    structlog.configure([keep], structlog.make_filtering_bound_logger(logging.ERROR))
    if keeps_lines:
        loop.lines = []
    asyncio.set_event_loop(loop)
    database = SimulatedDatabase(url, loop)
    provider = SimulatedProvider(loop, fault_rate=plan.outside_faults)
    receivers = SimulatedReceivers(loop, fault_rate=plan.outside_faults)
    gateway = SimulatedGateway(loop, plan.outside_faults)
    studio, writes_notes = Studio(loop, provider, plan.outside_faults), loop.random.random() < 0.4
    cipher = AesGcmCipher((bytes(KEY_BYTES),), SeededEntropy(seed))
    program = Program(loop, database, provider, receivers, gateway, studio, plan, cipher, writes_notes)
    gateway.some_server = program.some_server
    crowd = Crowd(gateway, writes_notes, loop.random.random() < (0.45 if writes_notes else 0.15))
    try:
        faults = loop.run_until_complete(_live(program, crowd))
    except Exception as fault:  # noqa: BLE001  # whatever it is, the seed has failed
        traceback.print_exc(limit=-4)
        faults = [f"the run broke off: {fault!r}"]
    finally:
        database.close()
    return Result(
        [*faults, *dict.fromkeys(logged)],
        loop.trace.hexdigest()[:16],
        loop.steps,
        database.statements,
        crowd.asked(),
        loop.time(),
        loop.lines or [],
        loop.faults.struck,
    )


async def _live(program: Program, crowd: Crowd) -> list[str]:
    loop, plan = program.loop, program.plan
    guests = Guests(loop, program.provider, program.studio, program.some_server)
    sizes = (plan.customers, *[1] * (plan.accounts - 1))
    program.start()
    await enrol(program.servers[0], guests, crowd, hosts=plan.hosts, customers=sizes)
    program.database.cut, loop.fate = program.cut, program.decide
    loop.faults.is_active, loop.pauses = True, plan.pauses
    try:
        async with asyncio.timeout(ANSWERED_S):
            await crowd.act(plan.requests)
    except TimeoutError:
        return [f"customers have no answers after {ANSWERED_S:.0f} s"]
    loop.faults.is_active = False
    loop.note("healed")

    def judge_all() -> list[str]:
        return judge(program.database, crowd, guests, program.receivers)

    faults = await _settle(loop, judge_all)
    if crowd.grows_old and not faults:
        settle = partial(_settle, loop)
        faults = await grow_old(program.database, crowd, program.studio, settle, judge_all)
    return faults


async def _settle(loop: SimulatedLoop, find_faults: Callable[[], list[str]]) -> list[str]:
    """Wait until a judge finds nothing, for a bounded time; return what it found to the last."""
    faults: list[str] = []
    quiet_by = loop.time() + HEALED_S
    while loop.time() < quiet_by:
        await asyncio.sleep(60.0)
        faults = find_faults()
        if not faults:
            break
    return faults
