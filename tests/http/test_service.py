"""The service as a whole: its process, and its pages of documentation."""

from __future__ import annotations

import base64
import gc
import hashlib
import html
import json
import re
import subprocess
import sys
from datetime import date
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.http.docs import PAGES, DocsPages
from meetcore.adapters.http.openapi import openapi_document
from meetcore.adapters.http.pages import label_of
from meetcore.adapters.http.reference import CLIENT_METHODS
from meetcore.adapters.web.pages.playground import ROOT as PLAYGROUND
from meetcore.app import Service
from meetcore.domain.webhooks.events import EventKind
from meetcore.ports.observability import IN_PROGRESS, Metric, NoMetrics
from tests.support.api_contract import Contract
from tests.support.api_harness import BASE_URL, SECRETS_KEY, settings_for, started
from tests.support.texts import assert_contains
from tests.support.visitors import Visitors


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


async def test_each_page_counts_for_its_area(visitors: Visitors) -> None:
    paths = [route.path for route in visitors.service._pages.router.routes if isinstance(route, Route)]
    assert {path for path in paths if label_of(path) == "unknown"} == {"/"}
    assert label_of("/wp-login.php") == "unknown"


@pytest.mark.parametrize("is_own_process", [True, False])
async def test_what_the_start_of_a_process_made_is_collected_no_more(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch, is_own_process: bool
):
    """Not where a program serves beside other things: it would keep their garbage."""
    given = {"DATABASE_URL": migrated_url, "SECRETS_KEY": SECRETS_KEY, "BASE_URL": BASE_URL}
    for name, value in given.items():
        monkeypatch.setenv(f"MEETCORE_{name}", value)
    before, threshold = gc.get_freeze_count(), gc.get_threshold()
    try:
        async with started(Service() if is_own_process else Service(settings_for(migrated_url))):
            assert (gc.get_freeze_count() > before) == is_own_process
            assert (gc.get_threshold() != threshold) == is_own_process
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)


LINK = re.compile(r'(?:href|src)="([^"]+)"')


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
        if path.startswith("/dashboard"):
            assert answer.headers["Location"] == f"/dashboard/sign-in?next={path}"
            continue
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
    assert visited >= {"/docs", "/docs/errors", "/docs/errors/conflict", "/api/v1/openapi.json", "/dashboard"}
    assert visited >= {f"/docs/{name}" for name in PAGES}
    for name in CLIENT_METHODS:
        assert visited >= {f"/docs/api/{name}", f"{PLAYGROUND}/{name}"}
    assert visited >= {f"/docs/api/on_{kind.replace('.', '_')}" for kind in EventKind}


@pytest.mark.spec("9/3")
async def test_the_content_policy_of_the_pages_allows_their_own_style_and_nothing_else(
    http: httpx.AsyncClient,
) -> None:
    for path in ("/docs", "/docs/api/create_meeting", "/docs/errors", "/docs/webhooks"):
        answer = await page(http, path)
        directives = {
            parts[0]: parts[1:]
            for parts in (rule.split() for rule in answer.headers["Content-Security-Policy"].split(";"))
        }
        (style,) = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert directives.pop("style-src") == [f"'sha256-{digest}'"]
        assert directives.keys() == {"default-src", "base-uri", "form-action", "frame-ancestors"}
        assert {allowed for each in directives.values() for allowed in each} == {"'none'"}
        assert not re.search(r"<script| style=| on\w+=", answer.text), path


async def test_the_reference_lists_the_operations(http: httpx.AsyncClient, contract: Contract) -> None:
    text = (await page(http, "/docs")).text
    for path, item in contract.document["paths"].items():
        for method, operation in item.items():
            link = f'<a href="docs/api/{operation["operationId"]}"><code>{method.upper()} {path}</code></a>'
            assert link in text


async def test_the_page_of_an_operation_says_all_of_it(http: httpx.AsyncClient, contract: Contract) -> None:
    for path, item in contract.document["paths"].items():
        for method, operation in item.items():
            text = html.unescape((await page(http, f"/docs/api/{operation['operationId']}")).text)
            found = [operation["summary"], f"{method.upper()} {BASE_URL}/api/v1{path}", "$MEETCORE_API_KEY"]
            found += [f"<code>{each['name']}</code>" for each in operation["parameters"]]
            found += [scope for each in operation["security"] for scope in each["apiKey"]]
            found += [f"<td>{status}</td>" for status in operation["responses"]]
            assert [each for each in found if each not in text] == [], path
    text = html.unescape((await page(http, "/docs/api/create_meeting")).text)
    assert_contains(
        text, "<td><code>title</code></td>", "string, 1 to 200 characters", "boolean, optional",
        f"curl -sS -X POST {BASE_URL}/api/v1/meetings",
        'client.meetings.create(\n    title="Rapat mingguan",',
        '<a href="../errors/insufficient_credits">', '"credits_deducted": 15',
    )  # fmt: skip
    estimate = html.unescape((await page(http, "/docs/api/estimate_credits")).text)
    assert_contains(
        estimate, "<code>items[].credits</code>", "client.credits.estimate_meeting(pricing_tier_id="
    )
    lost = await http.get(f"{BASE_URL}/docs/api/nothing")
    assert (lost.status_code, "../../docs" in lost.text) == (404, True)


async def test_the_pages_of_events_describe_what_is_posted(http: httpx.AsyncClient) -> None:
    text = (await page(http, "/docs/api/on_meeting_ended")).text
    assert_contains(text, "<code>data.join_url</code>", "<code>X-Service-Signature</code>")
    assert "curl" not in text


async def test_the_texts_for_customers_have_the_address_of_this_service(http: httpx.AsyncClient) -> None:
    for name in PAGES:
        text = (await page(http, f"/docs/{name}")).text
        assert "https://meet.example.com" not in text, name
        if name != "changelog":
            assert not re.search("127\\.0\\.0\\.1|make run|not served|MEETCORE_QUOTA", text), name
    assert f"export API={BASE_URL}/api/v1" in (await page(http, "/docs/notulen")).text


@pytest.mark.parametrize(
    ("contact", "link", "described"),
    [
        ("help@meet.example", "mailto:help@meet.example", {"email": "help@meet.example"}),
        ("https://meet.example/help", "https://meet.example/help", {"url": "https://meet.example/help"}),
    ],
)
async def test_pages_and_document_name_the_support_contact(
    contact: str, link: str, described: dict[str, str]
) -> None:
    document = openapi_document(OPERATIONS, BASE_URL, date(2026, 12, 1), contact)
    assert json.loads(document)["info"]["contact"] == described
    app = Starlette(routes=DocsPages(lambda: document, BASE_URL, contact).routes)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
        for path in ("/docs", "/docs/errors/conflict"):
            text = (await page(http, path)).text
            assert_contains(text, f'Help: <a href="{link}">{contact}</a>', absent=["Dashboard</a>"])


@pytest.mark.spec("6/kinds")
async def test_the_page_on_webhooks_describes_every_kind(http: httpx.AsyncClient) -> None:
    text = (await page(http, "/docs/webhooks")).text
    assert all(f"<code>{kind.value}</code>" in text for kind in EventKind)
    assert "<!--" not in text.partition("<body>")[2]


def test_the_service_loads_nothing_for_its_pages_before_they_are_read() -> None:
    code = (
        "import sys, meetcore.app; from meetcore.adapters.http.docs import DocsPages;"
        "DocsPages(bytes, '').routes; print('markdown_it' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
