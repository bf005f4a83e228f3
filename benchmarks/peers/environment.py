"""The virtual environment of the peers, and programs that run in it."""

import hashlib
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from benchmarks.processes import ROOT

__all__ = ["LOCK", "peers_python", "run_load"]

LOCK = ROOT / "requirements" / "peers.txt"
_TIMEOUT_S = 300.0


def peers_python() -> str:
    """The Python that has the peers; the first call installs them, and so does one after the lock changed."""
    place = Path(sys.prefix) / "peers"
    stamp, wanted = place / "lock.sha256", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    python = place / "bin" / "python"
    if not stamp.is_file() or stamp.read_text() != wanted:
        print(f"installing {LOCK.name} into {place.name}", file=sys.stderr, flush=True)
        venv.create(place, clear=True, with_pip=True)
        command = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--no-deps",
            "-r",
            str(LOCK),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        stamp.write_text(wanted)
    return str(python)


def run_load(python: str, program: str, *arguments: object) -> dict[str, Any]:
    """Run a program of this package in a process of its own, and read the one line of JSON that it prints.

    Raises:
        RuntimeError: it failed, or took over five minutes.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    command = [python, str(ROOT / "benchmarks" / "peers" / f"{program}.py"), *map(str, arguments)]
    try:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"{program} took over {_TIMEOUT_S:.0f} s") from late
    if ran.returncode:
        raise RuntimeError(f"{program} failed:\n{ran.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer
