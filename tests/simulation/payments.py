"""Payments: a gateway with faults, and buyers who pay, late, too little or never."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from attrs import define, field

from meetcore.domain.errors import DomainError
from meetcore.domain.payments.payments import GatewayAnswer, GatewayStatus, Payment
from meetcore.domain.payments.refunds import Refund, RefundState
from meetcore.domain.requests.idempotency import fingerprint
from meetcore.ports.payments import (
    Checkout,
    CheckoutOrder,
    GatewayRecord,
    GatewayRefused,
    GatewayUnknown,
    Notification,
)
from meetcore.usecases.requests.idempotency import IdempotentRequest, Outcome
from tests.simulation.clients import Client
from tests.simulation.customers import Account
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.outside import carry_out, pause_before

T = TypeVar("T")

PACKAGE: Final = "small"
CALL_S: Final = 10.0
"""How long a call waits for the gateway's answer."""
SCENES: Final = (
    ("pay",), ("pay",), ("pay",), ("pay", "notify", "notify"), ("pay silently",), ("expire", "pay"),
    ("fail",), ("expire silently",), ("pay too little",), ("notify",), (), ("pay", "dispute"),
    ("pay", "dispute", "reverse"), ("pay", "reverse"),
    ("pay too little", "reverse"), ("expire", "pay", "reverse"), ("expire", "pay too little", "dispute"),
)  # fmt: skip
"""What becomes of a payment; each step notifies the service unless it is silent."""


@define
class Money:
    """A payment at the gateway: what was to be paid, what was, and what was sent back.

    A payer's bank takes the money of one that is disputed, unless a refund was asked for before.
    """

    amount: int
    currency: str
    status: GatewayStatus = GatewayStatus.PENDING
    paid: int = 0
    sent_back: int = 0
    refund: RefundState | None = None
    is_disputed: bool = False


@define(eq=False)
class SimulatedGateway:
    """Carries out calls in time, never, without an answer, or late; one payment has one page."""

    loop: SimulatedLoop
    fault_rate: float
    some_server: Callable[[], Process | None] = lambda: None
    payments: dict[UUID, Money] = field(factory=dict)

    @property
    def name(self) -> str:
        return "simulated"

    async def open_checkout(self, order: CheckoutOrder) -> Checkout:
        money = Money(order.amount, order.currency)
        await self._call(lambda: self.payments.setdefault(order.payment_id, money))
        return Checkout(str(order.payment_id), f"https://gateway.test/{order.payment_id}")

    async def find(self, payment: Payment) -> GatewayRecord | None:
        found = await self._call(lambda: self._answer(payment.id))
        return None if found is None else GatewayRecord(found)

    async def refund(self, payment: Payment, refund: Refund) -> RefundState:
        try:
            return await self._call(lambda: self._refund(payment.id, refund.amount))
        except GatewayRefused as error:  # the gateway itself decides on refusals, once
            raise GatewayUnknown("simulated") from error

    def play(self, payment_id: UUID, step: str) -> None:
        """Let a payer or the gateway take a step, and notify the service of it unless it is silent."""
        money = self.payments[payment_id]
        self.loop.note(f"payment: {step}")
        match step.split()[0]:
            case "pay" if money.status is not GatewayStatus.PAID:
                money.paid = money.amount - 1 if "little" in step else money.amount
                money.status = GatewayStatus.PAID
            case "fail" | "expire" if money.status is GatewayStatus.PENDING:
                money.status = GatewayStatus.FAILED if step == "fail" else GatewayStatus.EXPIRED
            case "dispute":
                money.is_disputed = True
            case "reverse" if money.refund is None and money.status is GatewayStatus.PAID:
                money.status, money.paid, money.is_disputed = GatewayStatus.REVERSED, 0, True
            case "return":
                money.refund, money.sent_back = RefundState.FAILED, 0
        if "silently" not in step:
            late_s = self.loop.random.expovariate(1 / 20)
            self.loop.call_outside(late_s, lambda: self.loop.create_task(self._notify(payment_id, step)))

    async def _notify(self, payment_id: UUID, step: str) -> None:
        notification = Notification(payment_id, "simulated", is_dispute=step == "dispute")
        for sending in range(8):
            process = self.some_server()
            if process is not None:
                receive = process.application.payments.receive_notification
                task = process.start(receive(notification))
                await asyncio.wait({task}, timeout=CALL_S)
                if task.done() and not task.cancelled() and task.exception() is None:
                    return
            await asyncio.sleep(10.0 * (sending + 1))

    async def _call(self, work: Callable[[], T]) -> T:
        refused, unknown = GatewayRefused("simulated"), GatewayUnknown("simulated")
        try:
            async with asyncio.timeout(CALL_S):
                await pause_before(self.loop)
                return await carry_out(self.loop, "gateway", self.fault_rate, work, refused, unknown)
        except TimeoutError:
            raise unknown from None

    def _answer(self, payment_id: UUID) -> GatewayAnswer | None:
        money = self.payments.get(payment_id)
        if money is None:
            return None
        amount = money.paid if money.status is GatewayStatus.PAID else money.amount
        return GatewayAnswer(money.status, amount, money.currency, "simulated")

    def _refund(self, payment_id: UUID, amount: int) -> RefundState:
        """Send money back, once: at once or later; a bank may return it, a payment may be too old for it."""
        money, random = self.payments[payment_id], self.loop.random
        if money.refund is None:
            kind = random.choices(("sent", "under way", "returned", "refused"), (4, 3, 2, 1))[0]
            money.refund = RefundState.UNDER_WAY if kind == "under way" else RefundState.SENT
            if kind == "refused" or money.status is not GatewayStatus.PAID:
                money.refund = RefundState.REFUSED
            else:
                money.sent_back = amount
            if kind == "returned" and money.sent_back:
                self.loop.call_outside(random.uniform(1, 120), lambda: self.play(payment_id, "return"))
            self.loop.note(f"a refund is {money.refund}")
        elif money.refund is RefundState.UNDER_WAY:
            money.refund = RefundState.SENT
        return money.refund


