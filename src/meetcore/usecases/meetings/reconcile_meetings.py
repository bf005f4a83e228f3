"""Meetings whose lease expired.

A meeting whose lease expired is taken under a new lease, so that one reconciler works on it, and the provider
is queried (see `create_meeting`). What the provider does not answer now is left for the next round. A meeting
is finished where a retry with its idempotency key can deliver the result. Without a key, or when its time is
over, it is undone: its customer never had the link. What is at the provider then is an orphan, which
`remove_orphans` removes.
"""

from collections.abc import Callable
from uuid import UUID

from attrs import frozen

from meetcore.domain.meetings import cancellation, meetings, provider_events, views
from meetcore.domain.meetings.provider_events import DEFAULT_WINDOW_S, next_look_s, orphans_of, retry_delay_s
from meetcore.ports import observability, video_provider
from meetcore.ports.meetings import NumberTaken
from meetcore.ports.runtime import Lease, WorkerNotifier
from meetcore.ports.store import Store
from meetcore.usecases.meetings import bounded_provider, creation
from meetcore.usecases.meetings.cancellation import Cancellation, clear
from meetcore.usecases.runtime import Runtime, gather_all, ignore

LEFT = "left"
"""What became of a meeting that stays in progress, and is tried again."""


@frozen
class ReconcileMeetings:
    """Takes over meetings in progress, `at_once` at a time; `lease_s` exceeds the provider's time limit.

    `on_takeover` is called with each meeting whose lease expired and is this process's now, `on_left` with
    each that stays in progress and why.
    `orphan_window_s` is `next_look_s`'s window.
    """

    store: Store
    provider: video_provider.VideoProvider
    provisioner: creation.Provisioner
    cancellation: Cancellation
    notifier: WorkerNotifier
    runtime: Runtime
    lease_s: float = 20.0
    at_once: int = 16
    on_takeover: Callable[[views.ExpiredLease], object] = ignore
    on_left: Callable[[views.ExpiredLease, Exception], object] = ignore
    orphan_window_s: float = provider_events.DEFAULT_WINDOW_S

    async def sweep(self, limit: int = 1000) -> int:
        """Process every meeting whose lease ran out; returns how many were finished or undone.

        No more are taken at a time than are worked on at once: a lease must not run out in a queue.
        """
        done = 0
        for _ in range(0, limit, self.at_once):
            with video_provider.under_lease(video_provider.lease_time(self.runtime.clock, self.lease_s)):
                async with self.store.begin() as tx:
                    found = await tx.meetings.claim_expired(self.at_once, self._lease())
                for expired in found:
                    self.on_takeover(expired)
                done += sum(await gather_all(self._resolve(expired) for expired in found))
            if len(found) < self.at_once:
                break
        return done

    async def one(self, account_id: UUID, meeting_id: UUID) -> bool:
        """Process one meeting, if its lease ran out; false when there is nothing to do yet."""
        with video_provider.under_lease(video_provider.lease_time(self.runtime.clock, self.lease_s)):
            async with self.store.begin() as tx:
                expired = await tx.meetings.lease_expired(account_id, meeting_id, self._lease())
            if expired is None:
                return False
            self.on_takeover(expired)
            return await self._resolve(expired)

    def _lease(self) -> Lease:
        return Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)

    async def _resolve(self, expired: views.ExpiredLease) -> bool:
        async with self.store.begin() as tx:
            view = await tx.meetings.load_leased(expired.account_id, expired.meeting_id, expired.token)
        if view is None:
            return False
        outcome = "failed"
        try:
            if view.meeting.status is meetings.MeetingStatus.PROVISIONING:
                outcome = await self._finish_or_undo(view, expired.token)
            else:
                outcome = await self._cancel(view, expired.token)
        except (video_provider.ProviderRefused, video_provider.ProviderUnknown) as error:
            outcome = LEFT
            self.on_left(expired, error)
        finally:
            self.runtime.metrics.count(observability.RECONCILED, outcome)
        return outcome != LEFT

    async def _finish_or_undo(self, view: views.LeaseView, token: UUID) -> str:
        meeting = view.meeting
        bounded_provider.require_own(self.provider, meeting)
        found = await self.provider.find(creation.order_of(meeting, view.provider_user_id))
        can_deliver = view.claim is not None and self.runtime.now() < meeting.end_at
        if not found or not can_deliver:
            return "undone" if await self._undo(meeting, token, was_made=bool(found)) else LEFT
        try:
            finished = await self.provisioner.finish(view, found[0], self.runtime.now())
        except NumberTaken:
            return "undone" if await self._undo(meeting, token, was_made=True) else LEFT
        if finished is None:
            return LEFT
        if finished.due:
            self.notifier.notify()
        if len(found) > 1:
            async with self.store.begin() as tx:
                await tx.orphan_checks.open(meeting.account_id, meeting.id)
        return "finished"

    async def _undo(self, meeting: meetings.Meeting, token: UUID, *, was_made: bool) -> bool:
        # The money first: the provider may refuse to remove the meeting for long.
        look_again_s = None
        if self.provider.abilities.remembers_meetings:
            look_again_s = 0.0 if was_made else provider_events.next_look_s(0.0, self.orphan_window_s)
        return await self.provisioner.undo(meeting, token, look_again_s=look_again_s, was_made=was_made)

    async def _cancel(self, view: views.LeaseView, token: UUID) -> str:
        done = await self.cancellation.complete(view.meeting, token, self.runtime.now())
        if done is not None and done.due:
            self.notifier.notify()
        return LEFT if done is None else "cancelled"


