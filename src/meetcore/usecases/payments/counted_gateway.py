"""Count the calls of a payment gateway by their result."""

from collections.abc import Awaitable
from typing import TypeVar

from attrs import frozen

from meetcore.domain.payments.payments import Payment
from meetcore.domain.payments.refunds import Refund, RefundState
from meetcore.ports.observability import GATEWAY_CALLS, Metrics
from meetcore.ports.payments import (
    Checkout,
    CheckoutOrder,
    GatewayRecord,
    GatewayRefused,
    GatewayUnknown,
    PaymentGateway,
)

T = TypeVar("T")


@frozen
class CountedGateway:
    """A gateway whose calls are counted."""

    gateway: PaymentGateway
    metrics: Metrics

    @property
    def name(self) -> str:
        """The gateway's name."""
        return self.gateway.name

    async def open_checkout(self, order: CheckoutOrder) -> Checkout:
        """Make the page of a payment."""
        return await self._counted("checkout", self.gateway.open_checkout(order))

    async def find(self, payment: Payment) -> GatewayRecord | None:
        """Ask for a payment."""
        return await self._counted("find", self.gateway.find(payment))

    async def refund(self, payment: Payment, refund: Refund) -> RefundState:
        """Send money back."""
        return await self._counted("refund", self.gateway.refund(payment, refund))

    async def _counted(self, call: str, work: Awaitable[T]) -> T:
        try:
            done = await work
        except (GatewayRefused, GatewayUnknown) as error:
            result = "refused" if isinstance(error, GatewayRefused) else "unknown"
            self.metrics.count(GATEWAY_CALLS, call, result)
            raise
        self.metrics.count(GATEWAY_CALLS, call, "done")
        return done
