"""Operators and the tokens of their programs in a store."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.members.operator_tokens import OperatorToken
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.members.sessions import OperatorSession, Session
from meetcore.testing.contracts.sign_in_repository import put_operator
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import AT, email_of, new_id, open_account

DAY = timedelta(days=1)


async def _remove(rig: StoreRig, operator_id: UUID, late: timedelta = timedelta(0)) -> Operator:
    async with rig.store.begin() as tx:
        return await tx.operators.remove(operator_id, AT + late)


@pytest.mark.asyncio
class OperatorRepositoryContract:
    """What `ports.operators.OperatorRepository` and its reads in `ports.member_queries` promise.

    Give it the fixture `rig`, a `StoreRig`.
    """

    async def test_operators_are_listed_until_they_are_removed(self, rig: StoreRig) -> None:
        operators = [await put_operator(rig, role) for role in OperatorRole]
        listed = await rig.queries.list_operators()
        assert [each for each in listed if each in operators] == operators
        removed = evolve(operators[0], removed_at=AT)
        assert await _remove(rig, operators[0].id) == removed
        assert await _remove(rig, operators[0].id, DAY) == removed
        assert operators[0].id not in {each.id for each in await rig.queries.list_operators()}
        with pytest.raises(NotFound):
            await _remove(rig, new_id())

    async def test_an_address_is_one_operators_until_they_are_removed(self, rig: StoreRig) -> None:
        email = email_of(new_id())

        async def add(spelling: str) -> Operator:
            operator = Operator(new_id(), spelling, OperatorRole.ADMIN, AT)
            async with rig.store.begin() as tx:
                await tx.operators.add(operator)
            return operator

        outcomes = await asyncio.gather(*(add(email) for _ in range(5)), return_exceptions=True)
        assert [type(each) for each in outcomes].count(Conflict) == 4
        (operator,) = (each for each in outcomes if isinstance(each, Operator))
        with pytest.raises(Conflict) as caught:
            await add(email.upper())
        assert caught.value.details == {"id": str(operator.id)}
        await _remove(rig, operator.id)
        assert (await add(email.upper())).email == email.upper()

    async def test_a_removed_operators_sessions_are_over(self, rig: StoreRig) -> None:
        operator = await put_operator(rig)
        session = OperatorSession(
            id=new_id(), operator_id=operator.id, created_at=AT, last_seen_at=AT, authenticated_at=AT
        )
        async with rig.store.begin() as tx:
            await tx.sign_in.add_operator_session(session, operator.id.bytes * 2)
        await _remove(rig, operator.id)
        assert await rig.queries.find_operator_session(operator.id.bytes * 2) is None
        async with rig.store.begin() as tx:
            assert await tx.sign_in.end_operator_session(session.id, AT) is None

    async def test_a_token_is_found_by_its_digest_until_it_is_revoked_and_after(self, rig: StoreRig) -> None:
        tokens = [OperatorToken(new_id(), "backend", role, "abcd", AT, AT + DAY) for role in OperatorRole]
        for token in tokens:
            async with rig.store.begin() as tx:
                await tx.operators.add_token(token, token.id.bytes * 2)
        assert [each for each in await rig.queries.list_operator_tokens() if each in tokens] == tokens
        for token in tokens:
            assert await rig.queries.find_operator_token(token.id.bytes * 2) == token
        assert await rig.queries.find_operator_token(new_id().bytes * 2) is None
        revoked = evolve(tokens[0], revoked_at=AT + DAY)
        for late in (DAY, 2 * DAY):
            async with rig.store.begin() as tx:
                assert await tx.operators.revoke_token(tokens[0].id, AT + late) == revoked
        assert await rig.queries.find_operator_token(tokens[0].id.bytes * 2) == revoked
        async with rig.store.begin() as tx:
            with pytest.raises(NotFound):
                await tx.operators.revoke_token(new_id(), AT)

    async def test_a_digest_is_one_tokens(self, rig: StoreRig) -> None:
        digest = new_id().bytes * 2
        for is_first in (True, False):
            token = OperatorToken(new_id(), "backend", OperatorRole.SUPPORT, "abcd", AT, AT + DAY)
            if is_first:
                async with rig.store.begin() as tx:
                    await tx.operators.add_token(token, digest)
            else:
                with pytest.raises(rig.refusal):
                    async with rig.store.begin() as tx:
                        await tx.operators.add_token(token, digest)

    async def test_a_removed_operators_views_of_accounts_are_over(self, rig: StoreRig) -> None:
        operator, account_id = await put_operator(rig), (await open_account(rig)).account_id
        view = Session(
            id=new_id(), account_id=account_id, user_id=None, guest_role=Role.VIEWER, created_at=AT,
            last_seen_at=AT, authenticated_at=AT, impersonated_by=operator.id,
        )  # fmt: skip
        async with rig.store.begin() as tx:
            await tx.sign_in.add_session(view, operator.id.bytes * 2)
        found = await rig.queries.find_session(operator.id.bytes * 2)
        assert found is not None
        assert found.session == view
        await _remove(rig, operator.id)
        found = await rig.queries.find_session(operator.id.bytes * 2)
        assert found is not None
        assert found.session == evolve(view, ended_at=AT)
