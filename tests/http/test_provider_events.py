"""Webhooks of providers: verified by signature, stored at once, handled afterwards."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from meetcore.adapters.http import provider_events
from meetcore.adapters.http.provider_events import MAX_NOTICE_BYTES
from meetcore.adapters.settings import SecretStr
from meetcore.app import Service
from tests.support.api_contract import Contract
from tests.support.api_harness import (
    BASE_URL,
    ApiHarness,
    Customer,
    client_of,
    code_of,
    settings_for,
    started,
    until,
)
from tests.support.relay import relay_to
from tests.support.zoom_requests import (
    SECRET,
    ZoomRequest,
    about_meeting,
    expected_answer,
    fixture,
    signed,
)

URL = f"{BASE_URL}/provider-events/zoom"
TOKEN = {"zoom_webhook_token": SecretStr(SECRET)}
PROMPTLY_S = 3.0
_numbers = itertools.count(85_000_000_000 + secrets.randbelow(10**9))


@pytest.fixture(scope="module")
async def zoomed(migrated_url: str, contract: Contract) -> AsyncIterator[httpx.AsyncClient]:
    """The service that Zoom knows the address of, on the database of the session."""
    service = Service(settings_for(migrated_url, **TOKEN))
    async with started(service), client_of(service, contract) as http:
        yield http


async def post(http: httpx.AsyncClient, request: ZoomRequest) -> httpx.Response:
    return await http.post(URL, content=request.body, headers=request.headers)


def now_signed(body: object) -> ZoomRequest:
    return signed(body, time.time())


async def post_event(http: httpx.AsyncClient, body: object) -> None:
    answer = await post(http, now_signed(body))
    assert (answer.status_code, answer.content) == (204, b""), answer.text


async def at_zoom(harness: ApiHarness, meeting: dict[str, Any]) -> str:
    """Make a meeting one of Zoom's; its id there."""
    name = str(next(_numbers))
    await harness.query(
        "UPDATE meetings SET provider = 'zoom', provider_meeting_id = %s WHERE id = %s::uuid",
        name, meeting["id"],
    )  # fmt: skip
    return name


async def becomes(customer: Customer, meeting: dict[str, Any], status: str) -> None:
    """Wait until the API shows a meeting in this state."""

    async def look() -> bool:
        shown = (await customer.get(f"/meetings/{meeting['id']}")).json()
        return bool(shown["status"] == status)

    await until(look)


async def kept(harness: ApiHarness) -> int:
    """Count Zoom's events, done or not; the tests of another module leave one of another provider."""
    return int(
        (await harness.query("SELECT count(*) AS n FROM provider_events WHERE provider = 'zoom'"))[0]["n"]
    )


async def test_without_a_secret_the_endpoint_does_not_exist(http: httpx.AsyncClient) -> None:
    assert (await post(http, now_signed(about_meeting("meeting.ended", "1")))).status_code == 404


async def test_only_the_providers_that_are_set_up_are_there(zoomed: httpx.AsyncClient) -> None:
    request = now_signed(about_meeting("meeting.ended", "1"))
    for name in ("sandbox", "zoom/x", ""):
        answer = await zoomed.post(
            f"{BASE_URL}/provider-events/{name}", content=request.body, headers=request.headers
        )
        assert answer.status_code == 404
    assert (await zoomed.get(URL)).status_code == 405


async def test_the_challenge_is_answered(zoomed: httpx.AsyncClient) -> None:
    answer = await post(zoomed, now_signed(fixture("endpoint.url_validation").body))
    assert (answer.status_code, answer.json()) == (200, expected_answer())
    assert answer.headers["content-type"] == "application/json"


async def test_an_unsigned_challenge_is_not_answered(zoomed: httpx.AsyncClient) -> None:
    body = fixture("endpoint.url_validation").body
    # The recorded signature is valid in the minutes around the recorded time: an old one is made here.
    forged = signed(body, time.time(), "another secret")
    for request in (ZoomRequest({}, body), forged, signed(body, time.time() - 360)):
        answer = await post(zoomed, request)
        assert code_of(answer) == (401, "invalid_api_key")
        assert expected_answer()["encryptedToken"] not in answer.text


async def test_an_unused_event_is_dropped(harness: ApiHarness, zoomed: httpx.AsyncClient) -> None:
    before = await kept(harness)
    await post_event(zoomed, fixture("meeting.participant_joined").body)
    assert await kept(harness) == before


@pytest.mark.parametrize("body", [b"", b"{", b"[]", {"event": "meeting.ended"}, b"\xff"])
async def test_what_is_no_event_is_malformed(zoomed: httpx.AsyncClient, body: object) -> None:
    answer = await post(zoomed, now_signed(body))
    assert code_of(answer) == (400, "invalid_request")
    assert answer.json()["error"]["details"] == {"fields": {"body": ["must be an event of zoom"]}}


async def test_a_body_over_1_mib_is_refused(zoomed: httpx.AsyncClient) -> None:
    event = json.dumps({"event": "user.signed_in"}).encode()
    await post_event(zoomed, event + b" " * (MAX_NOTICE_BYTES - len(event)))
    over = now_signed(event + b" " * (MAX_NOTICE_BYTES - len(event) + 1))
    assert code_of(await post(zoomed, over)) == (413, "invalid_request")

    async def dripping() -> AsyncIterator[bytes]:
        for start in range(0, len(over.body), 65_536):
            yield over.body[start : start + 65_536]

    answer = await zoomed.post(URL, content=dripping(), headers=over.headers)
    assert code_of(answer) == (413, "invalid_request")


