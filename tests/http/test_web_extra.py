"""The extra `web`: what is there without it, and that it is loaded by who serves pages alone."""

from __future__ import annotations

import pytest

from tests.support.interpreter import output_of

EXTRA = ("babel", "jinja2", "markupsafe")
SERVE = f"""
import asyncio, httpx
from meetcore.app import Service, has_dashboard
from tests.support.api_harness import settings_for, started

async def main():
    service = Service(settings_for(sys.argv[1]))
    async with started(service), httpx.AsyncClient(
        transport=httpx.ASGITransport(service), base_url="https://meetcore.test"
    ) as line:
        paths = ("/api/v1/openapi.json", "/api/v1/me", "/readyz", "/docs", "/dashboard", "/dashboard/sign-in")
        return [(await line.get(path)).status_code for path in paths]

print(has_dashboard(), *asyncio.run(main()), [name for name in {EXTRA} if name in sys.modules])
"""


@pytest.mark.parametrize("module", ["meetcore.app", "meetcore.cli.main", "meetcore.usecases.dashboard"])
def test_importing_the_service_does_not_import_the_extra(module: str) -> None:
    code = f"import {module}; print([name for name in {EXTRA} if name in sys.modules])"
    assert output_of(code) == "[]\n"


def test_without_the_extra_the_service_serves_everything_else(migrated_url: str) -> None:
    printed = output_of(SERVE, migrated_url, lacks=EXTRA)
    assert printed == "False 200 401 200 200 404 404 []\n"


def test_with_the_extra_it_serves_the_dashboard(migrated_url: str) -> None:
    printed = output_of(SERVE, migrated_url)
    assert printed == f"True 200 401 200 200 303 200 {list(EXTRA)}\n"
