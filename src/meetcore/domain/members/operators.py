"""Operators: the people who may use the console, each with a role. One who was removed keeps the record."""

from datetime import datetime
from uuid import UUID

from attrs import frozen

from meetcore.domain.members.roles import OperatorRole

__all__ = ["Operator"]


@frozen
class Operator:
    """An operator, known by an e-mail address."""

    id: UUID
    email: str
    role: OperatorRole
    created_at: datetime
    removed_at: datetime | None = None
