"""Proposals to move credits in a store."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import NotFound
from meetcore.domain.money.proposals import Proposal, ProposalKind
from meetcore.testing.contracts.sign_in_repository import put_operator
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import AT, new_id, open_account

DAY = timedelta(days=1)


async def _proposed(rig: StoreRig, account_id: UUID, **fields: Any) -> Proposal:
    operator = await put_operator(rig)
    proposal = Proposal(
        new_id(), account_id, ProposalKind.TOPUP, 5000, "paid", "INV-7", operator.id, operator.email, AT,
        AT + DAY,
    )  # fmt: skip
    proposal = evolve(proposal, **fields)
    async with rig.store.begin() as tx:
        await tx.proposals.add(proposal)
    return proposal


@pytest.mark.asyncio
class ProposalRepositoryContract:
    """What `ports.proposals.ProposalRepository` and its read in `ports.console_queries` promise.

    Give it the fixture `rig`, a `StoreRig`.
    """

    async def test_a_proposal_is_found_by_its_reference_and_its_id(self, rig: StoreRig) -> None:
        account_id, other_id = [(await open_account(rig)).account_id for _ in range(2)]
        proposal = await _proposed(rig, account_id)
        async with rig.store.begin() as tx:
            find = tx.proposals.find_by_reference
            assert await find(account_id, ProposalKind.TOPUP, "INV-7") == proposal
            assert await find(account_id, ProposalKind.ADJUSTMENT, "INV-7") is None
            assert await find(other_id, ProposalKind.TOPUP, "INV-7") is None
            assert await find(account_id, ProposalKind.TOPUP, "INV-8") is None
            assert await tx.proposals.load(proposal.id) == proposal
            with pytest.raises(NotFound):
                await tx.proposals.load(new_id())

    async def test_a_reference_is_written_once(self, rig: StoreRig) -> None:
        account_id = (await open_account(rig)).account_id
        await _proposed(rig, account_id)
        await _proposed(rig, account_id, kind=ProposalKind.ADJUSTMENT, amount=-5)
        with pytest.raises(rig.refusal):
            await _proposed(rig, account_id)

    async def test_a_rejected_or_replaced_proposal_gives_its_reference_back(self, rig: StoreRig) -> None:
        account_id = (await open_account(rig)).account_id
        operator = await put_operator(rig)
        decision: dict[str, Any] = {"decided_by": operator.id, "decider": operator.email, "decided_at": AT}
        rejected = await _proposed(rig, account_id)
        async with rig.store.begin() as tx:
            await tx.proposals.save_decision(evolve(rejected, is_approved=False, **decision))
            assert await tx.proposals.find_by_reference(account_id, ProposalKind.TOPUP, "INV-7") is None
        expired = await _proposed(rig, account_id)
        async with rig.store.begin() as tx:
            await tx.proposals.mark_replaced(expired.id)
            assert await tx.proposals.find_by_reference(account_id, ProposalKind.TOPUP, "INV-7") is None
            assert await tx.proposals.load(expired.id) == evolve(expired, is_replaced=True)
        approved = evolve(await _proposed(rig, account_id), is_approved=True, **decision)
        async with rig.store.begin() as tx:
            await tx.proposals.save_decision(approved)
            found = await tx.proposals.find_by_reference(account_id, ProposalKind.TOPUP, "INV-7")
            assert found == approved
        with pytest.raises(rig.refusal):
            await _proposed(rig, account_id)
        pending = await rig.queries.list_proposals(AT, 999)
        assert account_id not in [each.proposal.account_id for each in pending]

    async def test_proposals_are_listed_until_they_are_decided_or_expire(self, rig: StoreRig) -> None:
        account_id = (await open_account(rig)).account_id
        late = await _proposed(rig, account_id, expires_at=AT + 2 * DAY, reference="late")
        early = await _proposed(rig, account_id, reference="early")

        async def listed(days: int) -> list[Proposal]:
            found = await rig.queries.list_proposals(AT + days * DAY, 999)
            return [each.proposal for each in found if each.account_name and each.proposal in (late, early)]

        assert await listed(0) == [early, late]
        assert await listed(1) == [late]
        assert await listed(2) == []
        operator = await put_operator(rig)
        decided = evolve(
            early, is_approved=False, decided_by=operator.id, decider=operator.email, decided_at=AT
        )
        async with rig.store.begin() as tx:
            await tx.proposals.save_decision(decided)
            assert await tx.proposals.load(early.id) == decided
        assert await listed(0) == [late]
