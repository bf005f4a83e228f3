"""A gateway of payments that customers of tests pay at, and the service that follows it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from attrs import define, evolve, field

from meetcore.adapters.sandbox.gateway import SandboxGateway, SandboxPayment
from meetcore.composition.application import Application, build
from meetcore.composition.observability import LOGGED
from meetcore.composition.policy import Policy
from meetcore.domain.payments.packages import CreditPackage, PackageCatalogue, Seller
from meetcore.domain.payments.payments import GatewayStatus, Payment
from meetcore.domain.payments.refunds import Refund, RefundState
from meetcore.domain.payments.views import PaymentPapers
from meetcore.ports.payments import Checkout, CheckoutOrder, GatewayRecord
from meetcore.usecases.requests.idempotency import Outcome
from tests.unit.usecases.application import ApplicationHarness, CrashPoint, DyingStore
from tests.unit.usecases.fakes import FaultPlan

STARTER = CreditPackage("starter", 500, 500_000, "IDR")
PACKAGES = PackageCatalogue.of([STARTER], None, 1_100, Seller("PT Rapat", "Jl. Melati 1", "01.234"))


T = TypeVar("T")


@define
class MemoryPayments:
    """The gateway's own memory."""

    kept: dict[UUID, SandboxPayment] = field(factory=dict)
    refunds: list[tuple[UUID, int]] = field(factory=list)
    refund_state: RefundState = RefundState.SENT

    async def add(self, payment: SandboxPayment) -> None:
        self.kept.setdefault(payment.payment_id, payment)

    async def get(self, payment_id: UUID) -> SandboxPayment | None:
        return self.kept.get(payment_id)

    async def pay(self, payment_id: UUID, amount: int, currency: str) -> bool:
        return self._change(
            payment_id, {"pending", "failed", "expired"}, GatewayStatus.PAID, paid_amount=amount,
            paid_currency=currency,
        )  # fmt: skip

    async def end(self, payment_id: UUID, status: GatewayStatus) -> bool:
        return self._change(payment_id, {"pending"}, status)

    async def refund(self, payment_id: UUID, amount: int) -> bool:
        if (payment_id, amount) in self.refunds:
            return True
        is_done = self._change(payment_id, {"paid"}, GatewayStatus.REVERSED, refunded=amount)
        self.refunds += [(payment_id, amount)] * is_done
        return is_done

    def _change(self, payment_id: UUID, origins: set[str], status: GatewayStatus, **changes: Any) -> bool:
        if self.kept[payment_id].status.value not in origins:
            return False
        self.kept[payment_id] = evolve(self.kept[payment_id], status=status, **changes)
        return True


@define
class FaultyGateway:
    """The sandbox's gateway, whose calls meet the planned faults before, or after they were done."""

    gateway: SandboxGateway
    faults: FaultPlan
    refund_state: Callable[[], RefundState]
    crash_point: CrashPoint = field(factory=CrashPoint)

    @property
    def name(self) -> str:
        return self.gateway.name

    async def open_checkout(self, order: CheckoutOrder) -> Checkout:
        return await self._call("open", lambda: self.gateway.open_checkout(order))

    async def find(self, payment: Payment) -> GatewayRecord | None:
        return await self._call("find", lambda: self.gateway.find(payment))

    async def refund(self, payment: Payment, refund: Refund) -> RefundState:
        await self._call("refund", lambda: self.gateway.refund(payment, refund))
        return self.refund_state()

    async def _call(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        self.crash_point.pass_point()
        await self.faults.meet(name)
        done = await call()
        self.crash_point.pass_point()
        await self.faults.meet(f"answer of {name}")
        return done


@define
class PaymentHarness:
    """One account without credits, and a gateway."""

    harness: ApplicationHarness = field(factory=lambda: ApplicationHarness(credits=0))
    payments: MemoryPayments = field(factory=MemoryPayments)
    faults: FaultPlan = field(factory=FaultPlan)
    packages: PackageCatalogue = PACKAGES

    async def start(self) -> PaymentHarness:
        """Empty the store and open the account."""
        await self.harness.start()
        return self

    def process(self, crash_point: CrashPoint | None = None) -> Application:
        """The application in another process, which crashes at a point of its work if one is given."""
        application, point = self.harness.process(), crash_point or CrashPoint()
        sandbox = SandboxGateway(self.payments, "http://sandbox", bytes(32), self.harness.now)
        store = application.ports.store if crash_point is None else DyingStore(application.ports.store, point)
        ports = evolve(
            application.ports,
            gateway=FaultyGateway(sandbox, self.faults, lambda: self.payments.refund_state, point),
            store=store,
        )
        return build(
            ports, Policy(packages=self.packages, four_eyes_above=100, **self.harness.policy), LOGGED
        )

    async def buy(self, key: str | None = None, crash_point: CrashPoint | None = None) -> Outcome:
        """Start a payment of the starter's package."""
        start, now = self.process(crash_point).payments.start, self.now()
        request = self.harness.request_key(key, "starter")
        return await start(self.harness.caller, partial(start.order, "starter", None, now), request, now)

    async def bought(self) -> UUID:
        """Start a payment, and return its id."""
        outcome = await self.buy()
        assert outcome.record is not None
        return UUID(str(outcome.record["id"]))

    async def pay(self, payment_id: UUID, amount: int = 555_000, *, notify: int = 1) -> None:
        """Pay at the gateway, which notifies the service."""
        await self.payments.pay(payment_id, amount, "IDR")
        for _ in range(notify):
            await self.notify(payment_id)

    async def notify(self, payment_id: UUID) -> bool:
        """Have the gateway notify the service of a payment."""
        application = self.process()
        gateway = SandboxGateway(self.payments, "http://sandbox", bytes(32), self.harness.now)
        return await application.payments.receive_notification(
            gateway.notification(self.payments.kept[payment_id])
        )

    async def follow(self, crash_point: CrashPoint | None = None) -> None:
        """Have a worker ask about every payment that is due."""
        follow = self.process(crash_point).payments.follow
        assert follow is not None
        while await follow():
            pass

    async def papers(self, payment_id: UUID) -> PaymentPapers:
        found = await self.harness.queries.find_payment(self.harness.caller.account.id, payment_id)
        assert found is not None
        return found

    async def payment(self, payment_id: UUID) -> Payment:
        return (await self.papers(payment_id)).payment

    def receipts(self) -> list[tuple[int, int]]:
        """The years and numbers of the receipts."""
        rows = self.harness.read("SELECT year, number FROM receipts ORDER BY year, number")
        return [(row["year"], row["number"]) for row in rows]

    def now(self) -> datetime:
        return self.harness.now()
