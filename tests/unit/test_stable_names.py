"""The names of the rules that are stable for others: listed by their modules, and all that embedders need."""

import ast
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import meetcore.domain

ROOT = Path(__file__).resolve().parents[2]
STABLE = {
    each.name: set(module.__all__)
    for each in pkgutil.walk_packages(meetcore.domain.__path__, "meetcore.domain.")
    if hasattr(module := pkgutil.resolve_name(each.name), "__all__")
}


@pytest.mark.parametrize("name", STABLE)
def test_a_module_has_what_it_calls_stable(name: str) -> None:
    module = pkgutil.resolve_name(name)
    assert {each for each in STABLE[name] if not hasattr(module, each)} == set()


def test_the_page_of_what_is_stable_names_the_modules_that_list_their_names() -> None:
    text = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    row = re.search(r"^\| the rules \|(.*?)\|", text, re.MULTILINE)
    assert row is not None
    found = set(re.findall(r"`([a-z_.]+)`", row[1])) - {"__all__", "meetcore.domain"}
    assert {f"meetcore.domain.{name}" for name in found} == STABLE.keys()


def used_names(source: str) -> Iterator[tuple[str, str]]:
    """What a program uses of the domain, as imports and as attributes of modules: modules and names."""
    tree, modules = ast.parse(source), {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("meetcore.domain"):
            continue
        for each in node.names:
            if hasattr(pkgutil.resolve_name(node.module or ""), "__path__"):
                modules[each.name] = f"{node.module}.{each.name}"
            else:
                yield node.module or "", each.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr


FOR_EMBEDDERS = ["README.md", "docs/embedding.md", "tests/types/consumer.py"]
FOR_EMBEDDERS += [f"examples/shop/{name}.py" for name in ("credits", "limits", "webhooks")]


@pytest.mark.parametrize("file", FOR_EMBEDDERS)
def test_what_is_written_for_embedders_uses_stable_names_alone(file: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    used = {name for block in blocks or [text] for name in used_names(block)}
    assert {(module, name) for module, name in used if name not in STABLE.get(module, ())} == set()


def test_another_name_of_a_module_is_found() -> None:
    program = (
        "from meetcore.domain.money import ledger\nfrom meetcore.domain.ids import first_id\nledger.with_held"
    )
    assert set(used_names(program)) == {
        ("meetcore.domain.ids", "first_id"), ("meetcore.domain.money.ledger", "with_held"),
    }  # fmt: skip
