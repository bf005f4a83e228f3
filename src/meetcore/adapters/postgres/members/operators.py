"""Operators in PostgreSQL."""

from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.members.rows import OPERATOR, OPERATOR_TOKEN
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.members.operator_tokens import OperatorToken
from meetcore.domain.members.operators import Operator

# Writes an operator, unless the address has one.
_ADD = f"""
INSERT INTO operators ({OPERATOR.names}) VALUES ({OPERATOR.values})
ON CONFLICT (lower(email)) WHERE removed_at IS NULL DO NOTHING
"""

# The operator of an e-mail address.
_FIND = "SELECT id FROM operators WHERE lower(email) = lower(%(operator_email)s) AND removed_at IS NULL"

# Removes an operator and ends the sessions; a second call keeps the first time.
_REMOVE = f"""
WITH ended AS (
    UPDATE operator_sessions SET ended_at = %(at)s WHERE operator_id = %(id)s AND ended_at IS NULL
), views AS (
    UPDATE sessions SET ended_at = %(at)s WHERE impersonated_by = %(id)s AND ended_at IS NULL
)
UPDATE operators o SET removed_at = COALESCE(o.removed_at, %(at)s) WHERE o.id = %(id)s RETURNING {OPERATOR.select}
"""

# Writes a token.
_ADD_TOKEN = f"""
INSERT INTO operator_tokens ({OPERATOR_TOKEN.names}, digest) VALUES ({OPERATOR_TOKEN.values}, %(digest)s)
"""

# Revokes a token; a second call keeps the first time.
_REVOKE_TOKEN = f"""
UPDATE operator_tokens t SET revoked_at = COALESCE(t.revoked_at, %(at)s) WHERE t.id = %(id)s
RETURNING {OPERATOR_TOKEN.select}
"""


class PostgresOperatorRepository(Repository):
    """Who may use the console, and by which tokens programs do."""

    async def add(self, operator: Operator) -> None:
        parameters = OPERATOR.parameters(operator)
        if await self._changed(_ADD, parameters):
            return
        known = await self._one(_FIND, parameters)
        raise Conflict("An operator has this e-mail address already.", known["id"] if known else operator.id)

    async def remove(self, operator_id: UUID, at: datetime) -> Operator:
        row = await self._one(_REMOVE, {"id": operator_id, "at": at})
        if row is None:
            raise NotFound("No operator with this id.")
        return OPERATOR.read(row)

    async def add_token(self, token: OperatorToken, digest: bytes) -> None:
        await self._connection.execute(_ADD_TOKEN, OPERATOR_TOKEN.parameters(token) | {"digest": digest})

    async def revoke_token(self, token_id: UUID, at: datetime) -> OperatorToken:
        row = await self._one(_REVOKE_TOKEN, {"id": token_id, "at": at})
        if row is None:
            raise NotFound("No operator's token with this id.")
        return OPERATOR_TOKEN.read(row)
