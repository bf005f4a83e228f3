"""The processes of `meetcore serve`: each is a real one, of an application that does nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from uvicorn.supervisors.multiprocess import SIGNALS

from meetcore.cli.servers import SERVER_OPTIONS, ServeProcesses

app = Starlette()
LONG_S = 60


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """The supervisor takes all signals of its process."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@contextmanager
def supervised(
    *,
    silent_s: int = LONG_S,
    end_s: float = LONG_S,
    workers: int = 1,
    target: str = "tests.unit.cli.test_serve_processes:app",
) -> Iterator[ServeProcesses]:
    config = uvicorn.Config(
        target, port=0, workers=workers, log_level="critical", timeout_worker_healthcheck=silent_s
    )
    listening = config.bind_socket()
    processes = ServeProcesses(config, [listening], end_s)
    processes.init_processes()
    try:
        yield processes
    finally:
        for process in processes.processes:
            process.process.kill()
            process.process.join()
        listening.close()


def rounds_until(processes: ServeProcesses, is_so: Callable[[], bool]) -> None:
    """Look after the processes as the supervisor does, twice a second, until something is so."""
    deadline = time.monotonic() + LONG_S / 2
    while not is_so():
        assert time.monotonic() < deadline
        processes.keep_subprocess_alive()
        time.sleep(0.05)


def freeze(processes: ServeProcesses) -> int:
    """Stop the only process once it has answered; returns its pid."""
    [process] = processes.processes
    assert process.wait_until_ready(LONG_S)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)
    return process.pid


def test_a_process_that_is_killed_while_it_is_asked_is_replaced_at_once() -> None:
    with supervised() as processes:
        pid = freeze(processes)
        processes.keep_subprocess_alive()
        assert processes.processes[0].pid == pid  # its answer may still come
        os.kill(pid, signal.SIGKILL)
        rounds_until(processes, lambda: processes.processes[0].pid != pid)
        assert processes.processes[0].wait_until_ready(LONG_S)


def test_one_that_answers_is_kept() -> None:
    with supervised() as processes:
        [process] = processes.processes
        assert process.wait_until_ready(LONG_S)
        asked: set[float] = set()

        def is_asked_often() -> bool:
            asked.update(processes._asked_at.values())
            return len(asked) >= 10

        rounds_until(processes, is_asked_often)
        assert processes.processes == [process]


def test_one_that_is_silent_for_too_long_is_replaced() -> None:
    with supervised(silent_s=1) as processes:
        pid = freeze(processes)
        rounds_until(processes, lambda: processes.processes[0].pid != pid)


def test_one_that_cannot_start_ends_them_all() -> None:
    with supervised(target="tests.unit.cli.test_serve_processes:nothing") as processes:
        rounds_until(processes, processes.should_exit.is_set)
        assert len(processes.processes) == 1


def test_one_that_cannot_be_replaced_leaves_the_others_at_work() -> None:
    """As after `meetcore migrate` of the next release, which refuses every new process of this one."""
    with supervised(workers=2) as processes:
        lost, left = processes.processes
        for process in (lost, left):
            assert process.wait_until_ready(LONG_S)
        processes.config = uvicorn.Config(
            "tests.unit.cli.test_serve_processes:nothing", port=0, workers=2, log_level="critical"
        )
        lost.process.kill()
        rounds_until(processes, lambda: processes.should_exit.is_set() or processes.processes == [left])
        assert not processes.should_exit.is_set()
        assert left.process.is_alive()


def test_processes_that_cannot_start_are_no_success() -> None:
    config = uvicorn.Config(
        "tests.unit.cli.test_serve_processes:nothing", port=0, workers=1, log_level="critical"
    )
    with config.bind_socket() as listening, pytest.raises(SystemExit, match="3"):
        ServeProcesses(config, [listening], LONG_S).run()


def test_none_is_replaced_while_all_are_to_end() -> None:
    with supervised() as processes:
        pid = freeze(processes)
        os.kill(pid, signal.SIGKILL)
        processes.processes[0].process.join()
        processes.should_exit.set()
        processes.keep_subprocess_alive()
        assert [each.pid for each in processes.processes] == [pid]


def test_one_that_does_not_end_is_killed() -> None:
    with supervised(end_s=0.2) as processes:
        freeze(processes)
        processes.terminate_all()
        processes.join_all()
        assert [each.exitcode for each in processes.processes] == [-signal.SIGKILL]


def test_an_idle_connection_outlives_those_of_proxies_and_clients() -> None:
    """In `meetcore dev` as in `serve`: the one that closes first must be the other end."""
    assert SERVER_OPTIONS["timeout_keep_alive"] > 60
