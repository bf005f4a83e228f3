"""Payment gateways on their stand-ins, and those who pay there."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from attrs import frozen

from meetcore.adapters.midtrans import MidtransAccess, MidtransGateway, midtrans_notifications
from meetcore.adapters.stripe import StripeGateway, stripe_notifications
from meetcore.adapters.xendit import XenditGateway, xendit_notifications
from meetcore.domain.payments.payments import PAYABLE_FOR, GatewayStatus, Payment
from meetcore.ports.payments import Checkout, CheckoutOrder
from meetcore.testing.clock import ManualClock
from meetcore.testing.contracts.payments import FaultyRig, SignedNotice, payment_of
from meetcore.testing.gateway_stand_in import PAYER, Fault, GatewayStandIn, Notice
from meetcore.testing.midtrans_server import MidtransStandIn, midtrans_stand_in
from meetcore.testing.stripe_server import StripeStandIn, stripe_stand_in
from meetcore.testing.xendit_server import XenditStandIn, xendit_stand_in

NOW = datetime(2026, 12, 1, 2, 0, tzinfo=UTC)
LATER = timedelta(days=2)
"""Longer than a payment can be paid."""
PATIENT_S, SHORT_S = 8.0, 0.4
"""The time limits of a gateway, and of one for calls that get no answer."""


@frozen
class StandInPlay:
    """What happens at a stand-in; `over` lets the time of its pages run out."""

    stand_in: GatewayStandIn
    over: Callable[[], object] = lambda: None

    async def pay(self, payment_id: UUID, amount: int | None = None, currency: str | None = None) -> None:
        self.stand_in.pay(payment_id, amount, currency)

    async def pay_everywhere(self, payment_id: UUID) -> int:
        return self.stand_in.pay_everywhere(payment_id)

    async def end(self, payment_id: UUID, status: GatewayStatus) -> None:
        (self.stand_in.fail if status is GatewayStatus.FAILED else self.stand_in.expire)(payment_id)
        self.over()

    async def reverse(self, payment_id: UUID) -> None:
        self.stand_in.reverse(payment_id)

    async def hold_refunds(self) -> None:
        self.stand_in.hold_refunds()

    async def end_refund(self, payment_id: UUID, *, is_sent: bool) -> None:
        self.stand_in.end_refund(payment_id, is_sent=is_sent)

    async def sent_back(self, payment_id: UUID) -> int:
        return self.stand_in.sent_back(payment_id)

    async def notices(self, payment_id: UUID) -> list[SignedNotice]:
        return list(self.stand_in.notices[str(payment_id)])

    async def forged(self, notice: SignedNotice) -> SignedNotice:
        return self.stand_in.forged(Notice(notice.body, notice.headers))

    def plan(self, fault: str, call: str, *, is_done: bool = False, times: int | None = 1) -> None:
        self.stand_in.faults.plan(Fault(fault, call, times, is_done=is_done))

    def has_met(self) -> bool:
        return not self.stand_in.faults.planned


@frozen
class Midtrans:
    gateway: MidtransGateway
    rig: FaultyRig
    stand_in: MidtransStandIn
    clock: ManualClock


@asynccontextmanager
async def midtrans_at_hand() -> AsyncIterator[Midtrans]:
    async with midtrans_stand_in() as stand_in:
        clock = ManualClock(NOW)
        access = MidtransAccess.at(stand_in.server_key, stand_in.url)
        gateway, impatient = (
            MidtransGateway(access, now=clock.now, budget_s=limit_s) for limit_s in (PATIENT_S, SHORT_S)
        )
        play = StandInPlay(stand_in, lambda: clock.set(NOW + LATER))
        parse = midtrans_notifications(stand_in.server_key)
        try:
            yield Midtrans(
                gateway,
                FaultyRig(gateway=gateway, impatient=impatient, parse=parse, play=play, now=NOW, payer=PAYER),
                stand_in,
                clock,
            )
        finally:
            await gateway.aclose()
            await impatient.aclose()


@frozen
class Xendit:
    gateway: XenditGateway
    rig: FaultyRig
    stand_in: XenditStandIn


@asynccontextmanager
async def xendit_at_hand() -> AsyncIterator[Xendit]:
    async with xendit_stand_in(now=lambda: NOW) as stand_in:
        gateway, impatient = (
            XenditGateway(stand_in.secret_key, stand_in.url, budget_s=limit_s)
            for limit_s in (PATIENT_S, SHORT_S)
        )
        parse = xendit_notifications(stand_in.token)
        play = StandInPlay(stand_in)
        try:
            yield Xendit(
                gateway,
                FaultyRig(gateway=gateway, impatient=impatient, parse=parse, play=play, now=NOW, payer=PAYER),
                stand_in,
            )
        finally:
            await gateway.aclose()
            await impatient.aclose()


@frozen
class Stripe:
    gateway: StripeGateway
    rig: FaultyRig
    stand_in: StripeStandIn


@asynccontextmanager
async def stripe_at_hand() -> AsyncIterator[Stripe]:
    async with stripe_stand_in(now=lambda: NOW) as stand_in:
        gateway, impatient = (
            StripeGateway(stand_in.secret_key, stand_in.url, budget_s=limit_s)
            for limit_s in (PATIENT_S, SHORT_S)
        )
        parse = stripe_notifications(stand_in.secret)
        play = StandInPlay(stand_in)
        try:
            yield Stripe(
                gateway,
                FaultyRig(gateway=gateway, impatient=impatient, parse=parse, play=play, now=NOW, payer=PAYER),
                stand_in,
            )
        finally:
            await gateway.aclose()
            await impatient.aclose()


FACTS = Path(__file__).parents[1] / "fixtures" / "gateways"
FACT_ID = UUID("01930f3a-6f00-7000-8000-000000000001")
"""The id of the payment that the facts are about."""


def fact(name: str) -> Any:
    return json.loads((FACTS / f"{name}.json").read_text())


def canned(name: str, call: str = "find", **changes: Any) -> Fault:
    """An answer of a gateway's document."""
    return Fault("canned", call, body=json.dumps({**fact(name), **changes}))


def fact_payment(reference: str | None = None, currency: str = "IDR") -> Payment:
    """The payment that the facts are about; with a page, where there is a reference."""
    page = None if reference is None else Checkout(reference, "https://pay.example.com")
    order = CheckoutOrder(
        payment_id=FACT_ID, amount=30_000, currency=currency, description="300 credits", customer_name="Budi",
        customer_email="budi@example.com", expires_at=NOW + PAYABLE_FOR, language="id",
        return_url="https://meet.example.com/dashboard/credits",
    )  # fmt: skip
    return payment_of(order, page)


def assert_has_fields_of(sent: Any, documented: Any) -> None:
    """Every field of a request is one of the document's, with a value of the same kind."""
    if isinstance(documented, list):
        for each in sent:
            assert_has_fields_of(each, documented[0])
    elif isinstance(documented, dict):
        assert set(sent) <= set(documented)
        for name, value in sent.items():
            assert_has_fields_of(value, documented[name])
    else:
        assert type(sent) is type(documented)
