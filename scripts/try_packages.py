"""Runs a part of the tests against what is shipped: the wheels, the commands of the units, the image.

The image is left out where this machine cannot build it, with the reason. No source tree is on the path of a
program:

- `wheel`: the wheel with the packages of the image's lock, and with those of the extra `client`, each in an
  environment of its own. An operator migrates, opens an account and serves, a
  customer buys by the client and gets a signed webhook, and the commands of deploy/systemd run with
  their environment.
- `image`: the same sale in the image of deploy/Containerfile, and a recording that becomes notes, with
  its user, without capabilities and with a read-only file system; and its health check.

    python scripts/try_packages.py [wheel] [image]
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import image

ROOT = image.ROOT
WORK = image.DIRECTORY
CLIENT_S_PACKAGES = {
    "anyio", "attrs", "certifi", "cyclopts", "docstring-parser", "h11", "httpcore", "httpx", "idna",
    "markdown-it-py", "mdurl", "meetcore", "pygments", "rich", "rich-rst", "typing-extensions",
}  # fmt: skip
NOTES = "tests/e2e/test_notes.py::test_a_meeting_becomes_notes_despite_ai_provider_faults"
SALE = "tests/e2e/test_first_sale.py"
UNITS = "tests/e2e/test_deploy.py::test_the_unit_of_migrations_grants_and_the_others_run_behind_the_balancer"
IMAGE = "tests/e2e/test_image.py"


def environment(name: str, *requirements: str) -> Path:
    """A virtual environment with the wheel, built here, and packages; returns its directory."""
    dist, directory = WORK / name / "dist", WORK / name / "venv"
    python = directory / "bin" / "python"
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist), str(ROOT)]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    _uv("venv", "--clear", "--python", sys.executable, directory)
    _uv("pip", "install", "--python", python, *requirements)
    (wheel,) = dist.glob("*.whl")
    _uv("pip", "install", "--python", python, "--reinstall", "--no-deps", wheel)
    _uv("pip", "check", "--python", python)
    return directory


def service() -> Path:
    """The program of the wheel, with what the lock of the image names."""
    directory = environment("service", "--require-hashes", "-r", "requirements/image.txt")
    return directory / "bin" / "meetcore"


def client() -> Path:
    """An interpreter with what the extra `client` requires, and nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = (*project["dependencies"], *project["optional-dependencies"]["client"])
    python = environment("client", *wanted, "-c", "requirements/image.txt") / "bin" / "python"
    listed = json.loads(_uv("pip", "list", "--python", python, "--format", "json"))
    strange = {each["name"] for each in listed} - CLIENT_S_PACKAGES
    if strange:
        raise SystemExit(f"the client brings {', '.join(sorted(strange))}")
    return python


def tested(what: str, program: list[str], customer: Path, tests: list[str], **more: str) -> bool:
    """Run tests with another program than that of this checkout; what they print is shown as a whole."""
    given = {"MEETCORE_TEST_PROGRAM": shlex.join(program), "MEETCORE_TEST_CLIENT": str(customer)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests],
        cwd=ROOT, env={**os.environ, **given, **more}, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    print(f"{what}: {program[-1]}\n{done.stdout}", flush=True)
    return done.returncode == 0


def try_image(customer: Path) -> bool:
    """Build the image and run its tests, or say why not."""
    reason = image.why_not()
    if not os.environ.get("MEETCORE_TEST_DATABASE_URL"):
        reason = "it reaches a database by TCP alone; set MEETCORE_TEST_DATABASE_URL"
    if reason:
        print(f"image: not built: {reason}", flush=True)
        return True
    try:
        image.build()
        program = [sys.executable, str(ROOT / "scripts" / "image.py"), "run"]
        return tested("image", program, customer, [IMAGE, SALE, NOTES], MEETCORE_TEST_IMAGE=str(image.CONFIG))
    finally:
        image.release()


def main(parts: list[str]) -> int:
    """Try the parts that were named, or all of them."""
    WORK.mkdir(parents=True, exist_ok=True)
    wanted = parts or ["wheel", "image"]
    customer = client()
    with ThreadPoolExecutor() as executor:
        image_passed = executor.submit(try_image, customer) if "image" in wanted else None
        passed = "wheel" not in wanted or tested("wheel", [str(service())], customer, [SALE, UNITS])
        passed = (image_passed is None or image_passed.result()) and passed
    return 0 if passed else 1


def _uv(*words: object) -> str:
    command = [sys.executable, "-m", "uv", "--quiet", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
