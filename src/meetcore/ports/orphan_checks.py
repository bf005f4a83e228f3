"""Creations whose provider is still to be looked at for orphans (`domain.meetings.orphans`), in a store."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.meetings.meetings import Meeting
from meetcore.ports.lease import Lease

__all__ = ["OrphanCheck", "OrphanCheckRepository"]


@frozen
class OrphanCheck:
    """A meeting whose provider is due for a look, under the caller's lease.

    `age_s` is the time since the creation, or since an orphan was last seen, by the store's clock; it is
    negative while the request may still be under way. `failures` counts the looks in a row that failed.
    """

    meeting: Meeting
    provider_user_id: str
    age_s: float
    failures: int
    token: UUID = field(repr=False)


class OrphanCheckRepository(Protocol):
    """Checks that are open, at most one for each meeting.

    `MeetingRepository.save_provisioning` opens one where the provider can leave orphans, and
    `save_abandoned` moves it or closes it.
    """

    async def open(self, account_id: UUID, meeting_id: UUID) -> None:
        """Look at once, as if an orphan had been seen now, whether or not a check is open."""

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[OrphanCheck]:
        """Take the checks that are due, the longest due first; each comes again after the lease."""

    async def take(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> OrphanCheck | None:
        """Take the check of a meeting from whatever process has it; `None` where none is open."""

    async def postpone(
        self, check: OrphanCheck, after_s: float, *, failures: int = 0, is_sighting: bool = False
    ) -> None:
        """Look again in so many seconds, unless another process has the check now.

        Args:
            after_s: seconds from now.
            failures: looks in a row that failed, this one included.
            is_sighting: an orphan was seen: the age counts from now.
        """

    async def close(self, check: OrphanCheck) -> None:
        """Look no more, unless another process has the check now."""
