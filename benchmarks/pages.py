"""The pages of the dashboard for an account with a long history: from the request to the last byte, without a
network."""

import asyncio
import re
import time
from collections.abc import Iterator
from statistics import median

import httpx
import psycopg

from benchmarks.ledger import fill_ledger
from benchmarks.report import Result
from benchmarks.rows import DELIVERIES, EVENTS, MEETINGS, REQUESTS, fill
from benchmarks.servers import Account, Endpoint, Place, add_endpoints, place, seed
from meetcore.adapters.web.routes import PAGES
from meetcore.composition.application import Application
from meetcore.usecases.members.sign_in_links import Browser, start_session

__all__ = ["COOKIE", "measure_pages", "sign_in"]

COOKIE = "meetcore"  # as it is named without TLS
_FILTERED = (
    "/dashboard/meetings?status=cancelled", "/dashboard/meetings?search=rapat+anggaran",
    "/dashboard/meetings?search=a1b", "/dashboard/ledger?kind=topup", "/dashboard/requests?status=4",
    "/dashboard/webhooks/{webhooks}?status=failed",
)  # fmt: skip
_FILES = (".csv", ".md", ".pdf", ".zip", ".json")
# The newest of what has a page.
_NEWEST = """
SELECT m.id, d.endpoint_id, d.id FROM (SELECT id FROM meetings ORDER BY id DESC LIMIT 1) AS m,
    (SELECT id, endpoint_id FROM deliveries ORDER BY id DESC LIMIT 1) AS d
"""


def measure_pages(entries: int = 10_000_000, rows: int = 1_000_000, rounds: int = 15) -> list[Result]:
    """Measure ms of each page of an account with so many ledger entries, and so many other rows."""
    with place() as where:
        accounts = seed(where, 1)
        cookie, endpoints = asyncio.run(_prepare(where, accounts[0]))
        fill_ledger(where, accounts, 2 * entries)
        for table in (MEETINGS, EVENTS, DELIVERIES, REQUESTS):
            fill(where, table, rows, accounts, endpoints)
        where.execute("VACUUM ANALYZE")
        with (
            where.serve() as service,
            httpx.Client(base_url=f"http://127.0.0.1:{service.port}", trust_env=False) as http,
        ):
            http.headers["cookie"] = f"{COOKIE}={cookie}"
            found = [_page(http, path, rounds) for path in _paths(where)]
    return sorted(found, key=lambda each: -(each.ours or 0))


async def _prepare(where: Place, account: Account) -> tuple[str, list[Endpoint]]:
    """Sign in, and register an endpoint."""
    async with where.application() as application:
        endpoints = await add_endpoints(application, [account], ["/hook"], ["hooks.test"])
        return await sign_in(application, account), endpoints


async def sign_in(application: Application, account: Account) -> str:
    """Begin a session of the account's owner; return its token."""
    [owner] = await application.ports.queries.list_members(account.id)
    runtime = application.runtime
    async with application.ports.store.begin() as tx:
        made = await start_session(tx, runtime, runtime.now(), account.id, owner.user.id, Browser(), None)
    return made.token


def _page(http: httpx.Client, path: str, rounds: int) -> Result:
    taken, answer = [], http.get(path)
    for _ in range(rounds):
        began = time.perf_counter()
        answer = http.get(path)
        taken.append((time.perf_counter() - began) * 1000)
    if answer.status_code != httpx.codes.OK:
        raise RuntimeError(f"{path} answers {answer.status_code}")
    shown = re.sub(r"[0-9a-f-]{36}", "…", path.removeprefix("/dashboard")) or "/"
    return Result(f"page {shown}", median(taken), None, "ms", "≤ 100 ms")


def _paths(where: Place) -> Iterator[str]:
    """Each page that is read, with the newest record of its kind, and lists with their filters."""
    with psycopg.connect(where.database_url) as connection:
        row = connection.execute(_NEWEST).fetchone()
    assert row is not None
    meeting, endpoint, delivery = row
    ids = {"meetings": meeting, "webhooks": endpoint}
    for page in PAGES:
        kind = page.path.removeprefix("/dashboard/").partition("/")[0]
        path = page.path.replace("{delivery_id}", str(delivery)).replace("{id}", str(ids.get(kind, "{id}")))
        if page.method == "GET" and not path.endswith(_FILES) and "{" not in path:
            yield path
    yield from (path.format(webhooks=endpoint) for path in _FILTERED)
