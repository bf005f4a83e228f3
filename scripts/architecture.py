"""The drawings and recipes of docs/architecture.md, made from the code.

A walk is drawn from a run of the service on the memory adapters: the functions that it enters, each where it
is entered first. A recipe lists the files that name an example that is there already; a file that names it
and has no instruction here, or the other way round, is an error.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch
from io import BytesIO
from ipaddress import ip_address
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, BinaryIO
from uuid import UUID

import httpx
from attrs import define, field, frozen
from structlog.testing import capture_logs

import meetcore
from meetcore.adapters.http.api_app import ApiApp
from meetcore.adapters.local_notes.writer import LocalNoteWriter
from meetcore.adapters.memory.audit import MemoryLedgerAudit
from meetcore.adapters.memory.clock import ManualClock
from meetcore.adapters.memory.document_printer import MemoryDocumentPrinter
from meetcore.adapters.memory.entropy import SeededEntropy
from meetcore.adapters.memory.housekeeping import MemoryHousekeeping
from meetcore.adapters.memory.key_uses import MemoryKeyUses
from meetcore.adapters.memory.queries import MemoryQueries
from meetcore.adapters.memory.rate_counters import MemoryRateCounters
from meetcore.adapters.memory.recording_files import MemoryRecordingFiles
from meetcore.adapters.memory.registry import MemoryRegistry
from meetcore.adapters.memory.request_log import MemoryRequestLog
from meetcore.adapters.memory.retention import MemoryRetention
from meetcore.adapters.memory.state import MemoryState
from meetcore.adapters.memory.store import MemoryStore
from meetcore.adapters.memory.worker_notifier import MemoryWorkerNotifier
from meetcore.adapters.sandbox import MemorySandboxState, SandboxProvider
from meetcore.composition.application import Application, build
from meetcore.composition.policy import Policy
from meetcore.composition.ports import NotePorts, Ports
from meetcore.domain.notes.recordings import FileKind, RecordingFile
from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks.addresses import Address
from meetcore.domain.webhooks.deliveries import Attempt
from meetcore.ports.audio_editor import Sound
from meetcore.ports.webhook_sender import OutgoingPost

__all__ = ["RECIPES", "Recipe", "drawings", "running"]

PACKAGE = Path(meetcore.__file__).parent
BASE_URL = "https://meet.example.com"
AT = datetime(2026, 12, 1, tzinfo=UTC)

DRIVEN = ("adapters/memory/", "adapters/sandbox/", "adapters/local_notes/")
LEFT_OUT = (
    "domain/ids", "usecases/runtime", "usecases/key_lookups", "usecases/concurrency",
    "adapters/api/log_fields", "adapters/api/operation",
    "adapters/memory/clock", "adapters/memory/entropy", "adapters/memory/state", "ports/metrics",
    "ports/tracing")  # fmt: skip
"""Modules that are entered everywhere, or that say nothing about the way."""
ADMISSION = (
    "adapters/http/", "adapters/api/", "usecases/admit", "usecases/duplicates", "domain/requests/",
    "adapters/memory/queries", "adapters/memory/rate_counters",
)  # fmt: skip
"""What every request passes, which the walk of a meeting shows."""


# Walks


@define
class Walk:
    """The functions of a run in the order in which it entered them, each once, with its depth.

    `skipped` are the beginnings of the modules that are passed over.
    """

    skipped: tuple[str, ...] = ()
    steps: list[tuple[int, CodeType]] = field(factory=list)
    _known: dict[CodeType, str] = field(factory=dict)

    def record(self, frame: FrameType, event: str, _: object) -> None:
        """Take note of a call; a profiler of `sys.setprofile`."""
        code = frame.f_code
        if event != "call" or code in self._known or not code.co_filename.startswith(str(PACKAGE)):
            return
        module = module_of(code)
        callers = list(codes_above(frame))
        above = [self._known[each] for each in callers if each in self._known]
        is_below = bool(above) and above[0].startswith(("domain/", *DRIVEN))
        if is_below or module in above[:1] or module.startswith(self.skipped):
            return
        if is_shown(code, module):
            self._known[code] = module
            is_in_task = walks.__code__ not in callers
            self.steps.append((len(above) + is_in_task, code))

    def drawing(self) -> str:
        """One line for the functions of a module that follow each other at one depth."""
        lines = []
        named = [(depth, module_of(code), code.co_qualname) for depth, code in self.steps]
        for (depth, module), group in groupby(named, lambda step: step[:2]):
            names = [qualname.removesuffix(".__call__") for _, _, qualname in group]
            lines.append(f"{'  ' * depth}{module}  {', '.join(names)}")
        return "\n".join(["```text", *lines, "```", ""])


def module_of(code: CodeType) -> str:
    """The path of a function's module in the package, without its ending."""
    return Path(code.co_filename).relative_to(PACKAGE).with_suffix("").as_posix()


