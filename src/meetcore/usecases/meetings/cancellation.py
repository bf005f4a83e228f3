"""The last steps of cancelling a meeting, for the request itself and for the process that takes over from it.

The provider is asked to remove the meeting, then one fenced transaction writes the outcome:

    removed, or gone already   -> CANCELLED, the charge refunded once, the host free
    it is in progress, or over -> ended there, ENDED here, nothing refunded
    the provider refused       -> back to SCHEDULED, nothing refunded, if this was the first request
    unknown                    -> CANCELLING still, to be requested again at once, by any process

A meeting that may be gone at the provider is never put back: its customer would pay for nothing.
"""

import asyncio
from datetime import datetime
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.machine import step
from meetcore.domain.meetings.cancellation import ProviderMeetingState, conclude
from meetcore.domain.meetings.meetings import TRANSITIONS, Meeting, MeetingEvent, can_have_shown_host_key
from meetcore.domain.meetings.views import LeaseView
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.records.meetings import cancellation_record
from meetcore.domain.requests.views import Claim
from meetcore.ports import observability, video_provider
from meetcore.ports.runtime import Lease
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.meetings.bounded_provider import PROVIDER_TIMEOUT_S, require_own
from meetcore.usecases.requests.idempotency import Outcome, encode_outcome
from meetcore.usecases.runtime import Runtime, repeated_when_lost
from meetcore.usecases.webhooks.events import events_of


async def clear(provider: video_provider.VideoProvider, provider_meeting_id: str) -> ProviderMeetingState:
    """Remove a meeting at the provider, or end it if it runs; return its state there before.

    Raises `ProviderRefused`, `ProviderUnknown`: it may still be there, or run.
    """
    try:
        # One limit for both: the caller's lease outlives one call.
        async with asyncio.timeout(PROVIDER_TIMEOUT_S):
            state = await provider.remove(provider_meeting_id)
            if state is ProviderMeetingState.IN_PROGRESS:
                await provider.end(provider_meeting_id)
    except TimeoutError as error:
        raise video_provider.ProviderUnknown(f"not removed within {PROVIDER_TIMEOUT_S:g} s") from error
    return state


async def mark_cancelling(tx: Transaction, meeting: Meeting, lease: Lease, claim: Claim | None) -> Meeting:
    """Mark a meeting, read under its account's lock, as being cancelled under a lease."""
    marked = evolve(meeting, status=step(TRANSITIONS, meeting.status, MeetingEvent.CANCEL))
    await tx.meetings.save_cancelling(marked, lease, claim)
    return marked


async def end_cancellation(
    tx: Transaction, runtime: Runtime, view: LeaseView, state: ProviderMeetingState, at: datetime
) -> Outcome:
    """Write the end of a cancellation, by the provider's answer."""
    done = conclude(
        view.meeting, state, view.charge, view.funds, view.usage, runtime.new_id(at), at, runtime.chain_key
    )
    outcome = Outcome(cancellation_record(done.meeting, at))
    due = await tx.meetings.save_cancelled(
        view, done.meeting, done.refund, events_of(runtime, at, *done.facts),
        None if view.claim is None else encode_outcome(outcome),
        # Not by `at`: during the provider call the key may have become due to be shown.
        invalidates_host_key=can_have_shown_host_key(done.meeting, runtime.now()),
    )  # fmt: skip
    return evolve(outcome, due=due)


async def restore(tx: Transaction, view: LeaseView) -> None:
    """Schedule a meeting again that the provider refused to remove when it was first asked."""
    status = step(TRANSITIONS, view.meeting.status, MeetingEvent.CANCEL_FAILED)
    await tx.meetings.save_cancel_failed(view, evolve(view.meeting, status=status))


@frozen
class Cancellation:
    """Completes a cancellation that was marked under a lease."""

    store: Store
    provider: video_provider.VideoProvider
    runtime: Runtime

    async def complete(self, meeting: Meeting, token: UUID, at: datetime) -> Outcome | None:
        """Remove the meeting at the provider and write the outcome; `None` when the lease is lost.

        Raises `ProviderRefused`, `ProviderUnknown`: the provider did not remove it; nothing is written yet.
        """
        require_own(self.provider, meeting)
        state = await clear(self.provider, meeting.provider_meeting_id or "")
        outcome = await self._write(meeting, token, at, state)
        refunded = None if outcome is None or outcome.record is None else outcome.record["credits_refunded"]
        if isinstance(refunded, int):
            observability.count_credits(self.runtime.metrics, TransferKind.MEETING_REFUND, refunded)
        return outcome

    async def put_back(self, meeting: Meeting, token: UUID) -> None:
        """Schedule a meeting again that the provider refused to remove when it was first asked."""
        async with self.store.begin() as tx:
            view = await tx.meetings.load_leased(meeting.account_id, meeting.id, token)
            if view is not None:
                await restore(tx, view)

    async def expire_lease(self, meeting: Meeting, token: UUID) -> None:
        """Expire the lease now: the provider may have removed the meeting, and must be called again."""
        async with self.store.begin() as tx:
            view = await tx.meetings.load_leased(meeting.account_id, meeting.id, token)
            if view is not None:
                await tx.meetings.save_cancelling(view.meeting, Lease(token, 0), view.claim)

    @repeated_when_lost
    async def _write(
        self, meeting: Meeting, token: UUID, at: datetime, state: ProviderMeetingState
    ) -> Outcome | None:
        async with self.store.begin() as tx:
            view = await tx.meetings.load_leased(meeting.account_id, meeting.id, token)
            if view is None:
                return None
            return await end_cancellation(tx, self.runtime, view, state, at)
