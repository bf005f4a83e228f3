"""Code in a fresh interpreter, which may lack packages that are installed."""

from __future__ import annotations

import subprocess
import sys

from tests.support.program import environment

_LACK = """
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

class Lacking:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in {lacks!r} else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [BuiltinImporter, FrozenImporter, Lacking]
"""


def without(*packages: str) -> str:
    """Code to begin a program with that is not to find these packages."""
    return f"import sys\n{_LACK.format(lacks=packages)}\n"


def output_of(code: str, *arguments: str, lacks: tuple[str, ...] = ()) -> str:
    """What a fresh interpreter prints that does not find the packages it lacks."""
    env = environment() | {"PYTHONPATH": "src:."}
    code = (without(*lacks) if lacks else "import sys\n") + code
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
