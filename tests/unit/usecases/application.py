"""The whole service in memory: the use cases on memory adapters, a manual clock, the sandbox.

`DyingStore` and `DyingProvider` let a process die at a chosen line: before a transaction, between its
last write and the commit, or after the commit, and before or after the provider did its work.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from attrs import define, evolve, field, fields

from meetcore.adapters.memory.audit import MemoryLedgerAudit
from meetcore.adapters.memory.cipher import PlainCipher
from meetcore.adapters.memory.clock import ManualClock
from meetcore.adapters.memory.document_printer import MemoryDocumentPrinter
from meetcore.adapters.memory.entropy import SeededEntropy
from meetcore.adapters.memory.housekeeping import MemoryHousekeeping
from meetcore.adapters.memory.key_uses import MemoryKeyUses
from meetcore.adapters.memory.queries import MemoryQueries
from meetcore.adapters.memory.rate_counters import MemoryRateCounters
from meetcore.adapters.memory.registry import MemoryRegistry
from meetcore.adapters.memory.request_log import MemoryRequestLog
from meetcore.adapters.memory.restores import MemoryFence
from meetcore.adapters.memory.retention import MemoryRetention
from meetcore.adapters.memory.state import MemoryState
from meetcore.adapters.memory.store import MemoryStore
from meetcore.adapters.memory.worker_notifier import MemoryWorkerNotifier
from meetcore.adapters.sandbox import MemorySandboxState, SandboxFaults, SandboxProvider
from meetcore.adapters.webhook_sender import SystemResolver
from meetcore.composition.application import Application, build
from meetcore.composition.policy import Policy
from meetcore.composition.ports import NotePorts, Ports
from meetcore.composition.work import Notes
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import (
    Meeting,
    MeetingOptions,
    MeetingRequest,
    ProviderAbilities,
    Provisioned,
)
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds, first_broken
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.requests.idempotency import fingerprint
from meetcore.domain.requests.keys import Scope, digest
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.cipher import KeyedCipher
from meetcore.ports.metrics import NO_METRICS
from meetcore.ports.queries import Caller
from meetcore.ports.store import Store, Transaction
from meetcore.ports.video_provider import FoundMeeting, ListedMeeting, ProviderOrder, VideoProvider
from meetcore.usecases.administration import Administration
from meetcore.usecases.cancel_meeting import CancelMeeting
from meetcore.usecases.create_meeting import CreateMeeting
from meetcore.usecases.end_due_meetings import EndDueMeetings
from meetcore.usecases.idempotency import IdempotentRequest
from meetcore.usecases.reconcile_meetings import ReconcileMeetings
from meetcore.usecases.remove_orphans import RemoveOrphans
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.work_on_recordings import WorkOnRecordings
from meetcore.usecases.write_notes import WriteNotes
from tests.unit.usecases.fakes import (
    FakeAudioEditor,
    FakeNoteWriter,
    FakeRecordings,
    FakeTranscriber,
    FaultPlan,
)

__all__ = ["ApplicationHarness", "DyingProvider", "DyingStore", "SimulatedCrash", "request"]

START = datetime(2026, 12, 1, 0, 0, tzinfo=UTC)
LEASE_S = 20.0


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


class DyingStore:
    """A store whose process dies before a transaction, on its last line, or just after its commit."""

    def __init__(self, store: Store, crash_point: CrashPoint) -> None:
        self._store = store
        self._crash_point = crash_point

    def begin(self) -> AbstractAsyncContextManager[Transaction]:
        """As the store's own."""
        return self._crashing(self._store.begin())

    def at_once(self) -> AbstractAsyncContextManager[Transaction]:
        """As the store's own."""
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

    @property
    def abilities(self) -> ProviderAbilities:
        """As the provider's own."""
        return self._provider.abilities

    async def create(self, order: ProviderOrder) -> Provisioned:
        """As the provider's own."""
        self._crash_point.pass_point()
        made = await self._provider.create(order)
        self._crash_point.pass_point()
        return made

    async def find(self, order: ProviderOrder) -> Sequence[Provisioned]:
        """As the provider's own."""
        return await self._provider.find(order)

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        """As the provider's own."""
        self._crash_point.pass_point()
        state = await self._provider.remove(provider_meeting_id)
        self._crash_point.pass_point()
        return state

    async def end(self, provider_meeting_id: str) -> None:
        """As the provider's own."""
        await self._provider.end(provider_meeting_id)

    async def list_host(self, provider_user_id: str) -> Sequence[ListedMeeting]:
        """As the provider's own."""
        return await self._provider.list_host(provider_user_id)

    async def read(self, provider_meeting_id: str) -> FoundMeeting | None:
        """As the provider's own."""
        return await self._provider.read(provider_meeting_id)

    async def set_host_key(self, provider_user_id: str, host_key: str) -> None:
        """As the provider's own."""
        await self._provider.set_host_key(provider_user_id, host_key)


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
    """One account with credits and a key, some hosts, and the use cases."""

    credits: int = 100
    hosts: int = 1
    daily_cap: int | None = None
    clock: ManualClock = field(factory=lambda: ManualClock(START))
    faults: SandboxFaults = field(factory=SandboxFaults)

    def __attrs_post_init__(self) -> None:
        self.runtime = Runtime(self.clock, SeededEntropy(7))
        self.state = MemoryState()
        self.store: Store = MemoryStore(self.clock, SeededEntropy(8), self.state)
        self.queries = MemoryQueries(self.state, self.clock)
        self.registry = MemoryRegistry(self.state)
        self.notifier = MemoryWorkerNotifier()
        self.fault_plan = FaultPlan()
        self.fake_recordings = FakeRecordings(self.fault_plan)
        self.editor = FakeAudioEditor(self.fault_plan)
        self.listener = FakeTranscriber(self.fault_plan)
        self.scribe = FakeNoteWriter(self.fault_plan)
        self.notes_notifier = MemoryWorkerNotifier()
        self.resolver = SystemResolver()
        self.metrics = NO_METRICS
        self.memo_cipher: KeyedCipher = PlainCipher()
        self.sandbox = SandboxProvider(
            "http://sandbox", MemorySandboxState(), bytes(32),
            faults=self.faults, timeout_s=0, now=self.clock.now,
        )  # fmt: skip
        self.provider: VideoProvider = self.sandbox

    async def start(self) -> "ApplicationHarness":
        """Open the account and add the hosts."""
        account = await self.administration.create_account("a@example.com", "A", self.credits)
        minted = await self.administration.create_key(account.id, tuple(Scope), self.daily_cap)
        caller = await self.queries.find_caller(digest(minted.text))
        assert caller is not None
        self.caller: Caller = caller
        for number in range(self.hosts):
            await self.administration.hosts.add(f"host-{number}", 100)
        return self

    async def another_caller(self) -> Caller:
        """A key of another account, which has as many credits."""
        account = await self.administration.create_account("b@example.com", "B", self.credits)
        minted = await self.administration.create_key(account.id, tuple(Scope))
        caller = await self.queries.find_caller(digest(minted.text))
        assert caller is not None
        return caller

    def process(self, crash_point: CrashPoint | None = None, **policy: Any) -> Application:
        """The application in another process, which crashes at a point of its work if one is given."""
        store, provider = self.store, self.provider
        if crash_point is not None:
            store, provider = DyingStore(store, crash_point), DyingProvider(provider, crash_point)
        ports = Ports(
            self.clock, self.runtime.entropy, store, self.queries, self.registry,
            MemoryLedgerAudit(self.state), MemoryHousekeeping(self.state, self.clock),
            MemoryKeyUses(self.state), MemoryRequestLog(self.state),
            MemoryRetention(self.state, self.clock), MemoryRateCounters(),
            self.notifier, self.notes_notifier, self.resolver, MemoryDocumentPrinter(), provider,
            self.fake_recordings,
            notes=NotePorts(self.editor, self.listener, self.scribe), metrics=self.metrics,
            memo_cipher=self.memo_cipher, fence=MemoryFence(),
        )  # fmt: skip
        return build(ports, Policy(**{"meeting_lease_s": LEASE_S, "note_lease_s": LEASE_S} | policy))

    @property
    def administration(self) -> Administration:
        """The operator's use cases."""
        return self.process().administration

    def create(self, crash_point: CrashPoint | None = None, *, wait_s: float = 0.05) -> CreateMeeting:
        """The use case in a process that may crash, with short waits."""
        return evolve(self.process(crash_point).api.create_meeting, wait_s=wait_s, poll_s=0.001)

    def cancel(self, crash_point: CrashPoint | None = None, *, wait_s: float = 0.05) -> CancelMeeting:
        """The use case in a process that may crash, with short waits."""
        return evolve(self.process(crash_point).api.cancel_meeting, wait_s=wait_s, poll_s=0.001)

    def reconcile(self) -> ReconcileMeetings:
        """The reconciler of a process that lives."""
        return self.process().meetings.reconcile

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
        """Every recording in any state."""
        return [stored.recording for stored in self.state.committed.recordings.values()]

    def notes(self) -> list[Note]:
        """Every note in any state, in the order in which they were asked for."""
        return [stored.note for stored in self.state.committed.notes.values()]

    def events_of(self, kind: EventKind) -> list[dict[str, Any]]:
        """The data of every event of a kind that is kept."""
        events = self.state.committed.events.values()
        return [msgspec.json.decode(event.payload)["data"] for event in events if event.kind is kind]

    def request_key(self, key: str | None, body: object = "create") -> IdempotentRequest:
        """Return an idempotent request; another body is another request."""
        return IdempotentRequest(key, fingerprint("POST", "/api/v1/meetings", body))

    def now(self) -> datetime:
        """The present."""
        return self.clock.now()

    def expire_leases(self) -> None:
        """Let every lease run out."""
        self.clock.advance(LEASE_S + 1)

    def funds(self) -> Funds:
        """The account's funds as they are stored."""
        return self.state.committed.accounts[self.caller.account.id].funds

    def entries(self) -> list[Entry]:
        """The account's history."""
        return list(self.state.committed.entries.values())

    def meetings(self) -> list[Meeting]:
        """Every meeting in any state."""
        return [stored.meeting for stored in self.state.committed.meetings.values()]

    def usage(self) -> list[CapUsage]:
        """What the key spent and holds, by day."""
        return list(self.state.committed.usage.values())

    def prove(self) -> None:
        """Check the ledger's invariants."""
        funds, entries = self.funds(), self.entries()
        assert first_broken(self.caller.account.id, entries) is None
        assert funds.balance == sum(entry.amount for entry in entries)
        assert funds.held == sum(hold.amount for hold in self.state.committed.holds.values())
