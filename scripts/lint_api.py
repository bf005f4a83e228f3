"""`make lint-api`: the OpenAPI document under a validator and under the style linter Redocly.

The validator comes with the development packages. The linter is of npm: its one version is installed beside
the virtual environment; where there is no npm, or no network, a message is printed and the linter is left
out. With `--strict` that is a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from openapi_spec_validator import OpenAPIV31SpecValidator  # noqa: E402  # the path comes first

from meetcore.adapters.api.operations import OPERATIONS  # noqa: E402
from meetcore.adapters.http.openapi import openapi_document  # noqa: E402
from meetcore.domain.meetings.schedule import WIB  # noqa: E402

REDOCLY = "2.77.0"
BASE_URL = "https://meetcore.test"


def main(arguments: list[str]) -> int:
    """Validate, then lint where npm is there."""
    document = rendered()
    OpenAPIV31SpecValidator(json.loads(document)).validate()
    place = Path(os.environ.get("REDOCLY_HOME", ROOT / ".venv" / "redocly")).resolve()
    linter, problem = installed(place)
    if linter is None:
        print(f"lint-api: valid; the style linter is left out: {problem}", file=sys.stderr)
        return 1 if "--strict" in arguments else 0
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "openapi.json"
        file.write_bytes(document)
        lint = [linter, "lint", "--extends", "recommended-strict", "--format", "stylish", str(file)]
        done = subprocess.run(lint, capture_output=True, text=True, env=quiet(), cwd=directory, check=False)
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
    return done.returncode


def rendered() -> bytes:
    """The document as the service shows it."""
    return openapi_document(OPERATIONS, BASE_URL, datetime.now(WIB).date())


def installed(place: Path) -> tuple[Path | None, str]:
    """The linter, installed if it is not there yet; else why not."""
    linter = place / "node_modules" / ".bin" / "redocly"
    npm = shutil.which("npm")
    if npm is None:
        return None, "npm is not installed"
    if not version_of(linter):
        place.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--no-fund", "--no-audit", "--ignore-scripts", "--prefix", str(place)]
        done = subprocess.run(
            [*command, f"@redocly/cli@{REDOCLY}"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            return None, "npm could not install it"
    if version_of(linter) != REDOCLY:
        return None, "this version of Node.js does not run it"
    return linter, ""


def version_of(linter: Path) -> str:
    """Return its reported version, or "" when it reports none."""
    if not linter.exists():
        return ""
    done = subprocess.run([linter, "--version"], capture_output=True, text=True, env=quiet(), check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def quiet() -> dict[str, str]:
    """Return an environment without telemetry and update checks of the linter."""
    return os.environ | {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "CI": "true"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
