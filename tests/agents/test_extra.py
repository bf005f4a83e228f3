"""The extra `mcp`: what it costs those who do not use it, and what is there without it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.program import environment

WITHOUT = """
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

class WithoutMcp:
    @staticmethod
    def find_spec(name, path=None, target=None):
        is_extra = name.partition(".")[0] in ("mcp", "mcp_types")
        return None if is_extra else PathFinder.find_spec(name, path, target)

sys.meta_path[:] = [BuiltinImporter, FrozenImporter, WithoutMcp]
"""
SERVE = """
import asyncio, httpx
from meetcore.app import Service, has_agent_interface
from tests.support.api_harness import settings_for, started

async def main():
    service = Service(settings_for(sys.argv[1]))
    async with started(service), httpx.AsyncClient(
        transport=httpx.ASGITransport(service), base_url="https://meetcore.test"
    ) as line:
        before = [(await line.get("/api/v1/openapi.json")).status_code, "mcp" in sys.modules]
        return [*before, (await line.post("/mcp")).status_code]

print(has_agent_interface(), *asyncio.run(main()), "mcp" in sys.modules)
"""


def output_of(code: str, *arguments: str) -> list[str]:
    """What a fresh interpreter prints."""
    env = environment() | {"PYTHONPATH": "src:."}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("module", ["meetcore.app", "meetcore.adapters.mcp", "meetcore.cli.main"])
def test_importing_the_service_does_not_import_the_extra(module: str) -> None:
    assert output_of(f"import sys, {module}; print('mcp' in sys.modules)") == ["False"]


def test_without_the_extra_the_service_serves_everything_else(migrated_url: str) -> None:
    assert output_of(WITHOUT + SERVE, migrated_url) == ["False", "200", "False", "404", "False"]


def test_with_the_extra_it_is_imported_for_the_first_agent(migrated_url: str) -> None:
    assert output_of("import sys\n" + SERVE, migrated_url) == ["True", "200", "False", "401", "True"]
