"""Build wheels, and virtual environments with given packages only.

Without network: wheels are built with the installed packages, which are copied if needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest
from attrs import frozen
from packaging.requirements import Requirement

from tests.support.program import ROOT, START_S

CLEAN = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


@frozen
class Clean:
    """A virtual environment with a wheel and given packages."""

    directory: Path
    wheel: Path

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    def install(self, wheel: Path) -> None:
        """Install a wheel without its requirements."""
        self._pip("install", "--no-deps", "--no-index", "--no-compile", wheel)

    def uninstall(self, distribution: str) -> None:
        self._pip("uninstall", "--yes", distribution)

    def _pip(self, *arguments: object) -> None:
        quiet(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.python, *arguments)

    def run(
        self, *arguments: str, stdin: str | None = None, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment outside the checkout, and check its exit code."""
        command = [str(self.directory / "bin" / arguments[0]), *arguments[1:]]
        done = subprocess.run(
            command,
            input=stdin,
            cwd=self.directory,
            env=CLEAN,
            capture_output=True,
            text=True,
            timeout=5 * START_S,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


def quiet(*command: object) -> None:
    """Run a command that must succeed; show its output otherwise."""
    done = subprocess.run(
        [str(word) for word in command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def built(project: Path, out: Path) -> Path:
    quiet(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, project)
    (wheel,) = out.iterdir()
    return wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the service."""
    return built(ROOT, tmp_path_factory.mktemp("dist"))


def with_what_it_needs(name: str) -> set[str]:
    """Return a package and its requirements."""
    needed = (Requirement(each) for each in metadata.requires(name) or ())
    wanted = (each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""}))
    return {name}.union(*(with_what_it_needs(each.name) for each in wanted))


def installed(wheel: Path, directory: Path, packages: set[str]) -> Clean:
    """Create a virtual environment with the wheel and copies of installed packages."""
    venv.create(directory, with_pip=False, symlinks=True)
    made = Clean(directory, wheel)
    made.install(wheel)
    (site,) = directory.glob("lib/python*/site-packages")
    for file in (each for name in packages for each in metadata.files(name) or ()):
        if ".." not in file.parts and file.suffix != ".pyc":
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(Path(str(file.locate())).read_bytes())
    return made


def check_types(environment: Clean, files: list[Path], tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "--config-file", os.devnull,
            "--python-executable", str(environment.python), "--cache-dir", str(tmp_path / "cache"),
            *map(str, files),
        ],
        cwd=tmp_path, env=CLEAN, capture_output=True, text=True, timeout=5 * START_S,
        check=False,
    )  # fmt: skip
    plural = "" if len(files) == 1 else "s"
    assert done.stdout == f"Success: no issues found in {len(files)} source file{plural}\n", done.stderr
