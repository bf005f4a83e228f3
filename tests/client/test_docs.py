"""The Python of docs/client.md runs against the real service."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.http.house import Customer
from tests.unit.test_docs import Block, python_blocks

BLOCKS = list(python_blocks(runner="tests/client"))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
async def test_python_runs(
    block: Block, service_url: str, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("MEETCORE_URL", service_url),
        ("MEETCORE_KEY", customer.key.text),
        ("NO_PROXY", "*"),
    ):
        monkeypatch.setenv(name, value)
    await asyncio.to_thread(run, block)
    await asyncio.to_thread(run, block)  # whoever tries it again finds what the first time left


def run(block: Block) -> None:
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    for line, code in block.parts:
        exec(compile("\n" * line + code, block.name, "exec"), namespace)
    namespace["client"].close()


def test_there_is_python_to_run() -> None:
    assert [block.name for block in BLOCKS] == ["client.md"]
