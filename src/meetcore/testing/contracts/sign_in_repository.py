"""Links and sessions in a store: a link is used once, a session is found by its token's digest."""

import asyncio
import os
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.members.members import User
from meetcore.domain.members.operators import Operator
from meetcore.domain.members.roles import OperatorRole, Role
from meetcore.domain.members.sessions import OperatorSession, Session
from meetcore.domain.members.sign_in_links import LinkPurpose, SignInLink
from meetcore.domain.members.sign_ups import SignUp
from meetcore.ports.member_queries import SignedIn, SignedInOperator
from meetcore.testing.contracts.member_repository import put_member, put_user, remove_member
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import AT, email_of, new_id, open_account

MINUTE = timedelta(minutes=1)


def _digest() -> bytes:
    return os.urandom(32)


def _link(purpose: LinkPurpose = LinkPurpose.PORTAL, **fields: Any) -> SignInLink:
    return evolve(SignInLink(new_id(), purpose, AT, AT + 10 * MINUTE), **fields)


async def _put_link(rig: StoreRig, **fields: Any) -> bytes:
    """Write a guest's link, unless the fields say otherwise; return its digest."""
    account_id = (await open_account(rig)).account_id
    digest = _digest()
    async with rig.store.begin() as tx:
        await tx.sign_in.add_link(
            evolve(_link(account_id=account_id, guest_role=Role.VIEWER), **fields), digest
        )
    return digest


async def _use(
    rig: StoreRig, digest: bytes, browser: bytes | None = None, *, late: timedelta = timedelta(0)
) -> SignInLink | None:
    async with rig.store.begin() as tx:
        return await tx.sign_in.use_link(digest, browser, False, AT + late)


def _session(account_id: UUID, user_id: UUID | None, **fields: Any) -> Session:
    session = Session(
        id=new_id(), account_id=account_id, user_id=user_id, created_at=AT, last_seen_at=AT,
        authenticated_at=AT, user_agent="Firefox", client_address="192.0.2.1",
        guest_role=Role.DEVELOPER if user_id is None else None,
    )  # fmt: skip
    return evolve(session, **fields)


async def _put_session(rig: StoreRig, session: Session) -> bytes:
    digest = _digest()
    async with rig.store.begin() as tx:
        await tx.sign_in.add_session(session, digest)
    return digest


def _sign_up() -> SignUp:
    id_ = new_id()
    return SignUp(id_, email_of(id_), "Perkumpulan “Émile”", AT, AT + 15 * MINUTE, _digest())


async def put_operator(rig: StoreRig, role: OperatorRole = OperatorRole.SUPPORT) -> Operator:
    """Write an operator."""
    id_ = new_id()
    operator = Operator(id_, email_of(id_), role, AT)
    async with rig.store.begin() as tx:
        await tx.operators.add(operator)
    return operator


