"""The packages of `meetcore.domain` name every module that they hold."""

import re
from pathlib import Path

import pytest

import meetcore.domain

DOMAIN = Path(meetcore.domain.__file__).parent
PACKAGES = sorted(path.parent for path in DOMAIN.glob("**/__init__.py"))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_the_docstring_of_a_package_lists_what_is_in_it(package: Path) -> None:
    inside = {path.stem for path in package.glob("*.py")} - {"__init__"}
    inside |= {path.parent.name for path in package.glob("*/__init__.py")}
    text = (package / "__init__.py").read_text()
    assert set(re.findall(r"^`(\w+)`", text, re.MULTILINE)) == inside
