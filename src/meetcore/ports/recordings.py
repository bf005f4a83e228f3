"""Recordings in a store: at most one for each meeting, its files with it."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.notes.recordings import Recording
from meetcore.domain.webhooks.events import Event
from meetcore.ports.lease import Lease

__all__ = ["RecordingRepository", "RecordingTask"]


@frozen
class RecordingTask:
    """A recording with work left at the provider, under the caller's lease.

    `tries` counts how often it was taken up since the last time that its work succeeded, this time included.
    `had_expired_lease` where an earlier claim was neither kept nor given back.
    """

    token: UUID = field(repr=False)
    recording: Recording
    tries: int
    had_expired_lease: bool = False


class RecordingRepository(Protocol):
    """Recordings. Who loads and saves one holds the account's lock; claims need none."""

    async def load(self, account_id: UUID, meeting_id: UUID) -> Recording | None:
        """The recording of a meeting."""

    async def load_by_id(self, account_id: UUID, recording_id: UUID) -> Recording | None:
        """An account's recording, in any state."""

    async def save(self, recording: Recording, events: Sequence[Event] = ()) -> int:
        """Write a recording with all its files, a new one or one that was loaded under the same lock.

        One that `needs_work` is due: at once, if it was not before or has just expired. One that has expired
        or needs no work any more is lost to the holder of the lease.

        Returns:
            How many deliveries of the events are due now.
        """

    async def claim(self, limit: int, lease: Lease) -> Sequence[RecordingTask]:
        """Take recordings that are due, the longest due first, each under the lease."""

    async def renew(self, task: RecordingTask, seconds: float) -> bool:
        """Keep a claim for so many seconds from now; false when it is lost."""

    async def postpone(self, task: RecordingTask, seconds: float) -> None:
        """Give a recording back, due in so many seconds; a lost claim changes nothing."""

    async def find_outlived(self, limit: int) -> Sequence[tuple[UUID, UUID]]:
        """Account and meeting of what is past its retention and has not expired yet, the oldest first."""
