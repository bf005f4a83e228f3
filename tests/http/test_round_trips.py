"""Reads in two trips to the database: the key with the data, and the count. Counted on the wire."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from typing import Any

import pytest
from attrs import evolve
from psycopg.pq import Trace

from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.settings import Settings
from meetcore.composition.infrastructure import open_application
from meetcore.composition.ports import Part
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import Quotas
from tests.support.api_contract import Contract
from tests.support.api_harness import ApiHarness, Customer, api_on, client_of, code_of


class Wire:
    """The one connection of a service, and what goes over it."""

    def __init__(self, pool: Pool, customer: Customer) -> None:
        self._pool = pool
        self.customer = customer

    async def trips(self, path: str) -> tuple[int, Any]:
        """The number of database round trips during a read, and the answer."""
        with tempfile.TemporaryFile() as trace:
            async with self._pool.connection() as connection:
                connection.pgconn.trace(trace.fileno())
                connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
            try:
                answer = await self.customer.get(path)
            finally:
                async with self._pool.connection() as connection:
                    connection.pgconn.untrace()
            trace.seek(0)
            lines = [line.split(b"\t") for line in trace.read().splitlines()]
        # After each of these the frontend waits for the backend.
        return sum(line[0] == b"F" and line[2] in (b"Sync", b"Query") for line in lines), answer


@pytest.fixture
async def line(
    harness: ApiHarness, customer: Customer, contract: Contract, service_settings: Settings
) -> AsyncIterator[Wire]:
    settings = evolve(service_settings, database_pool_size=1)
    async with (
        open_application(settings, harness.network, [Part.API]) as application,
        api_on(application) as api,
        client_of(api, contract) as http,
    ):
        queries = application.ports.queries
        assert isinstance(queries, PostgresQueries)
        yield Wire(queries._pool, customer.at(http))


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


@pytest.mark.spec("7/401", "7/403", "7/404", "7/429")
async def test_nothing_of_the_data_is_looked_at_before_its_turn(
    harness: ApiHarness, line: Wire, customer: Customer
) -> None:
    """A meeting that cannot be opened is no matter to those refused before; else its field is null."""
    meeting = await customer.make_meeting()
    path = f"/meetings/{meeting['id']}"
    await harness.query("UPDATE meetings SET password = 'x' WHERE id = %s", meeting["id"])
    service = line.customer.http
    answer = await line.customer.get(path)
    assert (answer.status_code, answer.json()["password"]) == (200, None)
    narrow = (await harness.another_key(customer, [Scope.CREDITS_READ])).at(service)
    assert code_of(await narrow.get(path)) == (403, "insufficient_scope")
    other = (await harness.customer()).at(service)
    assert code_of(await other.get(path)) == (404, "not_found")
    assert code_of(await other.get("/meetings/nothing")) == (404, "not_found")
    assert code_of(await narrow.get("/meetings/nothing")) == (403, "insufficient_scope")
    await harness.application.administration.revoke_key(customer.key.key.id)
    assert code_of(await line.customer.get(path)) == (401, "invalid_api_key")
    async with api_on(harness.application, quotas=Quotas(read=1)) as api:
        reader = (await harness.another_key(customer)).at(client_of(api, _Unchecked()))
        assert (await reader.get(path)).status_code == 200
        assert code_of(await reader.get(path)) == (429, "rate_limited")


class _Unchecked(Contract):
    """Checks nothing: an application with a quota of one does not match the contract."""

    def __init__(self) -> None:
        super().__init__({"paths": {}})
