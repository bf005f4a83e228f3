"""Remove provider meetings that no record names (`domain.meetings.provider_events`).

Each creation that a provider may have doubled, or may still carry out, is looked for in the provider's list
until that has been clean for a while. The recorded meeting is kept, every other with our reference is
removed. A removal that fails is tried again, less and less often, until the list is clean.
"""

from collections.abc import Callable

from attrs import frozen

from meetcore.domain.meetings import cancellation, meetings, views
from meetcore.domain.meetings.provider_events import DEFAULT_WINDOW_S, next_look_s, orphans_of, retry_delay_s
from meetcore.ports.runtime import Lease
from meetcore.ports.store import Store
from meetcore.ports.video_provider import (
    ProviderRefused,
    ProviderUnknown,
    VideoProvider,
    lease_time,
    under_lease,
)
from meetcore.usecases.meetings import bounded_provider, creation
from meetcore.usecases.meetings.cancellation import clear
from meetcore.usecases.runtime import Runtime, gather_all

_WAS_THERE = (cancellation.ProviderMeetingState.REMOVED, cancellation.ProviderMeetingState.IN_PROGRESS)


@frozen
class OrphanReport:
    """The result of a check, for an operator: an orphan that was removed, or a failure."""

    check: views.OrphanCheck
    provider_meeting_id: str | None = None
    error: ProviderRefused | ProviderUnknown | None = None


def no_report(report: OrphanReport) -> None:
    """Report nothing."""


@frozen
class RemoveOrphans:
    """Looks for orphans, `at_once` hosts at a time, so that the provider's limits are left to customers.

    `lease_s` is how long a look may take; the checks of a dead worker are due after it.
    """

    store: Store
    provider: VideoProvider
    runtime: Runtime
    window_s: float = DEFAULT_WINDOW_S
    report: Callable[[OrphanReport], None] = no_report
    lease_s: float = 60.0
    at_once: int = 4

    async def sweep(self, limit: int = 16) -> int:
        """Carry out up to `limit` due checks; return how many."""
        recording_checks = 0
        while recording_checks < limit:
            lease = Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)
            with under_lease(lease_time(self.runtime.clock, self.lease_s)):
                async with self.store.begin() as tx:
                    found = await tx.orphan_checks.claim_due(
                        min(self.at_once, limit - recording_checks), lease
                    )
                recording_checks += len(await gather_all(self._look(check) for check in found))
            if len(found) < self.at_once:
                break
        return recording_checks

    async def _look(self, check: views.OrphanCheck) -> None:
        meeting = check.meeting
        if meeting.status is meetings.MeetingStatus.PROVISIONING:
            # A found meeting may be the one to keep: its reconciler comes first.
            await self._postpone(check, retry_delay_s(1))
            return
        try:
            bounded_provider.require_own(self.provider, meeting)
            found = await self.provider.find(creation.order_of(meeting, check.provider_user_id))
        except (ProviderRefused, ProviderUnknown) as error:
            self.report(OrphanReport(check, error=error))
            await self._postpone(check, retry_delay_s(check.failures + 1), failures=check.failures + 1)
            return
        outcomes = [await self._remove(check, orphan) for orphan in orphans_of(meeting, found)]
        await self._settle(check, is_refused=None in outcomes, is_sighting=True in outcomes)

    async def _remove(self, check: views.OrphanCheck, orphan: meetings.Provisioned) -> bool | None:
        """Remove one; return whether it existed, or `None` on failure."""
        try:
            state = (await clear(self.provider, orphan.provider_meeting_id)).state
        except (ProviderRefused, ProviderUnknown) as error:
            self.report(OrphanReport(check, orphan.provider_meeting_id, error))
            return None
        if state in _WAS_THERE:
            self.report(OrphanReport(check, orphan.provider_meeting_id))
        return state in _WAS_THERE

    async def _settle(self, check: views.OrphanCheck, *, is_refused: bool, is_sighting: bool) -> None:
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
        self, check: views.OrphanCheck, after_s: float, *, failures: int = 0, is_sighting: bool = False
    ) -> None:
        async with self.store.begin() as tx:
            await tx.orphan_checks.postpone(check, after_s, failures=failures, is_sighting=is_sighting)
