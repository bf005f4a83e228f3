"""Purge records that are no longer needed, in small portions that block no other work."""

from datetime import date, datetime
from typing import Protocol

__all__ = ["Housekeeping"]


class Housekeeping(Protocol):
    """Delete what has expired."""

    async def purge_idempotency(self, older_than_s: float) -> int:
        """Forget keys first seen longer ago than this, unless work under them still runs.

        Returns:
            How many went.
        """

    async def purge_provider_events(self, older_than_s: float) -> int:
        """Delete handled events of providers received longer ago than this.

        Returns:
            How many went.
        """

    async def purge_creations(self, before: date) -> int:
        """Forget how many meetings accounts had made on days before this one.

        Returns:
            How many counters went.
        """

    async def purge_mails(self, older_than_s: float) -> int:
        """Forget mails that were made longer ago than this, unless they are still to be sent.

        Returns:
            How many went.
        """

    async def purge_requests(self, before: datetime) -> int:
        """Delete what was kept of requests made before this instant.

        Returns:
            How many went.
        """

    async def purge_previous_secrets(self, before: datetime) -> int:
        """Forget the secrets of endpoints that were replaced and have not signed since this instant.

        Returns:
            How many went.
        """
