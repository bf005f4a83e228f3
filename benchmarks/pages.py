"""The pages of the dashboard for an account with a long history: time, trips to the database and bytes.

Measured is the server's part: what a page takes from the request to its last byte, without a network.
"""

import asyncio
import base64
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from uuid import UUID

import httpx
import psycopg
from attrs import frozen
from psycopg.pq import Trace
from starlette.applications import Starlette
from typed_settings.types import SecretStr

from benchmarks.ledger_rows import Owner, write_histories
from benchmarks.report import Result, middle
from benchmarks.table_rows import DELIVERIES, MEETINGS, REQUESTS, add_endpoints, fill
from meetcore.adapters.api.limits import RequestLimits
from meetcore.adapters.postgres.endpoints.rows import endpoint_context
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.settings import Settings
from meetcore.adapters.web.routes import PAGES, dashboard_routes
from meetcore.composition.application import Application
from meetcore.composition.infrastructure import open_application
from meetcore.composition.ports import Part
from meetcore.domain.money.chain_keys import ChainKey
from meetcore.domain.requests.keys import Scope
from meetcore.usecases.redeem_sign_in_link import Browser, start_session

__all__ = ["PAGE_ROUNDS", "PageLoad", "measure_dashboard", "show_pages"]

BASE_URL = "https://bench.example"
COOKIE = "__Host-meetcore"
GOAL_MS = 100
ENDPOINTS = 10
PAGE_ROUNDS = 15
_NOTES = """
WITH held AS (
    INSERT INTO recordings (account_id, id, meeting_id, status, files, recorded_at, created_at, provider,
        provider_meeting_id, expires_at)
    SELECT m.account_id, m.id, m.id, 'expired', 'x', m.start_at, m.end_at, 'sandbox', m.id::text, m.end_at
    FROM meetings m WHERE m.account_id = %(account_id)s ORDER BY m.id DESC LIMIT 100 RETURNING id, created_at
)
INSERT INTO notes (account_id, id, api_key_id, recording_id, meeting_id, language, status, step, duration_s, created_at, error)
SELECT %(account_id)s, id, %(key_id)s, id, id, 'id', 'failed', 'fetch', 60, created_at, 'no speech' FROM held
"""
# The newest of what has a page.
_NEWEST = """
SELECT (SELECT id FROM meetings WHERE account_id = %(id)s ORDER BY id DESC LIMIT 1) AS meeting,
    (SELECT id FROM notes WHERE account_id = %(id)s ORDER BY id DESC LIMIT 1) AS note,
    (SELECT id FROM api_requests WHERE account_id = %(id)s ORDER BY id DESC LIMIT 1) AS request,
    d.endpoint_id AS endpoint, d.id AS delivery
FROM deliveries d WHERE d.account_id = %(id)s ORDER BY d.id DESC LIMIT 1
"""


@frozen
class PageLoad:
    """The rows of the account: entries of the ledger, meetings and their notes, deliveries, requests."""

    entries: int = 10_000_000
    meetings: int = 1_000_000
    deliveries: int = 1_000_000
    requests: int = 1_000_000


def measure_dashboard(url: str, load: PageLoad, rounds: int = PAGE_ROUNDS) -> list[Result]:
    """Fill an account of an empty database, and measure each page of it: medians in milliseconds."""
    return asyncio.run(_measure(url, load, rounds))


def show_pages(results: Sequence[Result]) -> None:
    """Print each page with its trips to the database and its size; the slowest first."""
    print(f"{'median ms':>10} {'trips':>6} {'bytes':>8}  page")
    for each in sorted(results, key=lambda each: -(each.service or 0)):
        print(f"{each.service:>10.1f} {each.extra['trips']:>6} {each.extra['bytes']:>8}  {each.name}")


async def _measure(url: str, load: PageLoad, rounds: int) -> list[Result]:
    settings = Settings(
        database_url=SecretStr(url), base_url=BASE_URL, database_pool_size=1,
        secrets_key=SecretStr(base64.urlsafe_b64encode(os.urandom(32)).decode()),
    )  # fmt: skip
    async with open_application(settings, parts=[Part.API]) as application:
        account = await application.administration.create_account("bench@example.com", "Bench", 1)
        key = await application.administration.create_key(account.id, tuple(Scope), 1_000_000)
        chain_key = application.runtime.chain_key
        assert chain_key is not None
        paths = await asyncio.to_thread(_fill, url, load, Owner(account.id, key.key.id), chain_key)
        routes = dashboard_routes(application.dashboard, BASE_URL, RequestLimits())
        transport = httpx.ASGITransport(Starlette(routes=routes))
        async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as http:
            await _seal(application, url, account.id)
            http.cookies.set(COOKIE, await _sign_in(application, account.id))
            return [await _page(application, http, path, rounds) for path in paths]


