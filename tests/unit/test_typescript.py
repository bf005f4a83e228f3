"""What the package for TypeScript says of itself agrees with the project; `make typescript` tests it."""

import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import ROOT

PACKAGE = ROOT / "packaging" / "typescript"


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8")))


def test_the_package_has_the_version_of_the_project_and_brings_no_other() -> None:
    package = read(PACKAGE / "package.json")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert package["version"] == project["version"]
    assert "dependencies" not in package


def test_the_lock_has_hashes_and_no_address() -> None:
    packages = read(PACKAGE / "package-lock.json")["packages"]
    for name, locked in packages.items():
        assert "resolved" not in locked
        assert not name or locked["integrity"].startswith("sha512-")


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")
@pytest.mark.parametrize("script", ["types", "build", "test"])
def test_a_script_without_the_openapi_document_says_how_to_make_it(script: str, tmp_path: Path) -> None:
    for name in ("package.json", ".npmrc"):
        shutil.copy(PACKAGE / name, tmp_path)
    command = ["npm", "--silent", "run", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "make typescript ARGS=build" in done.stderr
