"""Cancel a meeting by its status (rules 3/cancel-before and 3/cancel-running): crash-safe, refunded once.

Before its start: marked under a lease, removed at the provider, refunded unless a session runs there.
After it: ended at the provider, nothing refunded; no lease is needed, because no money moves and ending twice
is ending once. Cancelled already: the same answer again. Ended: a conflict.
"""

from datetime import datetime
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.errors import DomainError, ServiceUnavailable, UpstreamError
from meetcore.domain.meetings.cancellation import is_refundable
from meetcore.domain.meetings.meetings import Meeting, MeetingStatus
from meetcore.domain.meetings.views import MeetingView
from meetcore.domain.records.meetings import cancellation_record
from meetcore.domain.requests.idempotency import DUPLICATE_WAIT_S
from meetcore.ports import video_provider
from meetcore.ports.queries import Caller, Queries
from meetcore.ports.runtime import Lease, WorkerNotifier
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.meetings import bounded_provider, reconcile_meetings
from meetcore.usecases.meetings.cancellation import Cancellation, Cleared, clear, end_meeting, mark_cancelling
from meetcore.usecases.members.audit import record_by_hand
from meetcore.usecases.requests.idempotency import (
    DuplicateLimit,
    IdempotentRequest,
    Outcome,
    bind_key,
    check_key,
    store_outcome,
    store_refusal,
    wait_while_in_progress,
)
from meetcore.usecases.requests.missing_records import missing
from meetcore.usecases.runtime import Runtime


@frozen
class Marked:
    """This process holds the lease and removes the meeting at the provider; a session of it `is_running`."""

    meeting: Meeting
    token: UUID
    is_running: bool = False


@frozen
class Running:
    """The meeting runs: it is to be ended. Asked again: an earlier request with the key was to end it."""

    meeting: Meeting
    is_asked_again: bool = False


@frozen
class _Busy:
    """Another process holds the lease. `is_expired` means that it ran out."""

    is_expired: bool


_Step = Outcome | DomainError | Marked | Running | _Busy


@frozen
class CancelMeeting:
    """Cancels once, however many requests there are.

    `wait_s` bounds the wait for a cancellation in another process, looking after `poll_s` and then less and
    less often. `limit` bounds those that wait in this one, with an idempotency key or without.
    """

    store: Store
    queries: Queries
    provider: video_provider.VideoProvider
    cancellation: Cancellation
    reconcile: reconcile_meetings.ReconcileMeetings
    notifier: WorkerNotifier
    runtime: Runtime
    lease_s: float = 20.0
    wait_s: float = DUPLICATE_WAIT_S
    poll_s: float = 0.05
    limit: DuplicateLimit = field(factory=DuplicateLimit)

    async def __call__(
        self, caller: Caller, meeting_id: UUID, request: IdempotentRequest, now: datetime
    ) -> Outcome:
        """Cancel or end a meeting.

        A refusal is NotFound, Gone past its retention, or Conflict where it has ended.

        Raises:
            UpstreamError: the provider did not remove it, or may not have; nothing was refunded yet.
            ServiceUnavailable: another process's cancellation takes too long.
        """
        async with self.limit.turn((caller.account.id, meeting_id)) as wait_until:
            deadline = min(wait_until, request.deadline(self.wait_s))
            outcome = await self._cancel(caller, meeting_id, request, now, deadline)
        if outcome.due:
            self.notifier.notify()
        return outcome

    async def _cancel(
        self, caller: Caller, meeting_id: UUID, request: IdempotentRequest, now: datetime, deadline: float
    ) -> Outcome:
        account_id = caller.account.id
        while True:
            lease = Lease(self.runtime.new_id(now), self.lease_s)
            until = video_provider.lease_time(self.runtime.clock, self.lease_s)
            async with self.store.begin() as tx:
                step = await start_cancelling(tx, account_id, meeting_id, request, lease, now)
                await self._record(tx, caller, step, now)
            match step:
                case Outcome():
                    return step
                case DomainError():
                    raise step
                case Marked():
                    with video_provider.under_lease(until):
                        return await self._remove(step, now)
                case Running():
                    return await self._end(step.meeting, request, now)
                case _Busy(is_expired=True):
                    await self.reconcile.one(account_id, meeting_id)
            if not await wait_while_in_progress(self.queries, account_id, meeting_id, deadline, self.poll_s):
                raise ServiceUnavailable("The meeting is being cancelled by another request.", 1)

    async def _record(self, tx: Transaction, caller: Caller, step: _Step, now: datetime) -> None:
        match step:
            case Marked(meeting, is_running=False):
                await record_by_hand(tx, self.runtime, now, caller, "meeting.cancelled", meeting.id)
            case Marked(meeting) | Running(meeting, is_asked_again=False):
                await record_by_hand(tx, self.runtime, now, caller, "meeting.ended", meeting.id)

    async def _remove(self, step: Marked, now: datetime) -> Outcome:
        try:
            outcome = await self.cancellation.complete(step.meeting, step.token, now)
        except video_provider.ProviderRefused as error:
            await self.cancellation.put_back(step.meeting, step.token)
            raise _provider_unavailable() from error
        except video_provider.ProviderUnknown as error:
            await self.cancellation.expire_lease(step.meeting, step.token)
            raise UpstreamError(
                "The video provider did not answer. The cancellation is being looked into; "
                "a retry gets its result."
            ) from error
        return outcome or await self._overtaken(step.meeting, now)

    async def _overtaken(self, meeting: Meeting, now: datetime) -> Outcome:
        """Return the outcome of the new owner of an expired lease, once that is known."""
        stored = await self.queries.find_meeting(meeting.account_id, meeting.id)
        if stored is None or stored.status not in (MeetingStatus.CANCELLED, MeetingStatus.ENDED):
            raise ServiceUnavailable("The meeting took too long to cancel. Try again.", 1)
        return Outcome(cancellation_record(stored, now), is_replay=True)

    async def _end(self, meeting: Meeting, request: IdempotentRequest, now: datetime) -> Outcome:
        try:
            bounded_provider.require_own(self.provider, meeting)
            cleared = await clear(self.provider, meeting.provider_meeting_id or "")
        except (video_provider.ProviderRefused, video_provider.ProviderUnknown) as error:
            raise _provider_unavailable() from error
        async with self.store.begin() as tx:
            return await end_running(tx, self.runtime, meeting, cleared, request, now)


