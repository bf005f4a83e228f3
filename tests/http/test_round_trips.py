"""Round trips to the database, counted on the wire.

A read has two: the key with the data, and the count. A page of the dashboard has four at most.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest
from attrs import evolve
from psycopg.pq import Trace
from starlette.applications import Starlette

from meetcore.adapters.api.http_common import RequestLimits
from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.settings import Settings
from meetcore.adapters.web.console.routes import PAGES as CONSOLE_PAGES
from meetcore.adapters.web.console.routes import console_routes
from meetcore.adapters.web.routes import PAGES, dashboard_routes
from meetcore.composition.application import Application, Part
from meetcore.composition.infrastructure import open_application
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.members.sign_in import SignInMethod
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import Quotas
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.testing.clock import ManualClock
from meetcore.usecases.members.sign_in_links import (
    Browser,
    NewOperatorSession,
    NewSession,
    start_operator_session,
    start_session,
)
from tests.support.api_contract import Contract
from tests.support.api_harness import BASE_URL, Customer, api_on, client_of, code_of
from tests.support.oauth_requests import a_request_for_a_grant
from tests.support.paid_payments import a_paid_payment
from tests.support.sandbox_recordings import a_note

PAGE_TRIPS = 4
"""The session, two for the data, and the count."""
RECORDED = ("/dashboard/ledger.csv", "/console/accounts/{id}")
"""Pages whose reading is counted and has an entry in the audit log: two trips more."""


class Wire:
    """The one connection of a service, and what goes over it."""

    def __init__(self, pool: Pool, customer: Customer, pages: httpx.AsyncClient) -> None:
        self._pool = pool
        self.customer = customer
        self.pages = pages

    async def trips(
        self, path: str, get: Callable[[str], Awaitable[httpx.Response]] | None = None
    ) -> tuple[int, Any]:
        """The number of database round trips during a read, and the answer."""
        with tempfile.TemporaryFile() as trace:
            async with self._pool.connection() as connection:
                connection.pgconn.trace(trace.fileno())
                connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
            try:
                answer = await (get or self.customer.get)(path)
            finally:
                async with self._pool.connection() as connection:
                    connection.pgconn.untrace()
            trace.seek(0)
            lines = [line.split(b"\t") for line in trace.read().splitlines()]
        # After each of these the frontend waits for the backend.
        return sum(line[0] == b"F" and line[2] in (b"Sync", b"Query") for line in lines), answer

    async def check_page(self, path: str, status: int) -> None:
        """Check the status of a page, and that it takes no more trips than a page may.

        Statements are prepared at their first use, and once a minute a session's last use is written.
        """
        for _ in range(3):
            trips, answer = await self.trips(path, self.pages.get)
            assert answer.status_code == status, path
            if trips <= PAGE_TRIPS:
                return
        pytest.fail(f"{path} takes more than {PAGE_TRIPS} trips")


async def _session_of_owner(customer: Customer) -> NewSession:
    [owner] = await customer.application.ports.queries.list_members(customer.account_id)
    runtime = customer.application.runtime
    async with customer.application.ports.store.begin() as tx:
        return await start_session(
            tx,
            runtime,
            runtime.now(),
            customer.account_id,
            owner.user.id,
            Browser(),
            SignInMethod.PORTAL_LINK,
        )


async def _session_of_admin(application: Application) -> NewOperatorSession:
    operator = await application.access.operators.add(f"{uuid4().hex}@example.com", OperatorRole.ADMIN)
    runtime = application.runtime
    async with application.ports.store.begin() as tx:
        return await start_operator_session(
            tx, runtime, runtime.now(), operator.id, Browser(), SignInMethod.PORTAL_LINK
        )


@pytest.fixture
async def line(customer: Customer, contract: Contract, service_settings: Settings) -> AsyncIterator[Wire]:
    settings = evolve(service_settings, database_pool_size=1)
    async with (
        open_application(settings, customer.harness.network, [Part.API]) as application,
        api_on(application) as api,
        client_of(api, contract) as http,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(
                Starlette(
                    routes=[
                        *dashboard_routes(application.dashboard, api, BASE_URL, RequestLimits()),
                        *console_routes(application.console, BASE_URL, RequestLimits()),
                    ]
                )
            ),
            base_url=BASE_URL,
        ) as pages,
    ):
        queries = application.ports.queries
        assert isinstance(queries, PostgresQueries)
        pages.cookies.set("__Host-meetcore", (await _session_of_owner(customer)).token)
        pages.cookies.set("__Host-meetcore-console", (await _session_of_admin(application)).token)
        yield Wire(queries._pool, customer.at(http), pages)


@pytest.mark.spec("4.2/1", "1/op/credits")
async def test_a_read_takes_two_trips(line: Wire, customer: Customer) -> None:
    meeting = await customer.make_meeting()
    for path in ("/me", "/credits", f"/meetings/{meeting['id']}"):
        first, _ = await line.trips(path)  # statements are prepared at their first use
        trips, answer = await line.trips(path)
        assert answer.status_code == 200, answer.text
        assert trips == 2 <= first
        assert "data" not in answer.json()
    assert (await line.trips(f"/meetings/{meeting['id']}"))[1].json() == meeting
    trips, _ = await line.trips("/meetings?limit=1")
    assert trips > 2, "a read of its own would be counted"


async def test_a_creation_takes_three_trips_and_two_commits(line: Wire, customer: Customer) -> None:
    """And one that counts the request: with the caller it reads what it decides on."""

    async def post(path: str) -> httpx.Response:
        return await line.customer.post(path, customer.harness.body(), idem=str(uuid4()))

    first, _ = await line.trips("/meetings", post)
    trips, answer = await line.trips("/meetings", post)
    assert answer.status_code == 201, answer.text
    assert trips == 4 <= first


async def test_a_page_takes_four_trips_at_most(line: Wire, customer: Customer) -> None:
    note = await a_note(customer)
    webhook = await customer.make_webhook()
    await customer.post(f"/webhooks/{webhook['id']}/test", {})
    [delivery] = (await customer.get(f"/webhooks/{webhook['id']}/deliveries")).json()["data"]
    called = LoggedRequest(
        uuid4(), customer.account_id, customer.key.key.id, datetime.now(UTC), "GET", "/me", 200, 1
    )
    await customer.application.ports.request_log.save([called])
    ids = {
        "meetings": note["meeting_id"], "notes": note["id"], "webhooks": webhook["id"],
        "requests": str(called.id), "credits": await a_paid_payment(customer),
        "connect": await a_request_for_a_grant(customer.application),
    }  # fmt: skip
    for page in PAGES:
        if page.method == "GET" and page.path not in RECORDED:
            part = page.path.removeprefix("/dashboard/").partition("/")[0]
            path = page.path.replace("{delivery_id}", delivery["id"]).replace("{id}", ids.get(part, ""))
            path = path.replace("{operation}", "get_meeting")
            # No month of this account is over.
            await line.check_page(path, 404 if "{month}" in path else 200)


async def test_a_page_of_the_console_takes_four_trips_at_most(line: Wire, customer: Customer) -> None:
    webhook = await customer.make_webhook()
    await customer.post(f"/webhooks/{webhook['id']}/test", {})
    await customer.make_meeting()
    payment = await a_paid_payment(customer)
    for page in CONSOLE_PAGES:
        if page.method == "GET" and page.path not in ("/console", *RECORDED):
            id_ = payment if "/payments/" in page.path else str(customer.account_id)
            await line.check_page(page.path.replace("{id}", id_), 200)


@pytest.mark.spec("7/401", "7/403", "7/404", "7/429")
async def test_nothing_of_the_data_is_looked_at_before_its_turn(line: Wire, customer: Customer) -> None:
    """A meeting that cannot be opened is no matter to those refused before; else its field is null."""
    meeting = await customer.make_meeting()
    path = f"/meetings/{meeting['id']}"
    await customer.query("UPDATE meetings SET password = 'x' WHERE id = %s", meeting["id"])
    service = line.customer.http
    answer = await line.customer.get(path)
    assert (answer.status_code, answer.json()["password"]) == (200, None)
    narrow = (await customer.another_key([Scope.CREDITS_READ])).at(service)
    assert code_of(await narrow.get(path)) == (403, "insufficient_scope")
    other = (await customer.harness.customer()).at(service)
    assert code_of(await other.get(path)) == (404, "not_found")
    assert code_of(await other.get("/meetings/nothing")) == (404, "not_found")
    assert code_of(await narrow.get("/meetings/nothing")) == (403, "insufficient_scope")
    await customer.harness.administration.keys.revoke(customer.key.key.id)
    assert code_of(await line.customer.get(path)) == (401, "invalid_api_key")
    clock = ManualClock(datetime.now(UTC))  # both requests come in one minute
    async with api_on(customer.application, quotas=Quotas(read=1), clock=clock) as api:
        reader = (await customer.another_key()).at(client_of(api, _Unchecked()))
        assert (await reader.get(path)).status_code == 200
        assert code_of(await reader.get(path)) == (429, "rate_limited")


class _Unchecked(Contract):
    """Checks nothing: an application with a quota of one does not match the contract."""

    def __init__(self) -> None:
        super().__init__({"paths": {}})
