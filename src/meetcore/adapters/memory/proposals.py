"""Proposals to move credits in memory."""

from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import ConstraintBroken, Tables
from meetcore.domain.errors import NotFound
from meetcore.domain.money.proposals import Proposal, ProposalKind


class MemoryProposalRepository:
    """Proposals, written and decided under the account's lock."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add(self, proposal: Proposal) -> None:
        known = await self.find_by_reference(proposal.account_id, proposal.kind, proposal.reference)
        if known is not None or proposal.id in self._tables.proposals:
            raise ConstraintBroken("the proposal is written already")
        self._tables.proposals[proposal.id] = proposal

    async def find_by_reference(
        self, account_id: UUID, kind: ProposalKind, reference: str
    ) -> Proposal | None:
        wanted = account_id, kind, reference
        holding = [
            one
            for one in self._tables.proposals.values()
            if (one.account_id, one.kind, one.reference) == wanted
            and one.is_approved is not False
            and not one.is_replaced
        ]
        return holding[0] if holding else None

    async def load(self, proposal_id: UUID) -> Proposal:
        if proposal_id not in self._tables.proposals:
            raise NotFound("No proposal with this id.")
        return self._tables.proposals[proposal_id]

    async def save_decision(self, proposal: Proposal) -> None:
        self._tables.proposals[proposal.id] = proposal

    async def mark_replaced(self, proposal_id: UUID) -> None:
        self._tables.proposals[proposal_id] = evolve(self._tables.proposals[proposal_id], is_replaced=True)