def codes_above(frame: FrameType) -> Iterator[CodeType]:
    """The code of each caller, the nearest first."""
    above = frame.f_back
    while above is not None:
        yield above.f_code
        above = above.f_back


def is_shown(code: CodeType, module: str) -> bool:
    """Whether a function is public, and no property."""
    names = code.co_qualname.split(".")
    if module in LEFT_OUT or any(name != "__call__" and name[0] in "_<" for name in names):
        return False
    found: Any = importlib.import_module(f"meetcore.{module.replace('/', '.')}")
    for name in names[:-1]:
        found = getattr(found, name)
    return not isinstance(vars(found).get(names[-1]), property)


@contextmanager
def walking(walk: Walk) -> Iterator[None]:
    """Record what a block enters."""
    sys.setprofile(walk.record)
    try:
        yield
    finally:
        sys.setprofile(None)


class _Resolver:
    async def resolve(self, host: str, account_id: UUID) -> tuple[Address, ...]:
        return (ip_address("93.184.215.14"),)


class _Sender:
    async def post(self, post: OutgoingPost) -> Attempt:
        return Attempt(AT, 9, 200, None, "ok")


class _Editor:
    def scratch(self) -> BinaryIO:
        return BytesIO()

    async def measure(self, media: BinaryIO) -> float:
        return 600.0

    async def cut(self, media: BinaryIO, from_s: float, length_s: float, *, may_copy: bool = False) -> Sound:
        raise NotImplementedError


@frozen
class Running:
    """The application in memory, a customer's HTTP client, and the files of recordings."""

    application: Application
    http: httpx.AsyncClient
    files: MemoryRecordingFiles
    state: MemoryState


@asynccontextmanager
async def running() -> AsyncIterator[Running]:
    """Build the application on memory adapters, with an account that has credits."""
    clock, state, files = ManualClock(AT), MemoryState(), MemoryRecordingFiles("sandbox")
    provider = SandboxProvider(BASE_URL, MemorySandboxState(), bytes(32), timeout_s=0, now=clock.now)
    ports = Ports(
        clock=clock, entropy=SeededEntropy(1), store=MemoryStore(clock, SeededEntropy(2), state),
        queries=MemoryQueries(state, clock), registry=MemoryRegistry(state), audit=MemoryLedgerAudit(state),
        housekeeping=MemoryHousekeeping(state, clock), key_uses=MemoryKeyUses(state),
        request_log=MemoryRequestLog(state), retention=MemoryRetention(state, clock),
        counters=MemoryRateCounters(),
        notifier=MemoryWorkerNotifier(), notes_notifier=MemoryWorkerNotifier(),
        resolver=_Resolver(), printer=MemoryDocumentPrinter(), provider=provider, files=files,
        sender=_Sender(), notes=NotePorts(_Editor(), None, LocalNoteWriter()),
    )  # fmt: skip
    application = build(ports, Policy(base_url=BASE_URL))
    account = await application.administration.create_account("ani@example.com", "Ani", 1000)
    key = await application.administration.create_key(account.id, tuple(Scope))
    await application.administration.hosts.add("host", 100)
    api = ApiApp(application.api, application.admit, application.runtime, BASE_URL, lambda _: b"")
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(api), base_url=f"{BASE_URL}/api/v1",
        headers={"Authorization": f"Bearer {key.text}"},
    ) as http:  # fmt: skip
        yield Running(application, http, files, state)


async def walks() -> Mapping[str, str]:
    """Draw each walk, by its name."""
    async with running() as one:
        hook = {"url": "https://hooks.example.com/x", "event_types": ["meeting.created"]}
        (await one.http.post("/webhooks", json=hook)).raise_for_status()
        wanted = {
            "title": "Rapat", "date": "2026-12-02", "start_time": "09:00",
            "pricing_tier_id": "standard-100", "with_recording": True,
        }  # fmt: skip
        meeting, event, note = Walk(), Walk(), Walk(ADMISSION)
        with walking(meeting):
            made = await one.http.post("/meetings", json=wanted, headers={"Idempotency-Key": "order-1"})
        with walking(event):
            await _deliver(one)
        await _write_note(one, made.json()["provider_meeting_id"], note)
        notes = (await one.http.get("/notes")).json()["data"]
    assert [each["status"] for each in notes] == ["completed"], notes
    return {"meeting": meeting.drawing(), "event": event.drawing(), "note": note.drawing()}


async def _deliver(one: Running) -> None:
    deliver = one.application.deliver
    assert deliver is not None
    posted = [await deliver.post(each) for each in await deliver.claim(10)]
    assert posted
    await deliver.record(posted)


