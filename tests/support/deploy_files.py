"""Parse the files of deploy/: Containerfiles and systemd units."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.support.program import ROOT

DEPLOY = ROOT / "deploy"
HAPROXY_VARIABLES = {"HAPROXY_BIND", "HAPROXY_STATS", "MEETCORE_SERVER_1", "MEETCORE_SERVER_2"}


def instructions(containerfile: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Containerfile with their arguments."""
    lines = [line for line in containerfile.read_text("utf-8").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [(name, arguments.strip()) for name, _, arguments in found]


def exec_start(unit: Path, instance: str = "") -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.+)$", unit.read_text("utf-8"), re.MULTILINE)
    return shlex.split(line.replace("%i", instance))


def unit_environment(unit: Path) -> dict[str, str]:
    lines = re.findall(r"^Environment=(.+)$", unit.read_text("utf-8"), re.MULTILINE)
    pairs = (word.partition("=") for line in lines for word in shlex.split(line))
    return {name: value for name, _, value in pairs}


def environment_files(unit: Path) -> list[str]:
    """Return a unit's EnvironmentFiles; later ones win."""
    return re.findall(r"^EnvironmentFile=(.+)$", unit.read_text("utf-8"), re.MULTILINE)
