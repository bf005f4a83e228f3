"""The use cases on PostgreSQL, with the sandbox and with fakes of what else is outside, under one clock.

`DyingStore` and `DyingProvider` let a process die at a chosen line: before a transaction, between its
last write and the commit, or after the commit, and before or after the provider did its work.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any, cast
from uuid import UUID

import msgspec
from attrs import define, evolve, field, fields

from meetcore.adapters.in_process import InProcessRateCounters
from meetcore.adapters.postgres.meetings.rows import MEETING, meeting
from meetcore.adapters.postgres.money.rows import FUNDS, USAGE, entry
from meetcore.adapters.postgres.notes.rows import NOTE, RECORDING, note, recording
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.requests.registry import PostgresRegistry
from meetcore.adapters.postgres.webhooks.rows import DELIVERY, event_context
from meetcore.adapters.sandbox import SandboxFaults, SandboxMeetingState, SandboxProvider
from meetcore.adapters.webhook_sender import SystemResolver
from meetcore.composition.application import Application, NotePorts, Ports, build
from meetcore.composition.policy import Policy
from meetcore.composition.use_cases import Notes
from meetcore.domain.ids import RANDOM_BYTES
from meetcore.domain.mails.mails import Mail
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import Meeting, MeetingOptions, MeetingRequest, Provisioned
from meetcore.domain.meetings.views import ProviderOrder
from meetcore.domain.members.audit import AuditEntry
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds, first_broken
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.requests.idempotency import fingerprint
from meetcore.domain.requests.keys import Scope, digest
from meetcore.domain.webhooks.deliveries import Delivery
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.observability import NO_METRICS
from meetcore.ports.queries import Caller
from meetcore.ports.store import Store, Transaction
from meetcore.ports.video_provider import VideoProvider
from meetcore.testing.clock import SeededEntropy
from meetcore.usecases.meetings.cancel_meeting import CancelMeeting
from meetcore.usecases.meetings.create_meeting import CreateMeeting
from meetcore.usecases.meetings.end_due_meetings import EndDueMeetings
from meetcore.usecases.meetings.reconcile_meetings import ReconcileMeetings, RemoveOrphans
from meetcore.usecases.notes.recordings import WorkOnRecordings
from meetcore.usecases.notes.write_notes import WriteNotes
from meetcore.usecases.requests.administration import Administration
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome
from meetcore.usecases.runtime import Runtime
from tests.support.fakes import FakeDocumentPrinter, FakeNotifier
from tests.support.postgres_rig import ENTRIES, PostgresRig, StoreClock, current_rig, stored_mails
from tests.support.sandbox_state import MemorySandboxState
from tests.unit.usecases.fakes import (
    FakeAudioEditor,
    FakeHolidayCalendar,
    FakeNoteWriter,
    FakeRecordings,
    FakeTranscriber,
    FaultPlan,
)

__all__ = ["ApplicationHarness", "DyingProvider", "DyingStore", "SimulatedCrash", "crash_points", "request"]

START = datetime(2026, 12, 1, 0, 0, tzinfo=UTC)
LEASE_S = 20.0


class RisingEntropy(SeededEntropy):
    """Bytes of ids that rise, so that records of one instant are listed in the order of their creation."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._numbers = count()

    def token_bytes(self, count: int) -> bytes:
        """Return the next bytes; those of an id begin with a number that rises."""
        drawn = super().token_bytes(count)
        return next(self._numbers).to_bytes(6) + drawn[6:] if count == RANDOM_BYTES else drawn


class SimulatedCrash(BaseException):
    """The process was killed: nothing catches this, as nothing catches a kill -9."""


@define
class CrashPoint:
    """Burns down at each crash point and kills at the chosen one. `burnt` counts the points passed."""

    at: int | None = None
    burnt: int = 0

    def pass_point(self) -> None:
        """One line of the program on which the process might die."""
        self.burnt += 1
        if self.burnt == self.at:
            raise SimulatedCrash


def crash_points() -> Iterator[CrashPoint]:
    """A crash point at each point of some work in turn, and at last one that the work does not reach."""
    for at in count(1):
        yield (point := CrashPoint(at))
        if point.burnt < at:
            assert at > 3, "the work passed none of its points"
            return


