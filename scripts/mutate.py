"""`make mutate`: changes every function of the domain in one place at a time; some test must fail.

A mutant that survives is killed by a test that states the behaviour, or entered in
docs/equivalent-mutants.toml with the reason why it is equivalent to the original. Exits 1 where
a survivor is not listed, where a listed one is gone, or where fewer than 99 % are killed.
A run without names judges every mutant anew, in some twenty minutes on two processors; one with names uses
what the last run left in mutants/.
Names on the command line choose mutants: `python scripts/mutate.py 'meetcore.domain.money.ledger*'`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "docs" / "equivalent-mutants.toml"
LOG = ROOT / "mutants" / "run.log"
GOAL = 99.0
JOBS = os.environ.get("JOBS", "2")

# How mutmut names a mutant: module.x_function__mutmut_7, module.xǁClassǁmethod__mutmut_7
_NAME = re.compile(r"(?P<module>[\w.]+)\.x(?:_|ǁ(?P<owner>\w+)ǁ)(?P<function>\w+)__mutmut_\d+")
_RESULT = re.compile(r"^\s*(?P<name>\S+__mutmut_\d+): (?P<verdict>.+)$", re.MULTILINE)


@frozen
class Mutant:
    """One change: where, and the lines before and after it."""

    function: str
    was: str
    becomes: str


def main(patterns: list[str]) -> int:
    """Run, compare the survivors with the list, and print the figures."""
    run(patterns)
    verdicts = {
        name: verdict
        for name, verdict in results().items()
        if verdict != "not checked" and chosen(name, patterns)
    }
    survivors = sorted(name for name, verdict in verdicts.items() if verdict in ("survived", "no tests"))
    with ThreadPoolExecutor(int(JOBS)) as pool:
        found = dict(zip(survivors, pool.map(read, survivors), strict=True))
    listed = known()
    unlisted = [name for name, mutant in found.items() if mutant not in listed]
    gone = [mutant for mutant in listed if not patterns and mutant not in found.values()]
    for name in unlisted:
        print(f"\nsurvived: {name}\n  - {found[name].was}\n  + {found[name].becomes}")
    for mutant in gone:
        print(f"\nlisted, but it did not survive or is no more: {mutant.function}\n  + {mutant.becomes}")
    late = [name for name, verdict in verdicts.items() if verdict == "timeout"]
    for name in late:
        print(f"\nstopped at its time limit, which a loaded machine can reach: {name}")
    killed = len(verdicts) - len(survivors)
    share = 100 * killed / max(1, len(verdicts))
    print(
        f"\n{len(verdicts)} mutants, {killed} killed ({share:.1f} %; {len(late)} at their time limit), "
        f"{len(survivors) - len(unlisted)} "
        f"listed as equivalent, {len(unlisted)} survived"
    )
    return 1 if unlisted or gone or share < GOAL else 0


def run(patterns: list[str]) -> None:
    """Let mutmut work: its bar in a terminal, a log elsewhere."""
    if not patterns:
        # A verdict is kept while its function is as it was, whatever became of the tests.
        shutil.rmtree(LOG.parent, ignore_errors=True)
    command = [_mutmut(), "run", "--max-children", JOBS, *patterns]
    environment = os.environ | {"HYPOTHESIS_PROFILE": "mutate", "PYTHONDONTWRITEBYTECODE": "1"}
    if sys.stdout.isatty():
        finished = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    else:
        LOG.parent.mkdir(exist_ok=True)
        print(f"mutating (some minutes for each thousand); progress in {LOG.relative_to(ROOT)}", flush=True)
        with LOG.open("wb") as log:
            finished = subprocess.run(command, cwd=ROOT, env=environment, stdout=log, stderr=log, check=False)
    if finished.returncode:
        raise SystemExit(
            f"mutmut could not run ({finished.returncode}); the tests must pass first: make test"
        )


def results() -> dict[str, str]:
    """The verdict on every mutant by its name."""
    done = subprocess.run(
        [_mutmut(), "results", "--all", "true"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {found["name"]: found["verdict"] for found in _RESULT.finditer(done.stdout)}


def chosen(name: str, patterns: list[str]) -> bool:
    """Return whether a mutant is selected."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def read(name: str) -> Mutant:
    """A mutant by what it changes: its number would change with any edit of the function."""
    diff = subprocess.run(
        [_mutmut(), "show", name], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    lines = [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("---", "+++")]
    found = _NAME.fullmatch(name)
    assert found is not None, name
    function = ".".join(part for part in (found["module"], found["owner"], found["function"]) if part)
    was, becomes = (" ".join(line[1:].strip() for line in lines if line[0] == sign) for sign in ("-", "+"))
    return Mutant(function, was, becomes)


def known() -> list[Mutant]:
    """Return the mutants that are listed as equivalent to the original."""
    entries = tomllib.loads(LIST.read_text("utf-8"))["mutant"] if LIST.exists() else []
    return [Mutant(entry["function"], entry["was"], entry["becomes"]) for entry in entries if entry["why"]]


def _mutmut() -> str:
    return str(Path(sys.executable).with_name("mutmut"))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
