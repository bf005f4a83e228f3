"""Linters of others, each where this machine has it: `python scripts/lint.py api|mcp|deploy|types`.

`api` validates the OpenAPI document and puts it under the style linter Redocly; `mcp` puts the tools of a
running service under the MCP Inspector's command line. Both programs are of npm, in one version each: where
npm, a network or a Node.js that is new enough is missing, a line says so. `deploy` gives the files of deploy/
to hadolint, haproxy and systemd-analyze, and validates those of Kubernetes, as kustomize builds them, by the
schemas of a package of PyPI. `types` gives the examples for embedders to pyright in strict mode, whose
package fetches the program from npm.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
MANIFESTS = ROOT / "build" / "manifests.yaml"
REDOCLY, INSPECTOR = "@redocly/cli@2.77.0", "@modelcontextprotocol/inspector@2.12.0"
VALIDATE = "kubernetes-validate==1.37.0"
KUBERNETES = ("1.28", "1.37")
"""The versions of Kubernetes by whose schemas the manifests are valid."""
QUIET = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "CI": "true"}
MAX_EXPOSURE = 20
"""Of `systemd-analyze security`, from 0 to 100; our services, which reach the network, have 14."""

HAPROXY = {
    "HAPROXY_BIND": "127.0.0.1:8080",
    "HAPROXY_STATS": "127.0.0.1:8405",
    "MEETCORE_SERVER_1": "127.0.0.1:8001",
    "MEETCORE_SERVER_2": "127.0.0.1:8002",
}
CALLS: Sequence[tuple[str, Sequence[str], bool]] = (
    ("list_pricing_tiers", (), True),
    ("estimate_credits", ("type=meeting", "pricing_tier_id=standard-100"), True),
    ("create_meeting", ("title=Weekly",), False),
    ("list_meetings", ("limit=1",), True),
    ("get_meeting", ("id=none",), False),
)
"""The tools that are called, with which arguments, and whether they do their work."""


def run(*command: object, variables: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    """Run a program in a limited time."""
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, **QUIET, **variables},
    )  # fmt: skip


def npx(package: str) -> list[str]:
    """How to run a program of npm, which no script of a package installs; nothing where it does not run."""
    command = ["npx", "--yes", "--ignore-scripts", package]
    if (
        shutil.which("npx") is None
        or run(*command, "--version" if package == REDOCLY else "--help").returncode != 0
    ):
        print(f"lint: {package} is left out: it cannot be had, or does not run here", file=sys.stderr)
        return []
    return command


def api() -> Iterator[str]:
    """Problems of the OpenAPI document."""
    from openapi_spec_validator import OpenAPIV31SpecValidator

    from meetcore.adapters.api.operations import OPERATIONS
    from meetcore.adapters.http.openapi import openapi_document
    from meetcore.domain.meetings.schedule import WIB

    document = openapi_document(OPERATIONS, "https://meetcore.test", datetime.now(WIB).date())
    OpenAPIV31SpecValidator(json.loads(document)).validate()
    if redocly := npx(REDOCLY):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            file.write(document)
            file.flush()
            yield from complaints(*redocly, "lint", "--extends", "recommended-strict", file.name)


def mcp() -> Iterator[str]:
    """Problems of the list of tools, and of some calls."""
    if not (inspector := npx(INSPECTOR)):
        return
    with service() as described:
        url, header = described["base_url"], f"Authorization: Bearer {described['api_key']}"
        ask = [*inspector, "--cli", f"{url}/mcp", "--transport", "http", "--header", header]
        yield from complaints(*ask, "--method", "tools/list", "--strict")
        for tool, given, works in CALLS:
            arguments = ["--tool-arg", *given] if given else []
            done = run(*ask, "--method", "tools/call", "--tool-name", tool, *arguments)
            if f'"isError": {str(not works).lower()}' not in done.stdout:
                yield f"{tool} answers {done.stdout[-500:]}{done.stderr[-500:]}"


@contextmanager
def service() -> Iterator[Mapping[str, str]]:
    """A service for tests, as it describes itself."""
    command = [sys.executable, "-m", "meetcore.cli.main", "dev", "--for-tests"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        try:
            yield json.loads(child.stdout.readline())
        finally:
            child.terminate()


def deploy() -> Iterator[str]:
    """Problems of the files of deploy/."""
    if hadolint := shutil.which("hadolint"):
        # pip's cache is switched off by a variable.
        yield from complaints(hadolint, "--ignore", "DL3042", *DEPLOY.rglob("Containerfile"))
    if haproxy := shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin"):
        yield from complaints(haproxy, "-c", "-q", "-f", DEPLOY / "haproxy.cfg", variables=HAPROXY)
    if analyze := shutil.which("systemd-analyze"):
        with tempfile.TemporaryDirectory() as directory:
            copies = [unit_copy(unit, Path(directory)) for unit in sorted((DEPLOY / "systemd").iterdir())]
            lines = complaints(analyze, "verify", "--man=no", *copies, always=True)
            yield from (line for line in lines if "meetcore" in line)  # the machine's own units are not ours
            for unit in copies:
                if unit.suffix == ".service":
                    limits = ("--offline=yes", "--no-pager", f"--threshold={MAX_EXPOSURE}")
                    yield from list(complaints(analyze, "security", *limits, unit))[-1:]
    yield from kubernetes()


def kubernetes() -> Iterator[str]:
    """Problems of the manifests, as kustomize builds them, by schemas that know no other field."""
    validate = (sys.executable, "-m", "uv", "--quiet", "tool", "run", VALIDATE)
    if (kubectl := shutil.which("kubectl")) is None or run(*validate, "--version").returncode != 0:
        print("lint: the manifests are left out: no kubectl, or no schemas of Kubernetes", file=sys.stderr)
        return
    MANIFESTS.parent.mkdir(exist_ok=True)
    for kustomization in sorted((DEPLOY / "kubernetes").rglob("kustomization.yaml")):
        yield from complaints(kubectl, "kustomize", kustomization.parent, "-o", MANIFESTS)
        for version in KUBERNETES:
            yield from complaints(*validate, "-k", version, "--strict", "--quiet", MANIFESTS)


def unit_copy(unit: Path, directory: Path) -> Path:
    """A copy that runs a program which is there, since what is to be verified is all else."""
    copy = directory / unit.name.replace("@.", "@8001.")
    copy.write_text(re.sub(r"(?m)^(ExecStart=)\S+", r"\1/bin/true", unit.read_text("utf-8")), "utf-8")
    return copy


def types() -> Iterator[str]:
    """Problems of the types that embedders use; `[tool.pyright]` says which files are read."""
    pyright = (sys.executable, "-m", "pyright")
    if run(*pyright, "--version").returncode == 0:
        yield from complaints(*pyright, variables={"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"})
    else:
        print("lint: pyright is left out: it cannot be had here", file=sys.stderr)


def complaints(*command: object, variables: Mapping[str, str] = {}, always: bool = False) -> Iterator[str]:
    """What a program prints where it fails, or always."""
    done = run(*command, variables=variables)
    if done.returncode != 0 or always:
        yield from (line for line in (done.stdout + done.stderr).splitlines() if line.strip())


def main(names: Sequence[str]) -> int:
    """Print every problem; 1 where there is one."""
    linters = {"api": api, "mcp": mcp, "deploy": deploy, "types": types}
    problems = [each for name in names for each in linters[name]()]
    for problem in problems:
        print(f"lint: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
