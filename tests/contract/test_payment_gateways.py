"""The suites of the payment gateways on every adapter."""

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from attrs import frozen

from meetcore.adapters.midtrans import midtrans_notifications
from meetcore.adapters.postgres.migrate import migrate
from meetcore.adapters.postgres.pool import make_pool
from meetcore.adapters.sandbox.gateway import (
    SIGNATURE,
    SandboxGateway,
    SandboxPayment,
    sandbox_notifications,
    sign,
)
from meetcore.adapters.sandbox.postgres_state import PostgresSandboxPayments
from meetcore.adapters.stripe import stripe_notifications
from meetcore.adapters.xendit import xendit_notifications
from meetcore.domain.payments.payments import GatewayStatus
from meetcore.ports.payments import GatewayRefused, GatewayUnknown
from meetcore.testing.contracts.payments import (
    GatewayFaultsContract,
    GatewayRig,
    PaymentGatewayContract,
    SignedNotice,
    order_for,
    paid_payment,
    refund_of,
)
from meetcore.testing.gateway_stand_in import Fault, Notice
from tests.support.gateways import (
    NOW,
    Midtrans,
    Stripe,
    Xendit,
    midtrans_at_hand,
    stripe_at_hand,
    xendit_at_hand,
)


class TestMidtrans(PaymentGatewayContract):
    @pytest.fixture
    async def rig(self):
        async with midtrans_at_hand() as at_hand:
            yield at_hand.rig


class TestMidtransFaults(GatewayFaultsContract):
    @pytest.fixture
    async def faulty(self):
        async with midtrans_at_hand() as at_hand:
            yield at_hand.rig


class TestXendit(PaymentGatewayContract):
    takes_money_once = False  # a session has no idempotency key
    refunds_take_time = names_transactions = True
    currencies = ("PHP", "VND", "THB", "SGD", "MYR")

    @pytest.fixture
    async def rig(self):
        async with xendit_at_hand() as at_hand:
            yield at_hand.rig


class TestXenditFaults(GatewayFaultsContract):
    takes_money_once = False  # a session has no idempotency key

    @pytest.fixture
    async def faulty(self):
        async with xendit_at_hand() as at_hand:
            yield at_hand.rig


class TestStripe(PaymentGatewayContract):
    refunds_take_time = names_transactions = True
    currencies = ("USD", "JPY", "VND", "HUF", "MGA", "KWD")

    @pytest.fixture
    async def rig(self):
        async with stripe_at_hand() as at_hand:
            yield at_hand.rig


class TestStripeFaults(GatewayFaultsContract):
    @pytest.fixture
    async def faulty(self):
        async with stripe_at_hand() as at_hand:
            yield at_hand.rig


@frozen
class SandboxPlay:
    """The sandbox's own payments: one for an order, paid and refunded in its table."""

    gateway: SandboxGateway

    async def _get(self, payment_id: UUID) -> SandboxPayment:
        payment = await self.gateway.state.get(payment_id)
        assert payment is not None
        return payment

    async def pay(self, payment_id: UUID, amount: int | None = None, currency: str | None = None) -> None:
        payment = await self._get(payment_id)
        paid = payment.amount if amount is None else amount
        assert await self.gateway.state.pay(payment_id, paid, currency or payment.currency)

    async def pay_everywhere(self, payment_id: UUID) -> int:
        payment = await self._get(payment_id)
        return int(await self.gateway.state.pay(payment_id, payment.amount, payment.currency))

    async def end(self, payment_id: UUID, status: GatewayStatus) -> None:
        assert await self.gateway.state.end(payment_id, status)

    async def reverse(self, payment_id: UUID) -> None:
        raise NotImplementedError

    async def hold_refunds(self) -> None:
        raise NotImplementedError

    async def end_refund(self, payment_id: UUID, *, is_sent: bool) -> None:
        raise NotImplementedError

    async def sent_back(self, payment_id: UUID) -> int:
        return (await self._get(payment_id)).refunded

    async def notices(self, payment_id: UUID) -> list[SignedNotice]:
        body = self.gateway.notification(await self._get(payment_id)).body.encode()
        return [Notice(body, {SIGNATURE: sign(body, self.gateway.signing_key)})]

    async def forged(self, notice: SignedNotice) -> SignedNotice:
        return Notice(notice.body, {SIGNATURE: sign(notice.body, b"another key")})


class TestSandbox(PaymentGatewayContract):
    reverses = False  # no bank takes anything back there

    @pytest.fixture
    async def rig(self, database_url: str):
        migrate(database_url)
        pool = make_pool(database_url, min_size=0, max_size=8)
        await pool.open()
        key = bytes(range(32))
        gateway = SandboxGateway(PostgresSandboxPayments(pool), "http://127.0.0.1:8000", key, lambda: NOW)
        try:
            yield GatewayRig(
                gateway=gateway, parse=sandbox_notifications(key), play=SandboxPlay(gateway), now=NOW
            )
        finally:
            await pool.close()


AT_HAND = {"midtrans": midtrans_at_hand, "stripe": stripe_at_hand, "xendit": xendit_at_hand}


@pytest.fixture(params=list(AT_HAND.values()), ids=list(AT_HAND))
async def at_hand(request: pytest.FixtureRequest):
    """A gateway on its stand-in."""
    async with request.param() as found:
        yield found


async def test_a_repeated_refund_is_recognised_without_its_key(at_hand: Midtrans | Stripe | Xendit):
    payment = await paid_payment(at_hand.rig)
    for _ in range(3):
        await at_hand.gateway.refund(payment, refund_of(payment, 5_000))
        at_hand.stand_in.forget_keys()
    assert at_hand.stand_in.sent_back(payment.id) == 5_000


@pytest.mark.parametrize("call", ["open", "find", "refund"])
async def test_a_page_of_a_proxy_is_a_refusal_but_knows_no_payments(
    at_hand: Midtrans | Stripe | Xendit, call: str
):
    payment, order = await paid_payment(at_hand.rig), order_for(at_hand.rig)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "open": lambda: at_hand.gateway.open_checkout(order),
        "find": lambda: at_hand.gateway.find(payment),
        "refund": lambda: at_hand.gateway.refund(payment, refund_of(payment, 1)),
    }
    at_hand.stand_in.faults.plan(Fault("403", call, body="<html>Forbidden"))
    with pytest.raises(GatewayRefused, match="403"):
        await calls[call]()
    at_hand.stand_in.faults.plan(Fault("404", call, body="<html>Not found"))
    with pytest.raises((GatewayUnknown, GatewayRefused)):
        await calls[call]()


@pytest.mark.parametrize("parser", [midtrans_notifications, stripe_notifications, xendit_notifications])
def test_without_a_key_nothing_is_verified(parser: Callable[[str], object]):
    with pytest.raises(ValueError, match="empty"):
        parser("")
