"""Credits above a limit: one operator proposes to move them, another one approves or rejects.

The approval, the entry in the ledger and both audit entries are one transaction under the account's lock, so
that of many approvals at once one books, and books once.
"""

from collections.abc import Sequence
from uuid import UUID

from attrs import frozen

from meetcore.domain.members.roles import OperatorAction, check_operator_allowed
from meetcore.domain.money.ledger import adjustment_about, check_amount, check_reason, check_reference
from meetcore.domain.money.proposals import (
    PROPOSED_FOR,
    Proposal,
    ProposalKind,
    check_same,
    decide_proposal,
    has_expired,
    needs_second_operator,
)
from meetcore.domain.money.transfers import TransferKind
from meetcore.ports.console_queries import ConsoleQueries, ProposalLine
from meetcore.ports.member_queries import SignedInOperator
from meetcore.usecases.administration import Administration
from meetcore.usecases.audit import record_action
from meetcore.usecases.move_credits import Adjusted, ToppedUp

MAX_PROPOSALS = 100


@frozen
class Proposals:
    """The use cases of proposals. Each raises `ActionNotAllowed` where the role does not allow it.

    Credits of more than `above`, given or taken, are moved by two operators; `None` lets one move any.
    """

    administration: Administration
    queries: ConsoleQueries
    above: int | None = None

    def needs_two(self, amount: int) -> bool:
        """Whether so many credits are moved by two operators only."""
        return needs_second_operator(amount, self.above)

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
            NotFound: no such account.
            Conflict: the reference belongs to another proposal that is pending, or to one that was approved.
        """
        check_operator_allowed(who.operator.role, OperatorAction.MOVE_CREDITS)
        check_reference(reference)
        check_reason(reason)
        if kind is ProposalKind.ADJUSTMENT:
            adjustment_about(reason)
        check_amount(abs(amount) if kind is ProposalKind.ADJUSTMENT else amount)
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
            NotFound, Conflict, Gone, Unprocessable: see `decide_proposal`.
            InsufficientCredits, InvalidAmount, Conflict: see `Administration`; the proposal stays pending.
        """
        check_operator_allowed(who.operator.role, OperatorAction.APPROVE_CREDITS)
        acting = self.administration.acting_as(who.origin(client_address))
        now = acting.runtime.now()
        async with acting.store.begin() as tx:
            found = await tx.proposals.load(proposal_id)
            decided = decide_proposal(found, who.operator.id, who.operator.email, now, is_approved=True)
            named = (found.account_id, found.amount)
            done: ToppedUp | Adjusted
            if found.kind is ProposalKind.TOPUP:
                done, due = await acting.top_up_within(tx, now, *named, found.reference, found.reason)
            else:
                done, due = await acting.adjust_within(tx, now, *named, found.reason, found.reference)
            await tx.proposals.save_decision(decided)
            await record_action(
                tx, acting.runtime, now, acting.origin, "credits.proposal_approved", found.account_id,
                proposal_id, amount=found.amount, proposed_by=found.proposer,
            )  # fmt: skip
        if done.is_new:
            acting.runtime.metrics.credits_moved(TransferKind(found.kind.value), found.amount)
        if due:
            acting.notifier.notify()
        return decided

    async def reject(self, who: SignedInOperator, client_address: str | None, proposal_id: UUID) -> Proposal:
        """Reject a proposal; nothing is moved.

        Raises:
            NotFound, Conflict, Gone, Unprocessable: see `decide_proposal`.
        """
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
