"""The keys with which a customer takes over the host's role: one for each host, replaced after each meeting.

A key that is due belongs to another meeting, or to none: it is not shown until it is replaced.
"""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.ports.lease import Lease

__all__ = ["DueHostKey", "HostKeyRepository"]


@frozen
class DueHostKey:
    """A host that is to get another key, from the bearer of the token."""

    host_id: UUID
    provider_user_id: str
    token: UUID = field(repr=False)


class HostKeyRepository(Protocol):
    """Whose key is to be replaced, and the key that was set.

    A host that is added is due at once. One that runs several meetings at a time has no key to show, and a
    disabled one none to replace: they are never handed out.
    """

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[DueHostKey]:
        """Take hosts whose keys are due, the longest due first; due again when the lease runs out."""

    async def save(self, host_id: UUID, token: UUID, host_key: str) -> bool:
        """Write the key that the provider was given: the host is due no more.

        Returns:
            False when the token is no longer the bearer's: the lease was taken over, or a meeting has ended
            meanwhile, so that the key is due again. Nothing was written.
        """

    async def postpone(self, host_id: UUID, token: UUID, seconds: float) -> None:
        """Make the host due after so many seconds of the store's clock, for the bearer of the token only."""
