"""Several processes of `meetcore serve`, under uvicorn's supervisor.

uvicorn waits for the answer of one process after the other, up to the time limit of each. A process that ends
while it is asked would keep SIGTERM, and its own replacement, waiting so long. Here each process is asked,
and its answer is looked for in later rounds. One that does not end in time is killed.
"""

import pickle
from socket import socket
from time import monotonic
from typing import Final

import structlog
from uvicorn.config import STARTUP_FAILURE, Config
from uvicorn.supervisors.multiprocess import Multiprocess, Process

__all__ = ["ANSWER_S", "ServeProcesses"]

ANSWER_S: Final = 60
"""How long a process may be silent before it is replaced. uvicorn's 5 s are less than a start takes on a busy
machine: it ends processes that still import, again and again, and none ever answers."""

log = structlog.get_logger("meetcore.serve")


class ServeProcesses(Multiprocess):
    """Keeps processes alive until SIGTERM or SIGINT.

    Args:
        config: of the server; `timeout_worker_healthcheck` is how long a process may be silent.
        sockets: what they listen on.
        end_s: seconds in which a process has to end, all of them together.
    """

    def __init__(self, config: Config, sockets: list[socket], end_s: float) -> None:
        super().__init__(config, sockets)
        self._end_s = end_s
        self._asked_at: dict[Process, float] = {}

    def keep_subprocess_alive(self) -> None:
        """Replace each process that has ended or been silent for too long; wait for none."""
        for place, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            if self._answers(process):
                continue
            self._asked_at.pop(process, None)
            process.kill()
            process.join()
            if process.exitcode == STARTUP_FAILURE:  # another one would fail the same way
                log.error("process failed to start", process=process.pid)
                self.should_exit.set()
                return
            log.warning("process ended", process=process.pid, exit_code=process.exitcode)
            self.processes[place] = Process(self.config, self.sockets)
            self.processes[place].start()

    def join_all(self) -> None:
        """Wait until all processes have ended, and kill those that take too long."""
        give_up_at = monotonic() + self._end_s
        for process in self.processes:
            process.process.join(max(0.0, give_up_at - monotonic()))
            if process.process.is_alive():
                log.error("process killed", process=process.pid, cause=f"it did not end in {self._end_s:g} s")
                process.process.kill()
                process.process.join()

    def _answers(self, process: Process) -> bool:
        """Whether a process is alive and was not silent for too long; asks it where no question is open."""
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
