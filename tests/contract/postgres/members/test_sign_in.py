"""Sign-in: links, sessions, sign-ups, passkeys and their challenges."""

import asyncio
import os
from datetime import timedelta
from typing import Any
from uuid import UUID

from attrs import evolve

from meetcore.domain.errors import Conflict
from meetcore.domain.members.passkeys import Challenge, ChallengePurpose, Passkey, PasskeyOwner
from meetcore.domain.members.roles import Role
from meetcore.domain.members.sessions import Session
from meetcore.domain.members.sign_in import SignUp
from tests.support.postgres_rig import PostgresRig
from tests.support.records import put_member, put_operator, put_user, remove_member
from tests.support.transactions import AT, email_of, new_id, open_account

MINUTE = timedelta(minutes=1)


def _digest() -> bytes:
    return os.urandom(32)


def _session(account_id: UUID, user_id: UUID | None, **fields: Any) -> Session:
    session = Session(
        id=new_id(), account_id=account_id, user_id=user_id, created_at=AT, last_seen_at=AT,
        authenticated_at=AT, user_agent="Firefox", client_address="192.0.2.1",
        guest_role=Role.DEVELOPER if user_id is None else None,
    )  # fmt: skip
    return evolve(session, **fields)


async def _put_session(rig: PostgresRig, session: Session) -> bytes:
    digest = _digest()
    await rig.alone.sign_in.add_session(session, digest)
    return digest


def _sign_up() -> SignUp:
    id_ = new_id()
    return SignUp(id_, email_of(id_), "Perkumpulan “Émile”", AT, AT + 15 * MINUTE, _digest())


async def test_members_and_operators_are_found_by_their_address(rig: PostgresRig) -> None:
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


async def test_a_removed_members_session_is_over_for_good(rig: PostgresRig) -> None:
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


async def test_a_session_is_touched_and_ended(rig: PostgresRig) -> None:
    account_id = (await open_account(rig)).account_id
    session = _session(account_id, (await put_member(rig, account_id)).id)
    digest = await _put_session(rig, session)
    late = AT + MINUTE
    async with rig.store.begin() as tx:
        await tx.sign_in.touch_session(session.id, late)
        for at in (AT, late + MINUTE / 2):
            await tx.sign_in.touch_session(session.id, at)
        ended = evolve(session, last_seen_at=late, ended_at=late)
        assert await tx.sign_in.end_session(session.id, late) == ended
        assert await tx.sign_in.end_session(session.id, AT) is None
        await tx.sign_in.touch_session(session.id, late + MINUTE)
    found = await rig.queries.find_session(digest)
    assert found is not None
    assert found.session == ended


async def test_a_sign_up_is_used_once_in_its_browser_until_it_expires(rig: PostgresRig) -> None:
    sign_up, digest = _sign_up(), _digest()

    async def use(browser: bytes, late: timedelta = timedelta(0)) -> SignUp | None:
        return await rig.alone.sign_in.use_sign_up(digest, browser, AT + late)

    assert await rig.alone.sign_in.add_sign_up(sign_up, digest, False)
    assert await use(_digest()) is None
    assert await use(sign_up.browser_digest, 15 * MINUTE) is None
    outcomes = await asyncio.gather(*(use(sign_up.browser_digest, 14 * MINUTE) for _ in range(8)))
    assert [each for each in outcomes if each is not None] == [sign_up]


async def test_a_sign_up_for_members_alone_is_refused_to_one_who_was_removed(rig: PostgresRig) -> None:
    account_id = (await open_account(rig)).account_id
    user = await put_member(rig, account_id, Role.VIEWER)

    async def add() -> bool:
        sign_up = evolve(_sign_up(), email=user.email.upper())
        return await rig.alone.sign_in.add_sign_up(sign_up, _digest(), True)

    assert await add()
    await remove_member(rig, account_id, user.id)
    assert not await add()


async def test_a_sign_up_that_has_expired_is_purged(rig: PostgresRig) -> None:
    old, digest = evolve(_sign_up(), expires_at=AT - timedelta(days=365)), _digest()
    async with rig.store.begin() as tx:
        await tx.sign_in.add_sign_up(old, digest, False)
        assert await tx.sign_in.purge(AT - timedelta(days=900), AT - timedelta(days=300)) >= 1
        assert await tx.sign_in.use_sign_up(digest, old.browser_digest, AT - timedelta(days=999)) is None


def _passkey(owner: PasskeyOwner, **fields: Any) -> Passkey:
    id_ = new_id()
    passkey = Passkey(
        id_, owner.user_id, owner.operator_id, b"credential" + id_.bytes, b"key" + id_.bytes, 7, "Laptop", AT
    )
    return evolve(passkey, **fields)


async def _owners(rig: PostgresRig) -> list[PasskeyOwner]:
    """A user and an operator."""
    user, operator = await put_user(rig), await put_operator(rig)
    return [PasskeyOwner(user.id), PasskeyOwner(operator_id=operator.id)]


