"""Credits above a limit: one operator proposes to move them, another one approves or rejects.

The approval, the entry in the ledger and both audit entries are one transaction under the account's lock, so
that of many approvals at once one books, and books once.
"""

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from uuid import UUID

from attrs import frozen

from meetcore.domain.members.audit import ActionOrigin
from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.domain.members.views import SignedInOperator
from meetcore.domain.money import ledger, transfers
from meetcore.domain.money.proposals import (
    ALONE_WINDOW,
    PROPOSED_FOR,
    Proposal,
    ProposalKind,
    check_alone,
    check_same,
    decide_proposal,
    has_expired,
    needs_second_operator,
)
from meetcore.domain.payments.payments import payment_of
from meetcore.domain.records.pages import ProposalLine
from meetcore.ports.observability import count_credits
from meetcore.ports.queries import ConsoleQueries
from meetcore.ports.store import Transaction
from meetcore.usecases.members.audit import record_action
from meetcore.usecases.money.credit_postings import Posted
from meetcore.usecases.requests.administration import Administration
from meetcore.usecases.runtime import Runtime

MAX_PROPOSALS = 100

RefundWithin = Callable[
    [Transaction, Runtime, ActionOrigin, datetime, UUID, int, str], Coroutine[None, None, Posted]
]
"""Takes credits of a payment back in a transaction of the caller's; see `payments.refunds.refund_within`."""


@frozen
class Proposals:
    """The use cases of proposals: two operators move credits of more than `above`; `None` lets one.

    The amount of a refund is below zero, its reference that of the payment's top-up. A decision raises what
    `decide_proposal` does, and what the movement does.
    """

    administration: Administration
    queries: ConsoleQueries
    refund: RefundWithin
    above: int | None = None

    def needs_two(self, amount: int) -> bool:
        """Return whether so many credits are moved by two operators only."""
        return needs_second_operator(amount, self.above)

    async def move_alone(
        self, who: SignedInOperator, client_address: str | None, account_id: UUID, kind: ProposalKind,
        amount: int, reason: str, reference: str,
    ) -> Posted:  # fmt: skip
        """Move credits without a proposal, once for each reference.

        Raises:
            NeedsSecondOperator: of a day, the operator's or the account's sum is too large with these.
            InsufficientCredits, InvalidAmount, Conflict: see `Administration`.
        """
        check_operator_allowed(who.operator.role, OperatorAction.MOVE_CREDITS)
        acting = self.administration.acting_as(who.origin(client_address))
        one, now = who.operator, acting.runtime.now()
        async with acting.store.begin() as tx:
            await tx.proposals.lock_mover(one.id)
            done = await self._move(tx, acting, now, account_id, kind, amount, reason, reference)
            if done.is_new and self.above is not None:
                since = now - ALONE_WINDOW
                check_alone(await tx.proposals.moved_alone(one.id, one.email, account_id, since), self.above)
        self._report(acting, done, kind, amount)
        return done

    async def _move(
        self, tx: Transaction, acting: Administration, now: datetime, account_id: UUID, kind: ProposalKind,
        amount: int, reason: str, reference: str,
    ) -> Posted:  # fmt: skip
        match kind:
            case ProposalKind.TOPUP:
                return await acting.top_up_within(tx, now, account_id, amount, reference, reason)
            case ProposalKind.ADJUSTMENT:
                return await acting.adjust_within(tx, now, account_id, amount, reason, reference)
            case ProposalKind.REFUND:
                payment_id = payment_of(reference)
                return await self.refund(tx, acting.runtime, acting.origin, now, payment_id, -amount, reason)

    @staticmethod
    def _report(acting: Administration, done: Posted, kind: ProposalKind, amount: int) -> None:
        if done.is_new:
            count_credits(acting.runtime.metrics, transfers.TransferKind(kind.value), amount)
        if done.due:
            acting.notifier.notify()

    async def list_pending(self, who: SignedInOperator) -> Sequence[ProposalLine]:
        """Proposals that can be decided, the first to expire first."""
        check_operator_allowed(who.operator.role, OperatorAction.APPROVE_CREDITS)
        return await self.queries.list_proposals(self.administration.runtime.now(), MAX_PROPOSALS)

    async def propose(
        self, who: SignedInOperator, client_address: str | None, account_id: UUID, kind: ProposalKind,
        amount: int, reason: str, reference: str,
    ) -> Proposal:  # fmt: skip
        """Propose to move credits, once for each reference.

        Raises:
            InvalidReason, InvalidReference, InvalidAmount: see `Administration`.
            Conflict: the reference belongs to another proposal that is pending, or to one that was approved.
        """
        check_operator_allowed(who.operator.role, OperatorAction.MOVE_CREDITS)
        if kind is ProposalKind.REFUND:
            payment_of(reference)
        else:
            ledger.check_reference(reference)
        ledger.check_reason(reason)
        ledger.check_amount(amount if kind is ProposalKind.TOPUP else abs(amount))
        runtime = self.administration.runtime
        now = runtime.now()
        wanted = Proposal(
            runtime.new_id(now), account_id, kind, amount, reason, reference, who.operator.id,
            who.operator.email, now, now + PROPOSED_FOR,
        )  # fmt: skip
        async with self.administration.store.begin() as tx:
            await tx.lock_account(account_id)
            known = await tx.proposals.find_by_reference(account_id, kind, reference)
            if known is not None and not has_expired(known, now):
                check_same(known, wanted)
                return known
            if known is not None:
                await tx.proposals.mark_replaced(known.id)
            await tx.proposals.add(wanted)
            await record_action(
                tx, runtime, now, who.origin(client_address), "credits.proposed", None, wanted.id,
                account=str(account_id), kind=kind, amount=amount, reason=reason, reference=reference,
            )  # fmt: skip
        return wanted

    async def approve(self, who: SignedInOperator, client_address: str | None, proposal_id: UUID) -> Proposal:
        """Approve a proposal, and move the credits.

        Raises:
            InsufficientCredits, InvalidAmount, Conflict: see `Administration`; the proposal stays pending.
        """
        check_operator_allowed(who.operator.role, OperatorAction.APPROVE_CREDITS)
        acting = self.administration.acting_as(who.origin(client_address))
        now = acting.runtime.now()
        async with acting.store.begin() as tx:
            found = await tx.proposals.load(proposal_id)
            decided = decide_proposal(found, who.operator.id, who.operator.email, now, is_approved=True)
            done = await self._move(
                tx, acting, now, found.account_id, found.kind, found.amount, found.reason, found.reference
            )
            await tx.proposals.save_decision(decided)
            await record_action(
                tx, acting.runtime, now, acting.origin, "credits.proposal_approved", found.account_id,
                proposal_id, amount=found.amount, proposed_by=found.proposer,
            )  # fmt: skip
        self._report(acting, done, found.kind, found.amount)
        return decided

    async def reject(self, who: SignedInOperator, client_address: str | None, proposal_id: UUID) -> Proposal:
        """Reject a proposal; nothing is moved."""
        check_operator_allowed(who.operator.role, OperatorAction.APPROVE_CREDITS)
        runtime = self.administration.runtime
        now = runtime.now()
        async with self.administration.store.begin() as tx:
            found = await tx.proposals.load(proposal_id)
            decided = decide_proposal(found, who.operator.id, who.operator.email, now, is_approved=False)
            await tx.proposals.save_decision(decided)
            await record_action(
                tx, runtime, now, who.origin(client_address), "credits.proposal_rejected", None, proposal_id,
                account=str(found.account_id), amount=found.amount, proposed_by=found.proposer,
            )  # fmt: skip
        return decided
