"""Each operation answers the refusals that it documents: every one of them is brought about here.

That it answers no other is held against every answer of all tests by `tests.support.api_contract`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from attrs import define, evolve, field, frozen

from meetcore.adapters.api.operation import UseCases
from meetcore.adapters.http.api_app import ApiApp
from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState
from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.adapters.sandbox.state import SandboxCall, SandboxFault, SandboxFaults
from meetcore.composition.application import Part
from meetcore.composition.infrastructure import open_application
from meetcore.domain.meetings.meetings import MeetingStatus
from meetcore.domain.requests.keys import Scope
from meetcore.domain.requests.rate_window import OperationClass, Quotas
from meetcore.ports.payments import Checkout, CheckoutOrder, GatewayRefused
from meetcore.ports.store import StoreUnavailable
from meetcore.testing.clock import ManualClock
from tests.support.api_contract import CODES, Contract
from tests.support.api_harness import BASE_URL, ApiHarness, Customer, api_on, client_of, code_of, new_key
from tests.support.sandbox_recordings import a_recording, store_recording

Json = dict[str, Any]


@frozen
class BrokenCounters:
    """Counters with a fault of any kind."""

    fault: Exception

    async def hit(self, key_id: UUID, operation_class: OperationClass, window_start: int) -> int:
        raise self.fault


@frozen
class RefusingGateway:
    """A gateway that makes no page."""

    name: str = "sandbox"

    async def open_checkout(self, order: CheckoutOrder) -> Checkout:
        raise GatewayRefused


@define
class Ask:
    """One operation, and a customer who asks for it in a way that is to be refused."""

    harness: ApiHarness
    customer: Customer
    contract: Contract
    method: str
    path: str
    operation: Json
    stack: AsyncExitStack = field(repr=False)

    @property
    def name(self) -> str:
        return str(self.operation["operationId"])

    @property
    def body(self) -> Any:
        if self.name == "create_meeting":
            return self.harness.body()
        content = self.operation.get("requestBody", {}).get("content", {})
        return next((each["value"] for one in content.values() for each in one["examples"].values()), None)

    @property
    def any_path(self) -> str:
        """The path with ids of nothing, for what is refused before a record is looked at."""
        return self.path.format(id=uuid4(), delivery_id=uuid4())

    async def real_path(self) -> str:
        """The path with the ids of records that are there."""
        made = {"id": str(uuid4()), "delivery_id": str(uuid4())}
        if self.path.startswith("/meetings/"):
            made["id"] = (await self.customer.make_meeting())["id"]
        elif self.path.startswith("/credits/topups/"):
            made["id"] = (await self.customer.post("/credits/topups", {"package_id": "credits-500"})).json()[
                "id"
            ]
        elif self.path.startswith("/webhooks/"):
            made["id"] = (await self.customer.make_webhook())["id"]
        elif self.path.startswith("/recordings/"):
            made["id"] = (await store_recording(self.customer))["id"]
        elif self.path.startswith("/notes/"):
            recording = await store_recording(self.customer)
            note = await self.customer.post("/notes", {"recording_id": recording["id"]})
            made["id"] = note.json()["id"]
        if "delivery_id" in self.path:
            sent = await self.customer.post(f"/webhooks/{made['id']}/test", None)
            made["delivery_id"] = sent.json()["id"]
        return self.path.format(**made)

    async def send(self, path: str | None = None, **more: Any) -> httpx.Response:
        wanted = {"body": self.body} | more
        return await self.customer.send(self.method, path or await self.real_path(), **wanted)

    async def with_changes(
        self, adjust: Callable[[UseCases], UseCases] = lambda use: use, **changes: Any
    ) -> Ask:
        """The same request to an application with other parts."""
        api: ApiApp = await self.stack.enter_async_context(
            api_on(self.harness.application, adjust, **changes)
        )
        http = await self.stack.enter_async_context(client_of(api, self.contract))
        return evolve(self, customer=self.customer.at(http))


async def without_a_key(ask: Ask) -> httpx.Response:
    return await ask.customer.http.request(ask.method, ask.path)


async def without_the_scope(ask: Ask) -> httpx.Response:
    reads_credits = ask.name in ("list_transactions", "list_topups", "get_topup")
    useless = Scope.NOTULEN_READ if reads_credits else Scope.CREDITS_READ
    limited = await ask.customer.another_key(scopes=[useless])
    return await limited.send(ask.method, ask.any_path, ask.body)


async def too_often(ask: Ask) -> httpx.Response:
    clock = ManualClock(datetime.now(UTC))  # both requests come in one minute
    strict = await ask.with_changes(quotas=Quotas(read=1, write=1, credit=1), clock=clock)
    await strict.send(ask.any_path)
    return await strict.send(ask.any_path)


async def broken(ask: Ask) -> httpx.Response:
    return await _with_fault(ask, ZeroDivisionError())


async def unavailable(ask: Ask) -> httpx.Response:
    return await _with_fault(ask, StoreUnavailable())


async def _with_fault(ask: Ask, fault: Exception) -> httpx.Response:
    # The counters are the one place that every request passes.
    return await (await ask.with_changes(counters=BrokenCounters(fault))).send(ask.any_path)


async def malformed(ask: Ask) -> httpx.Response:
    if ask.method == "GET":
        parameters = ask.operation.get("parameters", [])
        query = "limit=0&format=0" if any(each["in"] == "query" for each in parameters) else "&" * 32
        return await ask.send(f"{await ask.real_path()}?{query}")
    return await ask.send(raw=b'{"nobody_knows_this": 1}')


async def too_large(ask: Ask) -> httpx.Response:
    return await ask.send(raw=b" " * (64 * 1024 + 1))


async def not_json(ask: Ask) -> httpx.Response:
    return await ask.send(raw=b"a=b", headers={"Content-Type": "application/x-www-form-urlencoded"})


async def unknown(ask: Ask) -> httpx.Response:
    body = ask.body
    if ask.name in ("create_meeting", "estimate_credits"):
        body = body | {"pricing_tier_id": "no-such-tier"}
    if ask.name == "create_note":
        body = {"recording_id": str(uuid4())}
    if ask.name == "start_topup":
        body = {"package_id": "no-such-package"}
    return await ask.send(ask.any_path, body=body)


async def another_body_for_the_key(ask: Ask) -> httpx.Response:
    key = new_key()
    await ask.customer.post("/meetings", ask.harness.body(), idem=key)
    return await ask.send(idem=key)


async def in_the_way(ask: Ask) -> httpx.Response:
    if ask.name == "cancel_meeting":
        made = await ask.customer.make_meeting()
        clock = ManualClock(datetime.fromisoformat(made["end_at"]))
        late = await ask.with_changes(clock=clock)
        return await late.send(f"/meetings/{made['id']}")
    if ask.name == "register_webhook":
        body = ask.harness.webhook_body()
        await ask.send(body=body)
        return await ask.send(body=body)
    if ask.name == "create_note":
        # With files, so that the first note does not fail before the second request comes.
        body = {"recording_id": (await a_recording(ask.customer))["id"]}
        await ask.send(body=body)
        return await ask.send(body=body)
    if ask.name == "delete_recording":
        recording = await store_recording(ask.customer, status=MeetingStatus.SCHEDULED)
        return await ask.send(f"/recordings/{recording['id']}")
    path = await ask.real_path()
    webhook = "/".join(path.split("/")[:3])
    assert (await ask.customer.patch(webhook, {"is_active": False})).status_code == 200
    return await ask.send(path)


async def past_its_retention(ask: Ask) -> httpx.Response:
    if ask.name in ("get_download_url", "create_note"):
        recording = await store_recording(ask.customer)
        await ask.customer.delete(f"/recordings/{recording['id']}")
        return await ask.send(ask.path.format(id=recording["id"]), body={"recording_id": recording["id"]})
    if ask.name in ("get_meeting", "cancel_meeting", "get_recording", "delete_recording"):
        removed = "INSERT INTO removed_records (account_id, id) VALUES (%s, %s)"
        id_ = str(uuid4())
        await ask.harness.query(removed, ask.customer.account_id, id_)
        return await ask.send(ask.path.format(id=id_))
    if ask.name in ("get_event", "get_delivery"):
        late = await ask.with_changes(clock=ManualClock(datetime.now(UTC) + timedelta(days=91)))
        [event, *_] = (await ask.customer.get("/events")).json()["data"]
        path = f"/events/{event['id']}" if ask.name == "get_event" else await ask.real_path()
        return await late.send(path)
    path = await ask.real_path()
    if ask.name == "get_note":
        # Without its lease a worker that has begun to write it writes nothing more.
        gone = "status = 'erased', hold_id = NULL, due_at = NULL, lease_token = NULL"
        await ask.harness.query(f"UPDATE notes SET {gone} WHERE id = %s", path.rpartition("/")[2])
        return await ask.send(path)
    await ask.harness.query("DELETE FROM events WHERE account_id = %s", ask.customer.account_id)
    return await ask.send(path)


async def not_to_be_done(ask: Ask) -> httpx.Response:
    if ask.name == "recover_deliveries":
        return await ask.send(body={"since": "2020-01-01"})
    if ask.name == "create_meeting":
        return await ask.send(body=ask.body | {"date": "2020-01-01"})
    if ask.name == "start_topup":  # a service without a gateway
        return await (await ask.with_changes(gateway=None)).send()
    if ask.name == "estimate_credits":  # a room that cannot be recorded
        settings = evolve(ask.harness.settings, provider="jitsi", jitsi_url="https://jitsi.example.test/")
        opened = open_application(settings, ask.harness.network, [Part.API])
        there = await ask.stack.enter_async_context(opened)
        api = await ask.stack.enter_async_context(api_on(there))
        http = await ask.stack.enter_async_context(client_of(api, ask.contract))
        return await ask.customer.at(http).post(ask.path, ask.body)
    if ask.name == "create_note":  # a file without speech
        return await ask.send(body={"recording_id": (await store_recording(ask.customer, 0.0))["id"]})
    return await ask.send(body=ask.harness.webhook_body(url="https://intern.test/"))


async def without_credits(ask: Ask) -> httpx.Response:
    uncovered = await ask.harness.customer(credits=15 if ask.name == "create_note" else 1)
    return await uncovered.send(ask.method, ask.path, await _costly_body(ask, uncovered))


async def over_the_cap(ask: Ask) -> httpx.Response:
    capped = await ask.customer.another_key(daily_cap=1)
    return await capped.send(ask.method, ask.path, await _costly_body(ask, ask.customer))


async def _costly_body(ask: Ask, customer: Customer) -> Any:
    if ask.name == "create_note":  # two begun minutes, after a meeting that took fifteen credits
        return {"recording_id": (await store_recording(customer))["id"]}
    return ask.body


async def refused_by_the_provider(ask: Ask) -> httpx.Response:
    if ask.name == "create_meeting":
        return await ask.send(body=ask.body | {"title": "[sandbox:refuse]"})
    if ask.name == "start_topup":
        return await (await ask.with_changes(gateway=RefusingGateway())).send()
    faults = SandboxFaults()
    faults.plan(SandboxCall.REMOVE, SandboxFault.REFUSE)
    path, state = await ask.real_path(), PostgresSandboxState(ask.harness.pool)
    hard = await ask.with_changes(provider=SandboxProvider(BASE_URL, state, bytes(32), faults=faults))
    return await hard.send(path)


WAYS: Mapping[tuple[int, str], Callable[[Ask], Awaitable[httpx.Response]]] = {
    (400, "invalid_request"): malformed,
    (401, "invalid_api_key"): without_a_key,
    (403, "insufficient_scope"): without_the_scope,
    (404, "not_found"): unknown,
    (409, "conflict"): in_the_way,
    (410, "gone"): past_its_retention,
    (413, "invalid_request"): too_large,
    (415, "invalid_request"): not_json,
    (422, "unprocessable_entity"): not_to_be_done,
    (422, "idempotency_key_reused"): another_body_for_the_key,
    (422, "insufficient_credits"): without_credits,
    (422, "credit_cap_exceeded"): over_the_cap,
    (429, "rate_limited"): too_often,
    (500, "internal_error"): broken,
    (502, "upstream_error"): refused_by_the_provider,
    (503, "service_unavailable"): unavailable,
}
"""How each refusal is brought about."""


@pytest.mark.spec("9/3", "4.1/errors", "4.2/errors", "4.3/errors", "4.4/errors")
@pytest.mark.parametrize("refusal", WAYS, ids=lambda refusal: f"{refusal[0]}-{refusal[1]}")
async def test_every_operation_that_documents_a_refusal_answers_it(
    harness: ApiHarness, contract: Contract, refusal: tuple[int, str]
) -> None:
    documented = [
        (method, path, operation)
        for path, item in contract.document["paths"].items()
        for method, operation in item.items()
        if refusal in contract.codes_of(method, path)
    ]
    assert documented
    for method, path, operation in documented:
        async with AsyncExitStack() as stack:
            customer = await harness.customer()
            ask = Ask(harness, customer, contract, method.upper(), path, operation, stack)
            assert code_of(await WAYS[refusal](ask)) == refusal, ask.name


async def test_every_code_has_a_way() -> None:
    assert {code for _, code in WAYS} == set().union(*CODES.values())


@pytest.mark.spec("7/400")
async def test_where_no_body_is_taken_only_an_empty_one_passes(customer: Customer) -> None:
    webhook = await customer.make_webhook()
    path = f"/webhooks/{webhook['id']}/rotate-secret"
    for body, status in (
        (b"", 200), (b"{}", 200), (b" {} ", 200),
        (b'{"force":true}', 400), (b"[]", 400), (b"null", 400), (b"{", 400),
    ):  # fmt: skip
        answer = await customer.send("POST", path, raw=body)
        assert answer.status_code == status, answer.text
        if status == 200:
            assert answer.json()["secret"] != webhook["secret"], body


@pytest.mark.spec("4/idem-replay")
async def test_an_empty_object_is_the_same_as_no_body(customer: Customer) -> None:
    webhook, key = await customer.make_webhook(), new_key()
    path = f"/webhooks/{webhook['id']}/rotate-secret"
    first = await customer.post(path, None, idem=key)
    again = await customer.post(path, {}, idem=key)
    assert (again.headers["Idempotent-Replayed"], again.json()) == ("true", first.json())
