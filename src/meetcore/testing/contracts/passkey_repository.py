"""Passkeys and their challenges in a store."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.domain.errors import Conflict
from meetcore.domain.members.passkeys import Challenge, ChallengePurpose, Passkey, PasskeyOwner
from meetcore.testing.contracts.member_repository import put_user
from meetcore.testing.contracts.sign_in_repository import put_operator
from meetcore.testing.contracts.store_rig import StoreRig
from meetcore.testing.contracts.transactions import AT, new_id

MINUTE = timedelta(minutes=1)


def _digest() -> bytes:
    return new_id().bytes * 2


def _passkey(owner: PasskeyOwner, **fields: Any) -> Passkey:
    id_ = new_id()
    passkey = Passkey(
        id_, owner.user_id, owner.operator_id, b"credential" + id_.bytes, b"key" + id_.bytes, 7, "Laptop", AT
    )
    return evolve(passkey, **fields)


async def _owners(rig: StoreRig) -> list[PasskeyOwner]:
    """A user and an operator."""
    user, operator = await put_user(rig), await put_operator(rig)
    return [PasskeyOwner(user.id), PasskeyOwner(operator_id=operator.id)]


async def _put(rig: StoreRig, passkey: Passkey) -> Passkey:
    async with rig.store.begin() as tx:
        await tx.passkeys.add(passkey)
    return passkey


async def _find(rig: StoreRig, credential: bytes, *, is_operators: bool = False) -> Passkey | None:
    async with rig.store.begin() as tx:
        return await tx.passkeys.find_for_sign_in(credential, is_operators)


async def _challenge(rig: StoreRig, **fields: Any) -> Challenge:
    challenge = Challenge(_digest(), ChallengePurpose.SIGN_IN, False, _digest(), AT + 5 * MINUTE)
    challenge = evolve(challenge, **fields)
    async with rig.store.begin() as tx:
        await tx.passkeys.add_challenge(challenge)
    return challenge


async def _use(rig: StoreRig, challenge: Challenge, late: timedelta = MINUTE, **fields: Any) -> bool:
    wanted = evolve(challenge, **fields)
    async with rig.store.begin() as tx:
        return await tx.passkeys.use_challenge(
            wanted.digest, wanted.purpose, wanted.is_operators, wanted.holder_digest, AT + late
        )


@pytest.mark.asyncio
class PasskeyRepositoryContract:
    """What `ports.passkeys.PasskeyRepository` and its reads in `ports.member_queries` promise.

    Give it the fixture `rig`, a `StoreRig`.
    """

    async def test_passkeys_are_their_owners_the_oldest_first(self, rig: StoreRig) -> None:
        owners = await _owners(rig)
        passkeys = [await _put(rig, _passkey(owner)) for owner in (*owners, *owners)]
        for number, owner in enumerate(owners):
            own = [passkeys[number], passkeys[number + 2]]
            assert list(await rig.queries.list_passkeys(owner)) == own
            async with rig.store.begin() as tx:
                assert list(await tx.passkeys.load_own(owner)) == own
        assert list(await rig.queries.list_passkeys(PasskeyOwner(new_id()))) == []

    async def test_a_passkey_is_removed_by_its_owner_alone_and_once(self, rig: StoreRig) -> None:
        for owner in await _owners(rig):
            passkey, other = await _put(rig, _passkey(owner)), await _put(rig, _passkey(owner))
            stranger = PasskeyOwner(new_id()) if owner.user_id else PasskeyOwner(operator_id=new_id())

            async def remove(passkey_id: UUID, by: PasskeyOwner) -> Passkey | None:
                async with rig.store.begin() as tx:
                    return await tx.passkeys.remove(by, passkey_id)

            assert await remove(passkey.id, stranger) is None
            assert await remove(new_id(), owner) is None
            assert await remove(passkey.id, owner) == passkey
            assert await remove(passkey.id, owner) is None
            assert list(await rig.queries.list_passkeys(owner)) == [other]

    async def test_a_credential_is_written_once(self, rig: StoreRig) -> None:
        user, operator = await _owners(rig)
        passkey = _passkey(user)
        again = [evolve(_passkey(owner), credential=passkey.credential) for owner in (user, operator)]
        outcomes = await asyncio.gather(
            *(_put(rig, each) for each in (passkey, *again)), return_exceptions=True
        )
        (written,) = [each for each in outcomes if isinstance(each, Passkey)]
        refusals = [each for each in outcomes if isinstance(each, Conflict)]
        assert [each.details for each in refusals] == [{"id": str(written.id)}] * 2

    async def test_a_sign_in_finds_a_passkey_of_its_own_kind(self, rig: StoreRig) -> None:
        owners = await _owners(rig)
        for owner in owners:
            passkey, is_operators = await _put(rig, _passkey(owner)), owner.user_id is None
            assert await _find(rig, passkey.credential, is_operators=is_operators) == passkey
            assert await _find(rig, passkey.credential, is_operators=not is_operators) is None
            assert await _find(rig, b"unknown", is_operators=is_operators) is None
        operators = await _put(rig, _passkey(owners[1]))
        async with rig.store.begin() as tx:
            await tx.operators.remove(owners[1].id, AT)
        assert await _find(rig, operators.credential, is_operators=True) is None

    async def test_a_use_is_written(self, rig: StoreRig) -> None:
        owner, _ = await _owners(rig)
        passkey = await _put(rig, _passkey(owner))
        used = evolve(passkey, sign_count=(1 << 32) - 1, last_used_at=AT + MINUTE)
        async with rig.store.begin() as tx:
            await tx.passkeys.save_use(used)
        assert list(await rig.queries.list_passkeys(owner)) == [used]

    @pytest.mark.parametrize(
        "other",
        [
            {"purpose": ChallengePurpose.REGISTRATION},
            {"is_operators": True},
            {"digest": b"d" * 32},
            {"holder_digest": b"h" * 32},
        ],
    )
    async def test_a_challenge_is_its_purposes_and_its_holders(
        self, rig: StoreRig, other: dict[str, Any]
    ) -> None:
        challenge = await _challenge(rig)
        assert not await _use(rig, challenge, **other)
        assert await _use(rig, challenge)

    async def test_a_challenge_works_once_until_it_expires(self, rig: StoreRig) -> None:
        challenge = await _challenge(rig)
        assert not await _use(rig, challenge, 5 * MINUTE)
        outcomes = await asyncio.gather(*(_use(rig, challenge, 4 * MINUTE) for _ in range(8)))
        assert outcomes.count(True) == 1
        assert not await _use(rig, challenge)

    async def test_what_has_expired_is_purged(self, rig: StoreRig) -> None:
        old, fresh = await _challenge(rig, expires_at=AT - 90 * MINUTE), await _challenge(rig)
        async with rig.store.begin() as tx:
            assert await tx.passkeys.purge_challenges(AT - 80 * MINUTE) >= 1
        assert not await _use(rig, old, -200 * MINUTE)
        assert await _use(rig, fresh)
