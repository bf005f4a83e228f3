"""Operators as a transaction sees them."""

from datetime import datetime
from typing import Protocol
from uuid import UUID

from meetcore.domain.members.operators import Operator

__all__ = ["OperatorRepository"]


class OperatorRepository(Protocol):
    """Who may use the console."""

    async def add(self, operator: Operator) -> None:
        """Write an operator.

        Raises:
            Conflict: another one who was not removed has this e-mail address, by `email_key`.
        """

    async def remove(self, operator_id: UUID, at: datetime) -> Operator:
        """Remove an operator and end the sessions; one who was removed keeps the time.

        Raises:
            NotFound: no such operator.
        """