_WAS_THERE = (cancellation.ProviderMeetingState.REMOVED, cancellation.ProviderMeetingState.IN_PROGRESS)


@frozen
class OrphanReport:
    """The result of a check, for an operator: an orphan that was removed, or a failure."""

    check: views.OrphanCheck
    provider_meeting_id: str | None = None
    error: video_provider.ProviderRefused | video_provider.ProviderUnknown | None = None


@frozen
class RemoveOrphans:
    """Looks for orphans, `at_once` hosts at a time, so that the provider's limits are left to customers.

    `lease_s` is how long a look may take; the checks of a dead worker are due after it.
    """

    store: Store
    provider: video_provider.VideoProvider
    runtime: Runtime
    window_s: float = DEFAULT_WINDOW_S
    report: Callable[[OrphanReport], None] = ignore
    lease_s: float = 60.0
    at_once: int = 4

    async def sweep(self, limit: int = 16) -> int:
        """Carry out up to `limit` due checks; return how many."""
        done = 0
        while done < limit:
            lease = Lease(self.runtime.new_id(self.runtime.now()), self.lease_s)
            with video_provider.under_lease(video_provider.lease_time(self.runtime.clock, self.lease_s)):
                async with self.store.begin() as tx:
                    found = await tx.orphan_checks.claim_due(min(self.at_once, limit - done), lease)
                done += len(await gather_all(self._look(check) for check in found))
            if len(found) < self.at_once:
                break
        return done

    async def _look(self, check: views.OrphanCheck) -> None:
        meeting = check.meeting
        if meeting.status is meetings.MeetingStatus.PROVISIONING:
            # A found meeting may be the one to keep: its reconciler comes first.
            await self._postpone(check, retry_delay_s(1))
            return
        try:
            bounded_provider.require_own(self.provider, meeting)
            found = await self.provider.find(creation.order_of(meeting, check.provider_user_id))
        except (video_provider.ProviderRefused, video_provider.ProviderUnknown) as error:
            self.report(OrphanReport(check, error=error))
            await self._postpone(check, retry_delay_s(check.failures + 1), failures=check.failures + 1)
            return
        outcomes = [await self._remove(check, orphan) for orphan in orphans_of(meeting, found)]
        await self._settle(check, is_refused=None in outcomes, is_sighting=True in outcomes)

    async def _remove(self, check: views.OrphanCheck, orphan: meetings.Provisioned) -> bool | None:
        """Remove one; return whether it existed, or `None` on failure."""
        try:
            state = (await clear(self.provider, orphan.provider_meeting_id)).state
        except (video_provider.ProviderRefused, video_provider.ProviderUnknown) as error:
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
