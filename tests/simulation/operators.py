"""Operators: they correct balances, refund payments and settle doubts, two of them where it is much."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final, cast
from uuid import UUID

from attrs import define, field

from meetcore.domain.errors import Conflict
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.sessions import OperatorSession
from meetcore.domain.members.views import SignedInOperator
from meetcore.domain.money.proposals import NeedsSecondOperator, Proposal, ProposalKind
from meetcore.domain.money.transfers import InvalidAmount
from meetcore.domain.payments.payments import PaymentStatus, topup_reference
from meetcore.domain.payments.views import PaymentPage
from tests.simulation.clients import Client
from tests.simulation.customers import Account
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.payments import Buyer

ABOVE: Final = 40
"""More credits than these, by one amount or in a day, are moved by two operators only."""


@define(eq=False)
class Movement:
    """Credits that were moved: by one operator, or with another one's approval."""

    account_id: UUID
    kind: ProposalKind
    amount: int
    reference: str
    mover: UUID
    approver: UUID | None = None


@define(eq=False)
class SimulatedOperator:
    """An operator, who works on all accounts. `moved` is what was answered to be moved."""

    loop: SimulatedLoop
    signed_in: SignedInOperator
    client: Client
    accounts: list[Account]
    buyers: list[Buyer]
    moved: list[Movement] = field(factory=list)
    asked: int = 0
    second: SimulatedOperator | None = None

    async def act(self, requests: int) -> None:
        """Do so many things, one after the other."""
        random = self.loop.random
        for _ in range(requests):
            await asyncio.sleep(random.expovariate(1 / 10))
            payments = [(each, name) for each in self.buyers for name in sorted(each.started)]
            if payments and random.random() < 0.5:
                await self._see_to_payment(*random.choice(payments))
            else:
                self.asked += 1
                amount = random.choice((-70, -20, 10, 20, 20, 70))
                reference = f"{self.signed_in.operator.email}-{self.asked}"
                account = random.choice((self.accounts[0], self.accounts[0], *self.accounts))
                await self._move(account.id, ProposalKind.ADJUSTMENT, amount, reference)

    async def _see_to_payment(self, buyer: Buyer, name: str) -> None:
        """Accept a payment in doubt, whatever it is about, or refund one that was paid, wholly or in part."""
        payment_id = buyer.started[name]
        page = await self.client.insist(lambda process: self._page(process, payment_id))
        if not isinstance(page, PaymentPage):
            return
        if page.payment.is_doubtful:

            async def accept(process: Process) -> object:
                return await process.application.console.payments.accept(self.signed_in, None, payment_id)

            await self.client.insist(accept)
        elif page.payment.status is PaymentStatus.PAID:
            credits = self.loop.random.choice((10, 50, page.payment.credits))
            reference = topup_reference(payment_id)
            await self._move(buyer.account.id, ProposalKind.REFUND, -credits, reference)

    async def _page(self, process: Process, payment_id: UUID) -> PaymentPage | str:
        found = await process.application.console.payments.find(self.signed_in, payment_id)
        return cast("PaymentPage | None", found) or "no such payment"

    async def _move(self, account_id: UUID, kind: ProposalKind, amount: int, reference: str) -> None:
        """Move credits: alone where the limit allows it, else with the approval of the other operator."""
        moved = Movement(account_id, kind, amount, reference, self.signed_in.operator.id)
        if abs(amount) <= ABOVE and not isinstance(await self._move_alone(moved), NeedsSecondOperator):
            return
        proposal = await self.client.insist(lambda process: self._propose(process, moved))
        if not isinstance(proposal, Proposal):
            return
        assert self.second is not None
        await asyncio.sleep(self.loop.random.uniform(0, 20))
        both = [self.second._approve(proposal.id, moved)]
        if self.loop.random.random() < 0.3:
            both.append(self._approve(proposal.id, moved))
        await asyncio.gather(*both)

    async def _move_alone(self, moved: Movement) -> object:
        async def ask(process: Process) -> object:
            try:
                return await process.application.console.proposals.move_alone(
                    self.signed_in, None, moved.account_id, moved.kind, moved.amount, "simulated",
                    moved.reference,
                )  # fmt: skip
            except (NeedsSecondOperator, InvalidAmount) as error:
                return error

        answer = await self.client.insist(ask)
        if not isinstance(answer, Exception):
            self._keep(moved)
        return answer

    async def _propose(self, process: Process, moved: Movement) -> Proposal:
        return cast(
            "Proposal",
            await process.application.console.proposals.propose(
                self.signed_in, None, moved.account_id, moved.kind, moved.amount, "simulated", moved.reference
            ),
        )

    async def _approve(self, proposal_id: UUID, moved: Movement) -> None:
        async def ask(process: Process) -> object:
            try:
                return await process.application.console.proposals.approve(self.signed_in, None, proposal_id)
            except InvalidAmount as error:
                return error

        answer = await self.client.insist(ask)
        was_decided = isinstance(answer, Conflict) and moved.mover != self.signed_in.operator.id
        if isinstance(answer, Proposal) or was_decided:
            moved.approver = self.signed_in.operator.id
            self._keep(moved)

    def _keep(self, moved: Movement) -> None:
        self.loop.note(f"{moved.kind} of {moved.amount}")
        self.moved.append(moved)


def sign_in(now: datetime, operator: Operator) -> SignedInOperator:
    """Return an operator who has just signed in."""
    session = OperatorSession(
        id=UUID(int=operator.id.int + 1), operator_id=operator.id, created_at=now, last_seen_at=now,
        authenticated_at=now,
    )  # fmt: skip
    return SignedInOperator(session, operator)