class DyingStore:
    """A store whose process dies before a transaction, on its last line, or just after its commit."""

    def __init__(self, store: Store, crash_point: CrashPoint) -> None:
        self._store = store
        self._crash_point = crash_point

    def begin(self) -> AbstractAsyncContextManager[Transaction]:
        return self._crashing(self._store.begin())

    def at_once(self) -> AbstractAsyncContextManager[Transaction]:
        return self._crashing(self._store.at_once())

    @asynccontextmanager
    async def _crashing(self, opened: AbstractAsyncContextManager[Transaction]) -> AsyncIterator[Transaction]:
        self._crash_point.pass_point()
        async with opened as tx:
            yield tx
            self._crash_point.pass_point()
        self._crash_point.pass_point()


class DyingProvider:
    """A provider, called by a process that dies before or after the call."""

    def __init__(self, provider: VideoProvider, crash_point: CrashPoint) -> None:
        self._provider = provider
        self._crash_point = crash_point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def create(self, order: ProviderOrder) -> Provisioned:
        self._crash_point.pass_point()
        made = await self._provider.create(order)
        self._crash_point.pass_point()
        return made

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        self._crash_point.pass_point()
        state = await self._provider.remove(provider_meeting_id)
        self._crash_point.pass_point()
        return state


def request(**changes: object) -> MeetingRequest:
    """A meeting of ten credits, a day ahead."""
    wanted: dict[str, object] = {
        "title": "Rapat",
        "date": "2026-12-02",
        "start_time": "09:00",
        "pricing_tier_id": "standard-100",
    }
    flags = {
        option.name: changes.pop(option.name) for option in fields(MeetingOptions) if option.name in changes
    }
    return MeetingRequest(**(wanted | changes), options=MeetingOptions(**flags))  # type: ignore[arg-type]


