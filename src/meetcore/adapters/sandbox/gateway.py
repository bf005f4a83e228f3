"""The sandbox as a `PaymentGateway`: payments in tables of its own, paid on its pages with a click.

Notifications are signed as those of other gateways are: HMAC-SHA256 of the body, in hexadecimal.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.payments.payments import GatewayAnswer, GatewayStatus, Payment
from meetcore.domain.payments.refunds import Refund, RefundState
from meetcore.ports import payments as ports

SIGNATURE: Final = "x-sandbox-signature"
NAME: Final = "sandbox"


@frozen
class SandboxPayment:
    """A payment at the sandbox; `paid_amount` and `paid_currency` are what was paid."""

    payment_id: UUID
    amount: int
    currency: str
    description: str
    return_url: str
    expires_at: datetime
    status: GatewayStatus = GatewayStatus.PENDING
    paid_amount: int | None = None
    paid_currency: str | None = None
    refunded: int = 0


class SandboxPayments(Protocol):
    """Stores the payments. Every call may raise `StoreUnavailable`."""

    async def add(self, payment: SandboxPayment) -> None:
        """Add a payment, unless it is there."""

    async def get(self, payment_id: UUID) -> SandboxPayment | None: ...

    async def pay(self, payment_id: UUID, amount: int, currency: str) -> bool:
        """Pay one that is not paid, also when it has failed or expired; return whether this call did."""

    async def end(self, payment_id: UUID, status: GatewayStatus) -> bool:
        """Let a pending payment fail or expire; return whether this call did."""

    async def refund(self, payment_id: UUID, amount: int) -> bool:
        """Send money of a paid payment back, once; return whether it was, now or before."""


@frozen
class SandboxGateway:
    """A gateway without money. `signing_key` signs the addresses of its pages and its notifications."""

    state: SandboxPayments
    base_url: str
    signing_key: bytes = field(repr=False)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def name(self) -> str:
        return NAME

    async def open_checkout(self, order: ports.CheckoutOrder) -> ports.Checkout:
        payment = SandboxPayment(
            order.payment_id, order.amount, order.currency, order.description, order.return_url,
            order.expires_at,
        )  # fmt: skip
        await self.state.add(payment)
        address = f"{self.base_url}/sandbox/payments/{order.payment_id}?t={self.token(order.payment_id)}"
        return ports.Checkout(str(order.payment_id), address)

    async def find(self, payment: Payment) -> ports.GatewayRecord | None:
        found = await self.state.get(payment.id)
        if found is None:
            return None
        status = self.status_of(found)
        amount = found.amount if found.paid_amount is None else found.paid_amount
        answer = GatewayAnswer(status, amount, found.paid_currency or found.currency, NAME)
        body = _body(found.payment_id, status, amount=answer.amount, currency=answer.currency)
        return ports.GatewayRecord(answer, body)

    def status_of(self, payment: SandboxPayment) -> GatewayStatus:
        """Return the state of a payment; one that is not paid in time has expired."""
        is_late = payment.status is GatewayStatus.PENDING and self.now() >= payment.expires_at
        return GatewayStatus.EXPIRED if is_late else payment.status

    async def refund(self, payment: Payment, refund: Refund) -> RefundState:
        if not await self.state.refund(payment.id, refund.amount):
            raise ports.GatewayRefused("the sandbox has no paid payment of this id")
        return RefundState.SENT

    def token(self, payment_id: UUID) -> str:
        """Return the token of a payment's page."""
        return hmac.new(self.signing_key, b"sandbox-pay:" + payment_id.bytes, hashlib.sha256).hexdigest()[:24]

    def is_token(self, payment_id: UUID, token: str) -> bool:
        """Compare a token with the payment's, in constant time."""
        return hmac.compare_digest(self.token(payment_id).encode(), token.encode("utf-8", "replace"))

    def notification(self, payment: SandboxPayment) -> ports.Notification:
        """Return what the sandbox notifies the service of."""
        return ports.Notification(payment.payment_id, _body(payment.payment_id, self.status_of(payment)))


def _body(payment_id: UUID, status: GatewayStatus, **paid: object) -> str:
    return json.dumps({"payment_id": str(payment_id), "status": status.value} | paid)


def sign(body: bytes, signing_key: bytes) -> str:
    """Return the signature of a notification."""
    return hmac.new(signing_key, body, hashlib.sha256).hexdigest()


def sandbox_notifications(signing_key: bytes) -> ports.NotificationParser:
    """Return the parser of the sandbox's notifications."""

    def read(body: bytes, headers: Mapping[str, str], now: datetime) -> ports.Notification:
        given = {name.lower(): value for name, value in headers.items()}.get(SIGNATURE, "")
        if not hmac.compare_digest(sign(body, signing_key).encode(), given.encode("utf-8", "replace")):
            raise ports.NotificationInvalid
        try:
            text = body.decode()
            return ports.Notification(UUID(json.loads(text)["payment_id"]), text)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ports.NotificationMalformed from error

    return read
