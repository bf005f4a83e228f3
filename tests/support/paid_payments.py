"""Payments that are paid at the sandbox's gateway."""

from __future__ import annotations

from uuid import UUID

from meetcore.adapters.sandbox.gateway import SandboxGateway
from tests.support.api_harness import Customer


async def a_paid_payment(customer: Customer) -> str:
    """Buy a package; return the id of the payment when its credits are there."""
    payment = (await customer.post("/credits/topups", {"package_id": "starter"})).json()
    application, id_ = customer.application, str(payment["id"])
    gateway, follow = application.ports.gateway, application.payments.follow
    assert isinstance(gateway, SandboxGateway)
    assert follow is not None
    await gateway.state.pay(UUID(id_), payment["amount"], payment["currency"])
    await customer.query("UPDATE payments SET next_look_at = now() WHERE id = %s", id_)
    while (await customer.get(f"/credits/topups/{id_}")).json()["status"] != "paid":
        await follow()
    return id_
