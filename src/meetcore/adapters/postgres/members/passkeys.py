"""Passkeys and challenges in PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import asdict

from meetcore.adapters.postgres.members.rows import CHALLENGE, PASSKEY
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.errors import Conflict
from meetcore.domain.members.passkeys import Challenge, ChallengePurpose, Passkey, PasskeyOwner

# Writes a challenge.
_ADD_CHALLENGE = f"INSERT INTO passkey_challenges ({CHALLENGE.names}) VALUES ({CHALLENGE.values})"

# Uses a challenge up: of several at once one finds it.
_USE_CHALLENGE = """
DELETE FROM passkey_challenges
WHERE digest = %(digest)s AND purpose = %(purpose)s AND is_operators = %(is_operators)s
    AND holder_digest = %(holder_digest)s AND expires_at > %(at)s
"""

# Lets one transaction at a time change the passkeys of a user.
_LOCK_USER = "SELECT id FROM users WHERE id = %(user_id)s FOR NO KEY UPDATE"

# The same of an operator.
_LOCK_OPERATOR = "SELECT id FROM operators WHERE id = %(operator_id)s FOR NO KEY UPDATE"

# The passkeys of a user or of an operator, the oldest first.
LIST_OWN = f"""
SELECT {PASSKEY.select} FROM passkeys p
WHERE p.user_id = %(user_id)s OR p.operator_id = %(operator_id)s ORDER BY p.id
"""

# Writes a passkey, unless its credential is there.
_ADD = f"INSERT INTO passkeys ({PASSKEY.names}) VALUES ({PASSKEY.values}) ON CONFLICT (credential) DO NOTHING"

# The passkey of a credential.
_FIND = "SELECT id FROM passkeys WHERE credential = %(passkey_credential)s"

# The passkey of a credential, locked; not one of an operator who was removed.
_FIND_FOR_SIGN_IN = f"""
SELECT {PASSKEY.select} FROM passkeys p LEFT JOIN operators o ON o.id = p.operator_id
WHERE p.credential = %(credential)s AND (p.operator_id IS NOT NULL) = %(is_operators)s
    AND o.removed_at IS NULL
FOR NO KEY UPDATE OF p
"""

# Writes that a passkey was used.
_SAVE_USE = """
UPDATE passkeys SET sign_count = %(passkey_sign_count)s, last_used_at = %(passkey_last_used_at)s
WHERE id = %(passkey_id)s
"""

# Deletes a passkey of its owner.
_REMOVE = f"""
DELETE FROM passkeys p WHERE p.id = %(id)s AND (p.user_id = %(user_id)s OR p.operator_id = %(operator_id)s)
RETURNING {PASSKEY.select}
"""

# Deletes a portion of the challenges that have expired.
_PURGE_CHALLENGES = """
DELETE FROM passkey_challenges WHERE ctid IN (
    SELECT ctid FROM passkey_challenges WHERE expires_at < %(expired_before)s ORDER BY expires_at LIMIT 1000)
"""


class PostgresPasskeyRepository(Repository):
    """Passkeys of users and of operators, and the challenges that they answer."""

    async def add_challenge(self, challenge: Challenge) -> None:
        await self._connection.execute(_ADD_CHALLENGE, CHALLENGE.parameters(challenge))

    async def use_challenge(
        self, digest: bytes, purpose: ChallengePurpose, is_operators: bool, holder_digest: bytes, at: datetime
    ) -> bool:
        parameters = {
            "digest": digest, "purpose": purpose.value, "is_operators": is_operators,
            "holder_digest": holder_digest, "at": at,
        }  # fmt: skip
        return await self._changed(_USE_CHALLENGE, parameters)

    async def load_own(self, owner: PasskeyOwner) -> Sequence[Passkey]:
        lock = _LOCK_OPERATOR if owner.user_id is None else _LOCK_USER
        await self._connection.execute(lock, asdict(owner))
        return [PASSKEY.read(row) for row in await self._all(LIST_OWN, asdict(owner))]

    async def add(self, passkey: Passkey) -> None:
        parameters = PASSKEY.parameters(passkey)
        if await self._changed(_ADD, parameters):
            return
        known = await self._one(_FIND, parameters)
        raise Conflict("This passkey is registered already.", known["id"] if known else passkey.id)

    async def find_for_sign_in(self, credential: bytes, is_operators: bool) -> Passkey | None:
        parameters = {"credential": credential, "is_operators": is_operators}
        row = await self._one(_FIND_FOR_SIGN_IN, parameters)
        return None if row is None else PASSKEY.read(row)

    async def save_use(self, passkey: Passkey) -> None:
        await self._connection.execute(_SAVE_USE, PASSKEY.parameters(passkey))

    async def remove(self, owner: PasskeyOwner, passkey_id: UUID) -> Passkey | None:
        row = await self._one(_REMOVE, asdict(owner) | {"id": passkey_id})
        return None if row is None else PASSKEY.read(row)

    async def purge_challenges(self, expired_before: datetime) -> int:
        parameters = {"expired_before": expired_before}
        return (await self._connection.execute(_PURGE_CHALLENGES, parameters)).rowcount
