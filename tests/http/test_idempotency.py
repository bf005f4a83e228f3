"""Idempotency keys (spec 4): one result for one intent, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import evolve

from meetcore.adapters.api.operation import UseCases
from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState
from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.domain.meetings.meetings import Provisioned
from meetcore.domain.meetings.views import ProviderOrder
from tests.support.api_contract import Contract
from tests.support.api_harness import (
    BASE_URL,
    TIER_CREDITS,
    ApiHarness,
    Customer,
    Funds,
    api_on,
    client_of,
    code_of,
    fields_of,
    new_key,
    until,
)


async def answered(send: Any, *what: Any, idem: str) -> Any:
    """Send again, after the requested delay, while too many duplicates wait."""
    while (answer := await send(*what, idem=idem)).status_code == 503:
        assert answer.headers["Retry-After"] == "1"
        await asyncio.sleep(0.05)
    return answer


def is_replay(answer: Any) -> bool:
    return bool(answer.headers.get("Idempotent-Replayed") == "true")


@pytest.mark.spec("4/idem-replay", "4/idem-accepted", "4/request-id")
async def test_a_repeated_creation_is_replayed_byte_for_byte(customer: Customer) -> None:
    body, key = customer.body(password="rahasia1"), new_key()
    first = await customer.post("/meetings", body, idem=key)
    assert first.status_code == 201
    assert not is_replay(first)
    for _ in range(3):
        again = await customer.post("/meetings", body, idem=key)
        assert (again.status_code, again.content) == (201, first.content)
        assert again.headers["Location"] == first.headers["Location"]
        assert is_replay(again)
        assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert await customer.funds() == Funds(1000 - TIER_CREDITS, 0, 2)


@pytest.mark.spec("4/idem-replay", "4/idem-accepted")
async def test_webhooks_are_replayed_with_their_secret(customer: Customer) -> None:
    body, key = customer.harness.webhook_body(), new_key()
    first = await customer.post("/webhooks", body, idem=key)
    again = await customer.post("/webhooks", body, idem=key)
    assert again.content == first.content
    assert again.json()["secret"].startswith("whsec_")
    assert is_replay(again)
    path, patch_key = f"/webhooks/{first.json()['id']}", new_key()
    paused = await customer.patch(path, {"is_active": False}, idem=patch_key)
    await customer.patch(path, {"is_active": True})
    assert (await customer.patch(path, {"is_active": False}, idem=patch_key)).content == paused.content
    assert (await customer.get(path)).json()["is_active"] is True, "the work is not done again"


@pytest.mark.spec("4/idem-reused", "7/other", "7/422")
async def test_another_request_under_the_same_key(customer: Customer) -> None:
    body, key = customer.body(), new_key()
    first = await customer.post("/meetings", body, idem=key)
    webhook = await customer.make_webhook()
    others = [
        ("POST", "/meetings", body | {"title": "Rapat lain"}),
        ("POST", "/meetings", body | {"with_recording": False}),
        ("POST", "/webhooks", customer.harness.webhook_body()),
        ("PATCH", f"/webhooks/{webhook['id']}", {"description": "x"}),
        ("DELETE", f"/meetings/{first.json()['id']}", None),
    ]
    for method, path, other in others:
        answer = await customer.send(method, path, other, idem=key)
        assert code_of(answer) == (422, "idempotency_key_reused"), (method, path)
        assert not is_replay(answer)
    assert (await customer.post("/meetings", body, idem=key)).content == first.content
    assert await customer.funds() == Funds(1000 - TIER_CREDITS, 0, 2)


@pytest.mark.spec("4/idem-replay")
async def test_an_id_in_capitals_is_the_same_id(customer: Customer) -> None:
    webhook, key = await customer.make_webhook(), new_key()
    path = f"/webhooks/{webhook['id']}"
    first = await customer.patch(path, {"is_active": False}, idem=key)
    again = await customer.patch(f"/webhooks/{webhook['id'].upper()}", {"is_active": False}, idem=key)
    assert (again.status_code, again.content, is_replay(again)) == (200, first.content, True)
    await customer.patch(path, {"is_active": True})
    for _ in "ab":
        assert (await customer.post(f"{path}/test", None)).status_code == 202
    page = (await customer.get(f"{path}/deliveries?limit=1")).json()
    upper = f"/webhooks/{webhook['id'].upper()}/deliveries?limit=1&cursor={page['next_cursor']}"
    assert (await customer.get(upper)).status_code == 200


@pytest.mark.spec("7/400", "4/idem-accepted")
@pytest.mark.parametrize("key", ["", " ", "a b", "é", "a" * 256, "a\tb"])
async def test_the_form_of_a_key(customer: Customer, key: str) -> None:
    sent = {"Authorization": f"Bearer {customer.key.text}"}
    header = [*sent.items(), ("Idempotency-Key", key)]
    raw = [(name.encode(), value.encode()) for name, value in header]
    for method, path, body in (
        ("POST", "/meetings", customer.body()),
        ("POST", "/webhooks", customer.harness.webhook_body()),
        ("PATCH", "/webhooks/x", {}),
        ("DELETE", "/meetings/x", None),
    ):
        answer = await customer.http.request(method, path, headers=raw, json=body)
        assert set(fields_of(answer)) == {"Idempotency-Key"}
    assert await customer.funds() == Funds(1000, 0, 1)


@pytest.mark.spec("7/400")
@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        (b"{}", {"url", "event_types"}),
        (b'{"url": 1, "other": 2}', {"url", "event_types", "other"}),
        (b'{"url": 1, "url": 2}', {"url"}),
        (b"[]", {"body"}),
        (b"x", {"body"}),
    ],
)
async def test_the_problem_of_a_key_is_listed_beside_those_of_the_body(
    customer: Customer, raw: bytes, fields: set[str]
) -> None:
    headers = {"Authorization": f"Bearer {customer.key.text}", "Content-Type": "application/json"}
    answer = await customer.http.post("/webhooks", headers=headers | {"Idempotency-Key": "a b"}, content=raw)
    assert set(fields_of(answer)) == fields | {"Idempotency-Key"}
    answer = await customer.http.post("/webhooks", headers=headers | {"Idempotency-Key": "ab"}, content=raw)
    assert set(fields_of(answer)) == fields


@pytest.mark.spec("7/400")
async def test_two_keys_are_none(customer: Customer) -> None:
    headers = [
        ("Authorization", f"Bearer {customer.key.text}"),
        ("Idempotency-Key", "one"),
        ("Idempotency-Key", "two"),
    ]
    answer = await customer.http.post("/meetings", headers=headers, json=customer.body())
    assert set(fields_of(answer)) == {"Idempotency-Key"}


@pytest.mark.spec("4/idem-replay", "4/idem-accepted", "1/meetings")
async def test_twenty_duplicates_at_the_same_time(customer: Customer) -> None:
    body, key = customer.body(), new_key()
    answers = await asyncio.gather(*(answered(customer.post, "/meetings", body, idem=key) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert [is_replay(answer) for answer in answers].count(False) == 1
    assert await customer.funds() == Funds(990, 0, 2)
    assert await customer.hosts_taken() == 1
    assert await customer.meeting_statuses() == ["scheduled"]


@pytest.mark.spec("4/idem-replay", "7/404", "7/409", "7/422")
async def test_final_refusals_are_replayed(customer: Customer) -> None:
    registered = await customer.make_webhook()
    uncovered = await customer.harness.customer(credits=3)
    unknown = "/webhooks/01890000-0000-7000-8000-000000000000"
    cases = [
        (customer, "POST", "/meetings", customer.body(pricing_tier_id="gone"), (404, "not_found")),
        (customer, "POST", "/meetings", customer.body(password="a b c"), (422, "unprocessable_entity")),
        (customer, "POST", "/meetings", customer.body(date="2020-01-01"), (422, "unprocessable_entity")),
        (uncovered, "POST", "/meetings", customer.body(), (422, "insufficient_credits")),
        (
            customer,
            "POST",
            "/webhooks",
            customer.harness.webhook_body(url=registered["url"]),
            (409, "conflict"),
        ),
        (customer, "PATCH", unknown, {"is_active": True}, (404, "not_found")),
        (customer, "DELETE", unknown.replace("webhooks", "meetings"), None, (404, "not_found")),
        (customer, "PATCH", "/webhooks/not-a-uuid", {"is_active": True}, (404, "not_found")),
        (customer, "DELETE", "/meetings/not-a-uuid", None, (404, "not_found")),
        (customer, "POST", "/credits/topups", {"package_id": "gone"}, (404, "not_found")),
        (customer, "POST", "/credits/topups", {}, (422, "unprocessable_entity")),
    ]
    for who, method, path, body, expected in cases:
        key = new_key()
        first = await who.send(method, path, body, idem=key)
        assert code_of(first) == expected, path
        assert not is_replay(first)
        again = await who.send(method, path, body, idem=key)
        assert again.content == first.content, "its first request id included"
        assert is_replay(again)
        assert again.json()["error"]["request_id"] == first.headers["X-Request-Id"]
        assert again.json()["error"]["request_id"] != again.headers["X-Request-Id"]


@pytest.mark.spec("4/idem-replay", "4/idem-reused", "7/502")
async def test_a_provider_refusal_is_not_stored(customer: Customer) -> None:
    body, key = customer.body(title="[sandbox:refuse]"), new_key()
    for _ in range(2):
        answer = await customer.post("/meetings", body, idem=key)
        assert code_of(answer) == (502, "upstream_error")
        assert not is_replay(answer)
        assert await customer.funds() == Funds(1000, 0, 1)
    other = await customer.post("/meetings", body | {"title": "x"}, idem=key)
    assert code_of(other) == (422, "idempotency_key_reused")
    assert {row["answer"] for row in await customer.key_rows()} == {None}


@pytest.mark.spec("7/400", "4/idem-reused")
async def test_a_request_that_is_not_valid_binds_nothing(customer: Customer) -> None:
    key = new_key()
    assert fields_of(await customer.post("/meetings", customer.body(title=""), idem=key))
    assert await customer.key_rows() == []
    assert (await customer.post("/meetings", customer.body(), idem=key)).status_code == 201


@pytest.mark.spec("4/idem-replay", "4/idem-reused", "5/8")
async def test_a_key_belongs_to_the_account(customer: Customer) -> None:
    body, key = customer.body(), new_key()
    first = await customer.post("/meetings", body, idem=key)
    another_key = await customer.another_key()
    again = await another_key.post("/meetings", body, idem=key)
    assert again.content == first.content
    assert is_replay(again)
    reused = await another_key.post("/meetings", body | {"title": "x"}, idem=key)
    assert code_of(reused) == (422, "idempotency_key_reused")
    other = await customer.harness.customer()
    own = await other.post("/meetings", body, idem=key)
    assert own.status_code == 201
    assert not is_replay(own)
    assert own.json()["id"] != first.json()["id"]


@pytest.mark.spec("4/idem-replay", "4/idem-reused")
async def test_an_expired_idempotency_key_cannot_charge_again(customer: Customer) -> None:
    body, key = customer.body(), new_key()
    first = await customer.post("/meetings", body, idem=key)
    await customer.query("DELETE FROM idempotency_keys WHERE account_id = %s", customer.account_id)
    answer = await customer.post("/meetings", body, idem=key)
    assert code_of(answer) == (422, "idempotency_key_reused")
    assert answer.json()["error"]["details"] == {"id": first.json()["id"]}
    assert await customer.funds() == Funds(990, 0, 2)
    assert await customer.meeting_statuses() == ["scheduled"]


# The first request dies, or hangs


class HeldProvider(SandboxProvider):
    """A provider whose faults take little time, and that makes meetings while it is released."""

    def __init__(self, state: PostgresSandboxState) -> None:
        super().__init__(BASE_URL, state, bytes(32), timeout_s=0.05)
        self.released = asyncio.Event()
        self.released.set()

    async def create(self, order: ProviderOrder) -> Provisioned:
        await self.released.wait()
        return await super().create(order)


@asynccontextmanager
async def a_process(
    harness: ApiHarness, contract: Contract, provider: HeldProvider, *, wait_s: float
) -> AsyncIterator[Any]:
    """A process of the service with this waiting time, whose leases end when a test ends them."""

    def adjust(use: UseCases) -> UseCases:
        create = evolve(use.create_meeting, lease_s=3600.0, wait_s=wait_s, poll_s=0.01)
        return evolve(use, create_meeting=create)

    async with (
        api_on(harness.application, adjust, provider=provider) as api,
        client_of(api, contract) as http,
    ):
        yield http


async def end_leases(customer: Customer) -> None:
    """End all leases of an account, as time does."""
    await customer.query(
        """
        WITH meeting AS (
            UPDATE meetings SET lease_until = now() - interval '1 second'
            WHERE account_id = %s AND lease_until IS NOT NULL RETURNING account_id
        )
        UPDATE idempotency_keys SET lease_until = now() - interval '1 second'
        WHERE account_id IN (SELECT account_id FROM meeting) AND lease_until IS NOT NULL
        """,
        customer.account_id,
    )


@pytest.mark.spec("4/idem-replay", "7/502")
@pytest.mark.parametrize("fault", ["late", "timeout", "drop"])
async def test_a_lost_answer_is_found_by_the_retry(
    harness: ApiHarness, customer: Customer, contract: Contract, fault: str
) -> None:
    body, key = customer.body(title=f"[sandbox:{fault}]"), new_key()
    provider = HeldProvider(PostgresSandboxState(harness.pool))
    async with a_process(harness, contract, provider, wait_s=20) as http:
        there = customer.at(http)
        assert code_of(await there.post("/meetings", body, idem=key)) == (502, "upstream_error")
        assert await customer.funds() == Funds(1000, 10, 1), "held until it is known"
        assert await customer.hosts_taken() == 1
        reused = await there.post("/meetings", body | {"title": "x"}, idem=key)
        assert code_of(reused) == (422, "idempotency_key_reused")
        await end_leases(customer)
        answers = await asyncio.gather(*(there.post("/meetings", body, idem=key) for _ in range(5)))
        late = await there.post("/meetings", body, idem=key)
    assert {answer.status_code for answer in answers} == {201}
    assert {answer.content for answer in answers} == {late.content}
    assert all(is_replay(answer) for answer in answers)
    assert await customer.funds() == Funds(990, 0, 2)
    assert await customer.meeting_statuses() == ["scheduled"]


@pytest.mark.spec("4/idem-replay", "7/503")
async def test_a_duplicate_waits_for_a_limited_time(
    harness: ApiHarness, customer: Customer, contract: Contract
) -> None:
    body, key = customer.body(), new_key()
    provider = HeldProvider(PostgresSandboxState(harness.pool))
    provider.released.clear()
    async with (
        a_process(harness, contract, provider, wait_s=0.1) as http,
        a_process(harness, contract, provider, wait_s=0.1) as another_process,
    ):
        there = customer.at(http)
        first = asyncio.create_task(customer.at(another_process).post("/meetings", body, idem=key))
        await until(customer.key_rows)
        second = await there.post("/meetings", body, idem=key)
        assert code_of(second) == (503, "service_unavailable")
        assert second.headers["Retry-After"] == "1"
        assert not first.done()
        provider.released.set()
        made = await first
        third = await there.post("/meetings", body, idem=key)
    assert made.status_code == 201
    assert third.content == made.content
    assert await customer.funds() == Funds(990, 0, 2)
