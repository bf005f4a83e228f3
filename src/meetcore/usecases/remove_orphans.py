"""Remove provider meetings that no record names (`domain.meetings.orphans`).

Each creation that a provider may have doubled, or may still carry out, is looked for in the provider's list
until that has been clean for a while. The recorded meeting is kept, every other with our reference is
removed. A removal that fails is tried again, less and less often, until the list is clean.
"""

from collections.abc import Callable

from attrs import frozen

from meetcore.domain.meetings.cancellation import ProviderMeetingState
from meetcore.domain.meetings.meetings import MeetingStatus, Provisioned
from meetcore.domain.meetings.orphans import DEFAULT_WINDOW_S, next_look_s, orphans_of, retry_delay_s
from meetcore.ports.lease import Lease
from meetcore.ports.orphan_checks import OrphanCheck
from meetcore.ports.store import Store
from meetcore.ports.video_provider import (
    ProviderRefused,
    ProviderUnknown,
    VideoProvider,
)
from meetcore.usecases.bounded_provider import require_own
from meetcore.usecases.cancellation import clear
from meetcore.usecases.concurrency import gather_all
from meetcore.usecases.provision import order_of
from meetcore.usecases.runtime import Runtime

_WAS_THERE = (ProviderMeetingState.REMOVED, ProviderMeetingState.IN_PROGRESS)


@frozen
class OrphanReport:
    """The result of a check, for an operator: an orphan that was removed, or a failure."""

    check: OrphanCheck
    provider_meeting_id: str | None = None
    error: ProviderRefused | ProviderUnknown | None = None


def no_report(report: OrphanReport) -> None:
    """Report nothing."""


@frozen
class RemoveOrphans:
    """Looks for orphans, `at_once` hosts at a time, so that the provider's limits are left to customers.

    `lease_s` is how long a look may take; what a dead worker was looking at is taken up after it.
    """

    store: Store
    provider: VideoProvider
    runtime: Runtime
    window_s: float = DEFAULT_WINDOW_S
    report: Callable[[OrphanReport], None] = no_report
    lease_s: float = 60.0
    at_once: int = 4

    async def sweep(self, limit: int = 16) -> int:
        """Look at what is due, at most so many; returns how many looks that were.

        Raises:
            ExceptionGroup: the failures of single ones; the others were checked.
        """
        recording_checks = 0
        while recording_checks < limit:
            lease = Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)
            async with self.store.begin() as tx:
                found = await tx.orphan_checks.claim_due(min(self.at_once, limit - recording_checks), lease)
            recording_checks += len(await gather_all(self._look(check) for check in found))
            if len(found) < self.at_once:
                break
        return recording_checks

    async def _look(self, check: OrphanCheck) -> None:
        meeting = check.meeting
        if meeting.status is MeetingStatus.PROVISIONING:
            # A found meeting may be the one to keep: its reconciler comes first.
            await self._postpone(check, retry_delay_s(1))
            return
        try:
            require_own(self.provider, meeting)
            found = await self.provider.find(order_of(meeting, check.provider_user_id))
        except (ProviderRefused, ProviderUnknown) as error:
            self.report(OrphanReport(check, error=error))
            await self._postpone(check, retry_delay_s(check.failures + 1), failures=check.failures + 1)
            return
        outcomes = [await self._remove(check, orphan) for orphan in orphans_of(meeting, found)]
        await self._settle(check, is_refused=None in outcomes, is_sighting=True in outcomes)

    async def _remove(self, check: OrphanCheck, orphan: Provisioned) -> bool | None:
        """Remove one; return whether it existed, or `None` on failure."""
        try:
            state = await clear(self.provider, orphan.provider_meeting_id)
        except (ProviderRefused, ProviderUnknown) as error:
            self.report(OrphanReport(check, orphan.provider_meeting_id, error))
            return None
        if state in _WAS_THERE:
            self.report(OrphanReport(check, orphan.provider_meeting_id))
        return state in _WAS_THERE

    async def _settle(self, check: OrphanCheck, *, is_refused: bool, is_sighting: bool) -> None:
        age_s = 0.0 if is_sighting else check.age_s
        after_s = next_look_s(age_s, self.window_s)
        if is_refused:
            failures = check.failures + 1
            await self._postpone(check, retry_delay_s(failures), failures=failures, is_sighting=True)
        elif after_s is not None:
            await self._postpone(check, after_s, is_sighting=is_sighting)
        else:
            async with self.store.begin() as tx:
                await tx.orphan_checks.close(check)

    async def _postpone(
        self, check: OrphanCheck, after_s: float, *, failures: int = 0, is_sighting: bool = False
    ) -> None:
        async with self.store.begin() as tx:
            await tx.orphan_checks.postpone(check, after_s, failures=failures, is_sighting=is_sighting)
