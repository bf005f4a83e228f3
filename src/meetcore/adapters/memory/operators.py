"""Operators in memory."""

from datetime import datetime
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import Tables
from meetcore.domain.errors import Conflict, NotFound
from meetcore.domain.members.operators import Operator
from meetcore.domain.requests.accounts import email_key


class MemoryOperatorRepository:
    """Who may use the console."""

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
        return removed


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