@define(slots=False)
class ApplicationHarness:
    """One account with credits and a key, some hosts, and the use cases, on a store that it empties."""

    credits: int = 100
    hosts: int = 1
    daily_cap: int | None = None
    clock: StoreClock = field(factory=lambda: StoreClock(START))
    faults: SandboxFaults = field(factory=SandboxFaults)
    policy: dict[str, Any] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.runtime = Runtime(self.clock, RisingEntropy(7))
        self.notifier = FakeNotifier()
        self.fault_plan = FaultPlan()
        self.fake_recordings = FakeRecordings(self.fault_plan)
        self.editor = FakeAudioEditor(self.fault_plan)
        self.listener = FakeTranscriber(self.fault_plan)
        self.scribe = FakeNoteWriter(self.fault_plan)
        self.notes_notifier = FakeNotifier()
        self.resolver = SystemResolver()
        self.metrics = NO_METRICS
        self.sandbox = SandboxProvider(
            "http://sandbox", MemorySandboxState(self.clock.now), bytes(32),
            faults=self.faults, timeout_s=0, now=self.clock.now,
        )  # fmt: skip
        self.provider: VideoProvider = self.sandbox

    @property
    def rig(self) -> PostgresRig:
        """The store that use cases are tested on."""
        return current_rig()

    @property
    def store(self) -> Store:
        return self.rig.store

    @property
    def queries(self) -> PostgresQueries:
        return self.rig.queries

    @property
    def registry(self) -> PostgresRegistry:
        return self.rig.registry

    async def start(self) -> "ApplicationHarness":
        """Empty the store, open the account and add the hosts."""
        await self.rig.reset()
        self.rig.stop_time(self.clock)
        account = await self.administration.create_account("a@example.com", "A", self.credits)
        minted = await self.administration.keys.create(account.id, tuple(Scope), self.daily_cap)
        self.digest = digest(minted.text)
        caller = await self.queries.find_caller(self.digest)
        assert caller is not None
        self.caller: Caller = caller
        for number in range(self.hosts):
            await self.administration.hosts.add(f"host-{number}", 100)
        return self

    async def another_caller(self) -> Caller:
        """A key of another account, which has as many credits."""
        account = await self.administration.create_account("b@example.com", "B", self.credits)
        minted = await self.administration.keys.create(account.id, tuple(Scope))
        caller = await self.queries.find_caller(digest(minted.text))
        assert caller is not None
        return caller

    def process(self, crash_point: CrashPoint | None = None, **policy: Any) -> Application:
        """The application in another process, which crashes at a point of its work if one is given."""
        store, provider = self.store, self.provider
        if crash_point is not None:
            store = DyingStore(store, crash_point)
            provider = cast("VideoProvider", DyingProvider(provider, crash_point))
        rig = self.rig
        ports = Ports(
            self.clock, self.runtime.entropy, store, rig.queries, rig.registry, rig.audit, rig.housekeeping,
            rig.key_uses, rig.request_log, rig.retention, InProcessRateCounters(),
            self.notifier, self.notes_notifier, self.resolver, FakeDocumentPrinter(), provider,
            self.fake_recordings,
            notes=NotePorts(self.editor, self.listener, self.scribe, FakeHolidayCalendar()),
            metrics=self.metrics,
        )  # fmt: skip
        return build(
            ports, Policy(**{"meeting_lease_s": LEASE_S, "note_lease_s": LEASE_S} | self.policy | policy)
        )

    @property
    def administration(self) -> Administration:
        return self.process().administration

    def create(self, crash_point: CrashPoint | None = None, *, wait_s: float = 10.0) -> CreateMeeting:
        """The use case in a process that may crash, with short waits."""
        return evolve(self.process(crash_point).api.create_meeting, wait_s=wait_s, poll_s=0.001)

    def cancel(self, crash_point: CrashPoint | None = None, *, wait_s: float = 10.0) -> CancelMeeting:
        """The use case in a process that may crash, with short waits."""
        return evolve(self.process(crash_point).api.cancel_meeting, wait_s=wait_s, poll_s=0.001)

    async def make(
        self, key: str | None = None, crash_point: CrashPoint | None = None, *,
        by: Caller | None = None, use: CreateMeeting | None = None, **wanted: object,
    ) -> Outcome:  # fmt: skip
        """Create a meeting, by the account's own key in a process that lives unless others are given."""
        create = use or self.create(crash_point)
        return await create(by or self.caller, request(**wanted), self.request_key(key), self.now())

    async def call_off(
        self, meeting_id: UUID, key: str | None = None, crash_point: CrashPoint | None = None, *,
        by: Caller | None = None, use: CancelMeeting | None = None,
    ) -> Outcome:  # fmt: skip
        cancel = use or self.cancel(crash_point)
        return await cancel(by or self.caller, meeting_id, self.request_key(key), self.now())

    async def with_meeting(self, **wanted: Any) -> Meeting:
        await self.start()
        await self.make(**wanted)
        (meeting,) = self.meetings()
        return meeting

    async def at_sandbox(self, meeting: Meeting) -> SandboxMeetingState | None:
        """The state of a meeting at the provider, `None` until it changed."""
        return await self.sandbox.state.get(f"sandbox-{meeting.id}")

    def reconcile(self) -> ReconcileMeetings:
        """The reconciler of a process that lives."""
        return self.process().meetings.reconcile

    async def recover(self) -> int:
        """Let every lease run out, and reconcile; return how many meetings were finished or undone."""
        self.expire_leases()
        return await self.reconcile().sweep()

    def remove_orphans(self, crash_point: CrashPoint | None = None, **changes: Any) -> RemoveOrphans:
        """The use case in a process that may crash."""
        return evolve(self.process(crash_point).meetings.remove_orphans, **changes)

    def end_due_meetings(self) -> EndDueMeetings:
        """The use case in a process that lives."""
        return self.process().meetings.end_due

    def work_on_recordings(self, crash_point: CrashPoint | None = None, **changes: Any) -> WorkOnRecordings:
        """A worker's use case in a process that may crash."""
        return evolve(self._notes(crash_point).work_on_recordings, **changes)

    def write_notes(self, crash_point: CrashPoint | None = None, **changes: Any) -> WriteNotes:
        """A worker's use case in a process that may crash."""
        return evolve(self._notes(crash_point).write, **changes)

    def _notes(self, crash_point: CrashPoint | None) -> Notes:
        notes = self.process(crash_point).notes
        assert notes is not None
        return notes

    def recordings(self) -> list[Recording]:
        columns = f"{RECORDING.select}, r.files AS recording_files"
        rows = self.rig.read(f"SELECT {columns} FROM recordings r ORDER BY r.created_at, r.id")
        return [recording(row, self.rig.cipher) for row in rows]

    def notes(self) -> list[Note]:
        """Every note in any state, in the order in which they were asked for."""
        columns = f"{NOTE.select}, n.content AS note_content"
        rows = self.rig.read(f"SELECT {columns} FROM notes n ORDER BY n.created_at, n.id")
        return [note(row, self.rig.cipher) for row in rows]

    def events_of(self, kind: EventKind) -> list[dict[str, Any]]:
        """The data of every event of a kind that is kept."""
        return [data for found, data in self.events() if found is kind]

    def read(self, statement: str, **parameters: object) -> list[dict[str, Any]]:
        """Run a statement on the store, and return its rows."""
        return self.rig.read(statement, **parameters)

    def write(self, statement: str, **parameters: object) -> None:
        """Change the store without triggers and references."""
        self.rig.write(statement, **parameters)

    def payloads(self) -> list[tuple[EventKind, bytes]]:
        """Every event that is kept: its kind, and the bytes that are sent."""
        return [
            (
                EventKind(row["kind"]),
                self.rig.cipher.open(row["payload"], event_context(row["account_id"], row["id"])),
            )
            for row in self.read("SELECT account_id, id, kind, payload FROM events ORDER BY id")
        ]

    def deliveries(self) -> list[Delivery]:
        rows = self.read(f"SELECT {DELIVERY.select} FROM deliveries d ORDER BY d.id")
        return [DELIVERY.read(row) for row in rows]

    def mails(self) -> list[Mail]:
        """The mails in the outbox, in the order in which they were added."""
        return stored_mails(self.rig)

    def audit_log(self) -> list[AuditEntry]:
        return self.rig.audit_log()

    def events(self) -> list[tuple[EventKind, dict[str, Any]]]:
        """Every event that is kept: its kind and its data."""
        return [(kind, msgspec.json.decode(payload)["data"]) for kind, payload in self.payloads()]

    def request_key(self, key: str | None, body: object = "create") -> IdempotentRequest:
        """Return an idempotent request; another body is another request."""
        return IdempotentRequest(key, fingerprint("POST", "/api/v1/meetings", body))

    def now(self) -> datetime:
        return self.clock.now()

    def expire_leases(self) -> None:
        """Let every lease run out."""
        self.clock.advance(LEASE_S + 1)

    def funds(self) -> Funds:
        """The account's funds as they are stored."""
        (row,) = self.rig.read(
            f"SELECT {FUNDS.select} FROM accounts a WHERE id = %(id)s", id=self.caller.account.id
        )
        return FUNDS.read(row)

    def money(self) -> tuple[int, int]:
        """Return the account's balance and held credits."""
        funds = self.funds()
        return funds.balance, funds.held

    def entries(self) -> list[Entry]:
        rows = self.rig.read(ENTRIES, account_id=self.caller.account.id)
        return [made for row in rows if (made := entry(row))]

    def meetings(self) -> list[Meeting]:
        rows = self.rig.read(f"SELECT {MEETING.select} FROM meetings m ORDER BY m.created_at, m.id")
        return [meeting(row, self.rig.cipher) for row in rows]

    def usage(self) -> list[CapUsage]:
        """What the keys spent and hold, by day."""
        rows = self.rig.read(f"SELECT {USAGE.select} FROM cap_usage u ORDER BY day")
        return [USAGE.read(row, api_key_id=row["usage_api_key_id"]) for row in rows]

    def held(self) -> list[int]:
        """The credits of each open hold, of any account."""
        return [row["amount"] for row in self.rig.read("SELECT amount FROM ledger_holds")]

    def count(self, table: str) -> int:
        """The number of rows of a table."""
        return int(self.rig.read(f"SELECT count(*) AS rows FROM {table}")[0]["rows"])

    def prove(self) -> None:
        funds, entries = self.funds(), self.entries()
        assert first_broken(self.caller.account.id, entries) is None
        assert funds.balance == sum(entry.amount for entry in entries)
        assert funds.held == sum(self.held())
