"""The last steps of cancelling a meeting, for the request itself and for the process that takes over from it.

The provider is asked to remove the meeting, then one fenced transaction writes the outcome:

    removed, or gone already   -> CANCELLED, the charge refunded once, the host free
    it is over before its start -> the same
    it is in progress, or over -> ended there, ENDED here, nothing refunded
    the provider refused       -> back to SCHEDULED, nothing refunded, if this was the first request
    unknown                    -> CANCELLING still, to be requested again at once, by any process

A meeting that may be gone at the provider is never put back: its customer would pay for nothing.

Every end of a meeting leaves its host reserved until the provider has said that nothing runs there under the
meeting's number; until then the provider is asked again and again (`reconcile_meetings`).
"""

import asyncio
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.machine import step
from meetcore.domain.meetings import sessions
from meetcore.domain.meetings.cancellation import ProviderMeetingState, conclude
from meetcore.domain.meetings.meetings import TRANSITIONS, Meeting, MeetingEvent, can_have_shown_host_key, end
from meetcore.domain.meetings.views import LeaseView
from meetcore.domain.money.transfers import TransferKind
from meetcore.domain.records.meetings import cancellation_record
from meetcore.domain.requests.views import Claim
from meetcore.ports import observability, video_provider
from meetcore.ports.runtime import CipherRefused, Lease, WorkerNotifier
from meetcore.ports.store import Store, Transaction
from meetcore.usecases.meetings.bounded_provider import PROVIDER_TIMEOUT_S, require_own
from meetcore.usecases.notes.recordings import end_recording
from meetcore.usecases.requests.idempotency import Outcome, encode_outcome
from meetcore.usecases.runtime import Runtime, repeated_when_lost
from meetcore.usecases.webhooks.events import events_of


@frozen
class Cleared:
    """The state of a meeting at the provider before it was cleared; `is_clear`: nothing runs there now."""

    state: ProviderMeetingState
    is_clear: bool = True


async def clear(provider: video_provider.VideoProvider, provider_meeting_id: str) -> Cleared:
    """Remove a meeting at the provider; if it runs, end it first.

    Raises `ProviderRefused`, `ProviderUnknown`: it may still be there, or run.
    """
    try:
        # One limit for all calls: the caller's lease outlives one call.
        async with asyncio.timeout(PROVIDER_TIMEOUT_S):
            state = await provider.remove(provider_meeting_id)
            if state is not ProviderMeetingState.IN_PROGRESS:
                return Cleared(state)
            await provider.end(provider_meeting_id)
            with suppress(video_provider.ProviderRefused, video_provider.ProviderUnknown):
                # Else its link would open it again.
                after = await provider.remove(provider_meeting_id)
                return Cleared(state, after is not ProviderMeetingState.IN_PROGRESS)
    except TimeoutError as error:
        raise video_provider.ProviderUnknown(f"not removed within {PROVIDER_TIMEOUT_S:g} s") from error
    return Cleared(state, is_clear=False)


async def end_meeting(
    tx: Transaction, runtime: Runtime, meeting: Meeting, at: datetime, *, is_cleared: bool
) -> tuple[Meeting, int] | None:
    """End a meeting that was read under its account's lock, and free its host where it `is_cleared`.

    Returns the meeting after it, and how many deliveries are due now; `None` when the table has no such step.
    A meeting that is being cancelled is unchanged: the cancellation queries the provider.
    """
    decided = end(meeting)
    if decided is None:
        return None
    ended, fact = decided
    due = await tx.meetings.save_ended(ended, events_of(runtime, at, fact))
    if is_cleared:
        await save_cleared(tx, runtime, ended)
    return ended, due


async def save_cleared(tx: Transaction, runtime: Runtime, meeting: Meeting) -> None:
    """Free the host of a meeting of which nothing runs at the provider; its account's lock is held."""
    # By the present: during the provider call the key may have become due to be shown.
    invalidates_host_key = can_have_shown_host_key(meeting, runtime.now())
    await tx.meetings.save_cleared(meeting, invalidates_host_key=invalidates_host_key)


async def mark_cancelling(tx: Transaction, meeting: Meeting, lease: Lease, claim: Claim | None) -> Meeting:
    """Mark a meeting, read under its account's lock, as being cancelled under a lease."""
    marked = evolve(meeting, status=step(TRANSITIONS, meeting.status, MeetingEvent.CANCEL))
    await tx.meetings.save_cancelling(marked, lease, claim)
    return marked


async def end_cancellation(
    tx: Transaction, runtime: Runtime, view: LeaseView, cleared: Cleared, at: datetime
) -> Outcome:
    """Write the end of a cancellation, by the provider's answer. What was recorded before is not offered."""
    held = await tx.meetings.load_sessions(view.meeting.account_id, view.meeting.id)
    done = conclude(
        view.meeting, cleared.state, view.charge, view.funds, view.usage, runtime.new_id(at), at,
        runtime.chain_key, was_held=sessions.was_held(view.meeting, held),
    )  # fmt: skip
    outcome = Outcome(cancellation_record(done.meeting, at))
    due = await tx.meetings.save_cancelled(
        view, done.meeting, done.refund, events_of(runtime, at, *done.facts),
        None if view.claim is None else encode_outcome(outcome),
    )  # fmt: skip
    if cleared.is_clear:
        await save_cleared(tx, runtime, done.meeting)
    if done.refund is not None:
        due += await _end_recording(tx, runtime, done.meeting, at)
    return evolve(outcome, due=due)


async def _end_recording(tx: Transaction, runtime: Runtime, meeting: Meeting, at: datetime) -> int:
    """End the recording of a cancelled meeting; return how many deliveries are due."""
    try:
        recording = await tx.recordings.load(meeting.account_id, meeting.id)
    except CipherRefused:  # it cannot be downloaded, and its expiry reports it
        return 0
    if recording is None:
        return 0
    due, _ = await end_recording(tx, runtime, recording, at, with_notes=False)
    return due


async def restore(tx: Transaction, view: LeaseView) -> None:
    """Put a meeting back that the provider refused to remove when it was first asked."""
    status = step(TRANSITIONS, view.meeting.status, MeetingEvent.CANCEL_FAILED)
    held = await tx.meetings.load_sessions(view.meeting.account_id, view.meeting.id)
    meeting = sessions.follow(evolve(view.meeting, status=status), held)
    await tx.meetings.save_cancel_failed(view, meeting)


@frozen
class Cancellation:
    """Completes a cancellation that was marked under a lease. `notes_notifier` wakes the note workers."""

    store: Store
    provider: video_provider.VideoProvider
    notes_notifier: WorkerNotifier
    runtime: Runtime

    async def complete(self, meeting: Meeting, token: UUID, at: datetime) -> Outcome | None:
        """Remove the meeting at the provider and write the outcome; `None` when the lease is lost.

        Raises `ProviderRefused`, `ProviderUnknown`: the provider did not remove it; nothing is written yet.
        """
        require_own(self.provider, meeting)
        cleared = await clear(self.provider, meeting.provider_meeting_id or "")
        outcome = await self._write(meeting, token, at, cleared)
        refunded = None if outcome is None or outcome.record is None else outcome.record["credits_refunded"]
        if refunded and meeting.options.with_recording:
            self.notes_notifier.notify()
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
    async def _write(self, meeting: Meeting, token: UUID, at: datetime, cleared: Cleared) -> Outcome | None:
        async with self.store.begin() as tx:
            view = await tx.meetings.load_leased(meeting.account_id, meeting.id, token)
            if view is None:
                return None
            return await end_cancellation(tx, self.runtime, view, cleared, at)
