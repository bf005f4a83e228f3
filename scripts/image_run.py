"""Runs a command of an image that lies in a directory, as a container with a read-only file system does.

The image's user, without capabilities and without new privileges; its variables and those of ours that
begin with `MEETCORE_`; /tmp and /scratch to write to, and nothing else. The process keeps its id, and so
its signals. Files that a variable names are copied to /tmp, and directories that one names are not passed
on. Where mounting is not permitted, the file system is not read-only but root's, and what was written to
/tmp stays there. The network is this machine's. It runs by root.

    python scripts/image_run.py IMAGE.json [WORD ...]     # the words come after the image's entry point
    python scripts/image_run.py IMAGE.json --health       # its health check
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DIRECTORIES = frozenset({"MEETCORE_SCRATCH_DIRECTORY"})
"""Variables that name a place of this machine, where the image has its own."""

NAMESPACE = ("/usr/bin/unshare", "--mount", "--propagation", "private")
MOUNTS = """
/bin/mount --bind {root} {root} && /bin/mount -o remount,bind,ro {root} &&
/bin/mount --rbind /proc {root}/proc &&
/bin/mount -t tmpfs -o size=64m,mode=1777 tmpfs {root}/tmp &&
/bin/mount -t tmpfs -o size=512m,mode=0700,uid={uid},gid={gid} tmpfs {root}/scratch
"""
TEMPORARY = "/tmp/{name}.{pid}"  # of the image


def can_mount() -> bool:
    """Whether this process may have a mount namespace of its own."""
    command = [*NAMESPACE, "/bin/mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def variables(config: Mapping[str, Any], given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The environment in the image, and the files that it names: where each is, by where it will be."""
    own = {
        name: value
        for name, value in given.items()
        if name.startswith("MEETCORE_") and name not in DIRECTORIES
    }
    moved = {
        name: TEMPORARY.format(name=name.lower(), pid=os.getpid())
        for name, value in own.items()
        if value.startswith("/") and Path(value).is_file()
    }
    return {**config["Env"], **own, **moved}, {place: own[name] for name, place in moved.items()}


def command(
    config: Mapping[str, Any], words: list[str], files: Mapping[str, str], *, mounts: bool
) -> list[str]:
    """The command that ends as the image's own process, under the id of this one."""
    root, (uid, gid) = shlex.quote(config["Root"]), config["User"].split(":")
    steps = [MOUNTS.format(root=root, uid=uid, gid=gid).strip()] if mounts else []
    steps += [
        f"/usr/bin/install -m 0444 {shlex.quote(source)} {root}{place}" for place, source in files.items()
    ]
    limits = f"--reuid={uid} --regid={gid} --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs"
    steps.append(f"exec /usr/sbin/chroot {root} /usr/bin/setpriv {limits} {shlex.join(words)}")
    return [*(NAMESPACE if mounts else ()), "/bin/sh", "-c", " && ".join(steps)]


def main(image: str, words: list[str]) -> None:
    """Become the image's process."""
    config = json.loads(Path(image).read_text("utf-8"))
    if words == ["--health"]:
        kind, *called = config["Healthcheck"]["Test"]
        if kind != "CMD":
            raise SystemExit(f"a health check of the form {kind} is not known here")
    else:
        called = [*config["Entrypoint"], *(words or config["Cmd"])]
    environment, files = variables(config, os.environ)
    steps = command(config, called, files, mounts=config["Mounts"])
    os.execve(steps[0], steps, environment)  # the words are the caller's and the image's


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