async def _write_note(one: Running, provider_meeting_id: str, walk: Walk) -> None:
    notes, files = one.application.notes, []
    assert notes is not None
    for kind, content in ((FileKind.AUDIO, b"sound"), (FileKind.TRANSCRIPT, TRANSCRIPT)):
        ends_at = AT + timedelta(minutes=10)
        file = RecordingFile(kind.value, kind, len(content), AT, ends_at, f"https://files.test/{kind.value}")
        one.files.put(provider_meeting_id, file, content)
        files.append(file)
    with walking(walk):
        await one.application.recordings.collect_files("sandbox", provider_meeting_id, files, AT)
        while await notes.work_on_recordings():
            pass
    (recording,) = (await one.http.get("/recordings")).json()["data"]
    wanted = {"recording_id": recording["id"]}
    with walking(walk):
        await one.http.post("/notes", json=wanted, headers={"Idempotency-Key": "notes-1"})
        for task in await notes.write.claim(10):
            await notes.write.work(task)


TRANSCRIPT = b"WEBVTT\n\n00:00:01.000 --> 00:00:04.000\nAni: We agreed on the budget.\n"


# Recipes


@frozen
class Recipe:
    """What to change for one kind of addition: instructions by file or by a pattern of paths, in their order.

    `names` finds what names the example `like`, in a file or in its path. `beside` are patterns of files that
    name it for a reason of their own: an addition does not change them.
    """

    like: str
    names: str
    files: Mapping[str, str]
    beside: tuple[str, ...] = ()

    def rows(self) -> Iterator[tuple[list[str], str]]:
        """The files that name the example, by their instruction.

        Raises:
            SystemExit: a file has no instruction, or an instruction no file.
        """
        left = [file for file in files_naming(self.names) if not is_like(file, *self.beside)]
        for pattern, instruction in self.files.items():
            found = [file for file in left if is_like(file, pattern)]
            left = [file for file in left if file not in found]
            if not found:
                raise SystemExit(f"scripts/architecture.py: {pattern} does not name {self.like} any more")
            yield found, instruction
        if left:
            raise SystemExit(f"scripts/architecture.py: these name {self.like}: say what for: {left}")


def is_like(file: str, *patterns: str) -> bool:
    """Whether a path fits one of some patterns."""
    return any(fnmatch(file, pattern) for pattern in patterns)


def files_naming(names: str) -> Iterator[str]:
    """The files of the package that a pattern is found in, or in whose path it is found."""
    wanted = re.compile(names)
    for file in sorted(PACKAGE.rglob("*")):
        path = file.relative_to(PACKAGE).as_posix()
        if file.suffix in (".py", ".sql") and wanted.search(f"{path}\n{file.read_text('utf-8')}"):
            yield path


KIT = "what every adapter is tested with"
MIGRATION = "a new file beside it with the next number, such as `0042_waiting_room.sql`, with the change"
SCHEMA = "the column as `ADD COLUMN` leaves it: the last of its table, with its DEFAULT"

# The dashboard has a page for it, which an operation, an event or a field need not have.
PAGES = ("adapters/web/*", "usecases/webhooks_by_hand.py")

