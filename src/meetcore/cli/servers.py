"""uvicorn for `serve` and `dev`: its options, the check of the port, and several processes of `serve`.

uvicorn waits for the answer of one process after the other, up to the time limit of each. A process that ends
meanwhile would delay SIGTERM, and its own replacement. Here each process is pinged, and its answer is read
in later rounds. One that does not end in time is killed.
"""

import errno
import pickle
import socket
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from time import monotonic
from typing import Any, Final

import structlog
from uvicorn.config import STARTUP_FAILURE, Config
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from meetcore.cli.output import ExitCode, complain

KEEP_ALIVE_S: Final = 75
"""How long a connection may idle: longer than proxies (60 s) and clients (5 s) keep theirs, so that they
close it. One that is closed here just as a request comes costs an answer."""

SERVER_OPTIONS: Final[Mapping[str, Any]] = {
    "http": "meetcore.adapters.http.protocol:BoundedHttpProtocol",
    "ws": "none",  # nothing here speaks WebSocket, and its protocol would be without bounds
    "proxy_headers": False,  # `MEETCORE_TRUSTED_PROXIES` decides who may name a client
    "lifespan": "on",
    "access_log": False,
    "server_header": False,
    "log_level": "warning",
    "timeout_keep_alive": KEEP_ALIVE_S,
}

ANSWER_S: Final = 60
"""How long a process may be silent before it is replaced. uvicorn's 5 s are less than a start takes on a busy
machine: it ends processes that still import, again and again, and none ever answers."""

READY_S: Final = 5.0

log = structlog.get_logger("meetcore.serve")


def refuse_taken(host: str, port: int, choice: str = "--port") -> None:
    """Refuse a port that is not free, or an address not of this machine; `choice` is how to take another."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        message = f"cannot listen on {host}, port {port}: {error.strerror}"
        if error.errno == errno.EADDRINUSE:
            message = f"port {port} is taken; choose another with {choice}"
        complain("port", message, as_json=False)
        raise SystemExit(ExitCode.REFUSED) from None


def answers(host: str, port: int, *statuses: HTTPStatus) -> bool:
    """Return whether a server answers `/readyz`, with one of `statuses`."""
    connection = HTTPConnection(host, port, timeout=READY_S)
    try:
        connection.request("GET", "/readyz", headers={"Connection": "close"})
        return connection.getresponse().status in statuses
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


class ServeProcesses(Multiprocess):
    """Keeps processes alive until SIGTERM or SIGINT; they end within `end_s` seconds, all together."""

    def __init__(self, config: Config, sockets: list[socket.socket], end_s: float) -> None:
        super().__init__(config, sockets)
        self._end_s = end_s
        self._asked_at: dict[Process, float] = {}
        self._has_failed = False

    def run(self) -> None:
        """Run until a signal; exit as one process does where they fail to start."""
        super().run()
        if self._has_failed:
            raise SystemExit(STARTUP_FAILURE)

    def keep_subprocess_alive(self) -> None:
        """Replace each process that has ended or been silent for too long; wait for none.

        One that fails to start is not replaced, as another would fail the same way: on the schema of the next
        release, or by a changed setting. The others go on; without others it is the end.
        """
        for process in list(self.processes):
            if self.should_exit.is_set():
                return
            if self._answers(process):
                continue
            self._asked_at.pop(process, None)
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE:
                log.error("process failed to start", process=process.pid, left=len(self.processes) - 1)
                if self.processes == [process]:
                    self._has_failed = True
                    self.should_exit.set()
                    return
                self.processes.remove(process)
                continue
            replacement = Process(self.config, self.sockets)
            self.processes[self.processes.index(process)] = replacement
            replacement.start()
            log.warning("process ended", process=process.pid, exit_code=process.exitcode)

    def join_all(self) -> None:
        """Wait until all processes have ended, and kill those that take too long."""
        give_up_at = monotonic() + self._end_s
        for process in self.processes:
            process.process.join(max(0.0, give_up_at - monotonic()))
            if process.process.is_alive():
                process.process.kill()
                process.process.join()
                log.error("process killed", process=process.pid, cause=f"it did not end in {self._end_s:g} s")

    def _answers(self, process: Process) -> bool:
        """Ping a process unless a ping is open; return whether it is alive and has answered in time."""
        if not process.process.is_alive():
            return False
        now = monotonic()
        try:
            if process in self._asked_at and process.parent_conn.poll():
                process.parent_conn.recv()
                del self._asked_at[process]
            if process not in self._asked_at:
                process.parent_conn.send(b"ping")
                self._asked_at[process] = now
        except (OSError, EOFError, pickle.UnpicklingError):
            return False
        return now - self._asked_at[process] < self.config.timeout_worker_healthcheck
