"""Starts the program in children of this process on request, and imports it only once.

Run as a script. Reads one JSON object a line: `{"arguments", "environment", "cwd", "out", "err"}` starts
the program in a fork and answers its pid; `{"wait": pid, "seconds"}` answers its exit code, minus the
signal's number when it was killed, or null when it still runs. It imports the program and starts nothing
of it itself. A child whose environment configures a crash point gets one; see `crash_points.py`. Arguments
of the script are the command of another program, which is then started instead: nothing of it is imported,
and it has no crash points.
"""

import gc
import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path

ENDED: dict[int, int] = {}


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
    """Set up the child process as the job describes. Returns the arguments."""
    os.setsid()
    for name, number, flags in (("out", 1, os.O_WRONLY), ("err", 2, os.O_WRONLY)):
        file = os.open(str(job[name]), flags | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.environ.clear()
    os.environ.update(job["environment"])  # type: ignore[call-overload]
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
    """Import what its commands need, so that no child has to."""
    from meetcore.adapters.settings import load_settings
    from meetcore.cli.main import program

    sys.path.append(str(Path(__file__).resolve().parents[2]))
    import_module("tests.e2e.crash_points")
    for name in program:
        program[name]  # imports the command's module, which a child would import by itself
    load_settings()  # for what it imports
    import_module("meetcore.adapters.webhook_sender.sender")  # imported on first use, like the two below
    import_module("meetcore.adapters.sandbox.pages")
    import_module("rich.table")
    # Objects that exist now are shared by all children: collecting them would copy every page.
    gc.collect()
    gc.freeze()


def start_program(arguments: list[str]) -> None:
    """Become the program, in a child."""
    from meetcore.cli.main import main
    from tests.e2e import crash_points

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
