"""The contract of `ports.payments`: a gateway and the parser of its notifications.

A page is made once, paid once, found by the gateway's own words, and refunded once. `PaymentGatewayContract`
needs someone who plays customers and banks; `GatewayFaultsContract` also a gateway whose answers can fail.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from itertools import product
from typing import ClassVar, Protocol
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
from attrs import evolve, field, frozen

from meetcore.domain.payments.payments import (
    PAYABLE_FOR,
    GatewayAnswer,
    GatewayStatus,
    Payment,
    PaymentStatus,
    opened,
)
from meetcore.domain.payments.refunds import Refund, RefundState
from meetcore.ports import payments

_AMOUNT = 110_000
_PERSONAL = ("Budi Santoso", "budi@example.com")
_ENDED = (GatewayStatus.FAILED, GatewayStatus.EXPIRED)
_UNKNOWN = ("hang", "drop", "garbage", "cut", "huge", "500", "503", "429", "302", "408")
_REFUSED = ("400", "401", "403")


class SignedNotice(Protocol):
    """A notification as the gateway sends it."""

    @property
    def body(self) -> bytes: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


class GatewayPlay(Protocol):
    """Customers and banks at a gateway; amounts are in the units of `CheckoutOrder`."""

    async def pay(self, payment_id: UUID, amount: int | None = None, currency: str | None = None) -> None:
        """Pay on the latest page of a payment: what was ordered, unless another amount is given."""

    async def pay_everywhere(self, payment_id: UUID) -> int:
        """Pay on every page that was made for a payment; return how often money was taken."""

    async def end(self, payment_id: UUID, status: GatewayStatus) -> None:
        """Let a payment fail or expire, so that it is not paid any more."""

    async def reverse(self, payment_id: UUID) -> None:
        """Let a bank take the money of a paid payment back."""

    async def hold_refunds(self) -> None:
        """Let refunds from now on stay under way; called where `refunds_take_time`."""

    async def end_refund(self, payment_id: UUID, *, is_sent: bool) -> None: ...
    async def sent_back(self, payment_id: UUID) -> int: ...
    async def notices(self, payment_id: UUID) -> list[SignedNotice]:
        """Return what the gateway notifies of a payment, the oldest first."""

    async def forged(self, notice: SignedNotice) -> SignedNotice: ...


@frozen(kw_only=True)
class GatewayRig:
    """A gateway under test; `now` is its clock, and `payer` texts of a customer that no record may have."""

    gateway: payments.PaymentGateway
    parse: payments.NotificationParser
    play: GatewayPlay
    now: datetime
    currency: str = "IDR"
    payer: tuple[str, ...] = field(default=(), repr=False)


def order_for(rig: GatewayRig, amount: int = _AMOUNT) -> payments.CheckoutOrder:
    """Make the order of a new payment."""
    payment_id = uuid4()
    return payments.CheckoutOrder(
        payment_id=payment_id, amount=amount, currency=rig.currency, description="1000 credits",
        customer_name=_PERSONAL[0], customer_email=_PERSONAL[1], expires_at=rig.now + PAYABLE_FOR,
        return_url=f"https://meet.example.com/dashboard/credits/{payment_id}", language="id",
    )  # fmt: skip


def payment_of(order: payments.CheckoutOrder, page: payments.Checkout | None) -> Payment:
    """Make the payment of an order, pending; with its page, where the gateway has answered."""
    began_at = order.expires_at - PAYABLE_FOR
    payment = Payment(
        id=order.payment_id, account_id=uuid4(), gateway="", credits=1000, price=order.amount, tax=0,
        currency=order.currency, created_at=began_at, expires_at=order.expires_at,
    )  # fmt: skip
    return payment if page is None else opened(payment, page.reference, page.url, began_at)


def refund_of(payment: Payment, amount: int) -> Refund:
    """Make a refund of a payment."""
    return Refund(
        payment_id=payment.id, account_id=payment.account_id, credits=1, amount=amount,
        reason="Ordered twice | <b>", created_at=payment.created_at,
    )  # fmt: skip


async def answer_of(rig: GatewayRig, payment: Payment) -> GatewayAnswer | None:
    """Ask the gateway; what it said for operators has nothing of the customer."""
    if (record := await rig.gateway.find(payment)) is None:
        return None
    assert not [text for text in (*_PERSONAL, *rig.payer) if text in record.body]
    return record.answer


async def found_answer(rig: GatewayRig, payment: Payment) -> GatewayAnswer:
    """Ask the gateway about a payment that it knows."""
    answer = await answer_of(rig, payment)
    assert answer is not None
    return answer


async def paid_payment(rig: GatewayRig, amount: int = _AMOUNT) -> Payment:
    """Open a payment and pay it."""
    order = order_for(rig, amount)
    page = await rig.gateway.open_checkout(order)
    await rig.play.pay(order.payment_id)
    return evolve(payment_of(order, page), status=PaymentStatus.PAID)


@pytest.mark.asyncio
class PaymentGatewayContract:
    """The suite of a `PaymentGateway` with its `NotificationParser`; the fixture is `rig: GatewayRig`.

    Attributes:
        takes_money_once: a repeated checkout takes money once. A gateway without idempotency keys may make a
            second page whose address was not handed out; then the money of both is found, as another amount.
        refunds_parts: a part of a payment can be sent back.
        refunds_take_time: a refund that was accepted may still fail.
        reverses: a bank can take the money of a paid payment back.
        names_transactions: a notice of a dispute names the gateway's transaction, and not the payment.
        currencies: what else payments can be made in.
    """

    takes_money_once: ClassVar[bool] = True
    refunds_parts: ClassVar[bool] = True
    refunds_take_time: ClassVar[bool] = False
    names_transactions: ClassVar[bool] = False
    reverses: ClassVar[bool] = True
    currencies: ClassVar[tuple[str, ...]] = ()

    async def test_a_page_has_a_reference_and_an_address(self, rig: GatewayRig) -> None:
        assert rig.gateway.name
        page = await rig.gateway.open_checkout(order_for(rig))
        assert page.reference
        assert urlsplit(page.url).scheme in ("http", "https")
        assert page.url not in repr(page)

    async def test_a_repeated_checkout_takes_money_once(self, rig: GatewayRig) -> None:
        order = order_for(rig)
        first = await rig.gateway.open_checkout(order)
        pages = await asyncio.gather(*(rig.gateway.open_checkout(order) for _ in range(3)))
        if self.takes_money_once:
            assert {page.reference for page in pages} == {first.reference}
        taken = await rig.play.pay_everywhere(order.payment_id)
        assert taken == (1 if self.takes_money_once else 4)
        answer = await found_answer(rig, payment_of(order, pages[-1]))
        assert (answer.status, answer.amount) == (GatewayStatus.PAID, order.amount * taken)

    async def test_two_payments_have_two_pages(self, rig: GatewayRig) -> None:
        one, other = [await rig.gateway.open_checkout(order_for(rig)) for _ in range(2)]
        assert one.reference != other.reference
        assert one.url != other.url

    async def test_a_payment_that_was_never_opened_is_unknown(self, rig: GatewayRig) -> None:
        assert await answer_of(rig, payment_of(order_for(rig), None)) is None

    async def test_an_open_page_is_pending_or_not_known_yet(self, rig: GatewayRig) -> None:
        order = order_for(rig)
        page = await rig.gateway.open_checkout(order)
        answer = await answer_of(rig, payment_of(order, page))
        assert answer is None or answer.status is GatewayStatus.PENDING

    @pytest.mark.parametrize("amount", [10_000, 110_000, 9_999_999])
    async def test_a_payment_is_found_as_paid(self, rig: GatewayRig, amount: int) -> None:
        payment = await paid_payment(rig, amount)
        answer = await found_answer(rig, payment)
        assert (answer.status, answer.amount, answer.currency) == (GatewayStatus.PAID, amount, rig.currency)
        assert answer.method

    async def test_money_is_found_without_the_reference(self, rig: GatewayRig) -> None:
        order = order_for(rig)
        await rig.gateway.open_checkout(order)
        await rig.play.pay(order.payment_id)
        answer = await found_answer(rig, payment_of(order, None))
        assert (answer.status, answer.amount) == (GatewayStatus.PAID, order.amount)

    @pytest.mark.parametrize(
        ("amount", "currency"), [(1, "IDR"), (_AMOUNT - 1, "IDR"), (_AMOUNT + 1, "IDR"), (_AMOUNT, "MYR")]
    )
    async def test_it_is_found_as_it_was_paid(self, rig: GatewayRig, amount: int, currency: str) -> None:
        order = order_for(rig)
        page = await rig.gateway.open_checkout(order)
        await rig.play.pay(order.payment_id, amount, currency)
        answer = await found_answer(rig, payment_of(order, page))
        assert (answer.status, answer.amount, answer.currency) == (GatewayStatus.PAID, amount, currency)

    async def test_other_currencies_count_in_their_minor_unit(self, rig: GatewayRig) -> None:
        for currency in self.currencies:
            payment = await paid_payment(evolve(rig, currency=currency))
            answer = await found_answer(rig, payment)
            assert (answer.status, answer.amount, answer.currency) == (GatewayStatus.PAID, _AMOUNT, currency)

    @pytest.mark.parametrize("status", _ENDED)
    async def test_a_payment_that_ended_is_found_so(self, rig: GatewayRig, status: GatewayStatus) -> None:
        order = order_for(rig)
        page = await rig.gateway.open_checkout(order)
        await rig.play.end(order.payment_id, status)
        answer = await found_answer(rig, payment_of(order, page))
        assert answer.status is status

    async def test_money_that_a_bank_took_back_is_reversed(self, rig: GatewayRig) -> None:
        if not self.reverses:
            return
        payment = await paid_payment(rig)
        await rig.play.reverse(payment.id)
        answer = await found_answer(rig, payment)
        assert answer.status is GatewayStatus.REVERSED

    async def test_a_refund_is_sent_once(self, rig: GatewayRig) -> None:
        payment = await paid_payment(rig)
        amount = _AMOUNT // 3 if self.refunds_parts else _AMOUNT
        states = [await rig.gateway.refund(payment, refund_of(payment, amount)) for _ in range(3)]
        assert states[-1] is RefundState.SENT
        assert await rig.play.sent_back(payment.id) == amount

    @pytest.mark.parametrize("is_sent", [True, False])
    async def test_a_refund_is_followed_until_it_is_final(self, rig: GatewayRig, is_sent: bool) -> None:
        if not self.refunds_take_time:
            return
        payment = await paid_payment(rig)
        await rig.play.hold_refunds()
        for _ in range(2):
            assert await rig.gateway.refund(payment, refund_of(payment, 5_000)) is RefundState.UNDER_WAY
        for is_sent_now in (True, is_sent):  # one that was sent may fail later
            await rig.play.end_refund(payment.id, is_sent=is_sent_now)
            state = RefundState.SENT if is_sent_now else RefundState.FAILED
            for _ in range(2):
                assert await rig.gateway.refund(payment, refund_of(payment, 5_000)) is state
        assert await rig.play.sent_back(payment.id) == (5_000 if is_sent else 0)

    async def test_a_notice_of_a_dispute_finds_its_payment(self, rig: GatewayRig) -> None:
        if not self.names_transactions:
            return
        payment = await paid_payment(rig)
        paid = await found_answer(rig, payment)
        await rig.play.reverse(payment.id)
        notice = (await rig.play.notices(payment.id))[-1]
        said = rig.parse(notice.body, notice.headers, rig.now)
        assert said is not None
        assert said.is_dispute
        assert (said.payment_id, said.transaction_id) == (None, paid.transaction_id)
        assert said.transaction_id
        assert "fraud" in said.body

    async def test_a_whole_payment_is_refunded_once(self, rig: GatewayRig) -> None:
        payment = await paid_payment(rig)
        for _ in range(2):
            await rig.gateway.refund(payment, refund_of(payment, _AMOUNT))
        assert await rig.play.sent_back(payment.id) == _AMOUNT

    async def test_what_was_not_paid_is_not_refunded(self, rig: GatewayRig) -> None:
        order = order_for(rig)
        page = await rig.gateway.open_checkout(order)
        for payment in (payment_of(order, page), payment_of(order_for(rig), None)):
            with pytest.raises(payments.GatewayRefused):
                await rig.gateway.refund(payment, refund_of(payment, 1))
        assert await rig.play.sent_back(order.payment_id) == 0

    async def test_a_notification_names_its_payment(self, rig: GatewayRig) -> None:
        payment = await paid_payment(rig)
        notices = await rig.play.notices(payment.id)
        assert notices
        for notice in notices:
            for headers in (notice.headers, {name.upper(): text for name, text in notice.headers.items()}):
                said = rig.parse(notice.body, headers, rig.now)
                assert isinstance(said, payments.Notification)
                assert said.payment_id == payment.id
                assert not [text for text in (*_PERSONAL, *rig.payer) if text in said.body]
                assert said.body not in repr(said)

    async def test_a_forged_notification_is_refused(self, rig: GatewayRig) -> None:
        payment = await paid_payment(rig)
        (notice, *_) = await rig.play.notices(payment.id)
        forged = await rig.play.forged(notice)
        odd = {"stripe-signature": "t=1,v1=\xe9", "x-callback-token": "\xe9"}
        for body, headers in ((forged.body, forged.headers), (b"{}", {}), (b"", {}), (b"\xff\xfe", odd)):
            with pytest.raises(payments.NotificationInvalid):
                rig.parse(body, headers, rig.now)


class FaultyPlay(GatewayPlay, Protocol):
    """The plays of a gateway whose answers can fail."""

    def plan(self, fault: str, call: str, *, is_done: bool = False, times: int | None = 1) -> None:
        """Let calls meet a fault of `stand_in`, or an HTTP status, before or after the work is done.

        `call` is `open`, `find` or `refund`.
        """

    def has_met(self) -> bool:
        """Whether calls have met all that was planned: one whose time ran out may not have arrived."""


@frozen(kw_only=True)
class FaultyRig(GatewayRig):
    """A gateway whose answers can fail; `impatient` has a short time limit, for calls that get no answer."""

    play: FaultyPlay
    impatient: payments.PaymentGateway

    def gateway_for(self, fault: str) -> payments.PaymentGateway:
        """Return the gateway for a call that meets a fault."""
        return self.impatient if fault == "hang" else self.gateway


@pytest.mark.asyncio
class GatewayFaultsContract:
    """The suite of a gateway over a network; the fixture is `faulty: FaultyRig`."""

    takes_money_once: ClassVar[bool] = True

    @pytest.mark.parametrize("fault", _UNKNOWN)
    async def test_no_answer_is_unknown(self, faulty: FaultyRig, fault: str) -> None:
        await self._meet(faulty, fault, payments.GatewayUnknown)

    @pytest.mark.parametrize("fault", _REFUSED)
    async def test_a_refusal_is_refused(self, faulty: FaultyRig, fault: str) -> None:
        payment = await self._meet(faulty, fault, payments.GatewayRefused)
        assert await faulty.play.sent_back(payment.id) == 0

    @staticmethod
    async def _meet(faulty: FaultyRig, fault: str, error: type[Exception]) -> Payment:
        """Let each call for a payment meet a fault and raise an error; return the payment."""
        payment, order = await paid_payment(faulty), order_for(faulty)
        gateway = faulty.gateway_for(fault)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "open": lambda: gateway.open_checkout(order),
            "find": lambda: gateway.find(payment),
            "refund": lambda: gateway.refund(payment, refund_of(payment, 1)),
        }
        for name, call in calls.items():
            faulty.play.plan(fault, name)
            with pytest.raises(error):
                await call()
        return payment

    @pytest.mark.parametrize("fault", ["drop", "hang", "cut", "500"])
    async def test_a_page_whose_answer_was_lost_takes_money_once(self, faulty: FaultyRig, fault: str) -> None:
        order = order_for(faulty)
        faulty.play.plan(fault, "open", is_done=True)
        async with asyncio.timeout(60):
            while not faulty.play.has_met():
                with pytest.raises(payments.GatewayUnknown):
                    await faulty.gateway_for(fault).open_checkout(order)
        page = await faulty.gateway.open_checkout(order)
        await faulty.play.pay(order.payment_id)
        answer = await found_answer(faulty, payment_of(order, page))
        assert (answer.status, answer.amount) == (GatewayStatus.PAID, order.amount)
        assert await faulty.play.pay_everywhere(order.payment_id) == (0 if self.takes_money_once else 1)

    @pytest.mark.parametrize("fault", ["drop", "hang", "cut", "500"])
    async def test_a_refund_whose_answer_was_lost_is_sent_once(self, faulty: FaultyRig, fault: str) -> None:
        payment = await paid_payment(faulty)
        faulty.play.plan(fault, "refund", is_done=True)
        async with asyncio.timeout(60):
            while not faulty.play.has_met():
                with pytest.raises(payments.GatewayUnknown):
                    await faulty.gateway_for(fault).refund(payment, refund_of(payment, 5_000))
        assert await faulty.play.sent_back(payment.id) == 5_000
        for call in ("find", "refund"):
            faulty.play.plan("403", call)
        with suppress(payments.GatewayUnknown):  # what refuses to show a refund says nothing of it
            await faulty.gateway.refund(payment, refund_of(payment, 5_000))
        await faulty.gateway.refund(payment, refund_of(payment, 5_000))
        assert await faulty.play.sent_back(payment.id) == 5_000

    async def test_errors_hold_no_secret_and_no_address(self, faulty: FaultyRig) -> None:
        payment, order = await paid_payment(faulty), order_for(faulty)
        for fault, call in product((*_UNKNOWN, *_REFUSED), ("find", "open")):
            faulty.play.plan(fault, call)
            gateway = faulty.gateway_for(fault)
            with pytest.raises((payments.GatewayRefused, payments.GatewayUnknown)) as error:
                await (gateway.find(payment) if call == "find" else gateway.open_checkout(order))
            assert (text := str(error.value))
            assert not [each for each in ("secret", "127.0.0.1", "http:", *_PERSONAL) if each in text]
