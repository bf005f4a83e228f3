"""Passkeys and challenges as a transaction sees them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from meetcore.domain.members.passkeys import Challenge, ChallengePurpose, Passkey, PasskeyOwner

__all__ = ["PasskeyRepository"]


class PasskeyRepository(Protocol):
    """Passkeys of users and of operators, and the challenges that they answer."""

    async def add_challenge(self, challenge: Challenge) -> None:
        """Write a challenge."""

    async def use_challenge(
        self, digest: bytes, purpose: ChallengePurpose, is_operators: bool, holder_digest: bytes, at: datetime
    ) -> bool:
        """Use a challenge up, in one statement: of several at once one gets it.

        Args:
            digest: of the challenge.
            purpose: what it has to be for.
            is_operators: whose it has to be.
            holder_digest: of the cookie of the browser that answers.
            at: when.

        Returns:
            False when there is none, or it has expired, or is another purpose's or another holder's; nothing
            was written.
        """

    async def load_own(self, owner: PasskeyOwner) -> Sequence[Passkey]:
        """Lock an owner and read the passkeys, the oldest first."""

    async def add(self, passkey: Passkey) -> None:
        """Write a passkey.

        Raises:
            Conflict: its credential is written already.
        """

    async def find_for_sign_in(self, credential: bytes, is_operators: bool) -> Passkey | None:
        """Lock the passkey of a credential and read it.

        Returns:
            None when there is none, it is of the other kind, or its operator was removed.
        """

    async def save_use(self, passkey: Passkey) -> None:
        """Write the sign counter of a passkey, and when it was last used."""

    async def remove(self, owner: PasskeyOwner, passkey_id: UUID) -> Passkey | None:
        """Delete a passkey of an owner; return it, or None when the owner has none with this id."""

    async def purge_challenges(self, expired_before: datetime) -> int:
        """Delete some challenges that expired before; return how many."""
