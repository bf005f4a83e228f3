"""Operators and the tokens of their programs as a transaction sees them."""

from datetime import datetime
from typing import Protocol
from uuid import UUID

from meetcore.domain.members.operator_tokens import OperatorToken
from meetcore.domain.members.operators import Operator

__all__ = ["OperatorRepository"]


class OperatorRepository(Protocol):
    """Who may use the console, and by which tokens programs do."""

    async def add(self, operator: Operator) -> None:
        """Write an operator.

        Raises:
            Conflict: another one who was not removed has this e-mail address, by `email_key`.
        """

    async def remove(self, operator_id: UUID, at: datetime) -> Operator:
        """Remove an operator and end the sessions, views of accounts too; one who was removed keeps the time.

        Raises:
            NotFound: no such operator.
        """

    async def add_token(self, token: OperatorToken, digest: bytes) -> None:
        """Write a token under the SHA-256 of its text."""

    async def revoke_token(self, token_id: UUID, at: datetime) -> OperatorToken:
        """Revoke a token; one that is revoked keeps the time.

        Raises:
            NotFound: no such token.
        """
