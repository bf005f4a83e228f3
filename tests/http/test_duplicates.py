"""Eighty duplicates of a request that hangs at the provider: what they cost the database and others."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from attrs import field, frozen

from meetcore.adapters.postgres.queries import PostgresQueries
from meetcore.adapters.postgres.store import PostgresStore, PostgresTransaction
from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState
from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.adapters.secrets import AesGcmCipher
from meetcore.composition.configuration import check_secrets
from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import Provisioned
from meetcore.domain.meetings.views import ProviderOrder
from tests.support.api_contract import Contract
from tests.support.api_harness import BASE_URL, ApiHarness, Customer, Funds, api_on, client_of, new_key, until

DUPLICATES = 80


@frozen
class CountedStore:
    """A store that counts the transactions that are opened: each takes the account's lock."""

    store: PostgresStore
    opened: Counter[str] = field(factory=Counter)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[PostgresTransaction]:
        self.opened["begin"] += 1
        async with self.store.begin() as tx:
            yield tx

    @asynccontextmanager
    async def at_once(self) -> AsyncIterator[PostgresTransaction]:
        self.opened["at_once"] += 1
        async with self.store.at_once() as tx:
            yield tx


class CountedQueries(PostgresQueries):
    """Queries that count how often a duplicate looks."""

    lookups = 0

    async def is_in_progress(self, *which: Any) -> bool:
        self.lookups += 1
        return await super().is_in_progress(*which)


@frozen
class Process:
    """One process of the service, as far as duplicates are concerned: what waits is counted in each."""

    http: Any
    store: CountedStore
    queries: CountedQueries


class HangingProvider(SandboxProvider):
    """A provider that makes and removes meetings when it is released."""

    def __init__(self, state: PostgresSandboxState) -> None:
        super().__init__(BASE_URL, state, bytes(32))
        self.release = asyncio.Event()

    async def create(self, order: ProviderOrder) -> Provisioned:
        await self.release.wait()
        return await super().create(order)

    async def remove(self, provider_meeting_id: str) -> ProviderMeetingState:
        await self.release.wait()
        return await super().remove(provider_meeting_id)


@asynccontextmanager
async def processes(
    harness: ApiHarness, contract: Contract
) -> AsyncIterator[tuple[Process, Process, asyncio.Event]]:
    """Two processes on one database, whose provider hangs until the event."""
    provider = HangingProvider(PostgresSandboxState(harness.pool))
    async with AsyncExitStack() as stack:
        made = []
        for _ in range(2):
            cipher = AesGcmCipher(check_secrets(harness.settings))
            store = CountedStore(PostgresStore(harness.pool, cipher))
            queries = CountedQueries(harness.pool, cipher)
            api = await stack.enter_async_context(
                api_on(harness.application, provider=provider, store=store, queries=queries)
            )
            http = await stack.enter_async_context(client_of(api, contract))
            made.append(Process(http, store, queries))
        first, second = made
        yield first, second, provider.release


async def p95_ms(customer: Customer) -> float:
    """How long the loop is busy while `GET /me` is answered, with whatever else: one request after another.

    What other processes of the machine do does not count.
    """
    took = []
    for _ in range(100):
        began = time.thread_time()
        assert (await customer.get("/me")).status_code == 200
        took.append((time.thread_time() - began) * 1000)
    return sorted(took)[int(len(took) * 0.95)]


@pytest.mark.spec("4/idem-replay", "7/503")
async def test_duplicates_of_a_creation_neither_poll_nor_slow_others(
    harness: ApiHarness, customer: Customer, contract: Contract
) -> None:
    body, key = customer.body(), new_key()
    other = await harness.customer()
    async with processes(harness, contract) as (here, there, release):
        quiet_ms = await p95_ms(other.at(there.http))
        first = asyncio.create_task(customer.at(here.http).post("/meetings", body, idem=key))
        await until(customer.key_rows)
        since = time.monotonic()
        duplicates = [
            asyncio.create_task(customer.at(there.http).post("/meetings", body, idem=key))
            for _ in range(DUPLICATES)
        ]
        await until(lambda: sum(task.done() for task in duplicates) == DUPLICATES - 5)
        refused = [task.result() for task in duplicates if task.done()]
        busy_ms = await p95_ms(other.at(there.http))
        while_it_hangs = (there.store.opened.total(), there.queries.lookups)
        hung_s = time.monotonic() - since
        assert not first.done()
        release.set()
        answers = await asyncio.gather(first, *duplicates)
    assert {answer.status_code for answer in refused} == {503}
    assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
    assert while_it_hangs[0] == 1, "one looked under the account's lock and saw it running"
    assert while_it_hangs[1] <= 4 + hung_s, "the pauses grow: from 0.05 to 1 second"
    made = [answer for answer in answers if answer.status_code == 201]
    assert len(made) == 6
    assert len({answer.content for answer in made}) == 1
    assert await customer.funds() == Funds(990, 0, 2)
    assert busy_ms < max(2 * quiet_ms, 20), (quiet_ms, busy_ms)


@pytest.mark.spec("4/idem-replay", "7/503")
@pytest.mark.parametrize("with_key", [True, False])
async def test_duplicates_of_a_cancellation_neither_poll_nor_start_it_again(
    harness: ApiHarness, customer: Customer, contract: Contract, with_key: bool
) -> None:
    meeting = await customer.make_meeting()
    path = f"/meetings/{meeting['id']}"
    async with processes(harness, contract) as (here, there, release):

        def cancel(process: Process) -> asyncio.Task[Any]:
            key = new_key() if with_key else None
            return asyncio.create_task(customer.at(process.http).delete(path, idem=key))

        first = cancel(here)
        await until(lambda: here.store.opened.total())
        duplicates = [cancel(there) for _ in range(DUPLICATES)]
        await until(lambda: sum(task.done() for task in duplicates) == DUPLICATES - 5)
        await until(lambda: there.queries.lookups >= 2)
        assert there.store.opened.total() == 1
        release.set()
        answers = await asyncio.gather(first, *duplicates)
    assert Counter(answer.status_code for answer in answers) == {503: DUPLICATES - 5, 200: 6}
    assert await customer.funds() == Funds(1000, 0, 3)


@pytest.mark.spec("4/idem-replay", "7/503")
async def test_duplicates_of_a_registration_look_the_host_up_once(
    customer: Customer, contract: Contract, names: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups, found, resolve = Counter[str](), asyncio.Event(), names.resolve

    async def slowly(host: str, account_id: UUID) -> Any:
        lookups[host] += 1
        await found.wait()
        return await resolve(host, account_id)

    monkeypatch.setattr(names, "resolve", slowly)
    body, key = customer.harness.webhook_body(), new_key()
    async with api_on(customer.application) as api, client_of(api, contract) as http:
        duplicates = [
            asyncio.create_task(customer.at(http).post("/webhooks", body, idem=key)) for _ in range(30)
        ]
        await until(lambda: sum(task.done() for task in duplicates) == 25)
        assert lookups.total() == 1
        found.set()
        answers = await asyncio.gather(*duplicates)
    assert Counter(answer.status_code for answer in answers) == {503: 25, 201: 5}
    assert lookups.total() == 1