async def start_cancelling(
    tx: Transaction, account_id: UUID, meeting_id: UUID, request: IdempotentRequest, lease: Lease,
    now: datetime,
) -> _Step:  # fmt: skip
    """Mark the meeting under the lease, or find out why that is not to be done."""
    view = await tx.meetings.load_locked(account_id, meeting_id, request.key)
    if (replay := await _replay(tx, account_id, view, request)) is not None:
        return replay
    try:
        if view is None:
            raise await missing(tx, account_id, meeting_id, "meeting")
        return await _start(tx, view, request, lease, now)
    except DomainError as refusal:
        return await store_refusal(tx, account_id, request, refusal)


async def _start(
    tx: Transaction, view: MeetingView, request: IdempotentRequest, lease: Lease, now: datetime
) -> _Step:
    meeting = view.meeting
    if meeting.status is MeetingStatus.CANCELLING:
        return _Busy(is_expired=not view.is_leased)
    if meeting.status is MeetingStatus.CANCELLED:
        outcome = Outcome(cancellation_record(meeting, now))
        return await store_outcome(tx, meeting.account_id, request, outcome, meeting.id)
    # Before the start the provider is asked: the end of a session may not have been reported.
    is_running = not is_refundable(meeting, now)
    if is_running and now >= meeting.start_at:
        # A write, with a key or without: a store that takes none refuses before the provider ends it.
        await tx.lock_account(meeting.account_id)
        await bind_key(tx, meeting.account_id, request, meeting.id)
        return Running(meeting, view.idempotency.record is not None)
    marked = await mark_cancelling(tx, meeting, lease, request.claim(meeting.id))
    return Marked(marked, lease.token, is_running)


async def end_running(
    tx: Transaction, runtime: Runtime, meeting: Meeting, cleared: Cleared, request: IdempotentRequest,
    now: datetime,
) -> Outcome:  # fmt: skip
    """Write the end of a meeting that was ended at the provider, and the outcome under the key.

    Raises `ServiceUnavailable`: another server's clock still found it scheduled, and it is being cancelled.
    """
    view = await tx.meetings.load_locked(meeting.account_id, meeting.id, request.key)
    if (replay := await _replay(tx, meeting.account_id, view, request)) is not None:
        return replay
    stored, due = meeting if view is None else view.meeting, 0
    if stored.status is MeetingStatus.CANCELLING:
        raise ServiceUnavailable("The meeting is being cancelled by another request. Try again.", 1)
    ended = await end_meeting(tx, runtime, stored, now, is_cleared=cleared.is_clear)
    if ended is not None:
        stored, due = ended
    outcome = Outcome(cancellation_record(stored, now), due=due)
    return await store_outcome(tx, meeting.account_id, request, outcome, meeting.id)


async def _replay(
    tx: Transaction, account_id: UUID, view: MeetingView | None, request: IdempotentRequest
) -> Outcome | None:
    """Return the stored outcome; unfinished work shows in the meeting's own state."""
    if request.key is None:
        return None
    known = view.idempotency if view else await tx.idempotency.load_locked(account_id, request.key)
    return check_key(known, request).replay


def _provider_unavailable() -> UpstreamError:
    return UpstreamError("The video provider did not end the meeting. Nothing was refunded; try again.")
