"""Run a part of the tests on the other supported versions of Python: `other_pythons.py [3.13 ...]`.

Each version gets an environment of its own with the locked packages, made by uv in some seconds. It runs the
import of every module, the processes that work on media, a part of the store on PostgreSQL, and the program
itself from a recording to its notes; the newest version runs the tests of the domain, too, under coverage.
The versions run side by side; one that is not on this machine is left out.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = Path(sys.prefix) / "pythons"
MEDIA = "tests/contract/test_audio_editor.py"
TESTS = (
    "tests/unit/test_modules.py",
    f"{MEDIA}::TestAv",
    f"{MEDIA}::test_pieces_join_and_what_is_in_them_is_where_it_was",
    f"{MEDIA}::test_only_aac_is_copied_and_only_where_it_may_be",
    f"{MEDIA}::test_no_file_makes_us_read_another",
    f"{MEDIA}::test_a_process_that_ends_without_a_reply_does_not_blame_the_file",
    f"{MEDIA}::test_what_cannot_be_read_is_logged",
    "tests/contract/postgres/money/test_verification.py",
    "tests/contract/postgres/money/test_postings.py",
    "tests/contract/test_speech.py::TestLocal::test_utterances_lie_within_the_piece[7.25]",
    "tests/e2e/test_notes.py",
)
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")


def _uv(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "uv", "--quiet", *map(str, words)], cwd=ROOT, check=True)


def passes(version: str, *, has_domain: bool) -> bool:
    """Run the tests on a version and print their output; return whether they pass, or it is not here."""
    directory = ENVIRONMENTS / version
    into = ("--python", directory / "bin" / "python")
    # Where pyenv is, a shim of each version is found first, and works for the one that is set.
    find = [sys.executable, "-m", "uv", "python", "find", "--no-python-downloads", "--no-project", version]
    environment = os.environ | {"PYENV_VERSION": version}
    found = subprocess.run(find, env=environment, check=False, capture_output=True, text=True).stdout.strip()
    if not found:
        print(f"Python {version}: not on this machine", flush=True)
        return True
    if not directory.exists():
        _uv("venv", "--python", found, directory)
    _uv("pip", "sync", *into, "--require-hashes", "requirements/dev.txt")
    _uv("pip", "install", *into, "--no-deps", "--no-build-isolation", "-e", ".")
    commands = [[into[1], "-m", "pytest", *OPTIONS, *TESTS]]
    if has_domain:
        # The paths of the stamps stay: this environment has what they stand for.
        commands.append(["make", "cover", f"PY={into[1]}", f"BIN={into[1].parent}"])
    is_passed = True
    for command in commands:
        done = subprocess.run(
            command, env=os.environ | {"HYPOTHESIS_PROFILE": "cover"},
            cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        print(f"Python {version}: {found}\n{done.stdout}", flush=True)
        is_passed = is_passed and done.returncode == 0
    return is_passed


def main(versions: list[str]) -> int:
    """Try each version that was named, or each supported one but this."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    own = "{}.{}".format(*sys.version_info[:2])
    tried = versions or [each for each in supported if each != own]
    with ThreadPoolExecutor() as executor:
        started = {each: executor.submit(passes, each, has_domain=each == tried[-1]) for each in tried}
    failed = [each for each, future in started.items() if not future.result()]
    if failed:
        print(f"failed on Python {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
