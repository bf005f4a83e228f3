"""Payments that are paid at the sandbox's gateway."""

from __future__ import annotations

from uuid import UUID

from meetcore.adapters.sandbox.gateway import SandboxGateway
from meetcore.domain.payments.refunds import RefundState
from tests.support.api_harness import Customer


async def a_paid_payment(customer: Customer) -> str:
    """Buy a package; return the id of the payment when its credits are there."""
    payment = (await customer.post("/credits/topups", {"package_id": "credits-500"})).json()
    gateway, id_ = customer.application.ports.gateway, str(payment["id"])
    assert isinstance(gateway, SandboxGateway)
    await gateway.state.pay(UUID(id_), payment["amount"], payment["currency"])
    await ask_gateway(customer, id_)
    return id_


async def ask_gateway(customer: Customer, payment_id: str) -> None:
    """Have the gateway asked about a payment, and its answer written; the service's worker may do it, too."""
    follow = customer.application.payments.follow
    assert follow is not None
    async with follow.store.begin() as tx:
        payment, _ = await tx.payments.load_locked(UUID(payment_id))
    await follow._look(payment)


async def under_way(*_: object) -> RefundState:
    """Stand for `SandboxGateway.refund` while money is not sent back yet: else a worker sends it at once."""
    return RefundState.UNDER_WAY