async def test_a_session_starts_and_ends_by_zooms_events(
    harness: ApiHarness, customer: Customer, zoomed: httpx.AsyncClient
) -> None:
    meeting = await customer.make_meeting()
    name = await at_zoom(harness, meeting)
    await post_event(zoomed, about_meeting("meeting.started", name))
    await becomes(customer, meeting, "started")
    await post_event(zoomed, about_meeting("meeting.ended", name))
    await becomes(customer, meeting, "scheduled")
    assert await customer.hosts_taken() == 1, "its time is to come"


async def test_same_bytes_signed_anew_are_a_double(harness: ApiHarness, zoomed: httpx.AsyncClient) -> None:
    before = await kept(harness)
    body = json.dumps(about_meeting("meeting.started", str(next(_numbers)))).encode()
    for seconds in (0, 30):
        assert (await post(zoomed, signed(body, time.time() - seconds))).status_code == 204
    assert await kept(harness) == before + 1


def test_an_event_is_kept_promptly_or_refused() -> None:
    assert provider_events.KEEP_WITHIN_S < PROMPTLY_S


async def test_an_unavailable_database_asks_the_provider_to_retry(
    harness: ApiHarness,
    customer: Customer,
    migrated_url: str,
    contract: Contract,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meeting = await customer.make_meeting()
    body = json.dumps(about_meeting("meeting.started", await at_zoom(harness, meeting))).encode()
    async with relay_to(migrated_url) as (relay, url):
        service = Service(settings_for(url, **TOKEN))
        async with started(service), client_of(service, contract) as http:
            with monkeypatch.context() as shorter:
                shorter.setattr(provider_events, "KEEP_WITHIN_S", 0.2)
                since = time.monotonic()
                answer = await post(http, now_signed(body))
                assert time.monotonic() - since < PROMPTLY_S
            assert code_of(answer) == (503, "service_unavailable")
            assert int(answer.headers["Retry-After"]) >= 1
            assert code_of(await post(http, signed(body, 0))) == (401, "invalid_api_key")
            await relay.open()

            async def is_kept() -> bool:
                return (await post(http, now_signed(body))).status_code == 204

            await until(is_kept, 20)
            await becomes(customer, meeting, "started")


async def test_slow_database_asks_provider_to_retry(
    harness: ApiHarness, zoomed: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = now_signed(about_meeting("meeting.started", str(next(_numbers))))
    async with harness.pool.connection() as connection, connection.transaction():
        await connection.execute("LOCK TABLE provider_events IN ACCESS EXCLUSIVE MODE")
        with monkeypatch.context() as shorter:
            shorter.setattr(provider_events, "KEEP_WITHIN_S", 0.2)
            since = time.monotonic()
            answer = await post(zoomed, request)
            assert time.monotonic() - since < PROMPTLY_S
        assert code_of(answer) == (503, "service_unavailable")
    assert (await post(zoomed, request)).status_code == 204


class PendingPosts:
    """Posts that have sent all of their body but the last byte, straight to the application."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._go_on = asyncio.Event()
        self.waiting = 0

    async def post(self, size: int) -> int:
        """The status of one whose body has this size."""
        answered: list[Any] = []
        parts = iter([b"x" * (size - 1), b"x"])

        async def receive() -> dict[str, Any]:
            part = next(parts)
            if len(part) == 1:
                self.waiting += 1
                await self._go_on.wait()
            return {"type": "http.request", "body": part, "more_body": len(part) > 1}

        async def send(message: Any) -> None:
            answered.append(message)

        scope = {
            "type": "http", "method": "POST", "path": "/provider-events/zoom", "query_string": b"",
            "headers": [],
        }  # fmt: skip
        await self._service(scope, receive, send)
        return int(answered[0]["status"])

    def release(self) -> None:
        """Let all of them send their last byte."""
        self._go_on.set()


async def test_unsigned_posts_take_a_bounded_memory_together(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kib = 1024
    monkeypatch.setattr("meetcore.adapters.http.provider_events.BYTES_TOGETHER", 1000 * kib)
    service = Service(settings_for(migrated_url, **TOKEN))
    async with started(service):
        pending_posts = PendingPosts(service)
        large = [asyncio.create_task(pending_posts.post(564 * kib)) for _ in range(20)]
        await until(lambda: pending_posts.waiting + sum(task.done() for task in large) == 20)
        refused = [task.result() for task in large if task.done()]
        assert refused == [503] * 18  # each of the other two takes 500 KiB beyond what is free
        # What Zoom sends is small: it comes in all the same.
        small = asyncio.create_task(pending_posts.post(60 * kib))
        await until(lambda: pending_posts.waiting == 3)
        pending_posts.release()
        assert sorted(await asyncio.gather(small, *large)) == [401] * 3 + [503] * 18
        # And there is room again.
        again = [await pending_posts.post(564 * kib) for _ in range(3)]
        assert again == [401] * 3
