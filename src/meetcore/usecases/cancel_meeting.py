"""Cancelling a meeting by its status (spec part 3, rules 1 to 3), crash-safe and refunded once.

Scheduled: marked under a lease, removed at the provider, refunded. Running: ended at the provider,
nothing refunded; no lease is needed, because no money moves and ending twice is ending once.
Cancelled already: the same answer again. Ended: a conflict.
"""

from datetime import datetime
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import DomainError, NotFound, ServiceUnavailable, UpstreamError
from meetcore.domain.meetings.meetings import Meeting, MeetingEvent, MeetingStatus, can_cancel, transition
from meetcore.domain.requests.idempotency import DUPLICATE_WAIT_S, Verdict
from meetcore.ports.lease import Lease
from meetcore.ports.meetings import MeetingView
from meetcore.ports.queries import Caller, Queries
from meetcore.ports.store import Store, Transaction
from meetcore.ports.video_provider import ProviderRefused, ProviderUnknown, VideoProvider
from meetcore.ports.worker_notifier import WorkerNotifier
from meetcore.usecases.bounded_provider import require_own
from meetcore.usecases.cancellation import Cancellation, clear
from meetcore.usecases.duplicates import DuplicateLimit, wait_while_in_progress
from meetcore.usecases.idempotency import (
    Answer,
    IdempotentRequest,
    check_key,
    key_record,
    store_first_replay,
    store_refusal,
)
from meetcore.usecases.lifecycle_events import apply_lifecycle_event
from meetcore.usecases.reconcile_meetings import ReconcileMeetings
from meetcore.usecases.runtime import Runtime

__all__ = ["CancelMeeting"]


@frozen
class _Marked:
    """This process holds the lease and removes the meeting at the provider."""

    meeting: Meeting
    token: UUID


@frozen
class _Running:
    """The meeting runs: it is to be ended."""

    meeting: Meeting


@frozen
class _Busy:
    """Another process holds the lease. `is_expired` means that it ran out."""

    is_expired: bool


_Step = Answer | _Marked | _Running | _Busy


