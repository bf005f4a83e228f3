"""Builds and tests packaging/typescript: `python scripts/typescript.py [build]`.

The types are made from the OpenAPI document, the package is built and packed. Without `build` its README's
examples pass the type checker, and Node.js runs the tests, a part of them against a running service. Where
npm, its packages or Node.js 20 are missing, a line says so, and `build` fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import lint

from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.http.openapi import openapi_document
from meetcore.domain.meetings.schedule import WIB

PACKAGE = lint.ROOT / "packaging" / "typescript"
BUILD = PACKAGE / "build"
LEAST_NODE = 20


def npm(*words: object, variables: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    """Run a command of npm in the package."""
    return lint.run("npm", "--prefix", PACKAGE, "--silent", *words, variables=variables)


def why_not() -> str:
    """Return why the package cannot be built here, or an empty text."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return "there is no npm or no Node.js"
    version = lint.run("node", "--version").stdout.strip()
    if int(re.sub(r"\D", " ", version).split()[0]) < LEAST_NODE:
        return f"Node.js {version} is older than {LEAST_NODE}"
    return "" if npm("ci", "--no-audit", "--no-fund").returncode == 0 else "its packages cannot be had"


def build() -> str:
    """Write the OpenAPI document, its types, dist/ and the packed package; return what failed."""
    BUILD.mkdir(exist_ok=True)
    document = openapi_document(OPERATIONS, "https://meet.example.com", datetime.now(WIB).date())
    (BUILD / "openapi.json").write_bytes(document)
    shutil.rmtree(PACKAGE / "dist", ignore_errors=True)
    for words in (("run", "build"), ("pack", PACKAGE, "--pack-destination", BUILD)):
        if (done := npm(*words)).returncode != 0:
            return f"npm {words[0]}\n{done.stdout}{done.stderr}"
    print(f"typescript: npm install {BUILD / done.stdout.strip()}")
    return ""


def write_examples() -> None:
    """Write the examples of the README as programs, which import the package as it is built."""
    text = (PACKAGE / "README.md").read_text("utf-8")
    for number, block in enumerate(re.findall(r"```ts\n(.*?)```", text, re.DOTALL)):
        kind = "test.ts" if "node:test" in block else "ts"
        (BUILD / f"example{number}.{kind}").write_text(block, "utf-8")


def main(arguments: Sequence[str]) -> int:
    """Build, and test unless `build` is given; 1 where a step fails."""
    if reason := why_not():
        print(f"typescript: left out: {reason}", file=sys.stderr)
        return int(bool(arguments))
    if failed := build():
        print(f"typescript: {failed}", file=sys.stderr)
        return 1
    if arguments:
        return 0
    write_examples()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # an example starts the program
    with lint.service() as described:
        names = {"BASE_URL": "base_url", "API_KEY": "api_key", "DASHBOARD_URL": "dashboard_url"}
        given = {f"MEETCORE_{name}": described[field] for name, field in names.items()}
        done = npm("test", variables=given | {"PATH": path})
    print(done.stdout if done.returncode else "\n".join(done.stdout.splitlines()[-9:]))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
