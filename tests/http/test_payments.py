"""Credits that customers buy over HTTP, at the sandbox's gateway."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from datetime import datetime
from urllib.parse import urlsplit

import httpx
import pytest

from meetcore.adapters.secrets import derive, keys_from_text
from meetcore.app import Service
from meetcore.composition.application import Application
from meetcore.composition.configuration import GATEWAY_PURPOSE
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.requests.keys import Scope
from tests.support.api_harness import BASE_URL, SECRETS_KEY, Customer, code_of, new_key
from tests.support.texts import assert_contains


@pytest.fixture
async def site(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """The pages of the service, as the gateway and people reach them."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url=BASE_URL) as http:
        yield http


def notification(payment_id: str, key: bytes | None = None) -> tuple[bytes, dict[str, str]]:
    """A notification of the sandbox, signed with a key, its own by default."""
    body = json.dumps({"payment_id": payment_id, "status": "paid"}).encode()
    own = derive(keys_from_text(SECRETS_KEY, "key")[-1], GATEWAY_PURPOSE)
    return body, {"X-Sandbox-Signature": hmac.new(key or own, body, hashlib.sha256).hexdigest()}


async def started(customer: Customer, **body: object) -> dict[str, object]:
    answer = await customer.post("/credits/topups", body or {"package_id": "credits-500"})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def page_of(payment: dict[str, object], action: str = "") -> str:
    address = urlsplit(str(payment["payment_url"]))
    return f"{address.path}{action}?{address.query}"


async def test_credits_are_bought(
    customer: Customer, site: httpx.AsyncClient, application: Application
) -> None:
    listed = (await customer.get("/credit-packages")).json()["data"]
    assert [(each["id"], each["amount"], each["tax"]) for each in listed] == [
        ("credits-500", 555_000, 55_000), ("team", 4_995_000, 495_000),
    ]  # fmt: skip
    payment = await started(customer)
    assert payment["status"] == "pending"
    shown = await site.get(page_of(payment))
    assert "IDR\N{NO-BREAK SPACE}555,000" in shown.text
    assert "To be paid" in shown.text
    before = await customer.balance()
    paid = await site.post(page_of(payment, "/pay"))
    assert paid.status_code == 303
    follow = application.payments.follow
    assert follow is not None
    while (await customer.get(f"/credits/topups/{payment['id']}")).json()["status"] == "pending":
        await follow()
    found = (await customer.get(f"/credits/topups/{payment['id']}")).json()
    assert (found["status"], found["payment_url"]) == ("paid", None)
    assert await customer.balance() == before + 500
    [transaction, *_] = (await customer.get("/credits/transactions")).json()["data"]
    assert transaction["reference"] == {"type": "topup", "id": f"payment:{payment['id']}"}
    assert [each["id"] for each in (await customer.get("/credits/topups")).json()["data"]] == [payment["id"]]


async def test_a_repeated_start_is_one_payment(customer: Customer) -> None:
    key, body = new_key(), {"package_id": "credits-500"}
    first = await customer.post("/credits/topups", body, idem=key)
    again = await customer.post("/credits/topups", body, idem=key)
    assert (again.json(), again.headers["Idempotent-Replayed"]) == (first.json(), "true")
    assert len((await customer.get("/credits/topups")).json()["data"]) == 1


@pytest.mark.parametrize("body", [{}, {"package_id": "credits-500", "credits": 5}])
async def test_either_a_package_or_a_number_is_bought(customer: Customer, body: dict[str, object]) -> None:
    refused = await customer.post("/credits/topups", body)
    assert code_of(refused) == (422, "unprocessable_entity")
    assert refused.json()["error"]["message"] == "Give either package_id or credits."


async def test_a_number_of_credits_is_sold_where_the_prices_say_so(customer: Customer) -> None:
    refused = await customer.post("/credits/topups", {"credits": 100})
    assert code_of(refused) == (422, "unprocessable_entity")
    assert "give the package_id of GET /credit-packages" in refused.json()["error"]["message"]


async def test_the_scope_of_buying_is_its_own(customer: Customer) -> None:
    reader = await customer.another_key([Scope.CREDITS_READ])
    refused = await reader.post("/credits/topups", {"package_id": "credits-500"})
    assert code_of(refused) == (403, "insufficient_scope")
    writer = await customer.another_key([Scope.CREDITS_WRITE])
    payment = await started(writer)
    assert code_of(await writer.get(f"/credits/topups/{payment['id']}")) == (403, "insufficient_scope")
    assert (await reader.get(f"/credits/topups/{payment['id']}")).status_code == 200


