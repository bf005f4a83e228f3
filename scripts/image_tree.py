"""An image of deploy/Containerfile as a directory, by buildah where that works here, else by its own steps.

It begins from a Debian that mmdebstrap makes of Debian's packages, since no registry of images is asked.
Its Python packages are fetched by pip beforehand, from where this machine has them, and the build is given
them as files. Root builds it. Everything lies below one directory, buildah's storage included. As a script
it makes that Debian alone, which needs no virtual environment.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import image_run
import image_steps
from lint_deploy import CONTAINERFILE, ROOT

DIRECTORY = ROOT / "build" / "packages"
DEBIAN = "bookworm"
PACKAGES = "python3-venv,python-is-python3"
BASE = "localhost/meetcore-base:12"
IMAGE = "localhost/meetcore:latest"
WHEELS = "/wheels"
LOCKS = ("build", "image")
PIP_CONFIGURATION = f"[global]\nno-index = true\nfind-links = {WHEELS}\n"


def why_not() -> str:
    """Why no image can be built here; empty where one can."""
    if os.geteuid() != 0:
        return "only root can"
    if shutil.which("mmdebstrap") is None:
        return "it begins from a Debian of mmdebstrap, which is not installed"
    return ""


def debian(directory: Path) -> Path:
    """Make the file system to begin from, once."""
    base = directory / "base"
    if not (base / "usr/bin/python").exists():
        shutil.rmtree(base, ignore_errors=True)
        made = base.with_suffix(".new")
        _require_unmounted(made)
        shutil.rmtree(made, ignore_errors=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        _run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", DEBIAN, made)
        made.rename(base)
    return base


def _require_unmounted(directory: Path) -> None:
    """Refuse to remove what an interrupted run mounted /dev into: the machine's would be emptied."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    if below := [mount for mount in mounts if mount.startswith(f"{directory}/")]:
        raise SystemExit(f"image: unmount {', '.join(below)} first")


def fetch(base: Path, into: Path) -> None:
    """Fetch the locked packages for the Python of a base."""
    version = _output(
        "chroot", base, "/usr/bin/python3", "-c", "import platform; print(platform.python_version())"
    )
    wanted = into.with_suffix(".txt")
    locks = [(ROOT / "requirements" / f"{lock}.txt").read_text("utf-8") for lock in LOCKS]
    wanted.write_text("".join(line for lock in locks for line in needed(lock, version)), "utf-8")
    machine = platform.machine()
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(36, 4, -1)]
    platforms += [f"manylinux{year}_{machine}" for year in (2014, 2010, 1)]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "download"]
    minor = version.rpartition(".")[0]
    target = ["--python-version", minor, *(word for each in platforms for word in ("--platform", each))]
    _run(*pip, "--no-deps", "--require-hashes", "--only-binary=:all:", *target, "-r", wanted, "--dest", into)


def needed(lock: str, version: str) -> Iterator[str]:
    """Give the lines of a lock for a version of Python, without markers: pip judges those by its own."""
    from packaging.requirements import Requirement

    other = {"python_full_version": version, "python_version": version.rpartition(".")[0]}
    for line in lock.replace("\\\n", "").splitlines():
        if line and not line.lstrip().startswith("#"):
            text, *hashes = line.split(" --hash=")
            requirement = Requirement(text.strip())
            if requirement.marker is None or requirement.marker.evaluate(other):
                requirement.marker = None
                yield f"{requirement} {' '.join(f'--hash={each.strip()}' for each in hashes)}\n"


def build(directory: Path) -> Path:
    """Build the image.

    Returns:
        The file that `image_run.py` takes.
    """
    base, wheels, pip = debian(directory), directory / "wheels", directory / "pip.conf"
    fetch(base, wheels)
    pip.write_text(PIP_CONFIGURATION, "utf-8")
    storage = buildah(directory)
    if storage:
        print("image: built by buildah", flush=True)
        config = _by_buildah(storage, base, wheels, pip)
    else:
        print("image: built by its own steps; buildah is not here, or may not work here", flush=True)
        trees = directory / "trees"
        trees.mkdir(exist_ok=True)
        config = image_steps.build(CONTAINERFILE, base, trees, {"pip": pip}, {WHEELS: wheels})
    mounts = image_run.can_mount()
    how = (
        "mounted read-only"
        if mounts
        else "owned by root, and not mounted read-only: no mounts are permitted here"
    )
    print(f"image: its file system is {how}", flush=True)
    file = directory / "image.json"
    file.write_text(json.dumps(config | {"Mounts": mounts}, indent=1), "utf-8")
    return file


def buildah(directory: Path) -> list[str]:
    """The command of buildah with a storage of its own, or nothing where it may not mount a tree."""
    if shutil.which("buildah") is None or not image_run.can_mount():
        return []
    for driver in ("overlay", "vfs"):
        places = ["--root", str(directory / driver), "--runroot", str(directory / f"{driver}.run")]
        command = ["buildah", *places, "--storage-driver", driver]
        made = subprocess.run([*command, "from", "scratch"], capture_output=True, text=True, check=False)
        if made.returncode == 0:
            subprocess.run([*command, "rm", made.stdout.strip()], capture_output=True, check=False)
            return command
    return []


def release(directory: Path) -> None:
    """Remove what buildah keeps of an image and has mounted; the tree is gone then."""
    if storage := buildah(directory):
        for words in (("rm", "--all"), ("rmi", "--all", "--force")):
            subprocess.run([*storage, *words], capture_output=True, check=False)


def _by_buildah(storage: list[str], base: Path, wheels: Path, pip: Path) -> dict[str, Any]:
    container = _output(*storage, "from", "scratch")
    _run(*storage, "copy", "--quiet", container, f"{base}/", "/")
    _run(*storage, "commit", "--quiet", "--rm", container, BASE)
    _run(
        *storage, "build", "--quiet", "--isolation", "chroot", "--format", "docker", "--pull-never",
        "--build-arg", f"PYTHON_IMAGE={BASE}", "--secret", f"id=pip,src={pip}",
        "--volume", f"{wheels}:{WHEELS}:ro", "-f", CONTAINERFILE, "-t", IMAGE, ROOT,
    )  # fmt: skip
    config = json.loads(_output(*storage, "inspect", "--type", "image", IMAGE))["Docker"]["config"]
    environment = dict(each.partition("=")[::2] for each in config["Env"])
    root = _output(*storage, "mount", _output(*storage, "from", "--pull-never", IMAGE))
    kept = {name: config[name] for name in ("User", "Entrypoint", "Cmd", "Healthcheck", "WorkingDir")}
    return kept | {"Env": environment, "Root": root}


def _run(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


def _output(*words: object) -> str:
    command = [str(word) for word in words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    debian(DIRECTORY)
