"""The service as a whole: its process, and its pages of documentation."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from meetcore.adapters.http.docs import PAGES
from meetcore.app import Service
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.observability import IN_PROGRESS, Metric, NoMetrics
from tests.support.api_contract import Contract
from tests.support.api_harness import BASE_URL, SECRETS_KEY, settings_for, started


class InProgress(NoMetrics):
    """Counts requests in progress."""

    number = 0.0

    def count(self, metric: Metric, *labels: str | int, by: float = 1) -> None:
        assert metric is IN_PROGRESS
        self.number += by


@pytest.mark.parametrize("scope", [{"client": (None, 1)}, {"client": None}], ids=["no address", "no headers"])
async def test_a_request_that_cannot_be_read_is_not_in_progress_for_ever(scope: dict[str, Any]):
    service = Service()
    metrics = service._metrics = InProgress()

    async def never(*_: object) -> Any:
        raise AssertionError

    with pytest.raises((AttributeError, KeyError)):
        await service({"type": "http", "path": "/api/v1/me", **scope}, never, never)
    assert metrics.number == 0


@pytest.mark.parametrize("is_own_process", [True, False])
async def test_what_the_start_of_a_process_made_is_collected_no_more(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch, is_own_process: bool
):
    """Not where a program serves beside other things: it would keep their garbage."""
    given = {"DATABASE_URL": migrated_url, "SECRETS_KEY": SECRETS_KEY, "BASE_URL": BASE_URL}
    for name, value in given.items():
        monkeypatch.setenv(f"MEETCORE_{name}", value)
    before = gc.get_freeze_count()
    try:
        async with started(Service() if is_own_process else Service(settings_for(migrated_url))):
            assert (gc.get_freeze_count() > before) == is_own_process
    finally:
        gc.unfreeze()


LINK = re.compile(r'(?:href|src|apiDescriptionUrl)="([^"]+)"')


async def page(http: httpx.AsyncClient, path: str) -> httpx.Response:
    answer = await http.get(f"{BASE_URL}{path}")
    assert answer.status_code == 200, path
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    return answer


@pytest.mark.spec("9/3", "7/envelope")
async def test_no_page_has_a_broken_link_or_loads_from_another_origin(http: httpx.AsyncClient) -> None:
    waiting, visited = ["/docs"], set()
    while waiting:
        path = waiting.pop()
        visited.add(path)
        answer = await http.get(f"{BASE_URL}{path}")
        assert answer.status_code == 200, path
        if not answer.headers["Content-Type"].startswith("text/html"):
            continue
        await page(http, path)
        for link in LINK.findall(answer.text):
            target = urljoin(f"{BASE_URL}{path}", link).partition("#")[0]
            if not target.startswith(BASE_URL):
                assert f'<a href="{link}"' in answer.text, f"{path} loads {link}"
                continue
            if (found := target.removeprefix(BASE_URL)) not in visited:
                waiting.append(found)
    assert visited >= {"/docs", "/docs/errors", "/docs/errors/conflict", "/api/v1/openapi.json"}
    assert visited >= {f"/docs/{name}" for name in PAGES}
    assert visited >= {f"/docs/assets/{name}" for name in ("elements.js", "elements.css", "theme.js")}


@pytest.mark.spec("9/3")
async def test_the_content_policy_of_the_reference_allows_this_origin_only(http: httpx.AsyncClient) -> None:
    policy = (await page(http, "/docs")).headers["Content-Security-Policy"]
    directives = {parts[0]: parts[1:] for parts in (rule.split() for rule in policy.split(";"))}
    assert directives["script-src"] == directives["connect-src"] == ["'self'"]
    assert directives["default-src"] == directives["base-uri"] == directives["form-action"] == ["'none'"]


async def test_the_reference_is_not_blank_until_its_viewer_has_loaded(http: httpx.AsyncClient) -> None:
    text = (await page(http, "/docs")).text
    assert "elements-api:not(:defined)~.static{display:block}" in text
    static = text.partition('<p class="static">')[2].partition("</p>")[0]
    assert LINK.findall(static) == ["./api/v1/openapi.json", "docs/integrating"]


async def test_the_reference_lists_the_operations_without_scripts_too(
    http: httpx.AsyncClient, contract: Contract
) -> None:
    text = (await page(http, "/docs")).text
    for path, item in contract.document["paths"].items():
        for method in item:
            assert f"<code>{method.upper()} {path}</code>" in text


@pytest.mark.spec("6/kinds")
async def test_the_page_on_webhooks_describes_every_kind(http: httpx.AsyncClient) -> None:
    text = (await page(http, "/docs/webhooks")).text
    assert all(f"<code>{kind.value}</code>" in text for kind in EventKind)
    assert "<!--" not in text.partition("<body>")[2]


def test_the_service_loads_nothing_for_its_pages_before_they_are_read() -> None:
    code = (
        "import sys, meetcore.app; from meetcore.adapters.http.docs import docs_routes; docs_routes(());"
        "print([name for name in ('markdown_it', 'stopments') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
