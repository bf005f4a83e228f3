"""Payments: a gateway with faults, and buyers who pay, late, too little or never."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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

T = TypeVar("T")

PACKAGE: Final = "small"
CALL_S: Final = 10.0
"""How long a call waits for the gateway's answer."""
SCENES: Final = (
    ("pay",), ("pay",), ("pay",), ("pay", "notify", "notify"), ("pay silently",), ("expire", "pay"),
    ("fail",), ("expire silently",), ("pay too little",), ("notify",), (),
)  # fmt: skip
"""What becomes of a payment; each step notifies the service unless it is silent."""


@define
class Money:
    """A payment at the gateway: what was to be paid, what was, and what was sent back."""

    amount: int
    currency: str
    status: GatewayStatus = GatewayStatus.PENDING
    paid: int = 0
    sent_back: int = 0


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
        return await self._call(lambda: self._refund(payment.id, refund.amount))

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
        if "silently" not in step:
            late_s = self.loop.random.expovariate(1 / 20)
            self.loop.call_outside(late_s, lambda: self.loop.create_task(self._notify(payment_id)))

    async def _notify(self, payment_id: UUID) -> None:
        for sending in range(3):
            process = self.some_server()
            if process is not None:
                receive = process.application.payments.receive_notification
                task = process.start(receive(Notification(payment_id, "simulated")))
                await asyncio.wait({task}, timeout=CALL_S)
                if task.done() and not task.cancelled() and task.exception() is None:
                    return
            await asyncio.sleep(10.0 * (sending + 1))

    async def _call(self, work: Callable[[], T]) -> T:
        random = self.loop.random
        done: asyncio.Future[T] = self.loop.create_future()
        kind = random.choice(("refuse", "never", "lost", "late"))
        if not self.loop.strikes("gateway", self.fault_rate, f"{kind}: a call"):
            kind = "done"
        after_s = random.uniform(1.0, 25.0) if kind == "late" else random.uniform(0.01, 0.4)

        def carry_out() -> None:
            result = work() if kind in ("done", "lost", "late") else None
            if done.done():
                return
            if kind == "refuse":
                done.set_exception(GatewayRefused("simulated"))
            elif kind in ("never", "lost"):
                done.set_exception(GatewayUnknown("simulated"))
            else:
                done.set_result(cast("T", result))

        self.loop.call_outside(after_s, carry_out)
        try:
            async with asyncio.timeout(CALL_S):
                return await done
        except TimeoutError:
            raise GatewayUnknown("no answer in time") from None

    def _answer(self, payment_id: UUID) -> GatewayAnswer | None:
        money = self.payments.get(payment_id)
        if money is None:
            return None
        amount = money.paid if money.status is GatewayStatus.PAID else money.amount
        return GatewayAnswer(money.status, amount, money.currency, "simulated")

    def _refund(self, payment_id: UUID, amount: int) -> RefundState:
        money = self.payments[payment_id]
        if not money.sent_back:
            money.sent_back = amount
            self.loop.note("money is sent back")
            return RefundState.UNDER_WAY if self.loop.random.random() < 0.3 else RefundState.SENT
        return RefundState.SENT


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
            order = application.api.start_payment.order(PACKAGE, None, now)
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