async def test_payments_of_others_are_not_found(customer: Customer) -> None:
    payment, other = await started(customer), await customer.harness.customer()
    assert code_of(await other.get(f"/credits/topups/{payment['id']}")) == (404, "not_found")


async def test_notifications_are_taken_with_a_signature_only(
    customer: Customer, site: httpx.AsyncClient
) -> None:
    payment = await started(customer)
    body, headers = notification(str(payment["id"]))
    assert (await site.post("/payment-events/sandbox", content=body, headers=headers)).status_code == 204
    for content, given in (
        (body, {}),
        (body, {"X-Sandbox-Signature": "x"}),
        (body + b" ", headers),
        notification(str(payment["id"]), bytes(32)),
    ):
        refused = await site.post("/payment-events/sandbox", content=content, headers=given)
        assert refused.status_code == 401
        assert "Signature" not in refused.text
    unknown, signed = notification("01a1fde1-9c79-7f87-a745-919389bf998d")
    assert (await site.post("/payment-events/sandbox", content=unknown, headers=signed)).status_code == 204
    malformed, signed = notification("x")
    assert (await site.post("/payment-events/sandbox", content=malformed, headers=signed)).status_code == 400
    assert (await site.post("/payment-events/stripe", content=body, headers=headers)).status_code == 404
    assert (await site.post("/payment-events/sandbox", content=b"x" * 70_000)).status_code == 413


async def test_the_page_of_a_payment_needs_its_token(customer: Customer, site: httpx.AsyncClient) -> None:
    payment = await started(customer)
    path = urlsplit(str(payment["payment_url"])).path
    for address in (path, f"{path}?t=x", "/sandbox/payments/x?t=x"):
        assert (await site.get(address)).status_code == 404
    for action in ("/pay", "/fail", "/expire"):
        assert (await site.post(f"{path}{action}?t=x")).status_code == 404
    assert (await site.post(page_of(payment, "/fail"))).status_code == 303
    assert "Failed" in (await site.get(page_of(payment))).text


async def test_the_page_of_a_payment_is_in_the_payers_language_and_in_wib(
    customer: Customer, site: httpx.AsyncClient
) -> None:
    payment = await started(customer)
    until = datetime.fromisoformat(str(payment["expires_at"])).astimezone(WIB)
    for asked, language, texts in (
        ("en", "en", ("IDR\N{NO-BREAK SPACE}555,000", "To be paid until", ">Pay<")),
        ("id-ID, en", "id", ("Rp555.000", "Harus dibayar sampai", ">Bayar<", "Bayar Rp1 saja")),
        ("fr", "en", (">Pay<",)),
    ):
        page = (await site.get(page_of(payment), headers={"Accept-Language": asked})).text
        assert_contains(page, f'<html lang="{language}">', f"{until:%Y-%m-%d %H:%M} WIB", *texts)
        unknown = await site.get("/sandbox/payments/x?t=x", headers={"Accept-Language": asked})
        assert f'<html lang="{language}">' in unknown.text


@pytest.mark.parametrize(
    ("query", "language", "arrived"),
    [
        ("&amount=1", "en", "<dt>Arrived</dt><dd>IDR\N{NO-BREAK SPACE}1</dd>"),
        ("&amount=1", "id", "<dt>Diterima</dt><dd>Rp1</dd>"),
        ("", "en", "<dt>Arrived</dt><dd>IDR\N{NO-BREAK SPACE}555,000</dd>"),
    ],
)
async def test_the_page_of_a_payment_shows_what_arrived(
    customer: Customer, site: httpx.AsyncClient, query: str, language: str, arrived: str
) -> None:
    payment, accepted = await started(customer), {"Accept-Language": language}
    label = arrived.partition("</dt>")[0]
    assert label not in (await site.get(page_of(payment), headers=accepted)).text
    await site.post(page_of(payment, "/pay") + query)
    assert arrived in (await site.get(page_of(payment), headers=accepted)).text


@pytest.mark.parametrize("action", ["/pay", "/fail", "/expire"])
async def test_the_page_of_a_payment_leads_back_once_the_payment_is_decided(
    customer: Customer, site: httpx.AsyncClient, action: str
) -> None:
    payment = await started(customer)
    policy = (await site.get(page_of(payment))).headers["Content-Security-Policy"]
    assert f"form-action 'self' {BASE_URL};" in policy
    answer = await site.post(page_of(payment, action))
    assert answer.headers["Location"] == f"{BASE_URL}/dashboard/credits/{payment['id']}?returned=1"
    for wrong in ("notify=2", "notify=0", "amount=1"):
        stays = await site.post(f"{page_of(payment, '/pay')}&{wrong}")
        assert stays.headers["Location"].startswith(f"../{payment['id']}?t=")