@pytest.mark.asyncio
class SignInRepositoryContract:
    """What `ports.sign_in.SignInRepository` and its reads in `ports.member_queries` promise.

    Give it the fixture `rig`, a `StoreRig`.
    """

    async def test_a_link_is_used_once_until_it_expires(self, rig: StoreRig) -> None:
        digest = await _put_link(rig)
        assert await _use(rig, _digest()) is None
        assert await _use(rig, digest, late=10 * MINUTE) is None
        used = await _use(rig, digest, late=9 * MINUTE)
        assert used is not None
        assert (used.guest_role, used.used_at) == (Role.VIEWER, AT + 9 * MINUTE)
        assert await _use(rig, digest) is None

    async def test_of_many_that_use_a_link_at_once_one_gets_it(self, rig: StoreRig) -> None:
        digest = await _put_link(rig)
        outcomes = await asyncio.gather(*(_use(rig, digest) for _ in range(8)))
        assert len([each for each in outcomes if each is not None]) == 1

    async def test_a_link_of_a_browser_works_there_alone(self, rig: StoreRig) -> None:
        browser = _digest()
        digest = await _put_link(rig, browser_digest=browser)
        assert await _use(rig, digest) is None
        assert await _use(rig, digest, _digest()) is None
        assert await _use(rig, digest, browser) is not None

    async def test_a_link_goes_back_with_its_transaction(self, rig: StoreRig) -> None:
        digest = await _put_link(rig)

        async def use_and_fail() -> None:
            async with rig.store.begin() as tx:
                assert await tx.sign_in.use_link(digest, None, False, AT)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await use_and_fail()
        assert await _use(rig, digest) is not None

    async def test_links_of_operators_and_customers_are_apart(self, rig: StoreRig) -> None:
        operator, customers, operators = await put_operator(rig), await _put_link(rig), _digest()
        async with rig.store.begin() as tx:
            link = _link(LinkPurpose.OPERATOR)
            assert await tx.sign_in.add_operator_link(link, operators, operator.email.upper()) == operator
            assert await tx.sign_in.use_link(operators, None, False, AT) is None
            assert await tx.sign_in.use_link(customers, None, True, AT) is None
            used = await tx.sign_in.use_link(operators, None, True, AT)
        assert used == evolve(link, operator_id=operator.id, used_at=AT)

    async def test_an_email_link_is_written_for_a_member_alone(self, rig: StoreRig) -> None:
        account_id = (await open_account(rig)).account_id
        member, nobody = await put_member(rig, account_id), await put_user(rig)

        async def ask(email: str) -> tuple[User | None, SignInLink | None]:
            digest = _digest()
            async with rig.store.begin() as tx:
                found = await tx.sign_in.add_email_link(_link(LinkPurpose.EMAIL), digest, email)
                assert (
                    await tx.sign_in.add_operator_link(_link(LinkPurpose.OPERATOR), _digest(), email) is None
                )
                return found, await tx.sign_in.use_link(digest, None, False, AT)

        user, link = await ask(member.email.upper())
        assert user == member
        assert link is not None
        assert link.user_id == member.id
        assert await ask(nobody.email) == (None, None)
        assert await ask("nobody@example.com") == (None, None)

    async def test_members_and_operators_are_found_by_their_address(self, rig: StoreRig) -> None:
        member = await put_member(rig, (await open_account(rig)).account_id)
        operator, nobody = await put_operator(rig), await put_user(rig)
        async with rig.store.begin() as tx:
            assert await tx.sign_in.find_member(member.email.upper()) == member
            assert await tx.sign_in.find_operator(operator.email.upper()) == operator
            for email in (nobody.email, operator.email, "nobody@example.com"):
                assert await tx.sign_in.find_member(email) is None
            assert await tx.sign_in.find_operator(member.email) is None
            await tx.operators.remove(operator.id, AT)
            assert await tx.sign_in.find_operator(operator.email) is None

    async def test_a_session_is_found_with_account_user_and_present_role(self, rig: StoreRig) -> None:
        account_id = (await open_account(rig, 70)).account_id
        user = await put_member(rig, account_id, Role.FINANCE)
        session = _session(account_id, user.id)
        found = await rig.queries.find_session(await _put_session(rig, session))
        assert found is not None
        assert (found.session, found.user, found.role) == (session, user, Role.FINANCE)
        assert (found.account.id, found.account.balance) == (account_id, 70)
        assert await rig.queries.find_session(_digest()) is None

    async def test_a_guests_session_has_its_own_role(self, rig: StoreRig) -> None:
        account_id = (await open_account(rig)).account_id
        session = _session(account_id, None)
        found = await rig.queries.find_session(await _put_session(rig, session))
        assert isinstance(found, SignedIn)
        assert (found.session, found.user, found.role) == (session, None, Role.DEVELOPER)

    async def test_a_removed_members_session_is_over_for_good(self, rig: StoreRig) -> None:
        account_id = (await open_account(rig)).account_id
        await put_member(rig, account_id)
        user = await put_member(rig, account_id)
        digest = await _put_session(rig, _session(account_id, user.id))
        await remove_member(rig, account_id, user.id)
        assert await rig.queries.find_session(digest) is None
        await put_member(rig, account_id, user=user)
        found = await rig.queries.find_session(digest)
        assert found is not None
        assert found.session.ended_at == AT

    async def test_a_session_is_touched_renewed_and_ended(self, rig: StoreRig) -> None:
        account_id = (await open_account(rig)).account_id
        session = _session(account_id, (await put_member(rig, account_id)).id)
        digest = await _put_session(rig, session)
        late = AT + MINUTE
        async with rig.store.begin() as tx:
            await tx.sign_in.touch_session(session.id, late)
            for at in (AT, late + MINUTE / 2):
                await tx.sign_in.touch_session(session.id, at)
            await tx.sign_in.renew_session(session.id, late)
            ended = evolve(session, last_seen_at=late, authenticated_at=late, ended_at=late)
            assert await tx.sign_in.end_session(session.id, late) == ended
            assert await tx.sign_in.end_session(session.id, AT) is None
            await tx.sign_in.touch_session(session.id, late + MINUTE)
            await tx.sign_in.renew_session(session.id, late + MINUTE)
        found = await rig.queries.find_session(digest)
        assert found is not None
        assert found.session == ended

    async def test_the_sessions_of_a_user_are_listed_and_ended_but_one(self, rig: StoreRig) -> None:
        account_id = (await open_account(rig)).account_id
        user, other = await put_member(rig, account_id), await put_member(rig, account_id)
        sessions = [_session(account_id, user.id) for _ in range(3)]
        for session in (*sessions, _session(account_id, other.id)):
            await _put_session(rig, session)
        assert list(await rig.queries.list_sessions(user.id, 9)) == sessions[::-1]
        assert list(await rig.queries.list_sessions(user.id, 2)) == sessions[:0:-1]
        async with rig.store.begin() as tx:
            assert await tx.sign_in.end_sessions_of(user.id, sessions[1].id, AT) == 2
        assert list(await rig.queries.list_sessions(user.id, 9)) == [sessions[1]]
        whole = await rig.queries.list_account_sessions(account_id, 9, None)
        assert [each.ended_at for each in whole] == [None, AT, None, AT], "ended ones are there, too"
        assert list(await rig.queries.list_account_sessions(account_id, 2, whole[0].id)) == list(whole[1:3])
        async with rig.store.begin() as tx:
            assert await tx.sign_in.end_sessions_of(user.id, None, AT) == 1
        assert len(await rig.queries.list_sessions(other.id, 9)) == 1

    async def test_sessions_of_operators_and_customers_are_apart(self, rig: StoreRig) -> None:
        account_id, operator = (await open_account(rig)).account_id, await put_operator(rig)
        own, digest = _session(account_id, None), _digest()
        customers = await _put_session(rig, own)
        session = OperatorSession(
            id=new_id(), operator_id=operator.id, created_at=AT, last_seen_at=AT, authenticated_at=AT
        )
        async with rig.store.begin() as tx:
            await tx.sign_in.add_operator_session(session, digest)
            await tx.sign_in.touch_session(session.id, AT + MINUTE)
            assert await tx.sign_in.end_session(session.id, AT) is None
            assert await tx.sign_in.end_operator_session(own.id, AT) is None
        assert await rig.queries.find_operator_session(digest) == SignedInOperator(session, operator)
        assert await rig.queries.find_session(digest) is None
        assert await rig.queries.find_operator_session(customers) is None
        async with rig.store.begin() as tx:
            await tx.sign_in.touch_operator_session(session.id, AT + MINUTE)
            ended = evolve(session, last_seen_at=AT + MINUTE, ended_at=AT)
            assert await tx.sign_in.end_operator_session(session.id, AT) == ended
            assert await tx.sign_in.end_operator_session(session.id, AT) is None

    async def test_what_is_long_over_is_purged(self, rig: StoreRig) -> None:
        account_id, operator = (await open_account(rig)).account_id, await put_operator(rig)
        year = timedelta(days=365)
        old, present, link, console = (
            _session(account_id, None),
            _session(account_id, None),
            _digest(),
            _digest(),
        )
        kept = await _put_session(rig, evolve(present, last_seen_at=AT + year))
        gone = await _put_session(rig, evolve(old, last_seen_at=AT - year))
        session = OperatorSession(
            id=new_id(), operator_id=operator.id, created_at=AT, last_seen_at=AT - year, authenticated_at=AT
        )
        stale = _link(account_id=account_id, guest_role=Role.OWNER, expires_at=AT - year)
        async with rig.store.begin() as tx:
            await tx.sign_in.add_operator_session(session, console)
            await tx.sign_in.add_link(stale, link)
            assert await tx.sign_in.purge(AT - year / 2, AT - year / 2) >= 3
        assert await rig.queries.find_session(gone) is None
        assert await rig.queries.find_operator_session(console) is None
        assert await rig.queries.find_session(kept) is not None
        assert await _use(rig, link, late=-2 * year) is None

    async def test_a_sign_up_is_used_once_in_its_browser_until_it_expires(self, rig: StoreRig) -> None:
        sign_up, digest = _sign_up(), _digest()

        async def use(browser: bytes, late: timedelta = timedelta(0)) -> SignUp | None:
            async with rig.store.begin() as tx:
                return await tx.sign_in.use_sign_up(digest, browser, AT + late)

        async with rig.store.begin() as tx:
            assert await tx.sign_in.add_sign_up(sign_up, digest, False)
        assert await use(_digest()) is None
        assert await use(sign_up.browser_digest, 15 * MINUTE) is None
        outcomes = await asyncio.gather(*(use(sign_up.browser_digest, 14 * MINUTE) for _ in range(8)))
        assert [each for each in outcomes if each is not None] == [sign_up]

    async def test_a_sign_up_can_be_kept_to_users(self, rig: StoreRig) -> None:
        user = await put_user(rig)
        async with rig.store.begin() as tx:
            known = evolve(_sign_up(), email=user.email.upper())
            assert await tx.sign_in.add_sign_up(known, _digest(), True)
            digest = _digest()
            assert not await tx.sign_in.add_sign_up(_sign_up(), digest, True)
            assert await tx.sign_in.use_sign_up(digest, _sign_up().browser_digest, AT) is None

    async def test_a_sign_up_that_has_expired_is_purged(self, rig: StoreRig) -> None:
        old, digest = evolve(_sign_up(), expires_at=AT - timedelta(days=365)), _digest()
        async with rig.store.begin() as tx:
            await tx.sign_in.add_sign_up(old, digest, False)
            assert await tx.sign_in.purge(AT - timedelta(days=900), AT - timedelta(days=300)) >= 1
            assert await tx.sign_in.use_sign_up(digest, old.browser_digest, AT - timedelta(days=999)) is None

    @pytest.mark.parametrize("name", ["add_link", "add_session"])
    async def test_a_digest_is_written_once(self, rig: StoreRig, name: str) -> None:
        account_id, digest = (await open_account(rig)).account_id, _digest()

        async def write() -> None:
            async with rig.store.begin() as tx:
                if name == "add_link":
                    await tx.sign_in.add_link(_link(account_id=account_id, guest_role=Role.OWNER), digest)
                else:
                    await tx.sign_in.add_session(_session(account_id, None), digest)

        await write()
        with pytest.raises(rig.refusal):
            await write()
