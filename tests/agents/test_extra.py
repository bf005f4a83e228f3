"""The extra `mcp`: what it costs those who do not use it, and what is there without it."""

from __future__ import annotations

import pytest

from tests.support.interpreter import output_of

EXTRA = ("mcp", "mcp_types")
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


@pytest.mark.parametrize("module", ["meetcore.app", "meetcore.adapters.mcp", "meetcore.cli.main"])
def test_importing_the_service_does_not_import_the_extra(module: str) -> None:
    assert output_of(f"import {module}; print('mcp' in sys.modules)") == "False\n"


def test_without_the_extra_the_service_serves_everything_else(migrated_url: str) -> None:
    assert output_of(SERVE, migrated_url, lacks=EXTRA) == "False 200 False 404 False\n"


def test_with_the_extra_it_is_imported_for_the_first_agent(migrated_url: str) -> None:
    assert output_of(SERVE, migrated_url) == "True 200 False 401 True\n"
