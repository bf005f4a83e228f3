"""Operators in memory."""

from datetime import datetime
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import ConstraintBroken, Tables
from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.members.operator_tokens import OperatorToken
from meetcore.domain.members.operators import Operator
from meetcore.domain.requests.accounts import email_key


class MemoryOperatorRepository:
    """Who may use the console, and by which tokens programs do."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add(self, operator: Operator) -> None:
        known = operator_of_email(self._tables, operator.email)
        if known is not None:
            raise Conflict("An operator has this e-mail address already.", known.id)
        self._tables.operators[operator.id] = operator

    async def remove(self, operator_id: UUID, at: datetime) -> Operator:
        operator = self._tables.operators.get(operator_id)
        if operator is None:
            raise NotFound("No operator with this id.")
        removed = self._tables.operators[operator_id] = evolve(operator, removed_at=operator.removed_at or at)
        for digest, session in self._tables.operator_sessions.items():
            if session.operator_id == operator_id and session.ended_at is None:
                self._tables.operator_sessions[digest] = evolve(session, ended_at=at)
        for digest, view in self._tables.sessions.items():
            if view.impersonated_by == operator_id and view.ended_at is None:
                self._tables.sessions[digest] = evolve(view, ended_at=at)
        return removed

    async def add_token(self, token: OperatorToken, digest: bytes) -> None:
        if digest in self._tables.operator_tokens:
            raise ConstraintBroken("the token is written already")
        self._tables.operator_tokens[digest] = token

    async def revoke_token(self, token_id: UUID, at: datetime) -> OperatorToken:
        for digest, token in self._tables.operator_tokens.items():
            if token.id == token_id:
                revoked = evolve(token, revoked_at=token.revoked_at or at)
                self._tables.operator_tokens[digest] = revoked
                return revoked
        raise NotFound("No operator's token with this id.")


def operator_of_email(tables: Tables, email: str) -> Operator | None:
    """The operator who has an e-mail address and was not removed."""
    return next(
        (
            one
            for one in tables.operators.values()
            if email_key(one.email) == email_key(email) and one.removed_at is None
        ),
        None,
    )
