"""The rate limit (spec 8), with a clock that the tests move."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from attrs import evolve, frozen

from meetcore.adapters.settings import SecretStr
from meetcore.composition.application import Part
from meetcore.composition.infrastructure import open_application
from meetcore.domain.requests.rate_window import Quotas
from meetcore.testing.clock import ManualClock
from tests.support.api_contract import Contract
from tests.support.api_harness import ApiHarness, Customer, api_on, client_of, code_of
from tests.support.program import free_port

READ, WRITE, CREDIT = 6, 4, 2
NO_ID = "/meetings/01890000-0000-7000-8000-000000000000"


@frozen
class Strict:
    """A service with small quotas on a clock of its own, at second 10 of a minute."""

    harness: ApiHarness
    http: httpx.AsyncClient
    clock: ManualClock

    async def customer(self, credits: int = 1000) -> Customer:
        return (await self.harness.customer(credits)).at(self.http)


@pytest.fixture
async def strict(harness: ApiHarness, contract: Contract) -> AsyncIterator[Strict]:
    minute = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=5)
    clock = ManualClock(minute + timedelta(seconds=10))
    quotas = Quotas(read=READ, write=WRITE, credit=CREDIT)
    async with (
        api_on(harness.application, quotas=quotas, clock=clock) as api,
        client_of(api, contract) as http,
    ):
        yield Strict(harness, http, clock)


def rate_headers(answer: httpx.Response) -> tuple[int, int, int]:
    """Limit, remaining, reset."""
    return (
        int(answer.headers["X-RateLimit-Limit"]),
        int(answer.headers["X-RateLimit-Remaining"]),
        int(answer.headers["X-RateLimit-Reset"]),
    )


@pytest.mark.spec("8/2", "8/3", "8/4", "8/5", "7/429", "4.2/errors")
async def test_a_window_from_its_first_request_to_its_last(strict: Strict) -> None:
    customer = await strict.customer()
    reset = int(strict.clock.now().timestamp()) + 50
    for left in reversed(range(READ)):
        answer = await customer.get("/me")
        assert answer.status_code == 200
        assert rate_headers(answer) == (READ, left, reset)
    strict.clock.advance(20.5)
    refused = await customer.get("/me")
    assert code_of(refused) == (429, "rate_limited")
    assert rate_headers(refused) == (READ, 0, reset)
    assert refused.headers["Retry-After"] == "30"
    assert refused.json()["error"]["details"] == {"limit": READ, "window_seconds": 60}
    assert f"More than {READ} requests of the read quota" in refused.json()["error"]["message"]


@pytest.mark.spec("8/1")
async def test_each_key_has_its_own_window(strict: Strict) -> None:
    customer = await strict.customer()
    another_key = (await customer.another_key()).at(strict.http)
    for _ in range(READ + 1):
        await customer.get("/me")
    assert (await customer.get("/me")).status_code == 429
    assert rate_headers(await another_key.get("/me"))[1] == READ - 1


@pytest.mark.spec("8/1")
async def test_the_address_does_not_count(strict: Strict, contract: Contract) -> None:
    customer = await strict.customer()
    api = strict.http._transport.app  # type: ignore[attr-defined]
    lefts = []
    for number in range(3):
        transport = httpx.ASGITransport(api, client=(f"198.51.100.{number}", 4000))
        async with httpx.AsyncClient(transport=transport, base_url=strict.http.base_url) as http:
            header = {"X-Forwarded-For": f"203.0.113.{number}"}
            lefts.append(rate_headers(await customer.at(http).send("GET", "/me", headers=header))[1])
    assert lefts == [READ - 1, READ - 2, READ - 3]


@pytest.mark.spec("8/6", "8/3")
async def test_each_class_has_its_own_quota(strict: Strict) -> None:
    customer = await strict.customer()
    requests = [
        ("GET", "/me", READ),
        ("GET", "/pricing-tiers", READ),
        ("GET", NO_ID, READ),
        ("DELETE", NO_ID, WRITE),
        ("POST", "/webhooks", WRITE),
        ("PATCH", "/webhooks/x", WRITE),
        ("POST", "/webhooks/x/rotate-secret", WRITE),
        ("GET", "/webhooks/x/deliveries", READ),
        ("POST", "/meetings", CREDIT),
        ("POST", "/notes", CREDIT),
        ("GET", "/no-such-path", READ),
        ("PUT", "/me", READ),
    ]
    used: dict[int, int] = {}
    for method, path, limit in requests:
        used[limit] = used.get(limit, 0) + 1
        assert rate_headers(await customer.send(method, path))[:2] == (limit, limit - used[limit]), path


@pytest.mark.spec("8/7", "8/6")
async def test_requests_and_credits_are_two_things(strict: Strict) -> None:
    customer = await strict.customer(credits=0)
    for _ in range(CREDIT):
        refused = await customer.post("/meetings", strict.harness.body())
        assert code_of(refused) == (422, "insufficient_credits")
    refused = await customer.post("/meetings", strict.harness.body())
    assert code_of(refused) == (429, "rate_limited")
    assert "the credit quota" in refused.json()["error"]["message"]
    assert rate_headers(await customer.get("/me"))[1] == READ - 1, "the other classes go on"
    rich = await strict.customer(credits=1000)
    answers = [await rich.post("/meetings", strict.harness.body()) for _ in range(CREDIT + 1)]
    assert [answer.status_code for answer in answers] == [201] * CREDIT + [429]
    assert await rich.balance() == 1000 - CREDIT * 10, "a refused request costs nothing"


@pytest.mark.spec("4/rate-headers", "8/3")
async def test_headers_on_answers_to_unauthenticated_requests(strict: Strict) -> None:
    reset = int(strict.clock.now().timestamp()) + 50
    for method, path, limit in [
        ("GET", "/me", READ),
        ("POST", "/meetings", CREDIT),
        ("DELETE", NO_ID, WRITE),
        ("GET", "/nope", READ),
    ]:
        for _ in range(2):
            answer = await strict.http.request(method, path)
            assert answer.status_code == 401
            assert rate_headers(answer) == (limit, limit, reset), "counted nowhere"


@pytest.mark.spec("8/3", "8/4")
async def test_the_draft_header_fields_have_the_same_values(strict: Strict) -> None:
    customer = await strict.customer()
    for step in (0, 0.5, 12.25, 37):
        strict.clock.advance(step)
        answer = await customer.get("/me")
        limit, left, reset = rate_headers(answer)
        policy = re.fullmatch(r'"(\w+)";q=(\d+);w=60', answer.headers["RateLimit-Policy"])
        state = re.fullmatch(r'"(\w+)";r=(\d+);t=(\d+)', answer.headers["RateLimit"])
        assert policy is not None
        assert state is not None
        assert policy[1] == state[1] == "read"
        assert (int(policy[2]), int(state[2])) == (limit, left)
        assert int(strict.clock.now().timestamp()) + int(state[3]) == reset
    assert (await customer.post("/meetings", {})).headers["RateLimit-Policy"] == f'"credit";q={CREDIT};w=60'


@pytest.mark.spec("8/3", "8/5")
async def test_an_unavailable_rate_store(customer: Customer, contract: Contract) -> None:
    settings = evolve(
        customer.harness.settings,
        quota_read=READ,
        rate_store_url=SecretStr(f"redis://127.0.0.1:{free_port()}/0"),
    )
    clock = ManualClock(datetime.now(UTC).replace(second=30))
    async with (
        open_application(settings, customer.harness.network, [Part.API]) as application,
        api_on(application, clock=clock) as api,
        client_of(api, contract) as http,
    ):
        answers = [await customer.at(http).get("/me") for _ in range(READ + 2)]
    assert [answer.status_code for answer in answers] == [200] * READ + [429] * 2
    assert [rate_headers(answer)[1] for answer in answers] == [5, 4, 3, 2, 1, 0, 0, 0]


@pytest.mark.spec("8/1", "8/2", "8/5")
async def test_counted_in_redis(
    harness: ApiHarness, customer: Customer, contract: Contract, redis_url: str
) -> None:
    settings = evolve(harness.settings, quota_read=READ, rate_store_url=SecretStr(redis_url))
    clock = ManualClock(datetime.now(UTC).replace(second=30))
    async with (
        open_application(settings, harness.network, [Part.API]) as first,
        open_application(settings, harness.network, [Part.API]) as second,
        api_on(first, clock=clock) as one,
        api_on(second, clock=clock) as two,
        client_of(one, contract) as here,
        client_of(two, contract) as there,
    ):
        lefts = [rate_headers(await customer.at(http).get("/me"))[1] for http in (here, there) * 3]
        assert lefts == [5, 4, 3, 2, 1, 0], "two processes share one window"
        assert (await customer.at(here).get("/me")).status_code == 429
        clock.advance(30)
        assert (await customer.at(there).get("/me")).status_code == 200
    rows = await customer.query("SELECT 1 FROM rate_counters WHERE api_key_id = %s", customer.key.key.id)
    assert rows == []