async def _seal(application: Application, url: str, account_id: UUID) -> None:
    """Seal what pages open: a value that does not open is logged, which takes longer than the page."""
    queries = application.ports.queries
    assert isinstance(queries, PostgresQueries)
    cipher = queries._cipher
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for id_ in [
            row[0] for row in await (await connection.execute("SELECT id FROM webhook_endpoints")).fetchall()
        ]:
            sealed = cipher.seal(b"whsec_x", endpoint_context(account_id, id_))
            await connection.execute("UPDATE webhook_endpoints SET secret = %s WHERE id = %s", (sealed, id_))
        for id_ in [
            row[0] for row in await (await connection.execute("SELECT id FROM recordings")).fetchall()
        ]:
            sealed = cipher.seal(b"[]", f"{account_id}/recordings/{id_}/files")
            await connection.execute("UPDATE recordings SET files = %s WHERE id = %s", (sealed, id_))


async def _sign_in(application: Application, account_id: UUID) -> str:
    [owner] = await application.ports.queries.list_members(account_id)
    runtime = application.runtime
    async with application.ports.store.begin() as tx:
        made = await start_session(tx, runtime, runtime.now(), account_id, owner.user.id, Browser())
    return made.token


async def _page(application: Application, http: httpx.AsyncClient, path: str, rounds: int) -> Result:
    taken: list[float] = []
    answer = await http.get(path)
    for _ in range(rounds):
        begun = time.perf_counter()
        answer = await http.get(path)
        taken.append((time.perf_counter() - begun) * 1000)
    if answer.status_code != httpx.codes.OK:
        raise RuntimeError(f"{path} answers {answer.status_code}")
    extra = {"trips": await _trips(application, http, path), "bytes": len(answer.content)}
    shown = _without_ids(path)
    return Result(f"page {shown}", middle(taken), None, "ms", f"< {GOAL_MS}", extra)


async def _trips(application: Application, http: httpx.AsyncClient, path: str) -> int:
    """Count the round trips of a page on the wire: after each `Sync` or `Query` the frontend waits."""
    queries = application.ports.queries
    assert isinstance(queries, PostgresQueries)
    with tempfile.TemporaryFile() as trace:
        async with queries._pool.connection() as connection:
            connection.pgconn.trace(trace.fileno())
            connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        await http.get(path)
        async with queries._pool.connection() as connection:
            connection.pgconn.untrace()
        trace.seek(0)
        lines = [line.split(b"\t") for line in trace.read().splitlines()]
    return sum(line[0] == b"F" and line[2] in (b"Sync", b"Query") for line in lines)


def _without_ids(path: str) -> str:
    parts = path.removeprefix("/dashboard").split("/")
    return "/".join("…" if len(part) == len(str(UUID(int=0))) else part for part in parts) or "/"


def _fill(url: str, load: PageLoad, owner: Owner, chain_key: ChainKey) -> list[str]:
    write_histories(url, [(owner, load.entries)], chain_key)
    for rows, count in ((MEETINGS, load.meetings), (DELIVERIES, load.deliveries), (REQUESTS, load.requests)):
        fill(url, rows, count, [owner], ENDPOINTS)
    with psycopg.connect(url, autocommit=True) as connection:
        add_endpoints(connection, [owner], ENDPOINTS)
        connection.execute(_NOTES, {"account_id": owner.account_id, "key_id": owner.key_id})
        connection.execute("VACUUM ANALYZE")
        return list(_paths(connection, owner.account_id))


def _paths(connection: psycopg.Connection, account_id: UUID) -> Iterator[str]:
    """Each page that is read, with the newest record of its kind, and lists with their filters."""
    row = connection.execute(_NEWEST, {"id": account_id}).fetchone()
    assert row is not None
    meeting, note, request, endpoint, delivery = row
    ids = {"meetings": meeting, "notes": note, "webhooks": endpoint}
    for page in PAGES:
        if page.method != "GET" or page.path.endswith((".csv", ".md", ".pdf", ".zip", ".json")):
            continue
        kind = page.path.removeprefix("/dashboard/").partition("/")[0]
        path = page.path.replace("{delivery_id}", str(delivery))
        if "{" in path.replace("{id}", ""):
            continue
        if "{id}" not in path or kind in ids:
            yield path.replace("{id}", str(ids.get(kind)))
    yield "/dashboard/meetings?status=cancelled"
    yield "/dashboard/meetings?search=rapat+anggaran"
    yield "/dashboard/meetings?search=a1b"
    yield "/dashboard/ledger?kind=topup"
    yield "/dashboard/requests?status=4"
    yield f"/dashboard/requests?id={request}"
    yield f"/dashboard/webhooks/{endpoint}?status=failed"
