"""A log line names the error and no local values. Without a terminal each line is JSON."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meetcore.adapters.api.http_common import MAX_PATH_CHARS, loggable_path

PROGRAM = """
import sys
if "--terminal" in sys.argv:
    sys.stderr.isatty = lambda: True
import structlog
from meetcore.adapters.system import configure_logs
configure_logs("info")

def sign(secret):
    raise ValueError("does not fit")

try:
    sign("whsec_" + "7" * 30)
except ValueError:
    structlog.get_logger("x").exception("fault", during="sign")
"""
EVERYTHING = """
import asyncio, gc, logging, logging.config, sys, threading, warnings
from meetcore.adapters.system import configure_logs, stdlib_logging
if "--server" in sys.argv:
    logging.config.dictConfig(stdlib_logging("info"))
configure_logs()
import structlog
from uvicorn import Config

Config("nowhere:app", log_config=stdlib_logging("info"), log_level="info")
ours = structlog.get_logger("meetcore")

def fail(secret):
    raise ValueError("does not fit")

def in_vain(secret="whsec_" + "7" * 30):
    fail(secret)

class Stubborn:
    def __del__(self):
        in_vain()

ours.info("ours", strange="\\ud800", instance=object(), number=1.5)
ours.debug("below the level")
logging.getLogger("library").warning("of a %s", "library\\nin two lines")
logging.getLogger("library").info("below the level of libraries")
logging.getLogger("uvicorn.error").warning("of the server")
logging.getLogger("dramatiq.worker").error("of the broker")
logging.getLogger("httpx").warning("of the client")
try:
    in_vain()
except ValueError:
    logging.getLogger("library").exception("a fault of a library")
    ours.exception("a fault of ours")
warnings.warn("deprecated")
thread = threading.Thread(target=in_vain, name="bell")
thread.start()
thread.join()
async def lose():
    await asyncio.wait([asyncio.create_task(asyncio.to_thread(in_vain))])
asyncio.run(lose())
gc.collect()
Stubborn()
structlog.contextvars.bind_contextvars(client="203.0.113.7")
logging.getLogger("library").warning("during a request")
configure_logs("error")
structlog.get_logger("later").info("below the level that the settings name")
in_vain()
"""


FULL = """
import logging, os, sys
from pathlib import Path
from meetcore.adapters.system import LOG_FAILURES, configure_logs
if "--terminal" in sys.argv:
    sys.stderr.isatty = lambda: True
if "--late" in sys.argv:
    configure_logs()
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 2)
else:
    configure_logs()
import structlog
for _ in range(3):
    structlog.get_logger("meetcore").warning("of ours", filler="x" * 5000)
    logging.getLogger("library").error("of a library")
assert LOG_FAILURES.since_last() >= 3
assert LOG_FAILURES.since_last() == 0
if there := sys.argv[-1] if sys.argv[-1].startswith("/") else "":
    os.dup2(os.open(there, os.O_WRONLY | os.O_CREAT), 2)
    structlog.get_logger("meetcore").info("written again")
print("went on", flush=True)
os._exit(0)
"""


def log_of(program: str, *arguments: str, code: int = 0) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout) == (code, ""), ran.stderr
    return ran.stderr


@pytest.mark.parametrize("where", ["--terminal", "--file"])
def test_a_traceback_shows_no_local_variables(where: str) -> None:
    log = log_of(PROGRAM, where)
    assert "does not fit" in log
    assert "in sign" in log
    assert "7" * 30 not in log


@pytest.mark.parametrize("where", ["--server", "--program"])
def test_every_log_line_is_json_without_a_terminal(where: str) -> None:
    log = log_of(EVERYTHING, where, code=1)
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.splitlines()]
    for line in lines:
        assert {"event", "level", "timestamp"} <= set(line)
    events = {line["event"].partition("\n")[0].rpartition(": ")[2]: line for line in lines}
    assert list(events) == [
        "ours", "of a library", "of the server", "of the broker", "of the client", "a fault of a library",
        "a fault of ours", "deprecated", "uncaught exception", "Task exception was never retrieved",
        "exception ignored", "during a request",
    ]  # fmt: skip
    assert [line["event"] for line in lines].count("uncaught exception") == 2, "a thread's, and the program's"
    assert events["of the server"]["logger"] == "uvicorn.error"
    assert events["during a request"]["client"] == "203.0.113.7"
    assert events["ours"]["number"] == 1.5
    for name in ("a fault of a library", "a fault of ours", "exception ignored", "uncaught exception"):
        assert "does not fit" in events[name]["exception"]
    assert "7" * 30 not in log


@pytest.mark.parametrize("length", [0, 1, 199, 200, 201, 8000])
def test_a_path_is_cut_at_200_characters(length: int) -> None:
    path = "/" * length
    logged = loggable_path(path)
    assert logged[:MAX_PATH_CHARS] == path[:MAX_PATH_CHARS]
    assert len(logged) == min(length, MAX_PATH_CHARS + 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("how", ["--terminal", "--file", "--late"])
def test_a_full_disk_raises_nothing_into_the_program(how: str, tmp_path: Path) -> None:
    found = tmp_path / "log"
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-c", FULL, how, str(found)],
            stdout=subprocess.PIPE, stderr=full, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "went on\n")
    assert "log lines were not written" in found.read_text()
