"""`make lint-deploy`: what lies in deploy/, under its own rules and under the tools that this machine has.

The rules of the Containerfile are ours: no root, no address of an index, packages by their hashes, a health
check, exec forms. So is that of compose.yaml: nothing is to be copied into a container that is read-only.
hadolint, systemd-analyze and haproxy have their say where they are installed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
CONTAINERFILE = DEPLOY / "Containerfile"
COMPOSE = DEPLOY / "compose.yaml"
UNITS = DEPLOY / "systemd"
MAX_EXPOSURE = 2.0
"""Of `systemd-analyze security`, from 0 to 10; our services, which reach the network, have 1.4."""

HAPROXY_ENVIRONMENT = {
    "HAPROXY_BIND": "127.0.0.1:8080",
    "HAPROXY_STATS": "127.0.0.1:8405",
    "MEETCORE_SERVER_1": "127.0.0.1:8001",
    "MEETCORE_SERVER_2": "127.0.0.1:8002",
}


def main() -> int:
    """Print every problem; 1 where there is one."""
    files = {CONTAINERFILE: ROOT} | {each: each.parent for each in DEPLOY.glob("*/Containerfile")}
    problems = [
        *(
            f"{file.relative_to(ROOT)}: {each}"
            for file, context in files.items()
            for each in containerfile_problems(file.read_text("utf-8"), context)
        ),
        *(f"{COMPOSE.relative_to(ROOT)}: {each}" for each in compose_problems(COMPOSE.read_text("utf-8"))),
        *hadolint(),
        *haproxy(),
        *units(),
    ]
    for problem in problems:
        print(f"lint-deploy: {problem}", file=sys.stderr)
    return 1 if problems else 0


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Containerfile, each with its arguments on one line."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    found = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [(name.upper(), arguments.strip()) for name, _, arguments in found]


def containerfile_problems(text: str, context: Path = ROOT) -> Iterator[str]:
    """What breaks a rule, in a file that is built with the files of a directory."""
    steps = instructions(text)
    begins = [number for number, (name, _) in enumerate(steps) if name == "FROM"]
    yield from _image_problems(steps)
    yield from _step_problems(steps, context)
    last = steps[begins[-1] :] if begins else []
    names = [name for name, _ in last]
    for needed in ("USER", "HEALTHCHECK", "ENTRYPOINT", "STOPSIGNAL", "WORKDIR"):
        if needed not in names:
            yield f"the last stage has no {needed}"
    users = [arguments for name, arguments in last if name == "USER"]
    if users and not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]):
        yield f"USER {users[-1]} is no user and group by numbers other than 0"
    if "USER" in names and "RUN" in names[names.index("USER") :]:
        yield "a RUN of the last stage comes after USER"
    for name, arguments in last:
        if name in ("CMD", "ENTRYPOINT") and not arguments.startswith("["):
            yield f"{name} is in the shell form: signals would not reach the program"


def _image_problems(steps: list[tuple[str, str]]) -> Iterator[str]:
    values = dict(arguments.partition("=")[::2] for name, arguments in steps if name == "ARG")
    for name, arguments in steps:
        if name == "FROM":
            image = re.sub(r"\$\{(\w+)\}", lambda found: values.get(found[1], ""), arguments.split()[0])
            if not re.search(r":[\w.-]+$", image) or image.endswith(":latest"):
                yield f"FROM {image} names no version"


def _step_problems(steps: list[tuple[str, str]], context: Path) -> Iterator[str]:
    for name, arguments in steps:
        if name == "ADD":
            yield "ADD: COPY takes files and nothing else"
        if name in ("ENV", "ARG") and re.search(r"(?i)password|token|secret|index_url|://", arguments):
            yield f"{name} {arguments.partition('=')[0]}: an address or a secret would be in a layer"
        for address in re.findall(r"\w+://[^\s'\"]+", arguments):
            if not address.startswith("http://127.0.0.1"):
                yield f"{name} has the address {address}"
        if name == "RUN":
            yield from _install_problems(arguments)
        if name == "COPY" and "--from=" not in arguments:
            *sources, _ = arguments.split()
            yield from (
                f"COPY {each}: there is no such file" for each in sources if not (context / each).exists()
            )


def _install_problems(command: str) -> Iterator[str]:
    for part in re.split(r"&&|;", command):
        words = part.split()
        is_install = "install" in words and any(word.rpartition("/")[2] in ("pip", "pip3") for word in words)
        if is_install and not {"--require-hashes", "--no-index"} & set(words):
            yield f"{part.strip()}: neither --require-hashes nor --no-index"


def compose_problems(text: str) -> Iterator[str]:
    """What keeps a container from being made.

    Compose copies a config or secret into the container where it comes from the text itself or from the
    environment, and Docker refuses that for one that is read-only (docker/compose#12031); a file is mounted.
    """
    import yaml  # image_tree.py needs this module without it

    compose = yaml.safe_load(text)
    for kind in ("configs", "secrets"):
        defined = (compose.get(kind) or {}).items()
        copied = {name for name, one in defined if {"content", "environment"} & set(one)}
        for name, service in compose["services"].items():
            given = service.get(kind, ()) if service.get("read_only") else ()
            names = [one if isinstance(one, str) else one["source"] for one in given]
            yield from (
                f"{name} is read-only, and {kind} {each} is no file" for each in names if each in copied
            )


def hadolint() -> Iterator[str]:
    """What hadolint finds, where it is installed."""
    if program := shutil.which("hadolint"):
        yield from _complaints([program, "--ignore", "DL3042", str(CONTAINERFILE)])


def haproxy() -> Iterator[str]:
    """What haproxy says of its configuration, where it is installed."""
    if program := shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin"):
        yield from _complaints([program, "-c", "-q", "-f", str(DEPLOY / "haproxy.cfg")], HAPROXY_ENVIRONMENT)


def units() -> Iterator[str]:
    """What systemd-analyze finds, where it is installed; the programs need not be."""
    program = shutil.which("systemd-analyze")
    if program is None:
        return
    with tempfile.TemporaryDirectory() as directory:
        copies = [_unit_copy(unit, Path(directory)) for unit in sorted(UNITS.iterdir())]
        lines = _complaints([program, "verify", "--man=no", *copies])
        yield from (line for line in lines if "meetcore" in line)  # the machine's own units are not ours
        services = [each for each in copies if each.endswith(".service")]
        for service in services:
            command = [
                program,
                "security",
                "--offline=yes",
                "--no-pager",
                f"--threshold={MAX_EXPOSURE * 10:.0f}",
            ]
            done = subprocess.run([*command, service], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                yield f"{Path(service).name}: {(done.stdout + done.stderr).strip().splitlines()[-1]}"


def _unit_copy(unit: Path, directory: Path) -> str:
    """A copy that runs a program which is there, since what is to be verified is all else."""
    name = unit.name.replace("@.", "@8001.")
    text = re.sub(r"^(ExecStart=)\S+", r"\1/bin/true", unit.read_text("utf-8"), flags=re.MULTILINE)
    (directory / name).write_text(text, "utf-8")
    return str(directory / name)


def exec_start(unit: Path, instance: str = "") -> list[str]:
    """The words of a unit's command."""
    (line,) = re.findall(r"^ExecStart=(.+)$", unit.read_text("utf-8"), re.MULTILINE)
    return shlex.split(line.replace("%i", instance))


def unit_environment(unit: Path) -> dict[str, str]:
    """The variables that a unit sets itself."""
    lines = re.findall(r"^Environment=(.+)$", unit.read_text("utf-8"), re.MULTILINE)
    pairs = (word.partition("=") for line in lines for word in shlex.split(line))
    return {name: value for name, _, value in pairs}


def environment_files(unit: Path) -> list[str]:
    """The files that a unit takes variables from; those of a later one win."""
    return re.findall(r"^EnvironmentFile=(.+)$", unit.read_text("utf-8"), re.MULTILINE)


def _complaints(command: list[str], variables: dict[str, str] | None = None) -> Iterator[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **(variables or {})}, check=False
    )
    if done.returncode != 0 or "systemd-analyze" in command[0]:
        yield from (line for line in (done.stdout + done.stderr).splitlines() if line.strip())


if __name__ == "__main__":
    sys.exit(main())
