"""The stand-ins of payment gateways, by the switches of a process."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from uuid import uuid4

import httpx
import pytest

from meetcore.testing.gateway_stand_in import GatewayStandIn
from meetcore.testing.midtrans_server import midtrans_stand_in
from meetcore.testing.stripe_server import stripe_stand_in
from meetcore.testing.xendit_server import xendit_stand_in

STAND_INS: dict[str, Callable[[], AbstractAsyncContextManager[GatewayStandIn]]] = {
    "midtrans": midtrans_stand_in, "stripe": stripe_stand_in, "xendit": xendit_stand_in,
}  # fmt: skip


@pytest.fixture(params=STAND_INS)
async def gateway(request: pytest.FixtureRequest) -> AsyncIterator[GatewayStandIn]:
    async with STAND_INS[request.param]() as stand_in:
        yield stand_in


OPENS = {
    "MidtransStandIn": ("/snap/v1/transactions", "Basic c3RhbmQtaW4tc2VjcmV0Og=="),
    "StripeStandIn": ("/v1/checkout/sessions", "Bearer stand-in-secret"),
    "XenditStandIn": ("/sessions", "Basic c3RhbmQtaW4tc2VjcmV0Og=="),
}


async def test_a_request_that_lacks_a_field_is_refused_by_its_name(gateway: GatewayStandIn):
    path, secret = OPENS[type(gateway).__name__]
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False) as http:
        answer = await http.post(path, headers={"Authorization": secret}, content=b"")
    assert answer.status_code == 400
    assert re.search("transaction_details|expires_at|currency", answer.text)


@pytest.mark.parametrize("step", ["pay", "fail", "expire", "reverse", "notify"])
async def test_a_switch_for_a_payment_without_a_page_says_so(gateway: GatewayStandIn, step: str):
    payment_id = uuid4()
    async with httpx.AsyncClient(base_url=f"{gateway.url}/stand-in", trust_env=False) as http:
        answer = await http.post(f"/payments/{payment_id}/{step}", json={"url": "http://127.0.0.1:9"})
    assert answer.status_code == 400
    assert str(payment_id) in answer.json()["error"]
