"""Proposals to move credits, as a transaction sees them."""

from typing import Protocol
from uuid import UUID

from meetcore.domain.money.proposals import Proposal, ProposalKind

__all__ = ["ProposalRepository"]


class ProposalRepository(Protocol):
    """Proposals, written and decided under the account's lock."""

    async def add(self, proposal: Proposal) -> None:
        """Write a proposal; the caller has looked for its reference and replaced an expired one."""

    async def find_by_reference(
        self, account_id: UUID, kind: ProposalKind, reference: str
    ) -> Proposal | None:
        """The proposal that holds a reference: neither rejected nor replaced."""

    async def load(self, proposal_id: UUID) -> Proposal:
        """Take the lock of a proposal's account and read the proposal.

        Raises:
            NotFound: no such proposal.
        """

    async def save_decision(self, proposal: Proposal) -> None:
        """Write who decided, when and how."""

    async def mark_replaced(self, proposal_id: UUID) -> None:
        """Take its reference from an expired proposal."""
