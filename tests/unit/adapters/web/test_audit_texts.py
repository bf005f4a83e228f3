"""The audit log's texts: one for each change that a use case records."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from meetcore.adapters.web.console.health import CHECKS
from meetcore.adapters.web.shared_pages import ACTION_TEXTS
from meetcore.composition.database_checks import DATABASE_CHECKS
from meetcore.composition.doctor import SERVICE_CHECKS

USECASES = Path(__file__).resolve().parents[4] / "src" / "meetcore" / "usecases"
ACTION = re.compile(r"[a-z_]+(\.[a-z_]+)+")


def recorded() -> set[str]:
    """Every action that a use case names."""
    nodes = (node for path in USECASES.rglob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant))
    return {text for text in texts if isinstance(text, str) and ACTION.fullmatch(text)}


def test_each_action_has_a_text_of_its_own() -> None:
    assert set(ACTION_TEXTS) == recorded()
    assert len(set(ACTION_TEXTS.values())) == len(ACTION_TEXTS)


def test_each_check_of_the_doctor_has_a_name() -> None:
    assert set(CHECKS) == {"database", *DATABASE_CHECKS, *SERVICE_CHECKS}
