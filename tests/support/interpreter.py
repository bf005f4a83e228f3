"""Run code in a new interpreter, perhaps without some packages."""

from __future__ import annotations

import subprocess
import sys

from tests.support.program import environment

_LACK = """
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

class Lacking(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {lacks!r} else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [BuiltinImporter, FrozenImporter, Lacking]
"""


def without(*packages: str) -> str:
    """Return code that hides packages from imports."""
    return f"import sys\n{_LACK.format(lacks=packages)}\n"


def output_of(code: str, *arguments: str, lacks: tuple[str, ...] = ()) -> str:
    """Return the output of code in a new interpreter."""
    env = environment() | {"PYTHONPATH": "src:."}
    code = (without(*lacks) if lacks else "import sys\n") + code
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
