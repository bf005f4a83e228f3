"""The documents hold: their Python runs, their links lead somewhere, their commands exist."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from attrs import field, frozen

from meetcore.adapters.settings import PREFIX, Settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLE_PAGES = sorted((ROOT / "examples").glob("**/README.md"))
OTHER_PAGES = [
    ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *EXAMPLE_PAGES,
    ROOT / "packaging" / "typescript" / "README.md",
]  # fmt: skip
SHARED = "<!-- the Python blocks of this page share one namespace -->"
# Parts of the examples, which have tests of their own.
SHOWN = re.compile(r"^<!-- generated: (examples/.*) -->$.*?^<!-- end of \1 -->$", re.DOTALL | re.MULTILINE)
SERVED = re.compile(
    r"^<!-- the Python blocks of this page speak to a service: (?P<runner>\S+) runs them -->$", re.MULTILINE
)
README_LINES = 150
# Of a customer's program, of haproxy, of Kubernetes, of an adapter of others; and one that is misspelt.
OTHER_VARIABLES = {
    f"{PREFIX}{name}"
    for name in ("API_KEY", "CONFIG_FILE", "HOOK", "PORT_8000_TCP", "SECRET_KEY", "SERVER_1", "SERVER_2")
} | {f"{PREFIX}ACME_{name}" for name in ("SEATS", "TOKEN", "URL")}

# A fence opens with its language and closes bare; what stands between is not Markdown.
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?:\[[^\]]*\]\(|<img src=\")(?P<path>[^)#\s\"]*)(?:#(?P<anchor>[^)\s\"]*))?[)\"]")
# A file or folder of the checkout, named in the text.
NAMED = re.compile(
    r"`((?:benchmarks|deploy|docs|examples|packaging|requirements|scripts|src|tests)/[\w./-]+)`"
)
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)


@frozen
class Block:
    """The Python blocks that run in one namespace: one block, or all of a page marked so."""

    name: str
    parts: tuple[tuple[int, str], ...] = field(repr=False)


def runner_of(page: Path) -> str:
    """Which tests run a page's blocks; empty for those of this file."""
    found = SERVED.search(page.read_text("utf-8"))
    return found["runner"] if found else ""


def python_blocks(pages: Sequence[Path] = PAGES, *, runner: str = "") -> Iterator[Block]:
    """Those that run by themselves, or those that speak to a service and are run by other tests."""
    for page in pages:
        if runner_of(page) != runner:
            continue
        text = SHOWN.sub(lambda shown: "\n" * shown[0].count("\n"), page.read_text("utf-8"))
        found = [
            (text[: fence.start("text")].count("\n"), fence["text"])
            for fence in FENCE.finditer(text)
            if fence["language"] == "python"
        ]
        if found and SHARED in text:
            yield Block(page.name, tuple(found))
        else:
            yield from (Block(f"{page.name}:{line + 1}", ((line, code),)) for line, code in found)


def links() -> Iterator[tuple[Path, str, str]]:
    for page in (*PAGES, *OTHER_PAGES):
        for link in LINK.finditer(FENCE.sub("", page.read_text("utf-8"))):
            if not re.match(r"[a-z]+:", link["path"]):
                yield page, link["path"], link["anchor"] or ""


def anchors_of(page: Path) -> set[str]:
    """The ids that a page's headings get on GitHub."""
    headings = HEADING.findall(FENCE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize(
    "block", [*python_blocks(), *python_blocks(EXAMPLE_PAGES)], ids=lambda block: block.name
)
def test_python_runs(block: Block) -> None:
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    for line, code in block.parts:
        # As many empty lines before it as the page has, so that a traceback names the page's line.
        exec(compile("\n" * line + code, block.name.partition(":")[0], "exec"), namespace)


def test_python_not_run_here_is_run_by_another_test() -> None:
    runners = {page.name: runner_of(page) for page in PAGES if runner_of(page)}
    for runner in runners.values():
        files = [ROOT / runner] if runner.endswith(".py") else sorted((ROOT / runner).glob("test_*.py"))
        assert any(f'runner="{runner}"' in file.read_text("utf-8") for file in files), runner
    assert runners.keys() >= {"client.md", "integrating.md"}


def test_the_pages_have_python_blocks() -> None:
    assert {block.name.partition(":")[0] for block in python_blocks()} >= {"README.md", "quickstart.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_pasted_command_has_no_fixed_date(page: Path) -> None:
    commands_of = [
        fence["text"] for fence in FENCE.finditer(page.read_text("utf-8")) if fence["language"] == "sh"
    ]
    assert [text for text in commands_of if re.search(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}", text)] == []


@pytest.mark.parametrize(
    ("page", "path", "anchor"), [pytest.param(*link, id=f"{link[0].name}-{link[1]}") for link in links()]
)
def test_every_link_has_a_target(page: Path, path: str, anchor: str) -> None:
    target = (page.parent / path).resolve() if path else page
    assert target.is_relative_to(ROOT)
    assert target.exists()
    if anchor:
        assert anchor in anchors_of(target)


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    made = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    named = NAMED.findall(page.read_text("utf-8"))
    assert [path for path in named if not (ROOT / path).exists() and f"/{path}" not in made] == []


def test_every_file_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    room = "adapters|client|composition|domain|ports|testing|usecases"
    named = set(re.findall(rf"`((?:{room})/[\w/]+(?:\.(?:py|sql))?)", text))
    assert len(named) > 30
    package = ROOT / "src" / "meetcore"
    assert [
        name for name in named if not ((package / name).exists() or (package / f"{name}.py").exists())
    ] == []


def test_every_variable_that_a_page_names_is_a_setting() -> None:
    known = {f"{PREFIX}{field.name.upper()}" for field in attrs.fields(Settings)} | OTHER_VARIABLES
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(rf"\b{PREFIX}\w+", page.read_text("utf-8"))
        if not name.endswith("_") and not name.startswith(f"{PREFIX}TEST_")
    }
    assert [each for each in sorted(named) if each[1] not in known] == []


def test_the_readme_is_short_and_starts_with_what_it_is_why_for_whom_and_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= README_LINES
    head = [part.splitlines() for part in "\n".join(lines).split("\n\n")[:7]]
    assert head[0] == ["# meetcore"]
    assert head[1][0].startswith("meetcore sells online meetings and meeting notes (*notulen*)")
    assert [part[0].split()[0] for part in head[2:4]] == ["**Why.**", "**For"]
    picture = re.fullmatch(r'<img src="(\S+)" width="600" alt=".+">', head[4][0])
    assert picture is not None
    assert (ROOT / picture[1]).is_file()
    assert [line.partition("   ")[0] for line in head[5]] == ["```sh", "make run", "make test", "```"]
    assert head[6][0].startswith("Both need Python 3.11 or newer")
