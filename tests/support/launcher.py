"""Import the program once and fork it on request.

Run as a script. Each line of input is a JSON object: `{"arguments", "environment", "cwd", "out", "err"}`
starts the program in a fork and answers its pid; `{"wait": pid, "seconds"}` answers its exit code, negative
for a signal, null while it runs. Children get the crash point and the policy changes of their environment
(`crash_points.py`, `policy_changes.py`). Arguments of the script are the command of another program to start
instead.
"""

import gc
import json
import os
import pkgutil
import sys
import time
from importlib import import_module
from pathlib import Path

ENDED: dict[int, int] = {}

LAZY_PACKAGES = ("meetcore.adapters.postgres", "meetcore.adapters.web", "meetcore.composition")
LAZY_MODULES = (
    "dramatiq.brokers.stub", "meetcore.adapters.pdf.printer", "meetcore.adapters.queue",
    "meetcore.adapters.sandbox.pages", "meetcore.adapters.sandbox.postgres_state", "meetcore.adapters.speech",
    "meetcore.adapters.webhook_sender.sender", "rich.table", "uvicorn.lifespan.on", "uvicorn.loops.uvloop",
)  # fmt: skip
"""Imported after the start by most processes, and here once for all of them."""


def wait(pid: int, seconds: float) -> int | None:
    """Return a child's exit code as `subprocess` does, or `None` while it runs."""
    deadline = time.monotonic() + seconds
    while pid not in ENDED:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            ENDED[pid] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > deadline:
            return None
        else:
            time.sleep(0.005)
    return ENDED[pid]


def become(job: dict[str, object]) -> list[str]:
    """Set up the child process and return its arguments."""
    os.setsid()
    for name, number, flags in (("out", 1, os.O_WRONLY), ("err", 2, os.O_WRONLY)):
        file = os.open(str(job[name]), flags | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.environ.clear()
    os.environ.update(job["environment"])  # type: ignore[call-overload]
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path += [path for path in paths if path and path not in sys.path]
    os.chdir(str(job["cwd"]))
    arguments = [str(each) for each in job["arguments"]]  # type: ignore[attr-defined]
    sys.argv = ["meetcore", *arguments]
    return arguments


def run() -> list[str] | None:
    """Serve requests until the input ends; in a child, return its arguments."""
    while line := sys.stdin.readline():
        job = json.loads(line)
        if "wait" in job:
            answer = wait(job["wait"], job["seconds"])
        else:
            answer = os.fork()
            ENDED.pop(answer, None)  # of an earlier process of this number
            if answer == 0:
                return become(job)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return None


def import_program() -> None:
    from meetcore.adapters.settings import load_settings
    from meetcore.cli.main import program

    sys.path.append(str(Path(__file__).resolve().parents[2]))
    import_module("tests.e2e.crash_points")
    import_module("tests.support.policy_changes")
    for name in program:
        program[name]  # imports the command's module, which a child would import by itself
    load_settings()  # for what it imports
    for name in LAZY_PACKAGES:
        for module in pkgutil.walk_packages(import_module(name).__path__, f"{name}."):
            import_module(module.name)
    for name in LAZY_MODULES:
        import_module(name)
    compile_paths()
    # Objects that exist now are shared by all children: collecting them would copy every page.
    gc.collect()
    gc.freeze()


def compile_paths() -> None:
    """Leave the patterns of routes in the cache of `re`, which children share."""
    from starlette.routing import compile_path

    from meetcore.adapters.web.console import routes as console
    from meetcore.adapters.web.routes import PAGES

    for path in {page.path for page in PAGES} | {page.path for page in console.PAGES}:
        compile_path(path)


def start_program(arguments: list[str]) -> None:
    from meetcore.cli.main import main
    from tests.e2e import crash_points
    from tests.support import policy_changes

    policy_changes.fit()
    crash_points.fit()
    main(arguments)


if __name__ == "__main__":
    other_program = sys.argv[1:]
    if not other_program:
        import_program()
    arguments = run()
    if arguments is not None:
        if other_program:
            os.execvp(other_program[0], [*other_program, *arguments])
        start_program(arguments)
