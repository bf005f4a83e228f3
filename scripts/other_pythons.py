"""Runs a small part of the tests on the other versions of Python that this machine has.

Each version gets an environment of its own with the locked packages, made by uv in some seconds. What is run
there: the import of every module, the rules, the processes that work on media, a store on PostgreSQL, and the
program itself from a recording to its notes. `make check` runs everything, on one version. The versions run
side by side, each in one process; the output of each is printed as a whole. A version that we do not say to
support is tried where it is there, and fails nothing unless it was named.

    python scripts/other_pythons.py [3.13 ...]
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = Path(sys.prefix) / "pythons"
MEDIA = "tests/contract/test_audio_editor.py"
UNCLAIMED = ("3.14",)
"""The lock has wheels for it, but nobody has run meetcore on it: pyproject.toml does not name it."""

TESTS = (
    "tests/unit/test_modules.py",
    "tests/unit/domain",
    f"{MEDIA}::TestAv",
    f"{MEDIA}::test_pieces_join_and_what_is_in_them_is_where_it_was",
    f"{MEDIA}::test_only_aac_is_copied_and_only_where_it_may_be",
    f"{MEDIA}::test_no_file_makes_us_read_another",
    f"{MEDIA}::test_a_process_that_ends_without_a_reply_does_not_blame_the_file",
    f"{MEDIA}::test_what_cannot_be_read_is_logged",
    "tests/contract/test_posting_repository.py",
    "tests/contract/test_speech.py::TestLocal::test_utterances_lie_within_the_piece[7.25]",
    "tests/e2e/test_notes.py",
)
TIMED = "hostile_file_takes_time"


def supported() -> list[str]:
    """The versions that pyproject.toml names, oldest first."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def candidates(version: str) -> Iterator[Path]:
    """Where an interpreter of this version may be: on the PATH, with pyenv, with uv."""
    if found := shutil.which(f"python{version}"):
        yield Path(found)
    if shutil.which("pyenv"):
        root = Path(_output("pyenv", "root").strip())
        yield from sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True)
    command = [sys.executable, "-m", "uv", "python", "find", "--no-python-downloads", version]
    if found := _output(*command).strip():
        yield Path(found)


def find(version: str) -> Path | None:
    """An interpreter that works: the shim of a version that is not there is passed over."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return next((path for path in candidates(version) if _output(path, "-c", code).strip() == version), None)


def _output(*command: str | Path) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def prepare(version: str, interpreter: Path) -> Path:
    """Make or refresh the environment; returns its interpreter."""
    directory = ENVIRONMENTS / version
    python = directory / "bin" / "python"
    if not _output(python, "--version"):
        _uv("venv", "--clear", "--python", str(interpreter), str(directory))
    into = ["--python", str(python)]
    _uv("pip", "sync", *into, "--require-hashes", "requirements/dev.txt")
    _uv("pip", "install", *into, "--no-deps", "--no-build-isolation", "-e", ".")
    return python


def _uv(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", "--quiet", *arguments], cwd=ROOT, check=True)


def run(python: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests there: the properties on few examples, and none that compares times."""
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", f"not {TIMED}")
    return subprocess.run(
        [python, "-m", "pytest", *options, *TESTS],
        cwd=ROOT, env={**os.environ, "HYPOTHESIS_PROFILE": "cover"}, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def try_version(version: str) -> bool:
    """Return whether the tests pass on a version, or there is none of it here."""
    interpreter = find(version)
    if interpreter is None:
        print(f"Python {version}: not on this machine", flush=True)
        return True
    try:
        done = run(prepare(version, interpreter))
    except subprocess.CalledProcessError as error:
        print(f"Python {version}: {interpreter}: {error}", flush=True)
        return False
    print(f"Python {version}: {interpreter}\n{done.stdout}", flush=True)
    return done.returncode == 0


def main(versions: list[str]) -> int:
    """Try each version that was named, or each but this one."""
    own = "{}.{}".format(*sys.version_info[:2])
    claimed = versions or supported()
    tried = versions or [each for each in (*supported(), *UNCLAIMED) if each != own]
    with ThreadPoolExecutor() as executor:
        passed = dict(zip(tried, executor.map(try_version, tried), strict=True))
    failed = [version for version in tried if not passed[version] and version in claimed]
    if failed:
        print(f"failed on Python {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