RECIPES: Mapping[str, Recipe] = {
    "flag": Recipe(
        "`mic_off`, a flag of a meeting",
        r"\bmic_off\b",
        {
            "domain/meetings/meetings.py": "the field of `MeetingOptions` with its text; its ability in "
            "`ProviderAbilities`, False by default; both in `OPTION_ABILITIES`, with the refusal",
            "adapters/postgres/schema.sql": SCHEMA + "; statements and rows follow `MeetingOptions`",
            "adapters/postgres/migrations/*": MIGRATION,
            "adapters/[jz]*": "`has_…=True` among the abilities (`provider.py`) of each that "
            "carries it out, the sandbox included, and what it does",
            "client/operations.py": "the argument of `meetings.create` and of `credits.estimate_meeting`",
            "adapters/web/pages/meetings.py": "its label in the form of a new meeting; "
            "`scripts/check_catalogues.py` takes it into `catalogues/id.po`, where it is translated",
            "adapters/api/operations/meetings.py": "the example of a body, if it is worth showing",
            "testing/*": KIT,
        },
    ),
    "field": Recipe(
        "`response_excerpt`, a field of an attempt",
        r"\bresponse_excerpt\b",
        {
            "domain/webhooks/deliveries.py": "the field in the domain, and the rule that fills it",
            "domain/records/*": "the field of the record with its type and text: it is what "
            "is encoded, documented and read by the client",
            "adapters/api/example_records.py": "its value in the example",
            "adapters/postgres/schema.sql": SCHEMA + "; statements and rows follow the record",
            "adapters/postgres/migrations/*": MIGRATION,
            "testing/*": KIT,
        },
        ("adapters/webhook_sender/*",),
    ),
    "write": Recipe(
        "`POST /webhooks/{id}/deliveries/{delivery_id}/resend`, an operation that changes something",
        r"resend_delivery|ResendDelivery|post_again|def resend\b",
        {
            "usecases/post_webhooks.py": "the use case: one function of each transaction, then the record",
            "usecases/api.py": "the use case among those of the API",
            "composition/application.py": "the use case, built on its ports",
            "adapters/api/operations/deliveries.py": "the declaration (method, path, scope, quota, "
            "record, texts, example); below it the handler",
            "adapters/api/operations/__init__.py": "the operation in the table",
            "client/operations.py": "the operation of the client",
            "ports/*": "what the use case needs of the store, if that is new",
            "adapters/memory/*": "the same in memory",
            "adapters/postgres/*": "the same in PostgreSQL, the statement beside the method",
            "testing/*": KIT,
        },
        ("adapters/api/operations/webhooks.py", *PAGES),
    ),
    "read": Recipe(
        "`GET /webhooks/{id}/deliveries/{delivery_id}`, an operation that reads",
        r"\b(find|get)_delivery\b|\"deliveries\", delivery_id\)",
        {
            "adapters/api/operations/deliveries.py": "the declaration, below it the handler",
            "adapters/api/operations/__init__.py": "the operation in the table",
            "ports/queries.py": "the query",
            "adapters/memory/*": "the query in memory",
            "adapters/postgres/*": "the query in PostgreSQL",
            "client/operations.py": "the operation of the client",
            "testing/*": KIT,
        },
        ("adapters/api/operations/webhooks.py", *PAGES),
    ),
    "event": Recipe(
        "`note.failed`",
        r"NOTE_FAILED|note\.failed|, NoteFailed\(failed\)",
        {
            "domain/webhooks/events.py": "the kind",
            "domain/notes/notes.py": "the fact, returned by the function that decides it",
            "usecases/outbox.py": "the fact as an event, with its record",
            "adapters/api/example_events.py": "its text, the class of its `data`, an example",
            "client/webhooks.py": "the record that the client reads its `data` as",
            "adapters/postgres/schema.sql": "the kind in the CHECK of events and endpoints",
            "adapters/postgres/migrations/*": MIGRATION,
            "testing/*": KIT,
        },
        ("adapters/postgres/*.py", *PAGES),
    ),
    "provider": Recipe(
        "Jitsi, a provider of meetings",
        r"(?i)jitsi",
        {
            "adapters/jitsi/*": "new: `VideoProvider` and `RecordingFiles`, proved by their contract suites",
            "composition/providers.py": "one function that opens it, in the dict",
            "composition/secret_keys.py": "what its addresses follow from, if that is a key of ours",
            "adapters/settings/*": "its name and its settings",
        },
        ("composition/start_warnings.py", "testing/*"),
    ),
    "store": Recipe(
        "Redis for rate counters, another technology for one port",
        r"adapters[./]redis|RedisRateCounters|rate_store_url",
        {
            "adapters/redis/*": "new: the class that fills the port, proved by the port's contract suite",
            "composition/infrastructure.py": "what opens it, and when it is chosen",
            "adapters/settings/*": "where it is",
            "composition/doctor/*": "a check that it answers",
        },
    ),
    "task": Recipe(
        "the expiry of recordings, a task that workers repeat",
        r"\bExpireRecordings\b|\bexpiry_s\b",
        {
            "usecases/expire_recordings.py": "the use case: it claims what is due, under a lease",
            "composition/policy.py": "its period",
            "composition/application.py": "the use case",
            "composition/work.py": "the use case, among those that are repeated",
            "composition/periodic_tasks.py": "the task, in the list of its part",
        },
    ),
}


def recipe_table(name: str) -> str:
    """The files of a recipe as a table."""
    recipe = RECIPES[name]
    rows = list(recipe.rows())
    own = sum(len(files) for files, instruction in rows if instruction != KIT)
    lines = [f"| {', '.join(f'`{file}`' for file in files)} | {instruction} |" for files, instruction in rows]
    head = f"Like {recipe.like}: {own} files of `src/meetcore`, those of `testing/` not counted."
    return "\n".join([head, "", "| file | change |", "|---|---|", *lines, ""])


def drawings() -> Mapping[str, str]:
    """Every generated part of the page, by the name of its markers."""
    recipes = {f"recipe-{name}": recipe_table(name) for name in RECIPES}
    with capture_logs():
        drawn = asyncio.run(walks())
    return {f"walk-{name}": walk for name, walk in drawn.items()} | recipes


if __name__ == "__main__":
    for name, part in drawings().items():
        print(f"{name}\n\n{part}")
