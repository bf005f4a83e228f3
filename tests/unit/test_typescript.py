"""What the package for TypeScript says of itself agrees with the project; `make typescript` tests it."""

import json
import tomllib
from pathlib import Path
from typing import Any

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
