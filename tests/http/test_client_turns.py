"""Turns: a client has a few requests in progress, rests between them, and holds up no other client."""

import asyncio
import time
from ipaddress import ip_network
from itertools import pairwise

import pytest
from starlette.types import Message, Receive, Scope, Send

from meetcore.adapters.http.client_turns import AT_ONCE, FIRST_REST_S, MAX_REST_S, ClientTurns
from meetcore.app import _takes_turns
from meetcore.domain.webhooks.addresses import Network

PROXIES: tuple[Network, ...] = (ip_network("192.0.2.0/24"),)


async def nothing() -> Message:
    return {"type": "http.disconnect"}


async def ignore(_: Message) -> None:
    return None


def request(peer: str, forwarded: str = "") -> Scope:
    headers = [(b"x-forwarded-for", forwarded.encode())] if forwarded else []
    return {"type": "http", "client": (peer, 1), "headers": headers}


class Held:
    """An application that begins its answers when it is let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.is_over = asyncio.Event()
        self.in_progress = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.in_progress += 1
        await self.let_go.wait()
        await send({"type": "http.response.start"})
        await self.is_over.wait()


async def in_progress(app: Held, number: int) -> None:
    """Wait until so many requests are in progress."""
    async with asyncio.timeout(20):
        while app.in_progress < number:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def begun(app: Held, turns: ClientTurns, *scopes: Scope, number: int) -> list[asyncio.Task[None]]:
    """Send requests, and wait until as many as can be are in progress, and for some rests longer."""
    tasks = [asyncio.create_task(turns.take(app, scope, nothing, ignore)) for scope in scopes]
    await in_progress(app, number)
    await asyncio.sleep(5 * FIRST_REST_S)
    return tasks


@pytest.mark.parametrize(
    "scopes",
    [
        [request("198.51.100.1")] * 20,
        [request(f"2001:db8::{number}") for number in range(1, 21)],
        [request("192.0.2.1", "198.51.100.1")] * 20,
    ],
    ids=["IPv4", "IPv6 /64", "behind a proxy"],
)
async def test_a_client_has_so_many_requests_in_progress_until_an_answer_begins(scopes: list[Scope]) -> None:
    app, turns = Held(), ClientTurns(PROXIES)
    tasks = await begun(app, turns, *scopes, number=AT_ONCE)
    assert app.in_progress == AT_ONCE
    tasks += await begun(app, turns, request("198.51.100.2"), number=AT_ONCE + 1)
    assert app.in_progress == AT_ONCE + 1, "another client's is in progress at once"
    app.let_go.set()
    await in_progress(app, 21)
    app.is_over.set()
    await asyncio.gather(*tasks)
    assert len(turns) == 0, "nothing is kept of clients without requests"


async def test_a_proxy_that_names_no_client_and_a_socket_are_not_counted() -> None:
    app, turns = Held(), ClientTurns(PROXIES)
    tasks = await begun(app, turns, *[request("192.0.2.1")] * 20, *[request("")] * 20, number=40)
    assert app.in_progress == 40
    app.let_go.set()
    app.is_over.set()
    await asyncio.gather(*tasks)


async def test_requests_at_once_leave_most_of_the_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def page(_scope: Scope, _receive: Receive, send: Send) -> None:
        time.sleep(0.005)  # noqa: ASYNC251  (computed without a pause)
        await send({"type": "http.response.start"})

    turns, one, clock = ClientTurns(), request("198.51.100.1"), asyncio.get_running_loop().time
    start = clock()
    await asyncio.gather(*(turns.take(page, one, nothing, ignore) for _ in range(20)))
    assert clock() - start >= 18 * 0.02

    rests_s, sleep, own = [], asyncio.sleep, asyncio.current_task()

    async def noted(seconds: float) -> None:
        if asyncio.current_task() is own:  # services of other tests may run
            rests_s.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)
    for _ in range(20):
        await turns.take(page, one, nothing, ignore)
    assert set(rests_s) == {0}, "one at a time is not held up"


@pytest.mark.parametrize("status", [200, 401])
async def test_requests_that_wait_together_do_not_go_on_together(status: int) -> None:
    """They wait for one statement of the database. After a refusal the rest is longer."""
    begun_at = []

    async def page(_scope: Scope, _receive: Receive, send: Send) -> None:
        begun_at.append(clock())
        await asyncio.sleep(0.005)
        await send({"type": "http.response.start", "status": status})

    turns, one, clock = ClientTurns(), request("198.51.100.1"), asyncio.get_running_loop().time
    await asyncio.gather(*(turns.take(page, one, nothing, ignore) for _ in range(8)))
    least_s = FIRST_REST_S if status == 200 else MAX_REST_S
    pauses = [later - sooner for sooner, later in pairwise(begun_at)]
    assert min(pauses) >= FIRST_REST_S * 0.9
    assert min(pauses[1:]) >= least_s * 0.9


async def test_events_of_a_provider_have_no_rest_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    app, turns = Held(), ClientTurns(has_rests=False)
    tasks = await begun(app, turns, *[request("198.51.100.1")] * 20, number=AT_ONCE)
    assert app.in_progress == AT_ONCE

    async def at_once(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start"})

    app.let_go.set()
    app.is_over.set()
    await asyncio.gather(*tasks)
    rests, sleep = set[float](), asyncio.sleep

    async def noted(seconds: float) -> None:
        rests.add(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)
    await asyncio.gather(*(turns.take(at_once, request("198.51.100.1"), nothing, ignore) for _ in range(100)))
    assert rests == {0}


async def test_a_request_that_leaves_while_it_waits_leaves_its_place() -> None:
    app, turns = Held(), ClientTurns()
    tasks = await begun(app, turns, *[request("198.51.100.1")] * 20, number=AT_ONCE)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(turns) == 0


KEY, TOKEN = f"Bearer mk_live_{'a' * 43}", f"Bearer mk_oauth_{'a' * 43}"


@pytest.mark.parametrize(
    ("path", "header", "expected"),
    [
        ("/api/v1/me", KEY, False), ("/api/v1/me", f"Bearer xx_live_{'a' * 43}", True),
        ("/api/v1/me", "Bearer mk_live_a", True), ("/api/v1/me", "", True), ("/api/v1/me", TOKEN, True),
        ("/mcp", KEY, False), ("/mcp", TOKEN, False), ("/mcp", "Bearer mk_live_a", True), ("/mcp", "", True),
        ("/dashboard", "", True), ("/console", KEY, True), ("/docs", "", True),
        ("/docs/errors/gone", "", True),
        ("/downloads/1", "", True), ("/oauth/authorize", "", True), ("/oauth/token", "", True),
        ("/.well-known/oauth-protected-resource", "", True), ("/nowhere", "", True), ("/", "", True),
        ("/healthz", "", False), ("/readyz", "", False), ("/healthz/x", "", True), ("/readyz2", "", True),
        ("/sandbox/meetings/1", "", True), ("/provider-events/zoom", "", True),
        ("/payment-events/xendit", "", True),
    ],
)  # fmt: skip
def test_a_client_has_a_share_of_what_no_quota_of_a_key_counts(
    path: str, header: str, expected: bool
) -> None:
    scope = {"path": path, "headers": [(b"authorization", header.encode())] if header else []}
    assert _takes_turns(scope, "mk") is expected
