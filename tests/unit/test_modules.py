"""Every module can be imported, those too that only one command or one setting needs."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import meetcore
from meetcore.adapters.speech import can_transcribe
from tests.spec_coverage import DOCS, read_rules

# Runs in a child process, and imports the extra `speech`.
NEEDS_SPEECH = "meetcore.adapters.speech.transcribe_child"
IMPORT = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"


def test_every_module_can_be_imported_without_a_warning() -> None:
    names = [each.name for each in pkgutil.walk_packages(meetcore.__path__, "meetcore.")]
    assert {"meetcore.app", "meetcore.domain.money.ledger", "meetcore.cli.main"} <= set(names)
    if not can_transcribe():
        names.remove(NEEDS_SPEECH)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT, *names],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


PACKAGE = Path(meetcore.__file__).parent
NAMED = re.compile(r"`(?:meetcore\.)?((?:domain|ports|usecases|composition|testing)(?:\.\w+)+)`")


def test_every_name_that_a_text_gives_in_full_is_there() -> None:
    """A docstring, a comment or a page that names `domain.money.ledger` names it where it lies today."""
    root = PACKAGE.parents[1]
    files = [
        *PACKAGE.rglob("*.py"),
        *PACKAGE.rglob("*.sql"),
        *(root / "docs").glob("*.md"),
        root / "README.md",
        root / "CONTRIBUTING.md",
    ]
    named = {(file, name) for file in files for name in NAMED.findall(file.read_text("utf-8"))}
    assert len(named) > 20
    lost = [f"{file.name}: {name}" for file, name in named if not _is_there(name)]
    assert sorted(lost) == []


def _is_there(name: str) -> bool:
    try:
        pkgutil.resolve_name(f"meetcore.{name}")
    except (ImportError, AttributeError):
        return False
    return True


# `4.1/3`, not `4.1/30`, `14.1/3` or a part of a path.
RULE = re.compile(r"(?<![\w./-])\d(?:\.\d)?/[a-z0-9_-]+(?:/[a-z-]+)?(?![\w/])")


def test_every_rule_of_the_spec_is_named_where_it_is_carried_out() -> None:
    named = {rule for file in PACKAGE.rglob("*.py") for rule in RULE.findall(file.read_text("utf-8"))}
    assert sorted(read_rules(DOCS / "spec-rules.tsv").keys() - named) == []