async def _put(rig: PostgresRig, passkey: Passkey) -> Passkey:
    await rig.alone.passkeys.add(passkey)
    return passkey


async def _challenge(rig: PostgresRig, **fields: Any) -> Challenge:
    challenge = Challenge(_digest(), ChallengePurpose.SIGN_IN, False, _digest(), AT + 5 * MINUTE)
    challenge = evolve(challenge, **fields)
    await rig.alone.passkeys.add_challenge(challenge)
    return challenge


async def _use_challenge(
    rig: PostgresRig, challenge: Challenge, late: timedelta = MINUTE, **fields: Any
) -> bool:
    wanted = evolve(challenge, **fields)
    return await rig.alone.passkeys.use_challenge(
        wanted.digest, wanted.purpose, wanted.is_operators, wanted.holder_digest, AT + late
    )


async def test_passkeys_are_their_owners_the_oldest_first(rig: PostgresRig) -> None:
    owners = await _owners(rig)
    passkeys = [await _put(rig, _passkey(owner)) for owner in (*owners, *owners)]
    for number, owner in enumerate(owners):
        own = [passkeys[number], passkeys[number + 2]]
        assert list(await rig.queries.list_passkeys(owner)) == own
        assert list(await rig.alone.passkeys.load_own(owner)) == own
    assert list(await rig.queries.list_passkeys(PasskeyOwner(new_id()))) == []


async def test_a_passkey_is_removed_by_its_owner_alone_and_once(rig: PostgresRig) -> None:
    for owner in await _owners(rig):
        passkey, other = await _put(rig, _passkey(owner)), await _put(rig, _passkey(owner))
        stranger = PasskeyOwner(new_id()) if owner.user_id else PasskeyOwner(operator_id=new_id())

        async def remove(passkey_id: UUID, by: PasskeyOwner) -> Passkey | None:
            return await rig.alone.passkeys.remove(by, passkey_id)

        assert await remove(passkey.id, stranger) is None
        assert await remove(new_id(), owner) is None
        assert await remove(passkey.id, owner) == passkey
        assert await remove(passkey.id, owner) is None
        assert list(await rig.queries.list_passkeys(owner)) == [other]


async def test_a_credential_is_written_once(rig: PostgresRig) -> None:
    user, operator = await _owners(rig)
    passkey = _passkey(user)
    again = [evolve(_passkey(owner), credential=passkey.credential) for owner in (user, operator)]
    outcomes = await asyncio.gather(*(_put(rig, each) for each in (passkey, *again)), return_exceptions=True)
    (written,) = [each for each in outcomes if isinstance(each, Passkey)]
    refusals = [each for each in outcomes if isinstance(each, Conflict)]
    assert [each.details for each in refusals] == [{"id": str(written.id)}] * 2


async def test_a_challenge_works_once_until_it_expires(rig: PostgresRig) -> None:
    challenge = await _challenge(rig)
    assert not await _use_challenge(rig, challenge, 5 * MINUTE)
    outcomes = await asyncio.gather(*(_use_challenge(rig, challenge, 4 * MINUTE) for _ in range(8)))
    assert outcomes.count(True) == 1
    assert not await _use_challenge(rig, challenge)


async def test_what_has_expired_is_purged(rig: PostgresRig) -> None:
    old, fresh = await _challenge(rig, expires_at=AT - 90 * MINUTE), await _challenge(rig)
    assert await rig.alone.passkeys.purge_challenges(AT - 80 * MINUTE) >= 1
    assert not await _use_challenge(rig, old, -200 * MINUTE)
    assert await _use_challenge(rig, fresh)


async def _find(rig: PostgresRig, credential: bytes, *, is_operators: bool = False) -> Passkey | None:
    return await rig.alone.passkeys.find_for_sign_in(credential, is_operators)


async def test_a_sign_in_finds_a_passkey_of_its_own_kind(rig: PostgresRig) -> None:
    owners = await _owners(rig)
    for owner in owners:
        passkey, is_operators = await _put(rig, _passkey(owner)), owner.user_id is None
        assert await _find(rig, passkey.credential, is_operators=is_operators) == passkey
        assert await _find(rig, passkey.credential, is_operators=not is_operators) is None
        assert await _find(rig, b"unknown", is_operators=is_operators) is None
    operators = await _put(rig, _passkey(owners[1]))
    await rig.alone.operators.remove(owners[1].id, AT)
    assert await _find(rig, operators.credential, is_operators=True) is None


async def test_a_use_is_written(rig: PostgresRig) -> None:
    owner, _ = await _owners(rig)
    passkey = await _put(rig, _passkey(owner))
    used = evolve(passkey, sign_count=(1 << 32) - 1, last_used_at=AT + MINUTE)
    await rig.alone.passkeys.save_use(used)
    assert list(await rig.queries.list_passkeys(owner)) == [used]