@frozen
class CancelMeeting:
    """Cancels once, however many requests there are.

    `wait_s` bounds the wait for a cancellation in another process, looking after `poll_s` and then less and
    less often. `limit` bounds those that wait in this one, with an idempotency key or without.
    """

    store: Store
    queries: Queries
    provider: VideoProvider
    cancellation: Cancellation
    reconcile: ReconcileMeetings
    notifier: WorkerNotifier
    runtime: Runtime
    lease_s: float = 20.0
    wait_s: float = DUPLICATE_WAIT_S
    poll_s: float = 0.05
    limit: DuplicateLimit = field(factory=DuplicateLimit)

    async def __call__(
        self, caller: Caller, meeting_id: UUID, request_key: IdempotentRequest, now: datetime
    ) -> Answer:
        """Cancel or end a meeting.

        Raises:
            NotFound, Conflict: no such meeting, or it has ended; when no key stores it.
            IdempotencyKeyReused: the key belongs to another request.
            UpstreamError: the provider did not remove it, or may not have; nothing was refunded yet.
            ServiceUnavailable: another process's cancellation takes too long.
            StoreUnavailable: the database does not answer.
        """
        async with self.limit.turn((caller.account.id, meeting_id)) as wait_until:
            deadline = min(wait_until, request_key.deadline(self.wait_s))
            return await self._cancel(caller, meeting_id, request_key, now, deadline)

    async def _cancel(
        self, caller: Caller, meeting_id: UUID, request_key: IdempotentRequest, now: datetime, deadline: float
    ) -> Answer:
        account_id = caller.account.id
        while True:
            step = await self._mark(caller, meeting_id, request_key, now)
            match step:
                case Answer():
                    return step
                case _Marked():
                    return await self._remove(step, request_key, now)
                case _Running():
                    return await self._end(step.meeting, request_key, now)
                case _Busy(is_expired=True):
                    await self.reconcile.one(account_id, meeting_id)
            if not await wait_while_in_progress(self.queries, account_id, meeting_id, deadline, self.poll_s):
                raise ServiceUnavailable("The meeting is being cancelled by another request.", 1)

    async def _mark(
        self, caller: Caller, meeting_id: UUID, request_key: IdempotentRequest, now: datetime
    ) -> _Step:
        account_id = caller.account.id
        async with self.store.begin() as tx:
            view = await tx.meetings.load_locked(account_id, meeting_id, request_key.key)
            if (answer := await self._replay(tx, account_id, view, request_key)) is not None:
                return answer
            try:
                return await self._decide(tx, view, request_key, now)
            except DomainError as error:
                refusal, payload = error, await store_refusal(tx, account_id, request_key, error)
        if payload is None or request_key.key is None:
            raise refusal
        return Answer(payload)

    async def _replay(
        self, tx: Transaction, account_id: UUID, view: MeetingView | None, request_key: IdempotentRequest
    ) -> Answer | None:
        if request_key.key is None:
            return None
        known = view.idempotency if view else await tx.idempotency.load(account_id, request_key.key)
        lookup = check_key(known, request_key)
        if lookup.verdict is not Verdict.REPLAY or lookup.record is None:
            return None  # in progress shows in the meeting's own state
        if lookup.record.answer is not None:
            return Answer(lookup.record.answer, is_replay=True)
        # Another process finished the work: the meeting shows how, and the answer is stored now.
        assert view is not None
        payload = request_key.render(view.meeting)
        await tx.idempotency.save(account_id, evolve(lookup.record, answer=payload))
        return Answer(payload, is_replay=True)

    async def _decide(
        self, tx: Transaction, view: MeetingView | None, request_key: IdempotentRequest, now: datetime
    ) -> _Step:
        if view is None:
            raise NotFound("No meeting with this id.")
        meeting = view.meeting
        if meeting.status is MeetingStatus.CANCELLING:
            return _Busy(is_expired=not view.is_leased)
        if meeting.status is MeetingStatus.CANCELLED:
            payload = request_key.render(meeting)
            if request_key.key is not None:
                await tx.idempotency.save(meeting.account_id, key_record(request_key, payload, meeting.id))
            return Answer(payload)
        if not can_cancel(meeting, now):
            if request_key.key is not None:
                await tx.idempotency.save(meeting.account_id, key_record(request_key, None, meeting.id))
            return _Running(meeting)
        lease = Lease(self.runtime.new_id(now), self.lease_s)
        marked = evolve(meeting, status=transition(meeting.status, MeetingEvent.CANCEL))
        await tx.meetings.save_cancelling(marked, lease, request_key.claim(meeting.id))
        return _Marked(marked, lease.token)

    async def _remove(self, step: _Marked, request_key: IdempotentRequest, now: datetime) -> Answer:
        try:
            done = await self.cancellation.complete(step.meeting, step.token, now, request_key.render)
        except ProviderRefused as error:
            await self.cancellation.put_back(step.meeting, step.token)
            raise _provider_unavailable() from error
        except ProviderUnknown as error:
            await self.cancellation.expire_lease(step.meeting, step.token)
            raise UpstreamError(
                "The video provider did not answer. The cancellation is being looked into; "
                "a retry gets its result."
            ) from error
        if done is None or done.payload is None:
            return await self._overtaken(step.meeting, request_key)
        if done.due:
            self.notifier.notify()
        return Answer(done.payload)

    async def _overtaken(self, meeting: Meeting, request_key: IdempotentRequest) -> Answer:
        """The lease ran out meanwhile: return the outcome of its new owner, once that is known."""
        stored = await self.queries.find_meeting(meeting.account_id, meeting.id)
        if stored is None or stored.status not in (MeetingStatus.CANCELLED, MeetingStatus.ENDED):
            raise ServiceUnavailable("The meeting took too long to cancel. Try again.", 1)
        return await store_first_replay(self.store, meeting.account_id, request_key, stored)

    async def _end(self, meeting: Meeting, request_key: IdempotentRequest, now: datetime) -> Answer:
        try:
            require_own(self.provider, meeting)
            await clear(self.provider, meeting.provider_meeting_id or "")
        except (ProviderRefused, ProviderUnknown) as error:
            raise _provider_unavailable() from error
        async with self.store.begin() as tx:
            view = await tx.meetings.load_locked(meeting.account_id, meeting.id, request_key.key)
            if (answer := await self._replay(tx, meeting.account_id, view, request_key)) is not None:
                return answer
            stored = meeting if view is None else view.meeting
            if stored.status is MeetingStatus.CANCELLING:
                # Another server's clock still found it scheduled: return that outcome.
                raise ServiceUnavailable("The meeting is being cancelled by another request. Try again.", 1)
            due = 0
            if (
                moved := await apply_lifecycle_event(tx, self.runtime, stored, MeetingEvent.END, now)
            ) is not None:
                stored, due = moved
            payload = request_key.render(stored)
            if request_key.key is not None:
                await tx.idempotency.save(meeting.account_id, key_record(request_key, payload, meeting.id))
        if due:
            self.notifier.notify()
        return Answer(payload)


def _provider_unavailable() -> UpstreamError:
    return UpstreamError("The video provider did not end the meeting. Nothing was refunded; try again.")
