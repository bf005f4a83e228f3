"""Builds an image into a directory from a Containerfile by its own steps, with chroot alone.

For machines where no builder works: it needs neither mounts nor namespaces, but a directory with a file
system to begin from. It knows the instructions that deploy/Containerfile has, keeps no layers, and refuses
what it does not know. A secret lies in the tree for the step that mounts it, and is removed after it.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from lint_deploy import ROOT, instructions

RESOLVER = Path("/etc/resolv.conf")
DESCRIBES = frozenset({"LABEL", "EXPOSE", "VOLUME", "STOPSIGNAL"})
"""Instructions that no step depends on."""

KNOWN = DESCRIBES | {
    "ARG", "FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "ENTRYPOINT", "CMD", "HEALTHCHECK",
}  # fmt: skip


class StepFailed(Exception):
    """A RUN ended with another code than 0. The message has its output."""


class Stage:
    """A stage of a Containerfile: its tree, and what the image will say of itself."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = "/"
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.config: dict[str, Any] = {}

    def at(self, path: str) -> Path:
        """The place of a path of the image in the tree."""
        return self.root / str(Path(self.directory) / path).lstrip("/")

    def run(self, command: str) -> None:
        """Run a step in the tree, as root."""
        script = f"cd {shlex.quote(self.directory)} && {command}"
        done = subprocess.run(
            ["chroot", self.root, "/bin/sh", "-c", script], env=self.environment, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise StepFailed(f"{command}\n{done.stdout}")

    def describe(self) -> dict[str, Any]:
        """What starts of the image, and as whom."""
        return self.config | {"Env": self.environment, "WorkingDir": self.directory}


def build(
    containerfile: Path, base: Path, into: Path, secrets: Mapping[str, Path], volumes: Mapping[str, Path]
) -> dict[str, Any]:
    """Build the last stage of a Containerfile.

    Args:
        containerfile: its COPY takes files of this checkout.
        base: a directory with the file system that its stages begin from, whatever FROM names.
        into: a directory for the trees of the stages, which are named by their numbers.
        secrets: files by the ids that `RUN --mount=type=secret` has.
        volumes: directories by the places where each RUN finds a copy of them.

    Returns:
        The configuration of the image, with its tree as `Root`.

    Raises:
        ValueError: it has an instruction that is not known here.
        StepFailed: a RUN fails.
    """
    stages: list[Stage] = []
    names: dict[str, Stage] = {}
    for name, text in instructions(containerfile.read_text("utf-8")):
        if name == "ARG":
            continue  # the one that there is names the image to begin from
        if name == "FROM":
            stages.append(_begin(base, into / str(len(stages))))
            names[text.split()[-1]] = stages[-1]
        elif name == "RUN":
            _run(stages[-1], text, secrets, volumes)
        elif name == "COPY":
            _copy(stages[-1], text.split(), names)
        else:
            _set(stages[-1], name, text)
    return stages[-1].describe() | {"Root": str(stages[-1].root)}


def _begin(base: Path, root: Path) -> Stage:
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", "--reflink=auto", base, root], check=True)
    return Stage(root)


def _run(stage: Stage, text: str, secrets: Mapping[str, Path], volumes: Mapping[str, Path]) -> None:
    mounts, command = _mounts(text)
    with ExitStack() as stack:
        stack.enter_context(_lent(stage.root, RESOLVER, str(RESOLVER)))
        for mount in mounts:
            if mount["id"] in secrets:
                stack.enter_context(_lent(stage.root, secrets[mount["id"]], mount["target"]))
        for place, directory in volumes.items():
            shutil.copytree(directory, stage.at(place))
            stack.callback(shutil.rmtree, stage.at(place))
        stage.run(command)


def _set(stage: Stage, name: str, text: str) -> None:
    match name:
        case "ENV":
            stage.environment |= dict(word.partition("=")[::2] for word in shlex.split(text))
        case "WORKDIR":
            stage.at(text).mkdir(parents=True, exist_ok=True)
            stage.directory = str(Path(stage.directory) / text)
        case "USER":
            stage.config["User"] = text
        case "ENTRYPOINT" | "CMD":
            stage.config[name.capitalize()] = json.loads(text)
        case "HEALTHCHECK":
            stage.config["Healthcheck"] = {"Test": ["CMD", *json.loads(text.partition("CMD ")[2])]}
        case _ if name not in KNOWN:
            raise ValueError(f"{name} is not known here")


def _mounts(text: str) -> tuple[list[dict[str, str]], str]:
    """The secrets that a RUN mounts, and its command."""
    mounts = []
    while found := re.match(r"--mount=(\S+)\s+", text):
        mount = dict(word.partition("=")[::2] for word in found[1].split(","))
        if mount["type"] != "secret":
            raise ValueError(f"--mount={found[1]} is not known here")
        mounts.append(mount)
        text = text[found.end() :]
    return mounts, text


@contextmanager
def _lent(root: Path, source: Path, target: str) -> Iterator[None]:
    """A file that is in the tree for one step; one that was there before comes back."""
    place = root / target.lstrip("/")
    kept = place.with_name(f"{place.name}.kept")
    was_there = place.exists() or place.is_symlink()
    if was_there:
        place.rename(kept)
    try:
        shutil.copyfile(source, place)
        yield
    finally:
        place.unlink(missing_ok=True)
        if was_there:
            kept.rename(place)


def _copy(stage: Stage, words: list[str], names: Mapping[str, Stage]) -> None:
    source = ROOT
    if words[0].startswith("--from="):
        source = names[words.pop(0).removeprefix("--from=")].root
    *paths, target = words
    place = stage.at(target)
    unwanted = shutil.ignore_patterns("__pycache__") if source == ROOT else None  # as .containerignore has it
    for path in paths:
        origin = source / path.lstrip("/")
        if origin.is_dir():
            shutil.copytree(origin, place, symlinks=True, dirs_exist_ok=True, ignore=unwanted)
        else:
            into = place / origin.name if target.endswith("/") else place
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin, into)