@define(eq=False)
class Buyer:
    """Buys credits for an account. `started` are the payments by the names of its requests."""

    loop: SimulatedLoop
    name: str
    account: Account
    digest: bytes
    client: Client
    gateway: SimulatedGateway
    started: dict[str, UUID] = field(factory=dict)
    asked: int = 0

    async def act(self, requests: int) -> None:
        """Start so many payments, one after the other; what becomes of each is the seed's."""
        for _ in range(requests):
            await asyncio.sleep(self.loop.random.expovariate(1 / 5.0))
            self.asked += 1
            await self.buy(f"{self.name} {self.asked}")

    async def buy(self, name: str) -> None:
        """Start a payment until the answer is final, sometimes twice at once, and play a scene with it."""
        request = IdempotentRequest(name, fingerprint("POST", "/credits/topups", PACKAGE))

        async def ask(process: Process) -> Outcome:
            application, now = process.application, self.loop.now()
            caller = await application.ports.queries.find_caller(self.digest)
            order = partial(application.api.start_payment.order, PACKAGE, None, now)
            return cast("Outcome", await application.api.start_payment(caller, order, request, now))

        times = 1 + (self.loop.random.random() < 0.2)
        answers = await asyncio.gather(*(self.client.insist(ask) for _ in range(times)))
        found = {self._payment_id(each) for each in answers}
        assert len(found) == 1, f"two answers for {name}"
        self.started[name] = payment_id = found.pop()
        self.loop.note(f"{name} is answered")
        for step in self.loop.random.choice(SCENES):
            await asyncio.sleep(self.loop.random.expovariate(1 / 10))
            self.gateway.play(payment_id, step)

    def _payment_id(self, answer: Outcome | DomainError) -> UUID:
        assert isinstance(answer, Outcome), f"{self.name}: {answer}"
        record: Any = answer.record
        return UUID(str(record["id"]))
