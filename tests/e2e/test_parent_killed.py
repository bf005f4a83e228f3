"""After SIGKILL of a parent, its processes stop as on SIGTERM and nothing is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.e2e.customers import enrol
from tests.e2e.test_drain import status_of
from tests.support.own_postgres import children_of
from tests.support.program import ROOT, START_S, Site, answers, environment, free_port, has_fault, until

PROCESSES = 2


def is_gone(pid: int) -> bool:
    """Return whether a process has ended; zombies count as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@contextmanager
def ended_at_last(pids: Sequence[int]) -> Iterator[None]:
    """Kill remaining processes at the end."""
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_the_processes_of_the_api_finish_and_stop(site: Site) -> None:
    _, _, key = enrol(site)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = site.env(base_url=url, drain_s=1)
    server = site.launcher.start("serve", "--port", port, "--workers", PROCESSES, env=env)
    try:
        until(lambda: answers(f"{url}/readyz", server), "the API is up", START_S)
        children = until(lambda: _children(server.pid), "its processes are there", START_S)
        with ended_at_last(children), socket.create_connection(("127.0.0.1", port), timeout=START_S) as wire:
            wire.sendall(
                b"POST /api/v1/webhooks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: 2\r\nAuthorization: Bearer " + key.encode() + b"\r\n\r\n{"
            )
            until(lambda: status_of(f"{url}/healthz") == 200, "another request is answered")
            server.kill()
            until(lambda: status_of(f"{url}/healthz") == 0, "the listener is closed", START_S)
            wire.sendall(b"}")
            assert wire.recv(65536).startswith(b"HTTP/1.1 400 "), "what was in flight is answered"
            until(lambda: all(map(is_gone, children)), "its processes have ended", START_S)
    finally:
        server.kill()
    log = server.err.read_text()
    assert log.count('"parent process ended"') == log.count('"drain started"') == PROCESSES
    assert not has_fault(log), log


def test_the_processes_of_a_worker_stop(site: Site, redis_url: str) -> None:
    env = site.env(broker_url=redis_url, log_level="info")
    worker = site.launcher.start("worker", "--processes", PROCESSES, env=env)
    try:
        children = until(lambda: _children(worker.pid), "its processes are there", START_S)
        with ended_at_last(children):
            # One that still starts has no parent to read its first task from, and ends with a traceback.
            until(
                lambda: worker.err.read_text().count("meetcore works on") == PROCESSES, "they work", START_S
            )
            os.kill(max(children), signal.SIGKILL)  # the first is the resource tracker
            until(
                lambda: worker.err.read_text().count("meetcore works on") == PROCESSES + 1,
                "another one works in its place",
                START_S,
            )
            replaced = _children(worker.pid)
            worker.kill()
            until(lambda: all(map(is_gone, replaced)), "its processes have ended", START_S)
    finally:
        worker.kill()
    log = worker.err.read_text()
    assert log.count('"process ended"') == 1, "an operator reads of it"
    assert log.count('"parent process ended"') == PROCESSES
    assert not has_fault(log), log


VERIFY = """
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
from meetcore.composition.verification import _start_process

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(1, context, _start_process, (context.Value("q"),))
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""


def test_the_processes_of_a_verification_end(tmp_path: Path) -> None:
    script = tmp_path / "verify.py"
    script.write_text(VERIFY)
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env=environment(), cwd=ROOT)
    with parent:
        assert parent.stdout is not None
        try:
            child = int(parent.stdout.readline())
        finally:
            parent.kill()
        with ended_at_last([child]):
            until(lambda: is_gone(child), "it has ended")


def _children(parent: int) -> list[int]:
    """Return the processes of a program once all have started, including the resource tracker."""
    found = children_of(parent)
    return found if len(found) > PROCESSES else []
