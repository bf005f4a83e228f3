"""Clients known by the document at their URL, which the service fetches from a real server, or refuses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette

from meetcore.adapters.api.http_common import RequestLimits
from meetcore.adapters.mcp.oauth_routes import oauth_routes
from meetcore.adapters.webhook_sender import AsyncioWebhookSender
from meetcore.domain.requests import grants
from meetcore.testing.contracts.webhook_setting import HOST, StaticResolver
from meetcore.testing.receiver import Authority, Behaviour, Receiver, answering, hang, pouring, receiving
from tests.agents.clients import line_to
from tests.agents.oauth import CALLBACK, Program
from tests.support.api_harness import ApiHarness, rebuilt

pytestmark = pytest.mark.usefixtures("no_attempts")

DOCUMENT = f"https://{HOST}/oauth/client.json"
METADATA = {"client_id": DOCUMENT, "client_name": "Known by its URL", "redirect_uris": [CALLBACK]}


def document(status: int = 200, headers: str = "", **changes: object) -> Behaviour:
    body = json.dumps(METADATA | changes).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return answering(head.encode() + body)


@asynccontextmanager
async def program_at(
    harness: ApiHarness, tmp_path: Path, behaviour: Behaviour | None, *addresses: str
) -> AsyncIterator[tuple[Program, Receiver | None]]:
    """A program at a service that fetches from a server by its name, or resolves the name to addresses.

    Only a server that does not answer is given up soon: any other has time on a busy machine.
    """
    await harness.query("DELETE FROM oauth_clients")
    authority, receiver = Authority(tmp_path), None
    async with AsyncExitStack() as stack:
        overrides = {}
        if behaviour is not None:
            receiver = await stack.enter_async_context(receiving(authority.certified(HOST), behaviour))
            overrides = {HOST: ("127.0.0.1", receiver.port)}
        resolver = StaticResolver(tuple(ip_address(each) for each in addresses))
        sender = AsyncioWebhookSender(
            resolver,
            ca_file=authority.ca_file,
            timeout_s=1.0 if behaviour is hang else 30.0,
            dial_overrides=overrides,
        )
        sender.open()
        stack.push_async_callback(sender.close)
        changed = rebuilt(harness.application, documents=sender)
        app = Starlette(routes=oauth_routes(changed.grants, changed.policy.base_url, RequestLimits()))
        yield Program(await stack.enter_async_context(line_to(app)), DOCUMENT), receiver


async def test_a_document_is_fetched_once_in_an_hour_and_makes_a_client(
    harness: ApiHarness, tmp_path: Path
) -> None:
    async with program_at(harness, tmp_path, document()) as (program, receiver):
        assert receiver is not None
        for _ in range(3):
            assert (await program.authorize()).status_code == 302
        [head] = receiver.heads
        assert head.startswith(b"GET /oauth/client.json HTTP/1.1\r\n")
        assert (await program.authorize(redirect_uri=f"{CALLBACK}/x")).status_code == 400
        [kept] = await harness.query("SELECT name, fetched_at FROM oauth_clients")
        assert kept["name"] == "Known by its URL"
        await harness.query("UPDATE oauth_clients SET fetched_at = fetched_at - interval '2 hours'")
        assert (await program.authorize()).status_code == 302
        assert len(receiver.heads) == 2


@pytest.mark.parametrize(
    "behaviour",
    [
        document(404),
        document(302, f"Location: https://{HOST}/other.json\r\n"),
        document(client_id=f"https://{HOST}/other.json"),
        document(client_secret="secret"),
        document(redirect_uris=["http://evil.example/"]),
        document(filler="x" * 20_000),
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"),
        pouring(b"HTTP/1.1 200 OK\r\n\r\n"),
        hang,
    ],
    ids=["missing", "redirect", "other id", "secret", "unsafe", "large", "list", "endless", "slow"],
)
async def test_a_bad_document_makes_no_client(
    harness: ApiHarness, tmp_path: Path, behaviour: Behaviour
) -> None:
    async with program_at(harness, tmp_path, behaviour) as (program, receiver):
        assert receiver is not None
        assert (await program.authorize()).status_code == 400
        assert len(receiver.heads) == 1
    assert await harness.query("SELECT id FROM oauth_clients") == []


@pytest.mark.parametrize("address", ["127.0.0.1", "fd00::1"])
async def test_a_document_of_the_inside_is_not_fetched(
    harness: ApiHarness, tmp_path: Path, address: str
) -> None:
    async with program_at(harness, tmp_path, None, address) as (program, _):
        assert (await program.authorize()).status_code == 400
        literal = f"[{address}]" if ":" in address else address
        assert (await program.authorize(client_id=f"https://{literal}/client.json")).status_code == 400


async def test_a_client_address_has_a_limited_number_of_documents_fetched(
    harness: ApiHarness, tmp_path: Path
) -> None:
    most, _ = grants.Act.FETCH.value
    async with program_at(harness, tmp_path, document(404)) as (program, receiver):
        assert receiver is not None
        codes = [(await program.authorize()).status_code for _ in range(most + 1)]
        assert codes == [400] * most + [429]
        assert len(receiver.heads) == most


async def test_the_token_endpoint_fetches_nothing(harness: ApiHarness, tmp_path: Path) -> None:
    async with program_at(harness, tmp_path, document()) as (program, receiver):
        assert receiver is not None
        answer: httpx.Response = await program.exchange("mk_code_x")
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
        assert receiver.connections == 0
