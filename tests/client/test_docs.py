"""The Python of docs/client.md runs against the real service."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from mypy import api

from meetcore.client import Client
from tests.support.api_harness import Customer
from tests.support.sandbox_recordings import press
from tests.unit.test_docs import ROOT, Block, python_blocks

BLOCKS = list(python_blocks(runner="tests/client"))
TIMEOUT_S = 30.0


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
async def test_python_runs(
    block: Block, service_url: str, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("MEETCORE_BASE_URL", service_url),
        ("MEETCORE_API_KEY", customer.key.text),
        ("NO_PROXY", "*"),
    ):
        monkeypatch.setenv(name, value)
    for _ in range(2):  # a second run finds what the first one left
        names = await asyncio.to_thread(run, block)
        noted = names["noted"]
        for button in ("start", "end"):
            await press(customer, {"join_url": noted.join_url}, button)
        with Client() as client:
            notes = client.notes
            note = await asyncio.to_thread(notes.wait, meeting_id=noted.id, timeout_s=TIMEOUT_S)
            assert (await asyncio.to_thread(notes.markdown, note.id)).startswith("# ")
        assert names["client"]._transport.http.is_closed, "or Python warns of its sockets"


def run(block: Block) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    for line, code in block.parts:
        exec(compile("\n" * line + code, block.name, "exec"), namespace)
    return namespace


def test_the_page_passes_a_strict_type_checker(tmp_path: Path) -> None:
    """All of its Python as one module, the blocks that are not run included."""
    page = (ROOT / "docs" / "client.md").read_text("utf-8")
    module = tmp_path / "pasted.py"
    module.write_text("\n".join(re.findall(r"^```py(?:thon)?\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)))
    cache = ROOT / ".mypy_cache" / "docs"
    arguments = ["--strict", "--no-error-summary", "--config-file=", "--cache-dir", str(cache)]
    out, err, status = api.run([*arguments, str(module)])
    assert (out, err, status) == ("", "", 0)


def test_there_is_python_to_run() -> None:
    assert [block.name for block in BLOCKS] == ["client.md"]
