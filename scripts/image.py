"""The image of deploy/Containerfile by buildah, and its commands as the tests run them.

It begins from a Debian that mmdebstrap makes of Debian's packages, since no registry of images is asked. Its
Python packages are fetched by pip beforehand, from where this machine has them, and the build is given them
as files. Root builds it. Everything lies below build/packages, buildah's storage included.

    python scripts/image.py base              # only that Debian, without a virtual environment
    python scripts/image.py run [WORD ...]    # the image's command, or the words after its entry point
    python scripts/image.py health            # its health check
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / "build" / "packages"
BUILDAH = ("buildah", "--root", DIRECTORY / "storage", "--runroot", DIRECTORY / "storage.run")
CONFIG = DIRECTORY / "image.json"
DEBIAN, PYTHON = "bookworm", "python3-venv,python-is-python3"
BASE, IMAGE = "localhost/meetcore-base:12", "localhost/meetcore:latest"
PIP_CONFIGURATION = "[global]\nno-index = true\nfind-links = /wheels\n"
MOUNTS = """
mount --bind {root} {root} && mount -o remount,bind,ro {root} && mount --rbind /proc {root}/proc &&
mount -t tmpfs -o size=64m,mode=1777 tmpfs {root}/tmp &&
mount -t tmpfs -o size=512m,mode=0700,uid={uid},gid={gid} tmpfs {root}/scratch
"""


def why_not() -> str:
    """Why no image can be built here; empty where one can."""
    if os.geteuid() != 0:
        return "only root can"
    lacking = [program for program in ("buildah", "mmdebstrap") if shutil.which(program) is None]
    return f"{lacking[0]} is not installed" if lacking else ""


def base() -> None:
    """Make the image to begin from, once."""
    if output(*BUILDAH, "images", "--quiet", "--filter", f"reference={BASE}"):
        return
    tree = DIRECTORY / "debian.tar"
    tree.parent.mkdir(parents=True, exist_ok=True)
    run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={PYTHON}", DEBIAN, tree)
    container = output(*BUILDAH, "from", "scratch")
    run(*BUILDAH, "add", "--quiet", container, tree, "/")
    run(*BUILDAH, "commit", "--quiet", "--rm", container, BASE)
    tree.unlink()


def fetch(wheels: Path) -> None:
    """Fetch the locked packages for the Python of the base."""
    container = output(*BUILDAH, "from", "--pull-never", BASE)
    code = "import platform; print(platform.python_version())"
    version = output(*BUILDAH, "run", "--isolation", "chroot", container, "--", "python3", "-c", code)
    run(*BUILDAH, "rm", container)
    wanted = wheels.with_suffix(".txt")
    locks = [(ROOT / "requirements" / f"{lock}.txt").read_text("utf-8") for lock in ("build", "image")]
    wanted.write_text("".join(line for lock in locks for line in needed(lock, version)), "utf-8")
    minor, machine = version.rpartition(".")[0], platform.machine()
    platforms = [f"manylinux_2_{number}_{machine}" for number in range(36, 4, -1)]
    platforms += [f"manylinux{year}_{machine}" for year in (2014, 2010, 1)]
    target = ["--python-version", minor, *(word for each in platforms for word in ("--platform", each))]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
    run(*pip, "--require-hashes", "--only-binary=:all:", *target, "-r", wanted, "--dest", wheels)


def needed(lock: str, version: str) -> Iterator[str]:
    """The lines of a lock for a version of Python, without markers: pip judges those by its own."""
    from packaging.requirements import Requirement

    python = {"python_full_version": version, "python_version": version.rpartition(".")[0]}
    for line in lock.replace("\\\n", "").splitlines():
        if line and not line.lstrip().startswith("#"):
            text, *hashes = line.split(" --hash=")
            requirement = Requirement(text.strip())
            if requirement.marker is None or requirement.marker.evaluate(python):
                requirement.marker = None
                yield f"{requirement} {' '.join(f'--hash={each.strip()}' for each in hashes)}\n"


def build() -> None:
    """Build the image, and mount a container of it."""
    wheels, pip = DIRECTORY / "wheels", DIRECTORY / "pip.conf"
    base()
    fetch(wheels)
    pip.write_text(PIP_CONFIGURATION, "utf-8")
    run(
        *BUILDAH, "build", "--quiet", "--isolation", "chroot", "--format", "docker", "--pull-never",
        "--build-arg", f"PYTHON_IMAGE={BASE}", "--secret", f"id=pip,src={pip}",
        "--volume", f"{wheels}:/wheels:ro", "-f", ROOT / "deploy" / "Containerfile", "-t", IMAGE, ROOT,
    )  # fmt: skip
    config = json.loads(output(*BUILDAH, "inspect", "--type", "image", IMAGE))["Docker"]["config"]
    root = output(*BUILDAH, "mount", output(*BUILDAH, "from", "--pull-never", IMAGE))
    CONFIG.write_text(json.dumps(config | {"Root": root}), "utf-8")


def release() -> None:
    """Unmount and remove the containers; the images stay for the next build."""
    run(*BUILDAH, "rm", "--all")


def become(words: list[str]) -> None:
    """Become a process of the image, as a container with a read-only file system runs it.

    It has the image's user, no capabilities and no new privileges; the variables that begin with `MEETCORE_`,
    with copies of the files that they name; /tmp and /scratch to write to; and the network of this machine.
    `buildah run` would pass on no signals.
    """
    config = json.loads(CONFIG.read_text("utf-8"))
    root, (uid, gid) = config["Root"], config["User"].split(":")
    own = {name: value for name, value in os.environ.items() if name.startswith("MEETCORE_")}
    environment = own | dict(each.partition("=")[::2] for each in config["Env"])
    steps = [MOUNTS.format(root=root, uid=uid, gid=gid).strip()]
    for name, value in own.items():
        if value.startswith("/") and Path(value).is_file():
            environment[name] = f"/tmp/{name.lower()}"  # of the image
            steps.append(f"install -m 0444 {shlex.quote(value)} {root}{environment[name]}")
    limits = f"--reuid={uid} --regid={gid} --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs"
    steps.append(f"exec /usr/sbin/chroot {root} /usr/bin/setpriv {limits} {shlex.join(words)}")
    os.execve("/usr/bin/unshare", ["unshare", "--mount", "/bin/sh", "-c", " && ".join(steps)], environment)


def main(command: str, words: list[str]) -> None:
    """Make the base, or become a process of the image."""
    if command == "base":
        base()
        return
    config = json.loads(CONFIG.read_text("utf-8"))
    check, command_line = (
        config["Healthcheck"]["Test"][1:],
        [*config["Entrypoint"], *(words or config["Cmd"])],
    )
    become(check if command == "health" else command_line)


def run(*words: object) -> None:
    """Run a command that has to succeed."""
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


def output(*words: object) -> str:
    """What a command prints."""
    command = [str(word) for word in words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
