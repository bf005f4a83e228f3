"""The whole service in memory: the use cases on memory adapters, a manual clock, the sandbox.

`DyingStore` and `DyingProvider` let a process die at a chosen line: before a transaction, between its
last write and the commit, or after the commit, and before or after the provider did its work.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from attrs import define, evolve, field

from meetcore.adapters.memory.clock import ManualClock
from meetcore.adapters.memory.entropy import SeededEntropy
from meetcore.adapters.memory.queries import MemoryQueries
from meetcore.adapters.memory.registry import MemoryRegistry
from meetcore.adapters.memory.state import MemoryState
from meetcore.adapters.memory.store import MemoryStore
from meetcore.adapters.memory.worker_notifier import MemoryWorkerNotifier
from meetcore.adapters.sandbox import MemorySandboxState, SandboxFaults, SandboxProvider
from meetcore.domain.meetings.meetings import Meeting, MeetingRequest, ProviderAbilities, Provisioned
from meetcore.domain.money.holds import CapUsage
from meetcore.domain.money.ledger import Entry, Funds, first_broken
from meetcore.domain.money.pricing import DEFAULT_TIERS
from meetcore.domain.notes.notes import Note
from meetcore.domain.notes.recordings import Recording
from meetcore.domain.requests.idempotency import fingerprint
from meetcore.domain.requests.keys import Scope, digest
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.retry_schedule import NOTE_DELAYS_S, RetrySchedule
from meetcore.ports.queries import Caller
from meetcore.ports.store import Store, Transaction
from meetcore.ports.video_provider import ProviderMeetingState, ProviderOrder, VideoProvider
from meetcore.usecases.administration import Administration
from meetcore.usecases.cancel_meeting import CancelMeeting
from meetcore.usecases.cancellation import Cancellation
from meetcore.usecases.collect_recording_files import CollectRecordingFiles
from meetcore.usecases.create_meeting import CreateMeeting
from meetcore.usecases.create_note import CreateNote, NoteQueue
from meetcore.usecases.end_due_meetings import EndDueMeetings
from meetcore.usecases.expire_recordings import DeleteRecording, ExpireRecordings
from meetcore.usecases.finalize_note import FinalizeNote
from meetcore.usecases.idempotency import IdempotentRequest
from meetcore.usecases.provision import Provisioner
from meetcore.usecases.reconcile_meetings import ReconcileMeetings
from meetcore.usecases.remove_orphans import RemoveOrphans
from meetcore.usecases.runtime import Runtime
from meetcore.usecases.sync_recording_files import SyncRecordingFiles
from meetcore.usecases.transcribe_recording import TranscribeRecording
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
    return MeetingRequest(**(wanted | changes))  # type: ignore[arg-type]


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
        self.recordings_notifier = MemoryWorkerNotifier()
        self.fault_plan = FaultPlan()
        self.fake_recordings = FakeRecordings(self.fault_plan)
        self.editor = FakeAudioEditor(self.fault_plan)
        self.listener = FakeTranscriber(self.fault_plan)
        self.scribe = FakeNoteWriter(self.fault_plan)
        self.notes_notifier = MemoryWorkerNotifier()
        self.sandbox = SandboxProvider(
            "http://sandbox", MemorySandboxState(), bytes(32),
            faults=self.faults, timeout_s=0, now=self.clock.now,
        )  # fmt: skip
        self.provider: VideoProvider = self.sandbox
        self.administration = Administration(self.store, self.registry, self.notifier, self.runtime, "mk")

    async def start(self) -> "ApplicationHarness":
        """Open the account and add the hosts."""
        account = await self.administration.create_account("a@example.com", "A", self.credits)
        minted = await self.administration.create_key(account.id, tuple(Scope), self.daily_cap)
        caller = await self.queries.find_caller(digest(minted.text))
        assert caller is not None
        self.caller: Caller = caller
        for number in range(self.hosts):
            await self.administration.add_host(f"host-{number}", 100)
        return self

    async def another_caller(self) -> Caller:
        """A key of another account, which has as many credits."""
        account = await self.administration.create_account("b@example.com", "B", self.credits)
        minted = await self.administration.create_key(account.id, tuple(Scope))
        caller = await self.queries.find_caller(digest(minted.text))
        assert caller is not None
        return caller

    def create(self, crash_point: CrashPoint | None = None, *, wait_s: float = 0.05) -> CreateMeeting:
        """The use case, in a process that may die."""
        store, provider = self._process(crash_point)
        return CreateMeeting(
            store, self.queries, provider, Provisioner(store, self.runtime), self.reconcile(),
            DEFAULT_TIERS, self.notifier, self.runtime, lease_s=LEASE_S, wait_s=wait_s, poll_s=0.001,
        )  # fmt: skip

    def cancel(self, crash_point: CrashPoint | None = None, *, wait_s: float = 0.05) -> CancelMeeting:
        """The use case, in a process that may die."""
        store, provider = self._process(crash_point)
        return CancelMeeting(
            store, self.queries, provider, Cancellation(store, provider, self.runtime), self.reconcile(),
            self.notifier, self.runtime, lease_s=LEASE_S, wait_s=wait_s, poll_s=0.001,
        )  # fmt: skip

    def reconcile(self) -> ReconcileMeetings:
        """The reconciler, in a process that lives."""
        cancellation = Cancellation(self.store, self.provider, self.runtime)
        provisioner = Provisioner(self.store, self.runtime)
        return ReconcileMeetings(
            self.store, self.provider, provisioner, cancellation, self.notifier, self.runtime, LEASE_S
        )

    def remove_orphans(self, crash_point: CrashPoint | None = None, **changes: Any) -> RemoveOrphans:
        """The use case, in a process that may die."""
        store, provider = self._process(crash_point)
        return evolve(RemoveOrphans(store, provider, self.runtime), **changes)

    def end_due_meetings(self) -> EndDueMeetings:
        """What the clock does, in a process that lives."""
        return EndDueMeetings(self.store, self.provider, self.look(), self.notifier, self.runtime, LEASE_S)

    def record(self) -> CollectRecordingFiles:
        """The use case, in a process that lives."""
        return CollectRecordingFiles(self.store, self.recordings_notifier, self.runtime)

    def look(self) -> SyncRecordingFiles:
        """The use case, in a process that lives."""
        return SyncRecordingFiles(self.store, self.fake_recordings, self.record(), self.runtime)

    def note_queue(self) -> NoteQueue:
        """Where notes wait."""
        return NoteQueue(DEFAULT_TIERS, self.runtime)

    def create_note(self) -> CreateNote:
        """The use case, in a process that lives."""
        return CreateNote(self.store, self.note_queue(), self.notes_notifier)

    def work_on_recordings(self, crash_point: CrashPoint | None = None, **changes: Any) -> WorkOnRecordings:
        """What a worker does, in a process that may die."""
        return evolve(
            WorkOnRecordings(
                self._process(crash_point)[0], self.fake_recordings, self.editor, self.note_queue(),
                self.notifier,
                self.notes_notifier, self.runtime, lease_s=LEASE_S,
            ),
            **changes,
        )  # fmt: skip

    def write_notes(self, crash_point: CrashPoint | None = None, **changes: Any) -> WriteNotes:
        """What a worker does, in a process that may die."""
        store = self._process(crash_point)[0]
        transcribe = TranscribeRecording(store, self.fake_recordings, self.editor, self.listener)
        end = FinalizeNote(store, DEFAULT_TIERS, self.notifier, self.runtime)
        look = SyncRecordingFiles(
            store,
            self.fake_recordings,
            CollectRecordingFiles(store, self.recordings_notifier, self.runtime),
            self.runtime,
        )
        schedule = RetrySchedule(NOTE_DELAYS_S)
        made = WriteNotes(store, look, transcribe, self.scribe, end, self.runtime, schedule, lease_s=LEASE_S)
        return evolve(made, **changes)

    def expire_recordings(self) -> ExpireRecordings:
        """What a worker does, in a process that lives."""
        return ExpireRecordings(self.store, self.notifier, self.notes_notifier, self.runtime)

    def delete_recording(self) -> DeleteRecording:
        """The use case, in a process that lives."""
        return DeleteRecording(self.store, self.notifier, self.notes_notifier, self.runtime)

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

    def _process(self, crash_point: CrashPoint | None) -> tuple[Store, VideoProvider]:
        if crash_point is None:
            return self.store, self.provider
        return DyingStore(self.store, crash_point), DyingProvider(self.provider, crash_point)

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
