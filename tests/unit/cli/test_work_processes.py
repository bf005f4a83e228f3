"""`meetcore worker`: a database that is away at its start, and processes that cannot start."""

import asyncio
import signal
from collections.abc import Iterator
from inspect import signature
from typing import Any

import pytest
from attrs import define, field

from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.adapters.webhook_sender import AsyncioWebhookSender
from meetcore.cli import processes
from meetcore.cli.output import ExitCode
from meetcore.composition.application import Part
from meetcore.ports.store import StoreUnavailable
from tests.support.kept_log import capture_own_logs


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The supervisor takes signals of its process."""
    monkeypatch.setattr(processes, "RESTART_PAUSE_S", 0.0)
    monkeypatch.setattr(processes, "LOOK_AGAIN_S", 0.0)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def answer() -> None:
    """Answer a ping."""


async def test_a_worker_looks_at_the_schema_once_its_database_is_there(monkeypatch: pytest.MonkeyPatch):
    found: list[Exception] = [StoreUnavailable("away"), StoreUnavailable("away"), SettingsRefused("old")]

    def check(_: Settings) -> None:
        raise found.pop(0)

    monkeypatch.setattr(processes, "check_schema", check)
    with capture_own_logs() as lines, pytest.raises(SettingsRefused):
        await processes._until_checked(Settings(), answer, asyncio.Event())
    assert found == []
    assert [line["event"] for line in lines] == ["store unavailable"] * 2, "it does not wait in silence"


async def test_a_worker_without_a_database_stops_when_it_is_told_to(monkeypatch: pytest.MonkeyPatch):
    stop = asyncio.Event()

    def check(_: Settings) -> None:
        stop.set()
        raise StoreUnavailable("away")

    monkeypatch.setattr(processes, "check_schema", check)
    await processes._until_checked(Settings(), answer, stop)


async def test_a_worker_raises_its_limit_of_files_above_its_connections(monkeypatch: pytest.MonkeyPatch):
    wanted: list[int] = []

    def opened(*_: Any, **__: Any) -> None:
        raise SettingsRefused("here it ends")

    monkeypatch.setattr(processes, "allow_open_files", wanted.append)
    monkeypatch.setattr(processes, "open_application", opened)
    with pytest.raises(SettingsRefused):
        await processes._work(Settings(webhook_posts_in_flight=2_000), 1, (Part.WEBHOOKS,))
    most_idle = signature(AsyncioWebhookSender).parameters["max_open"].default
    assert wanted[0] > 2_000 + most_idle


@define
class Ended:
    """A process that has ended; others have been started before it."""

    exitcode: int
    pid: int = 1
    started: list[int] = field(factory=list)

    def start(self) -> None:
        self.started.append(self.exitcode)

    def is_alive(self) -> bool:
        return False

    terminate = kill = start


def test_a_process_that_cannot_start_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    codes = iter([1, ExitCode.SETTINGS, ExitCode.SETTINGS])

    class Context:
        def Process(self, **_: Any) -> Ended:  # noqa: N802  # as multiprocessing has it
            return Ended(next(codes), started=started)

    monkeypatch.setattr(processes, "get_context", lambda _: Context())
    with pytest.raises(SystemExit) as ended:
        processes._supervise(2, 1, None)
    assert ended.value.code == ExitCode.SETTINGS
    assert started == [1, ExitCode.SETTINGS, ExitCode.SETTINGS], "one that crashed is replaced"
