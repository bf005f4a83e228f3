"""Proposals to move credits in PostgreSQL."""

from uuid import UUID

from meetcore.adapters.postgres.columns import Columns
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.errors import NotFound
from meetcore.domain.money.proposals import Proposal, ProposalKind

PROPOSAL = Columns(Proposal, "p", "proposal_")

# Writes a proposal.
_ADD = f"INSERT INTO credit_proposals ({PROPOSAL.names}) VALUES ({PROPOSAL.values})"

# The proposal that holds a reference. Both conditions are those of the unique index.
_FIND_BY_REFERENCE = f"""
SELECT {PROPOSAL.select} FROM credit_proposals p
WHERE p.account_id = %(account_id)s AND p.kind = %(kind)s AND p.reference = %(reference)s
    AND p.is_approved IS NOT FALSE AND NOT p.is_replaced
"""

# Takes the lock of a proposal's account and raises the version, so that waiting readers read again.
_LOCK_ACCOUNT = """
UPDATE accounts a SET version = a.version + 1 FROM credit_proposals p WHERE p.id = %(id)s AND a.id = p.account_id
"""

# One proposal. Its account is locked by now.
_LOAD = f"SELECT {PROPOSAL.select} FROM credit_proposals p WHERE p.id = %(id)s"

# Writes a decision.
_SAVE_DECISION = """
UPDATE credit_proposals SET is_approved = %(proposal_is_approved)s, decided_by = %(proposal_decided_by)s,
    decider = %(proposal_decider)s, decided_at = %(proposal_decided_at)s
WHERE id = %(proposal_id)s
"""

# Takes its reference from a proposal that has expired.
_MARK_REPLACED = "UPDATE credit_proposals SET is_replaced = true WHERE id = %(id)s"


class PostgresProposalRepository(Repository):
    """Proposals, written and decided under the account's lock."""

    async def add(self, proposal: Proposal) -> None:
        await self._connection.execute(_ADD, PROPOSAL.parameters(proposal))

    async def find_by_reference(
        self, account_id: UUID, kind: ProposalKind, reference: str
    ) -> Proposal | None:
        named = {"account_id": account_id, "kind": kind.value, "reference": reference}
        row = await self._one(_FIND_BY_REFERENCE, named)
        return None if row is None else PROPOSAL.read(row)

    async def load(self, proposal_id: UUID) -> Proposal:
        await self._connection.execute(_LOCK_ACCOUNT, {"id": proposal_id})
        row = await self._one(_LOAD, {"id": proposal_id})
        if row is None:
            raise NotFound("No proposal with this id.")
        return PROPOSAL.read(row)

    async def save_decision(self, proposal: Proposal) -> None:
        await self._connection.execute(_SAVE_DECISION, PROPOSAL.parameters(proposal))

    async def mark_replaced(self, proposal_id: UUID) -> None:
        await self._connection.execute(_MARK_REPLACED, {"id": proposal_id})
