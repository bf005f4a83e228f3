"""Passkeys and challenges in memory."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.memory.state import ConstraintBroken, Tables
from meetcore.domain.errors import Conflict
from meetcore.domain.members.passkeys import Challenge, ChallengePurpose, Passkey, PasskeyOwner


class MemoryPasskeyRepository:
    """Passkeys of users and of operators, and the challenges that they answer."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add_challenge(self, challenge: Challenge) -> None:
        if challenge.digest in self._tables.passkey_challenges:
            raise ConstraintBroken("the challenge is written already")
        self._tables.passkey_challenges[challenge.digest] = challenge

    async def use_challenge(
        self, digest: bytes, purpose: ChallengePurpose, is_operators: bool, holder_digest: bytes, at: datetime
    ) -> bool:
        found = self._tables.passkey_challenges.get(digest)
        wanted = purpose, is_operators, holder_digest
        if found is None or found.expires_at <= at:
            return False
        if (found.purpose, found.is_operators, found.holder_digest) != wanted:
            return False
        del self._tables.passkey_challenges[digest]
        return True

    async def load_own(self, owner: PasskeyOwner) -> Sequence[Passkey]:
        return passkeys_of(self._tables, owner)

    async def add(self, passkey: Passkey) -> None:
        for known in self._tables.passkeys.values():
            if known.credential == passkey.credential:
                raise Conflict("This passkey is registered already.", known.id)
        self._tables.passkeys[passkey.id] = passkey

    async def find_for_sign_in(self, credential: bytes, is_operators: bool) -> Passkey | None:
        for passkey in self._tables.passkeys.values():
            operator_id = passkey.operator_id
            if passkey.credential == credential and (operator_id is not None) == is_operators:
                is_removed = operator_id and self._tables.operators[operator_id].removed_at
                return None if is_removed else passkey
        return None

    async def save_use(self, passkey: Passkey) -> None:
        self._tables.passkeys[passkey.id] = passkey

    async def remove(self, owner: PasskeyOwner, passkey_id: UUID) -> Passkey | None:
        found = self._tables.passkeys.get(passkey_id)
        if found is None or found.owner != owner:
            return None
        return self._tables.passkeys.pop(passkey_id)

    async def purge_challenges(self, expired_before: datetime) -> int:
        tables = self._tables
        old = [key for key, one in tables.passkey_challenges.items() if one.expires_at < expired_before]
        for key in old:
            del tables.passkey_challenges[key]
        return len(old)


def passkeys_of(tables: Tables, owner: PasskeyOwner) -> list[Passkey]:
    """The passkeys of an owner, the oldest first."""
    found = [one for one in tables.passkeys.values() if one.owner == owner]
    return sorted(found, key=lambda one: one.id)
